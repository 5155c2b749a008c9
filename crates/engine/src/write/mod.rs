//! What the engine does with rows: upserts, updates, deletes and new attributes. Every write is
//! checked before it changes anything, and logged before it is applied.

mod condition;
mod delete;
mod load;
mod room;
mod schema;
mod update;

use std::sync::Arc;

use vstream_attribute::{Fields, Refused, RefusedKind, Schema};
use vstream_index::{IndexRow, RowKey, VectorBuffer, VectorRef};
use vstream_vector::Metric;

pub use self::condition::{Condition, IfVersion};
use crate::accept::{check_fields, check_restored, check_row, normalise, refused};
use crate::applied::Applied;
use crate::engine::Engine;
use crate::error::Error;
use crate::row::Row;
use crate::translate::Translation;
use crate::tree::{Found, Writer};

impl Engine {
    /// Says how many upserts come next, so that their rows are placed together, which costs less for each.
    ///
    /// A hint: any number of any writes may follow, and each is visible as soon as without it. Until the
    /// rows are there, a search compares up to 128 rows more. Those that are stale, refused or fail a
    /// condition do not count, so say 0 when you are done.
    pub fn expect_upserts(&mut self, upserts: usize) {
        self.tree.writer().expect(upserts);
    }

    /// Adds or replaces a row. Every later search sees it.
    ///
    /// Cost: a few microseconds, plus bounded maintenance every batch. Errors: `Invalid` for a
    /// wrong dimension, a value that is not finite or does not fit the element, a norm that the
    /// metric cannot use, or for an id, attributes or a payload that the schema does not allow
    /// ([`Error::refused`] says why); in a collection of string ids also if another id has the same
    /// hash, which is `BadId`.
    pub fn upsert(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.upsert_if(row, &Condition::default())
    }

    /// Works like [`Engine::upsert`] for a row whose vector [`Engine::check`] has accepted. A
    /// caller that has checked a whole batch does not pay for a second check of the vector.
    ///
    /// Errors: those of `upsert` that do not come from that check. Panics if the vector has a wrong
    /// dimension. A value that the check would have refused makes later answers meaningless.
    pub fn upsert_checked(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.upsert_normalised(row, &Condition::default())
    }

    /// Works like [`Engine::upsert`] if the condition holds for the row that is there now; otherwise
    /// nothing changes, and the result is [`Applied::ConditionFailed`].
    ///
    /// Cost: that of `upsert`, and a read of the row's attributes if the condition has a filter.
    /// Errors: those of `upsert`; `Invalid` for a filter that does not fit the schema.
    pub fn upsert_if(
        &mut self,
        row: &Row<'_>,
        condition: &Condition<'_>,
    ) -> Result<Applied, Error> {
        self.check(row.vector)?;
        condition.check(&self.settings.schema)?;
        self.upsert_normalised(row, condition)
    }

    fn upsert_normalised(
        &mut self,
        row: &Row<'_>,
        condition: &Condition<'_>,
    ) -> Result<Applied, Error> {
        assert_eq!(row.vector.len(), self.settings.dimension, "a vector that was not checked");
        debug_assert!(self.check(row.vector).is_ok(), "a vector that was not checked");
        if self.settings.metric != Metric::Cosine {
            return self.put(row, condition, Origin::Caller);
        }
        let mut normalised = std::mem::take(&mut self.buffers.vector);
        let put = normalise(row.vector, &mut normalised).and_then(|()| {
            self.put(&Row { vector: &normalised, ..*row }, condition, Origin::Caller)
        });
        self.buffers.vector = normalised;
        put
    }

