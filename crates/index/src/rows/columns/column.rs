//! Reads a column: for 32 rows at a time, or the value of one row.

use std::ops::Range;
use std::sync::atomic::Ordering;

use vstream_attribute::AttributeKind;
use vstream_vector::kernels;

use super::{Sheet, Stored, WORD};

/// A column of a sheet, as masks read it.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(super) sheet: &'a Sheet,
    pub(super) at: usize,
}

impl Column<'_> {
    /// The kind of its values.
    #[inline]
    pub(crate) fn kind(&self) -> AttributeKind {
        self.sheet.layout.columns[self.at].kind
    }

    /// The lanes of a word that have a value. Lanes that are not published may be among them.
    #[inline]
    pub(crate) fn present(&self, word: usize) -> u32 {
        self.sheet.present()[self.word(word)].load(Ordering::Acquire)
    }

    /// The lanes of a word whose value is true.
    #[inline]
    pub(crate) fn truths(&self, word: usize) -> u32 {
        self.sheet.truths()[self.word(word)].load(Ordering::Relaxed)
    }

    /// Calls `use_codes` with the codes of a word's lanes. Those without a value are of no meaning.
    #[inline]
    pub(crate) fn codes(&self, word: usize, use_codes: impl FnOnce(&[u32; WORD]) -> u32) -> u32 {
        with_lanes(self.sheet.table.narrow(self.start()), word, use_codes)
    }

    /// Calls `use_numbers` with the bits of the signed numbers of a word's lanes. Those without a value
    /// are of no meaning.
    #[inline]
    pub(crate) fn numbers(
        &self,
        word: usize,
        use_numbers: impl FnOnce(&[u64; WORD]) -> u32,
    ) -> u32 {
        with_lanes(self.sheet.table.wide(self.start()), word, use_numbers)
    }

    /// Adds to the masks of some words, from `first` on, the lanes with a code that `use_codes` finds.
    #[inline]
    pub(crate) fn for_each_codes(
        &self,
        first: usize,
        out: &mut [u32],
        use_codes: impl Fn(&[u32; WORD]) -> u32,
    ) {
        let values = self.sheet.table.narrow(self.start());
        self.add_masks(values, first, out, use_codes);
    }

    /// Adds to the masks of some words, from `first` on, the lanes with a number that `use_numbers`
    /// finds.
    #[inline]
    pub(crate) fn for_each_numbers(
        &self,
        first: usize,
        out: &mut [u32],
        use_numbers: impl Fn(&[u64; WORD]) -> u32,
    ) {
        let values = self.sheet.table.wide(self.start());
        self.add_masks(values, first, out, use_numbers);
    }

    #[inline]
    fn add_masks<T: Copy + Default>(
        &self,
        values: &[T],
        first: usize,
        out: &mut [u32],
        find: impl Fn(&[T; WORD]) -> u32,
    ) {
        let words = self.word(first)..self.word(first) + out.len();
        for (number, (mask, present)) in
            out.iter_mut().zip(&self.sheet.present()[words]).enumerate()
        {
            let present = present.load(Ordering::Acquire);
            if present != 0 {
                *mask |= with_lanes(values, first + number, &find) & present;
            }
        }
    }

    /// Prefetches the values, and which lanes have one.
    ///
    /// * `word`: the 32 lanes that are wanted; `None` for all.
    #[inline]
    pub(super) fn prefetch(&self, word: Option<usize>) {
        let sheet = self.sheet;
        let wanted = word.map_or(0..sheet.table.lanes().div_ceil(WORD), |word| word..word + 1);
        let words = self.word(wanted.start)..self.word(wanted.end);
        kernels::prefetch(&sheet.present()[words.clone()]);
        match self.kind() {
            AttributeKind::Keyword => prefetch_words(sheet.table.narrow(self.start()), wanted),
            AttributeKind::Bool => kernels::prefetch(&sheet.truths()[words]),
            AttributeKind::Keywords => {
                prefetch_words(&sheet.lists[self.start()..][..sheet.table.lanes()], wanted);
            }
            AttributeKind::Text => {}
            _ => prefetch_words(sheet.table.wide(self.start()), wanted),
        }
    }

    /// Prefetches the value of a published lane, and whether it has one.
    #[inline]
    pub(super) fn prefetch_lane(&self, lane: usize) {
        let sheet = self.sheet;
        kernels::prefetch(std::slice::from_ref(&sheet.present()[self.word(lane / WORD)]));
        let table = &sheet.table;
        match self.kind() {
            AttributeKind::Keyword => {
                kernels::prefetch(table.narrow(self.start()).get(lane..=lane).unwrap_or_default());
            }
            AttributeKind::Keywords => {
                kernels::prefetch(std::slice::from_ref(&sheet.lists[self.start() + lane]));
            }
            AttributeKind::Bool | AttributeKind::Text => {}
            _ => kernels::prefetch(table.wide(self.start()).get(lane..=lane).unwrap_or_default()),
        }
    }

    /// The list of a lane that has one.
    #[inline]
    pub(crate) fn list(&self, lane: usize) -> &[u32] {
        self.sheet.lists[self.start() + lane].get().expect("a lane with a list")
    }

    pub(super) fn has(&self, lane: usize) -> bool {
        self.present(lane / WORD) >> (lane % WORD) & 1 == 1
    }

    /// The value of a lane that has one.
    pub(super) fn stored(&self, lane: usize) -> Stored {
        let sheet = self.sheet;
        match self.kind() {
            AttributeKind::Keyword => Stored::Code(sheet.table.narrow(self.start())[lane]),
            AttributeKind::Keywords => {
                let list = sheet.lists[self.start() + lane].get();
                Stored::Codes(list.expect("a lane with a list").clone())
            }
            AttributeKind::Bool => {
                Stored::Truth(self.truths(lane / WORD) >> (lane % WORD) & 1 == 1)
            }
            AttributeKind::Text => Stored::Text,
            kind => Stored::Number(kind, sheet.table.wide(self.start())[lane] as i64),
        }
    }

    fn start(&self) -> usize {
        self.sheet.layout.columns[self.at].start * self.sheet.table.lanes()
    }

    fn word(&self, word: usize) -> usize {
        self.at * self.sheet.table.lanes().div_ceil(WORD) + word
    }
}

/// Prefetches the values of some words.
#[inline]
fn prefetch_words<T>(values: &[T], words: Range<usize>) {
    let end = values.len().min(words.end * WORD);
    kernels::prefetch(&values[(words.start * WORD).min(end)..end]);
}

/// Calls `visit` with the values of a word's lanes; zeros where nothing is published.
#[inline]
fn with_lanes<T: Copy + Default>(
    values: &[T],
    word: usize,
    visit: impl FnOnce(&[T; WORD]) -> u32,
) -> u32 {
    let rest = values.get(word * WORD..).unwrap_or_default();
    match rest.first_chunk::<WORD>() {
        Some(lanes) => visit(lanes),
        None => {
            let mut lanes = [T::default(); WORD];
            lanes[..rest.len()].copy_from_slice(rest);
            visit(&lanes)
        }
    }
}
