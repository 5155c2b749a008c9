//! The newest version of one id, for writes that depend on it.

use std::sync::Arc;

use vstream_attribute::Fields;

use super::group::open_parts;
use crate::accept::GroupHash;
use crate::error::Error;
use crate::memtable::MemoryContent;
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
        for entry in part.find(&[id])? {
            // Places come newest first, so an equal version does not replace.
            if newest.as_ref().is_none_or(|known| entry.version > known.version) {
                newest = Some(Existing { version: entry.version, content: None });
                place = Some((part, entry.row));
            }
        }
    }
    if let (Some(newest), Some((part, Some(row)))) = (&mut newest, place) {
        newest.content = Some(Arc::new(whole(part, row)?));
    }
    Ok(newest)
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
