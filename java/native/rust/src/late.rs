//! Updates that come before their row: while rows of another partition are adopted, place sends an
//! update to the old owner and to the new one, and the new one may not have the row yet.
//!
//! The old owner applies the update at once, so queries, which ask both, see it. Here it is kept and
//! applied when the row has come: the row was sealed before the update.

use std::collections::HashMap;

use vstream_attribute::{Attributes, Fields};
use vstream_engine::{Applied, Engine, PayloadChange, RowId, Update};

use crate::failure::Failure;

/// Updates by id, in the order of their versions. Memory: what they change, until the hand-over ends.
#[derive(Debug, Default)]
pub(crate) struct LateUpdates {
    by_id: HashMap<RowId, Vec<LateUpdate>>,
}

#[derive(Debug)]
struct LateUpdate {
    version: u64,
    set: Vec<u8>,
    unset: Vec<u16>,
    payload: Option<Vec<u8>>,
    removes_payload: bool,
}

/// The update that a record describes.
pub(crate) fn update_of<'a>(
    fields: &Fields<'a>,
    unset: &'a [u16],
    removes_payload: bool,
) -> Update<'a> {
    let payload = match fields.payload {
        Some(payload) => PayloadChange::Set(payload),
        None if removes_payload => PayloadChange::Remove,
        None => PayloadChange::Keep,
    };
    Update { set: fields.attributes, unset, payload }
}

impl LateUpdates {
    /// Keeps an update of a row that is not here.
    pub(crate) fn push(&mut self, id: RowId, version: u64, update: &Update<'_>) {
        let payload = match update.payload {
            PayloadChange::Set(payload) => Some(payload.to_vec()),
            _ => None,
        };
        self.by_id.entry(id).or_default().push(LateUpdate {
            version,
            set: update.set.bytes().to_vec(),
            unset: update.unset.to_vec(),
            payload,
            removes_payload: update.payload == PayloadChange::Remove,
        });
    }

    /// Applies the updates of rows that have come. A row that was written again meanwhile is newer,
    /// and its updates are forgotten. Cost: a look-up for each id.
    pub(crate) fn apply(&mut self, engine: &mut Engine) -> Result<(), Failure> {
        let mut failed = None;
        self.by_id.retain(|id, updates| {
            for (at, update) in updates.iter().enumerate() {
                match update.apply(*id, engine) {
                    Ok(Applied::Missing) if at == 0 => return true,
                    Ok(_) => {}
                    // What no row may carry: a record of its own would have no effect either.
                    Err(error) if error.refused().is_some() => {}
                    Err(error) => failed = Some(error),
                }
            }
            false
        });
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Forgets all: what was awaited has come.
    pub(crate) fn clear(&mut self) {
        self.by_id = HashMap::new();
    }
}

impl LateUpdate {
    fn apply(&self, id: RowId, engine: &mut Engine) -> Result<Applied, vstream_engine::Error> {
        let fields = Fields {
            attributes: Attributes::decode(&self.set).expect("attributes that were checked"),
            payload: self.payload.as_deref(),
            ..Fields::NONE
        };
        engine.update(id, self.version, &update_of(&fields, &self.unset, self.removes_payload))
    }
}
