//! The newest rows of a group in the order of ids.
//!
//! A walk goes from window to window. A window ends where the first part of a run ends, so every run
//! has at most one part in it, and the memory is bounded by the parts, not by the group.

use std::collections::BTreeMap;

use vstream_attribute::Filter;

use super::group::open_parts;
use super::row::{OwnedRow, With};
use crate::accept::GroupHash;
use crate::error::Error;
use crate::run::{LeafAttributes, Part};
use crate::view::View;

/// Where the newest version of an id is.
#[derive(Clone, Copy)]
enum Place {
    Memory,
    /// Run and row; the part is the one of the window.
    Part(usize, u32),
    /// It is deleted.
    Gone,
}

/// A walk over a group of a view.
pub(super) struct Walk<'a> {
    view: &'a View,
    hash: GroupHash,
    name: &'a str,
    /// Parts that are not behind the walk, by run.
    runs: Vec<std::vec::IntoIter<Part>>,
    open: Vec<Option<Part>>,
    /// First id of the next window; `None` behind the last.
    from: Option<u64>,
}

impl<'a> Walk<'a> {
    /// A walk over the rows with ids above `after`.
    pub(super) fn new(
        view: &'a View,
        hash: GroupHash,
        name: &'a str,
        after: Option<u64>,
    ) -> Result<Walk<'a>, Error> {
        let from = after.map_or(Some(0), |after| after.checked_add(1));
        let drops = view.memtable.visit(hash, name, |group| group.drops)?.unwrap_or(false);
        let parts = if drops { Vec::new() } else { open_parts(view, hash, name)? };
        let runs: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let open = runs.iter().map(|_| None).collect();
        Ok(Walk { view, hash, name, runs, open, from })
    }

    /// Calls `visit` with id, version and, if it is asked for, content of every row that a filter
    /// allows, by ascending id, until it returns false.
    pub(super) fn visit(
        mut self,
        filter: Option<&Filter>,
        with: Option<With>,
        mut visit: impl FnMut(u64, u64, Option<OwnedRow>) -> bool,
    ) -> Result<(), Error> {
        while let Some(from) = self.from {
            let to = self.open_window(from);
            for (id, (version, place)) in self.newest(from, to)? {
                let key = (id, version);
                let (is_wanted, row) = match place {
                    Place::Gone => (false, None),
                    Place::Memory => self.in_memory(id, filter, with)?,
                    Place::Part(run, row) => self.in_part(key, run, row, filter, with)?,
                };
                if is_wanted && !visit(id, version, row) {
                    return Ok(());
                }
            }
            self.from = to.checked_add(1);
        }
        Ok(())
    }

    /// Opens the part of each run that holds `from` or follows it; returns the end of the window.
    fn open_window(&mut self, from: u64) -> u64 {
        let mut to = u64::MAX;
        for (run, parts) in self.runs.iter_mut().enumerate() {
            while self.open[run].as_ref().is_none_or(|part| part.entry.last_id < from) {
                self.open[run] = parts.next();
                if self.open[run].is_none() {
                    break;
                }
            }
            if let Some(part) = &self.open[run] {
                to = to.min(part.entry.last_id);
            }
        }
        to
    }

    /// The newest version of each id of a window, and its place.
    fn newest(&self, from: u64, to: u64) -> Result<BTreeMap<u64, (u64, Place)>, Error> {
        let mut newest = BTreeMap::new();
        self.view.memtable.visit(self.hash, self.name, |group| {
            for row in group.rows_from(from).take_while(|row| row.id <= to) {
                let place = if row.content.is_some() { Place::Memory } else { Place::Gone };
                newest.insert(row.id, (row.version, place));
            }
        })?;
        for (run, part) in self.open.iter().enumerate() {
            let Some(part) = part else { continue };
            for entry in part.ids()?.into_iter().filter(|e| (from..=to).contains(&e.id)) {
                let place = entry.row.map_or(Place::Gone, |row| Place::Part(run, row));
                let known = newest.entry(entry.id).or_insert((entry.version, place));
                // Places come newest first, so an equal version does not replace.
                if entry.version > known.0 {
                    *known = (entry.version, place);
                }
            }
        }
        Ok(newest)
    }

    fn in_memory(
        &self,
        id: u64,
        filter: Option<&Filter>,
        with: Option<With>,
    ) -> Result<(bool, Option<OwnedRow>), Error> {
        let element = self.view.element;
        let found = self.view.memtable.visit(self.hash, self.name, |group| {
            // The writer may have deleted the row meanwhile.
            let row = group.row(id)?;
            let content = row.content?;
            let passes = filter.is_none_or(|f| f.holds(id, content.fields.attributes));
            Some((passes, with.map(|with| OwnedRow::copy(&row, element, with))))
        })?;
        Ok(match found.flatten() {
            Some((true, row)) => (true, row.flatten()),
            _ => (false, None),
        })
    }

    fn in_part(
        &self,
        key: (u64, u64),
        run: usize,
        row: u32,
        filter: Option<&Filter>,
        with: Option<With>,
    ) -> Result<(bool, Option<OwnedRow>), Error> {
        let part = self.open[run].as_ref().expect("the part of the window");
        if let Some(filter) = filter {
            let (leaf, within) = part.leaf_of(row);
            let attributes: Vec<LeafAttributes> = part.attributes(&[leaf])?;
            let found = attributes[0].get(within);
            let found = found.map_err(|what| part.bad_attributes(leaf, what))?;
            if !filter.holds(key.0, found) {
                return Ok((false, None));
            }
        }
        match with {
            Some(with) => Ok((true, Some(OwnedRow::read(part, row, key, with)?))),
            None => Ok((true, None)),
        }
    }
}
