//! What a disk may hold after a loss of power, at every step of a trace.
//!
//! The model: bytes of a file are sure once the file was synced, names once the directory was.
//! Everything else may be there or not, whatever its order; a write may be there in part, and a
//! later write without an earlier one leaves zeros between. Renames are atomic, and so are single
//! removals. That is harsher than ext4, which orders much of it.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use vstream_vector::SplitMix;
use xxhash_rust::xxh3::Xxh3;

use crate::check::{Breach, Violation};
use crate::disk::{Content, Event, Inode};

/// Pending steps up to which every subset of them is a state.
const EXHAUSTIVE: usize = 4;
/// Subsets that are drawn beyond that, and places where the last write is torn.
const DRAWN: usize = 8;

/// What must be there after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The collection was made before.
    pub made: bool,
    /// Between what was promised and what was asked for.
    pub lsn: RangeInclusive<u64>,
}

#[derive(Clone)]
enum Change {
    Write(Inode, u64, Arc<[u8]>),
    Cut(Inode, u64),
    /// Names that go, a name that comes.
    Names(Vec<String>, Option<(String, Inode)>),
}

/// How much of a pending change is on the disk.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    None,
    All,
    /// The first bytes of a write.
    Part(usize),
}

/// Walks along a trace.
pub struct Walk {
    names: BTreeMap<String, Inode>,
    contents: HashMap<Inode, Arc<Vec<u8>>>,
    pending: Vec<Change>,
    /// Names as the running process sees them.
    seen: BTreeMap<String, Inode>,
    promise: Promise,
    random: SplitMix,
}

impl Walk {
    /// Before the first step on a disk that holds `content`, all of it sure.
    pub fn new(content: &Content, promise: Promise, seed: u64) -> Walk {
        let names: BTreeMap<String, Inode> = content.keys().cloned().zip(0..).collect();
        let contents = content.values().cloned().enumerate().collect();
        let (seen, random) = (names.clone(), SplitMix(seed));
        Walk { names, contents, pending: Vec::new(), seen, promise, random }
    }

    /// Takes a step; true if the disk may hold something else than before.
    pub fn step(&mut self, event: &Event) -> bool {
        match event {
            Event::Create(name, inode) => {
                self.contents.insert(*inode, Arc::default());
                self.seen.insert(name.clone(), *inode);
                self.pending.push(Change::Names(vec![], Some((name.clone(), *inode))));
            }
            Event::Rename(from, to) => {
                let inode = self.seen.remove(from).expect("a name that was there");
                self.seen.insert(to.clone(), inode);
                let names = Change::Names(vec![from.clone()], Some((to.clone(), inode)));
                self.pending.push(names);
            }
            Event::Remove(name) => {
                self.seen.remove(name);
                self.pending.push(Change::Names(vec![name.clone()], None));
            }
            Event::Write(inode, offset, bytes) => {
                self.pending.push(Change::Write(*inode, *offset, bytes.clone()));
            }
            Event::Cut(inode, bytes) => self.pending.push(Change::Cut(*inode, *bytes)),
            Event::Sync(inode) => self.settle(Some(*inode), true),
            Event::SyncFailed(inode) => self.settle(Some(*inode), false),
            Event::SyncNames => self.settle(None, true),
            Event::Made => self.promise.made = true,
            Event::Issued(lsn) => self.promise.lsn = *self.promise.lsn.start()..=*lsn,
            Event::Acked(lsn) => self.promise.lsn = *lsn..=*self.promise.lsn.end(),
            Event::Recovered(lsn) => self.promise.lsn = *lsn..=*lsn,
        }
        !matches!(event, Event::Issued(_))
    }

    /// What must be there now.
    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    /// Makes pending changes of a file, or of names, sure; or loses them.
    fn settle(&mut self, file: Option<Inode>, is_kept: bool) {
        let concerns = |change: &Change| match change {
            Change::Write(inode, ..) | Change::Cut(inode, _) => file == Some(*inode),
            Change::Names(..) => file.is_none(),
        };
        let (settled, pending) = self.pending.drain(..).partition(|change| concerns(change));
        self.pending = pending;
        let settled: Vec<Change> = settled;
        if is_kept {
            for change in &settled {
                keep(&mut self.names, &mut self.contents, change, Kept::All);
            }
        }
    }

