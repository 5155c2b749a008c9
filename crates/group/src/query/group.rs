//! The rows of one group at one moment: which of them count.

use std::collections::HashMap;
use std::sync::Arc;

use crate::accept::GroupHash;
use crate::error::Error;
use crate::memtable::{MemoryContent, MemoryGroup};
use crate::run::{IdEntry, Part};
use crate::view::View;

/// A row or tombstone of the memtable.
pub(super) struct MemoryEntry {
    pub(super) id: u64,
    pub(super) version: u64,
    /// `None` for a tombstone.
    pub(super) content: Option<Arc<MemoryContent>>,
}

/// A group at one moment.
pub(super) struct GroupView {
    /// By id.
    pub(super) memory: Vec<MemoryEntry>,
    /// The parts of each run, newest run first.
    pub(super) runs: Vec<Vec<Part>>,
}

/// Which rows are hidden by newer versions.
#[derive(Default)]
pub(super) struct Hidden {
    /// By position in `GroupView::memory`; empty if none is hidden.
    memory: Vec<bool>,
    /// By run, part and row; an empty list if none is hidden.
    parts: Vec<Vec<Vec<bool>>>,
}

impl Hidden {
    pub(super) fn in_memory(&self, at: usize) -> bool {
        self.memory.get(at).is_some_and(|&hidden| hidden)
    }

    pub(super) fn in_part(&self, run: usize, part: usize, row: u32) -> bool {
        let rows = self.parts.get(run).and_then(|parts| parts.get(part));
        rows.is_some_and(|rows| rows.get(row as usize).is_some_and(|&hidden| hidden))
    }

    fn hide(&mut self, run: usize, part: usize, rows: u32, row: u32) {
        if self.parts.len() <= run {
            self.parts.resize_with(run + 1, Vec::new);
        }
        let parts = &mut self.parts[run];
        if parts.len() <= part {
            parts.resize_with(part + 1, Vec::new);
        }
        parts[part].resize(rows as usize, false);
        parts[part][row as usize] = true;
    }
}

/// Where a row of a [`GroupView`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of the run, or [`Place::MEMORY`].
    pub(super) run: u32,
    pub(super) part: u32,
    /// Number of the row in the part, or position in the memtable's rows.
    pub(super) row: u32,
}

impl Place {
    const MEMORY: u32 = u32::MAX;

    pub(super) fn memory(at: usize) -> Place {
        Place { run: Place::MEMORY, part: 0, row: at as u32 }
    }

    pub(super) fn is_in_memory(self) -> bool {
        self.run == Place::MEMORY
    }

    /// True if both places are in one part.
    pub(super) fn is_beside(self, other: Place) -> bool {
        (self.run, self.part) == (other.run, other.part)
    }
}

/// Opens the parts of a group, and shares its rows in the memtable.
pub(super) fn open(view: &View, hash: GroupHash, name: &str) -> Result<GroupView, Error> {
    let collect = |group: &MemoryGroup| {
        let entry = |(id, version, content)| MemoryEntry { id, version, content };
        (group.drops, group.shared().map(entry).collect::<Vec<_>>())
    };
    let (drops, memory) = view.memtable.visit(hash, name, collect)?.unwrap_or_default();
    let runs = if drops { Vec::new() } else { open_parts(view, hash, name)? };
    Ok(GroupView { memory, runs })
}

/// Opens the parts of a group in the runs, up to one that drops it.
pub(super) fn open_parts(
    view: &View,
    hash: GroupHash,
    name: &str,
) -> Result<Vec<Vec<Part>>, Error> {
    let mut runs = Vec::new();
    for run in &view.runs {
        let entries = run.parts(hash)?;
        let drops = entries.iter().any(|entry| entry.drops);
        let parts: Result<Vec<Part>, Error> =
            entries.into_iter().map(|entry| Part::open(run, entry, name)).collect();
        runs.push(parts?);
        if drops {
            break;
        }
    }
    runs.retain(|parts| !parts.is_empty());
    Ok(runs)
}

/// An id's newest version, and where it is: 0 in memory, from 1 on in the runs.
type Newest = HashMap<u64, (u64, usize)>;

impl GroupView {
    /// The part of a place in a run.
    pub(super) fn part(&self, place: Place) -> &Part {
        &self.runs[place.run as usize][place.part as usize]
    }

    /// Finds the rows that newer versions hide. Reads the ids of all places but the largest, and of
    /// that one the id blocks that may hold one of these ids.
    pub(super) fn hidden(&self) -> Result<Hidden, Error> {
        let mut hidden = Hidden::default();
        let places = usize::from(!self.memory.is_empty()) + self.runs.len();
        if places < 2 {
            return Ok(hidden);
        }
        let entries = |parts: &Vec<Part>| -> u64 {
            parts.iter().map(|part| u64::from(part.entry.entries)).sum()
        };
        let sizes: Vec<u64> = self.runs.iter().map(entries).collect();
        let largest = (0..sizes.len()).max_by_key(|&run| sizes[run]).expect("there is a run");
        let mut newest = Newest::new();
        for entry in &self.memory {
            newest.insert(entry.id, (entry.version, 0));
        }
        let mut small: Vec<Vec<Vec<IdEntry>>> = Vec::with_capacity(self.runs.len());
        for (run, parts) in self.runs.iter().enumerate() {
            let read = |part: &Part| if run == largest { Ok(Vec::new()) } else { part.ids() };
            let parts = parts.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
            parts.iter().flatten().for_each(|entry| take(&mut newest, entry, run + 1));
            small.push(parts);
        }
        let mut ids: Vec<u64> = newest.keys().copied().collect();
        ids.sort_unstable();
        for (at, part) in self.runs[largest].iter().enumerate() {
            small[largest][at] = part.find(&ids)?;
            small[largest][at].iter().for_each(|entry| take(&mut newest, entry, largest + 1));
        }
        let is_newest = |id, version, place| newest.get(&id) == Some(&(version, place));
        hidden.memory =
            self.memory.iter().map(|entry| !is_newest(entry.id, entry.version, 0)).collect();
        for (run, parts) in small.iter().enumerate() {
            for (at, entries) in parts.iter().enumerate() {
                let rows = self.runs[run][at].rows();
                for entry in entries.iter().filter(|e| !is_newest(e.id, e.version, run + 1)) {
                    entry.row.into_iter().for_each(|row| hidden.hide(run, at, rows, row));
                }
            }
        }
        Ok(hidden)
    }

    /// Number of rows that are not hidden.
    pub(super) fn count(&self, hidden: &Hidden) -> u64 {
        let living = |(at, entry): (usize, &MemoryEntry)| {
            u64::from(entry.content.is_some() && !hidden.in_memory(at))
        };
        let in_memory: u64 = self.memory.iter().enumerate().map(living).sum();
        let rows: u64 = self.runs.iter().flatten().map(|part| u64::from(part.rows())).sum();
        let hides = |rows: &Vec<bool>| rows.iter().filter(|&&hidden| hidden).count() as u64;
        in_memory + rows - hidden.parts.iter().flatten().map(hides).sum::<u64>()
    }

    /// Bytes of the blocks that were asked for.
    pub(super) fn asked_bytes(&self) -> u64 {
        self.runs.iter().flatten().map(Part::asked_bytes).sum()
    }
}

/// Notes an entry if it is newer: by version, and of equal ones by the place.
fn take(newest: &mut Newest, entry: &IdEntry, place: usize) {
    let known = newest.entry(entry.id).or_insert((entry.version, place));
    if entry.version > known.0 || (entry.version == known.0 && place < known.1) {
        *known = (entry.version, place);
    }
}
