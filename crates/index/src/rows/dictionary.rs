//! Keywords as codes: the dictionary that the indexes of one engine share.
//!
//! 1. The writer *interns* the keywords of a row: it looks the text up, or gives it the least free
//!    code, and raises the code's count by one for the lane that takes it.
//! 2. A row that moves to another chunk takes its code along ([`Dictionary::retain`]): no text is
//!    looked up.
//! 3. A chunk lowers the counts of its lanes when it is dropped, which is when no reader can reach
//!    it any more. At zero the text is freed, and the code may mean another text.
//!
//! # Why may a reader compile a filter to codes?
//!
//! A reader pins a moment first and looks texts up afterwards. Let `x` be a row that is visible at
//! the moment, with the text `t` and the code `c`. The chunk of `x` is reachable from the pinned root,
//! so it is not dropped while the reader has it, and the count of `c` is at least one. So `c` means `t`
//! for the whole search, and since a text has one code at a time, the reader finds `c` for `t` and for
//! no other text. If no visible row has the text, the reader may find a code that is freed and given to
//! another text meanwhile. Rows that have that code then came after the moment, and a search drops
//! them whatever their mask says. A filter that was compiled *before* the pin has neither property.
//!
//! Readers and the writer hold the lock for a look-up, never for the length of a search.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Codes in the first segment of counts; each further one is as large as all before it.
const FIRST_SEGMENT: u64 = 1 << 10;
const SEGMENTS: usize = 23;

/// A count per code. Grows without moving what is there, so that readers need no lock.
#[derive(Default)]
pub(crate) struct CodeCounts {
    segments: [OnceLock<Box<[AtomicU32]>>; SEGMENTS],
}

impl CodeCounts {
    /// The segment of a code, and its position there.
    fn split(code: u32) -> (usize, usize) {
        let at = u64::from(code) + FIRST_SEGMENT;
        let segment = (at / FIRST_SEGMENT).ilog2() as usize;
        (segment, (at - (FIRST_SEGMENT << segment)) as usize)
    }

    /// Raises the count of a code by one.
    pub(crate) fn raise(&self, code: u32) {
        let (segment, at) = CodeCounts::split(code);
        let make = || (0..FIRST_SEGMENT << segment).map(|_| AtomicU32::new(0)).collect();
        self.segments[segment].get_or_init(make)[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Lowers the count of a code by one; returns what is left. The caller raised it before.
    pub(crate) fn lower(&self, code: u32) -> u32 {
        let (segment, at) = CodeCounts::split(code);
        let counts = self.segments[segment].get().expect("a count that was raised");
        let before = counts[at].fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a count that was raised");
        before - 1
    }

    /// The count of a code.
    pub(crate) fn get(&self, code: u32) -> u32 {
        let (segment, at) = CodeCounts::split(code);
        self.segments[segment].get().map_or(0, |counts| counts[at].load(Ordering::Acquire))
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        segments.map(|counts| size_of_val(&**counts) as u64).sum()
    }
}

/// The keywords of the rows of one engine's indexes, by column, and their codes. See the module.
#[derive(Default)]
pub struct Dictionary {
    names: RwLock<Names>,
    /// Lanes that have the code, in chunks that are not dropped.
    lanes: CodeCounts,
}

/// The texts of a dictionary, locked for reading.
pub(crate) struct Texts<'a>(RwLockReadGuard<'a, Names>);

#[derive(Default)]
struct Names {
    /// By column: the code of each text, in the order of the texts.
    columns: Vec<BTreeMap<Arc<str>, u32>>,
    /// By code: column and text.
    texts: Vec<Option<(u16, Arc<str>)>>,
    free: Vec<u32>,
    /// Bytes of all texts.
    bytes: usize,
}

impl Dictionary {
    /// An empty dictionary.
    pub fn new() -> Dictionary {
        Dictionary::default()
    }

    /// Texts that have a code.
    pub fn len(&self) -> usize {
        let names = self.read();
        names.texts.len() - names.free.len()
    }

    /// True if no text has a code.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, estimated.
    pub fn memory_bytes(&self) -> u64 {
        /// Two words of counts before a shared text, an entry of the map, half of its node free.
        const PER_TEXT: usize = 16 + 2 * (size_of::<Arc<str>>() + size_of::<u32>());
        let names = self.read();
        let texts = names.texts.len() * (size_of::<Option<(u16, Arc<str>)>>() + PER_TEXT);
        (names.bytes + texts) as u64 + self.lanes.memory_bytes()
    }

    /// The code of a text, for a lane that takes it. The lane's chunk releases it.
    pub(crate) fn intern(&self, column: u16, text: &str) -> u32 {
        {
            let names = self.read();
            if let Some(code) = names.code(column, text) {
                // Under the lock: a text is freed under the lock for writing, if its count is still 0.
                self.lanes.raise(code);
                return code;
            }
        }
        let mut names = self.write();
        let code = names.code(column, text).unwrap_or_else(|| names.add(column, text));
        self.lanes.raise(code);
        code
    }