    /// Disks as a crash may leave them here.
    pub fn states(&mut self) -> Vec<Content> {
        let count = self.pending.len();
        let mut choices: Vec<Vec<Kept>> = Vec::new();
        if count <= EXHAUSTIVE {
            for subset in 0..1usize << count {
                let kept = |at| if subset >> at & 1 == 1 { Kept::All } else { Kept::None };
                choices.push((0..count).map(kept).collect());
            }
        } else {
            choices.extend([vec![Kept::None; count], vec![Kept::All; count]]);
            for _ in 0..DRAWN {
                choices.push((0..count).map(|at| self.draw(at)).collect());
            }
        }
        if let Some(Change::Write(_, _, bytes)) = self.pending.last() {
            let length = bytes.len();
            for _ in 0..DRAWN.min(length) {
                let mut kept = vec![Kept::All; count];
                kept[count - 1] = Kept::Part(self.random.below(length));
                choices.push(kept);
            }
        }
        choices.iter().map(|kept| self.state(kept)).collect()
    }

    fn draw(&mut self, at: usize) -> Kept {
        match (self.random.below(5), &self.pending[at]) {
            (0 | 1, _) => Kept::None,
            (2, Change::Write(_, _, bytes)) => Kept::Part(self.random.below(bytes.len().max(1))),
            _ => Kept::All,
        }
    }

    fn state(&self, kept: &[Kept]) -> Content {
        let mut names = self.names.clone();
        let mut changed: HashMap<Inode, Arc<Vec<u8>>> = HashMap::new();
        for (change, kept) in self.pending.iter().zip(kept) {
            if let Change::Write(inode, ..) | Change::Cut(inode, _) = change {
                let before = || self.contents.get(inode).cloned().unwrap_or_default();
                changed.entry(*inode).or_insert_with(before);
            }
            keep(&mut names, &mut changed, change, *kept);
        }
        let content = |inode: Inode| {
            let content = changed.get(&inode).or_else(|| self.contents.get(&inode));
            content.cloned().unwrap_or_default()
        };
        names.into_iter().map(|(name, inode)| (name, content(inode))).collect()
    }
}

/// Contents of disks that were opened, by their hash: how many writes each of them had, if there
/// was a collection.
#[derive(Default)]
pub struct Seen(Mutex<HashMap<u64, Option<u64>>>);

impl Seen {
    /// What a content was found to hold, if it was opened.
    pub fn find(&self, fingerprint: u64) -> Option<Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&fingerprint).copied()
    }

    /// Notes what a content was found to hold.
    pub fn note(&self, fingerprint: u64, lsn: Option<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(fingerprint, lsn);
    }
}

impl Promise {
    /// Errors: a collection that ends after write `lsn` breaks it.
    pub fn judge(&self, lsn: u64) -> Result<(), Violation> {
        if lsn < *self.lsn.start() {
            let what = format!("ends at write {lsn}, {} was promised", self.lsn.start());
            return Err(Violation::new(Breach::Lost, what));
        }
        if lsn > *self.lsn.end() {
            let what = format!("ends at write {lsn}, {} was the last one", self.lsn.end());
            return Err(Violation::new(Breach::Ghost, what));
        }
        Ok(())
    }
}

/// The hash of what a disk holds.
pub fn fingerprint(content: &Content) -> u64 {
    let mut hash = Xxh3::new();
    for (name, bytes) in content {
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.digest()
}

fn keep(
    names: &mut BTreeMap<String, Inode>,
    contents: &mut HashMap<Inode, Arc<Vec<u8>>>,
    change: &Change,
    kept: Kept,
) {
    match change {
        _ if kept == Kept::None => {}
        Change::Write(inode, offset, bytes) => {
            let content = Arc::make_mut(contents.entry(*inode).or_default());
            let part = if let Kept::Part(part) = kept { part } else { bytes.len() };
            let (start, end) = (*offset as usize, *offset as usize + part);
            if content.len() < end {
                content.resize(end, 0);
            }
            content[start..end].copy_from_slice(&bytes[..part]);
        }
        Change::Cut(inode, bytes) => {
            Arc::make_mut(contents.entry(*inode).or_default()).truncate(*bytes as usize);
        }
        Change::Names(gone, come) => {
            names.retain(|name, _| !gone.contains(name));
            if let Some((name, inode)) = come {
                names.insert(name.clone(), *inode);
            }
        }
    }
}