    /// Logs and then applies an upsert of a row in its stored form. Does nothing if a newer row is
    /// there, or if the condition does not hold.
    fn put(
        &mut self,
        row: &Row<'_>,
        condition: &Condition<'_>,
        origin: Origin,
    ) -> Result<Applied, Error> {
        check_fields(&row.fields, &self.settings.schema)?;
        self.make_room()?;
        let stored = stored_row(&mut self.buffers.narrowed, row);
        let mut writer = self.tree.writer();
        let is_free = condition.is_always() && row.fields.name.is_empty();
        let applied = if is_free && self.journal.is_none() && self.remembered.is_none() {
            writer.upsert(stored)
        } else {
            let found = writer.find(row.id);
            if let (Some(found), false) = (found, row.fields.name.is_empty()) {
                check_same_id(&writer, row.id, found, &row.fields)?;
            }
            let is_newer = |found: Found| found.version > row.version;
            let is_dead = || {
                let remembered = self.remembered.as_ref();
                remembered.is_some_and(|deletes| deletes.is_dead(row.id, row.version))
            };
            let is_stale = match found {
                Some(found) => is_newer(found),
                None => origin == Origin::Caller && is_dead(),
            };
            if is_stale {
                return Ok(Applied::Stale);
            }
            if !condition.is_always() && !condition.holds(&writer, row.id, found)? {
                return Ok(Applied::ConditionFailed);
            }
            if let Some(journal) = &mut self.journal {
                journal.upsert(&stored, found.map(|found| found.version))?;
            }
            writer.upsert_over(stored, found)
        };
        drop(writer);
        if let Some(remembered) = &mut self.remembered {
            remembered.forget(row.id);
        }
        self.step();
        Ok(applied.into())
    }

    /// Checks whether [`Engine::upsert`] would accept this vector. So a caller can check a whole
    /// batch before it writes any of it. Errors: those of the check in `upsert`.
    pub fn check(&self, vector: &[f32]) -> Result<(), Error> {
        check_row(vector, &self.settings).map_err(refused)
    }

    /// Checks whether [`Engine::upsert`] would accept this id, these attributes and this payload.
    /// Errors: those of the check in `upsert`.
    pub fn check_fields(&self, fields: &Fields<'_>) -> Result<(), Error> {
        Ok(check_fields(fields, &self.settings.schema)?)
    }

    /// Upserts a row in its stored form. Under cosine the vector is a direction already, and a
    /// second normalisation would change it.
    pub(crate) fn restore_row(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        check_restored(row.vector, &self.settings).map_err(refused)?;
        self.put(row, &Condition::default(), Origin::Files)
    }

    /// Upserts a stored row of another collection of the same form, whose attributes may be in other
    /// columns. An open schema gets the attributes that it lacks.
    ///
    /// * `translation`: the same from row to row.
    pub(crate) fn take_over(
        &mut self,
        row: &Row<'_>,
        theirs: &Arc<Schema>,
        translation: &mut Translation,
    ) -> Result<Applied, Error> {
        if translation.is_new(theirs) {
            if self.settings.schema.open {
                theirs.attributes.iter().try_for_each(|attribute| {
                    self.add_attribute(&attribute.name, attribute.kind).map(|_| ())
                })?;
            }
            translation.begin(theirs, &self.settings.schema)?;
        }
        let schema = self.settings.schema.clone();
        let fields = translation.fields(row.fields, &schema)?;
        self.restore_row(&Row { fields, ..*row })
    }
}

/// Where a row comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Caller,
    /// A log, a snapshot or another engine, which accepted it once: no remembered delete counts.
    Files,
}

/// Errors if the row that was found under the hash of a string id has another id.
fn check_same_id(
    writer: &Writer<'_>,
    id: u64,
    found: Found,
    fields: &Fields<'_>,
) -> Result<(), Error> {
    let there = writer.check_of(id, found)?;
    if there == fields.check {
        return Ok(());
    }
    let what = format!(
        "two ids have one hash: the collection has a row whose id has the hash {id:#018x} and the \
         check {there:#018x}, and '{}' has that hash and the check {:#018x}; give this row another id",
        fields.name, fields.check
    );
    Err(Refused::new(RefusedKind::BadId, what).into())
}

/// Returns a row in the form that the index stores.
fn stored_row<'a>(narrowed: &'a mut Option<VectorBuffer>, row: &Row<'a>) -> IndexRow<'a> {
    let Row { id, version, code, shard, vector, fields } = *row;
    let key = RowKey { id, version, code, shard };
    IndexRow { key, vector: stored(narrowed, vector), fields }
}

/// Returns the vector in the form that the index stores.
fn stored<'a>(narrowed: &'a mut Option<VectorBuffer>, vector: &'a [f32]) -> VectorRef<'a> {
    match narrowed {
        Some(buffer) => buffer.narrow(vector),
        None => VectorRef::F32(vector),
    }
}