    /// Counts another lane that takes a code. The caller can reach a lane that has it.
    pub(crate) fn retain(&self, code: u32) {
        self.lanes.raise(code);
    }

    /// Counts a lane less; frees the text with the last one.
    pub(crate) fn release(&self, code: u32) {
        if self.lanes.lower(code) > 0 {
            return;
        }
        let mut names = self.write();
        // The writer may have interned the text again, or another thread may have freed it.
        if self.lanes.get(code) == 0 {
            names.remove(code);
        }
    }

    /// Texts and codes, for as long as the result lives. The caller has pinned its moment.
    pub(crate) fn texts(&self) -> Texts<'_> {
        Texts(self.read())
    }

    fn read(&self) -> RwLockReadGuard<'_, Names> {
        // No panic can happen within a change of the names, so poisoned names are whole.
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Texts<'_> {
    /// The text of a code of a lane that the caller can reach.
    pub(crate) fn text(&self, code: u32) -> &str {
        let text = self.0.texts.get(code as usize).and_then(Option::as_ref);
        &text.expect("the code of a lane that is reachable").1
    }

    /// The code of a text; `None` if no row has it.
    pub(crate) fn code(&self, column: u16, text: &str) -> Option<u32> {
        self.0.code(column, text)
    }

    /// The codes of the texts that begin with `prefix`.
    pub(crate) fn codes_with_prefix<'a>(
        &'a self,
        column: u16,
        prefix: &'a str,
    ) -> impl Iterator<Item = u32> + 'a {
        let texts = self.0.columns.get(usize::from(column));
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let after = texts.into_iter().flat_map(move |texts| texts.range::<str, _>(from));
        after.take_while(move |(text, _)| text.starts_with(prefix)).map(|(_, &code)| code)
    }
}

impl Names {
    fn code(&self, column: u16, text: &str) -> Option<u32> {
        self.columns.get(usize::from(column))?.get(text).copied()
    }

    fn add(&mut self, column: u16, text: &str) -> u32 {
        let text: Arc<str> = text.into();
        let code = self.free.pop().unwrap_or_else(|| {
            self.texts.push(None);
            u32::try_from(self.texts.len() - 1).expect("fewer keywords than codes")
        });
        let column_at = usize::from(column);
        self.columns.resize_with(self.columns.len().max(column_at + 1), BTreeMap::new);
        self.bytes += text.len();
        self.columns[column_at].insert(text.clone(), code);
        self.texts[code as usize] = Some((column, text));
        code
    }

    fn remove(&mut self, code: u32) {
        if let Some((column, text)) = self.texts[code as usize].take() {
            self.columns[usize::from(column)].remove(&text);
            self.bytes -= text.len();
            self.free.push(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CodeCounts, Dictionary};

    #[test]
    fn a_text_is_freed_with_its_last_lane_and_its_code_is_used_again() {
        let dictionary = Dictionary::new();
        let red = dictionary.intern(0, "red");
        assert_eq!(dictionary.intern(0, "red"), red);
        assert_ne!(dictionary.intern(1, "red"), red, "columns have codes of their own");
        dictionary.retain(red);
        (0..2).for_each(|_| dictionary.release(red));
        assert_eq!(dictionary.texts().code(0, "red"), Some(red), "one lane is left");
        dictionary.release(red);
        assert_eq!((dictionary.texts().code(0, "red"), dictionary.len()), (None, 1));
        assert_eq!(dictionary.intern(0, "blue"), red);
        assert_eq!(dictionary.texts().text(red), "blue");
    }

    #[test]
    fn a_prefix_finds_the_texts_of_its_column() {
        let dictionary = Dictionary::new();
        let texts = ["a", "ab", "abc", "abd", "b", "", "ab\u{fc}"];
        let codes: Vec<u32> = texts.iter().map(|text| dictionary.intern(2, text)).collect();
        dictionary.intern(1, "abx");
        let mut found: Vec<u32> = dictionary.texts().codes_with_prefix(2, "ab").collect();
        found.sort_unstable();
        assert_eq!(found, [codes[1], codes[2], codes[3], codes[6]]);
        assert_eq!(dictionary.texts().codes_with_prefix(2, "").count(), texts.len());
        assert_eq!(dictionary.texts().codes_with_prefix(9, "").count(), 0);
    }

    #[test]
    fn counts_of_codes_keep_their_places() {
        let counts = CodeCounts::default();
        let codes = [0, 1, 1_023, 1_024, 3_071, 3_072, 1 << 20];
        for (times, code) in codes.into_iter().enumerate() {
            (0..=times).for_each(|_| counts.raise(code));
        }
        for (times, code) in codes.into_iter().enumerate() {
            assert_eq!(counts.get(code) as usize, times + 1);
            assert_eq!(counts.lower(code) as usize, times);
        }
        assert_eq!(counts.get(u32::MAX), 0);
    }
}
