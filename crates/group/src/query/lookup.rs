//! The newest version of one id, for writes that depend on it.

use std::sync::Arc;

use vstream_attribute::Fields;

use super::group::open_parts;
use crate::accept::GroupHash;
use crate::error::Error;
use crate::memtable::{MemoryContent, MemoryGroup};
use crate::run::{attributes, Content, Part};
use crate::view::View;

/// The newest version of an id.
pub(crate) struct Existing {
    pub(crate) version: u64,
    /// `None` for a tombstone.
    pub(crate) content: Option<Arc<MemoryContent>>,
}

/// Finds the newest version of an id, with all that it holds. Cost: a few blocks per run.
pub(crate) fn find(
    view: &View,
    hash: GroupHash,
    group: &str,
    id: u64,
) -> Result<Option<Existing>, Error> {
    let in_memory = view.memtable.visit(hash, group, |rows| (rows.drops, rows.shared_row(id)))?;
    let (drops, row) = in_memory.unwrap_or_default();
    let mut newest = row.map(|(version, content)| Existing { version, content });
    if drops {
        return Ok(newest);
    }
    let parts = open_parts(view, hash, group)?;
    let mut place: Option<(&Part, Option<u32>)> = None;
    for part in parts.iter().flatten() {
        let Some((version, row)) = part.find_one(id)? else { continue };
        // Places come newest first, so an equal version does not replace.
        if newest.as_ref().is_none_or(|known| version > known.version) {
            newest = Some(Existing { version, content: None });
            place = Some((part, row));
        }
    }
    if let (Some(newest), Some((part, Some(row)))) = (&mut newest, place) {
        newest.content = Some(Arc::new(whole(part, row)?));
    }
    Ok(newest)
}

/// Groups whose parts a writer keeps open.
const OPENED_MAX: usize = 8;

/// The parts of the groups that were written last, for look-ups by their next writes: reading the
/// heads of parts costs more than finding an id.
#[derive(Default)]
pub(crate) struct OpenedGroups {
    /// Numbers of the runs that there were.
    runs: Vec<u64>,
    /// The one that was asked last in front.
    groups: Vec<(GroupHash, Vec<Vec<Part>>)>,
}

impl OpenedGroups {
    /// Lets go of all runs.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
    }

    /// The check of the row that an id has now, which is 0 for a number; `None` if it has none.
    ///
    /// Cost: a block per run that may hold the id, and the heads of the group's parts if the group is
    /// none of the last ones.
    pub(crate) fn check_of(
        &mut self,
        view: &View,
        hash: GroupHash,
        group: &str,
        id: u64,
    ) -> Result<Option<u64>, Error> {
        let known = |rows: &MemoryGroup| (rows.drops, rows.check_of(id));
        let (drops, in_memory) = view.memtable.visit(hash, group, known)?.unwrap_or_default();
        let mut newest = in_memory.map(|(version, _)| version);
        let mut check = in_memory.and_then(|(_, check)| check);
        if drops {
            return Ok(check);
        }
        let mut place: Option<(&Part, u32)> = None;
        for part in self.open(view, hash, group)?.iter().flatten() {
            let Some((version, row)) = part.find_one(id)? else { continue };
            // Places come newest first, so an equal version does not replace.
            if newest.is_none_or(|known| version > known) {
                newest = Some(version);
                place = row.map(|row| (part, row));
                check = None;
            }
        }
        match place {
            Some((part, row)) => Ok(Some(part.check_of(row)?)),
            None => Ok(check),
        }
    }

    fn open(&mut self, view: &View, hash: GroupHash, group: &str) -> Result<&[Vec<Part>], Error> {
        let runs = view.runs.iter().map(|run| run.number);
        if !runs.clone().eq(self.runs.iter().copied()) {
            self.groups.clear();
            self.runs = runs.collect();
        }
        match self.groups.iter().position(|(opened, _)| *opened == hash) {
            Some(at) => self.groups[..=at].rotate_right(1),
            None => {
                let parts = open_parts(view, hash, group)?;
                self.groups.truncate(OPENED_MAX - 1);
                self.groups.insert(0, (hash, parts));
            }
        }
        Ok(&self.groups[0].1)
    }
}

/// All that a row of a part holds.
fn whole(part: &Part, row: u32) -> Result<MemoryContent, Error> {
    let fields = part.fields(row, true, true)?;
    let mut stored = Vec::new();
    part.visit_rows(&[row], |_, _, _, vector| stored.extend_from_slice(vector))?;
    let attributes = attributes(&fields.attributes).expect("attributes that were checked");
    let (name, payload) = (fields.name.as_str(), fields.payload.as_deref());
    let fields = Fields { name, check: fields.check, attributes, payload };
    Ok(MemoryContent::copy(&Content { vector: &stored, fields }))
}
