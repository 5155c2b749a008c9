//! What a store does with rows: upserts, updates, deletes, and groups that are dropped. Every write
//! is checked before it changes anything.

use vstream_attribute::{
    AttributesBuilder, Fields, Filter, PayloadChange, Refused, RefusedKind, RowId, Schema, Update,
    ATTRIBUTES_BYTES_MAX,
};

use super::{now_s, GroupStore};
use crate::accept::{
    check_attributes, check_column, check_fields, check_payload, group_hash, other_text,
    row_vector, GroupHash, RowRef,
};
use crate::error::Error;
use crate::log::Record;
use crate::memtable::MemoryContent;
use crate::query::{find, Existing};
use crate::run::{Content, StoredRow};
use crate::view::View;

/// The result of a write that looks at the row that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The group did not have the id.
    Inserted,
    /// The group had the id with an older or the same version. The new row is there now.
    Replaced,
    /// The group has the id with a newer version, or remembers a newer delete of it. Nothing changed.
    Stale,
    /// The condition of the write does not hold for the row that is there. Nothing changed.
    ConditionFailed,
    /// An update found no row. Nothing changed.
    Missing,
}

impl Applied {
    /// True if the write changed something.
    pub fn is_applied(self) -> bool {
        matches!(self, Applied::Inserted | Applied::Replaced)
    }
}

/// When an upsert is applied, beyond that no newer row may be there. Both parts must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition<'a> {
    /// Holds for the attributes of the row that is there. Where there is none, it holds: an upsert
    /// inserts.
    pub filter: Option<&'a Filter>,
    /// What the version of the row that is there must be.
    pub version: IfVersion,
}

/// A condition on the version of the row that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfVersion {
    /// Any, or no row.
    #[default]
    Any,
    /// There is no row: the upsert only inserts.
    Absent,
    /// There is a row: the upsert only replaces.
    Present,
    /// There is a row of exactly this version.
    Is(u64),
}

impl Condition<'_> {
    fn holds(&self, id: u64, there: Option<(u64, Fields<'_>)>) -> bool {
        let is_version = match self.version {
            IfVersion::Any => true,
            IfVersion::Absent => there.is_none(),
            IfVersion::Present => there.is_some(),
            IfVersion::Is(version) => there.is_some_and(|(found, _)| found == version),
        };
        let passes =
            |filter: &Filter| there.is_none_or(|(_, fields)| filter.holds(id, fields.attributes));
        is_version && self.filter.is_none_or(passes)
    }
}

impl GroupStore {
    /// Adds or replaces a row. False if there is a newer version among the new rows; in runs, a newer
    /// version keeps hiding this one. False for that, too, while a merge forgets deletes, which takes a look-up
    /// in every run that holds the group.
    ///
    /// Cost: a few microseconds, and a flush when the memory is full; in a store of string ids a
    /// look-up in every run that holds the group as well, which is cheap for many rows of a group in
    /// turn. Errors: `Refused` and `Invalid` before anything changes, `Refused` with `BadId` also for
    /// a text whose hash has the low half of that of another row of the group; after those of the files
    /// the row is visible and not durable.
    pub fn upsert(&mut self, group: &str, row: &RowRef<'_>) -> Result<bool, Error> {
        let vector = row_vector(row.vector, &self.settings)?;
        check_fields(&row.fields, &self.settings.schema)?;
        let id = RowId { id: row.id, check: row.fields.check };
        if !self.is_free(group, id)? {
            return Err(other_text(row.fields.name));
        }
        if self.forgets() {
            // The merge has not this row, and would forget the delete that hides it.
            let found = self.find(group, row.id)?;
            if found.is_some_and(|found| found.version > row.version) {
                return Ok(false);
            }
        }
        let content = Some(Content { vector: &vector, fields: row.fields });
        self.put(group, StoredRow { id: row.id, version: row.version, content, deleted_at: 0 })
    }

    /// Works like [`GroupStore::upsert`] if the condition holds for the row that is there now;
    /// otherwise nothing changes.
    ///
    /// Cost: that of `upsert`, and a look-up of the id in every run that holds the group. Errors:
    /// those of `upsert`, `Refused` for a filter that does not fit the schema, those of reads.
    pub fn upsert_if(
        &mut self,
        group: &str,
        row: &RowRef<'_>,
        condition: &Condition<'_>,
    ) -> Result<Applied, Error> {
        let vector = row_vector(row.vector, &self.settings)?;
        check_fields(&row.fields, &self.settings.schema)?;
        condition.filter.map_or(Ok(()), |filter| filter.check(&self.settings.schema))?;
        let found = self.find(group, row.id)?;
        if found.as_ref().is_some_and(|found| found.version > row.version) {
            return Ok(Applied::Stale);
        }
        let living = found.and_then(|found| Some((found.version, found.content?)));
        let check = row.fields.check;
        if living.as_ref().is_some_and(|(_, there)| there.content().fields.check != check) {
            return Err(other_text(row.fields.name));
        }
        let there = living.as_ref().map(|(version, content)| (*version, content.content().fields));
        if !condition.holds(row.id, there) {
            return Ok(Applied::ConditionFailed);
        }
        let content = Some(Content { vector: &vector, fields: row.fields });
        self.put(group, StoredRow { id: row.id, version: row.version, content, deleted_at: 0 })?;
        Ok(if living.is_some() { Applied::Replaced } else { Applied::Inserted })
    }

    /// Changes attributes and payload of a row, and gives it this version. The vector stays, and so
    /// does all that the update does not name.
    ///
    /// Returns [`Applied::Missing`] if there is no row of that id or it is one of another text,
    /// [`Applied::Stale`] if it is newer.
    /// Cost: a look-up of the id in every run that holds the group, and the row becomes a new row.
    /// Errors: `Refused` for a change that the schema does not allow, or if the attributes would
    /// become too large; those of reads and of `upsert`.
    pub fn update(
        &mut self,
        group: &str,
        id: impl Into<RowId>,
        version: u64,
        update: &Update<'_>,
    ) -> Result<Applied, Error> {
        let row: RowId = id.into();
        self.check_update(update)?;
        let hash = group_hash(group, self.seed)?;
        self.make_room()?;
        let schema = &self.settings.schema;
        let merged = merge(&self.view.load(), schema, (hash, group), (row, version), update)?;
        let content = match merged {
            Ok(content) => content,
            Err(applied) => return Ok(applied),
        };
        self.view.load().memtable.put(hash, group, &content.row(row.id, version))?;
        self.log.push(&Record::Update(group, row.id, version, *update))?;
        Ok(Applied::Replaced)
    }

    fn check_update(&self, update: &Update<'_>) -> Result<(), Error> {
        let schema = &self.settings.schema;
        check_attributes(update.set, schema)?;
        if update.unset.len() > schema.attributes.len() {
            let what = "An update unsets more columns than there are.";
            return Err(Refused::new(RefusedKind::UnknownAttribute, what).into());
        }
        update.unset.iter().try_for_each(|column| check_column(*column, schema).map(|_| ()))?;
        match update.payload {
            PayloadChange::Set(payload) => check_payload(Some(payload)),
            PayloadChange::Keep | PayloadChange::Remove => Ok(()),
        }
    }

    /// The newest version of an id.
    fn find(&self, group: &str, id: u64) -> Result<Option<Existing>, Error> {
        find(&self.view.load(), group_hash(group, self.seed)?, group, id)
    }

    /// Deletes a row. Versions up to `version` are gone, also those that come later, until a merge
    /// of all runs forgets the deletion: after the time of
    /// [`GroupSettings::deletes_remembered`](crate::GroupSettings::deletes_remembered). False if there
    /// is a newer version among the new rows, or the row of the id is one of another text. Cost and
    /// errors: as [`GroupStore::upsert`].
    pub fn delete(
        &mut self,
        group: &str,
        id: impl Into<RowId>,
        version: u64,
    ) -> Result<bool, Error> {
        let row: RowId = id.into();
        if !self.is_free(group, row)? {
            return Ok(false);
        }
        let id = row.id;
        self.put(group, StoredRow { id, version, content: None, deleted_at: now_s() })
    }

    /// Works like [`GroupStore::delete`] if there is a row of the id; leaves no trace otherwise, so that
    /// an older upsert may follow. True if there was one.
    ///
    /// Cost: a look-up in every run that holds the group, cheap for many rows of few groups in turn.
    /// Errors: those of `delete` and of reads.
    pub fn delete_existing(
        &mut self,
        group: &str,
        id: impl Into<RowId>,
        version: u64,
    ) -> Result<bool, Error> {
        let row: RowId = id.into();
        match self.check_of(group, row.id)? {
            Some(check) if row.may_be(check) => self.delete(group, row.id, version),
            _ => Ok(false),
        }
    }

    /// Deletes every row of a group that matches and is not newer than `version`; returns their
    /// number.
    ///
    /// Cost: a pass over the attributes of the group, 8 bytes of memory and a delete for each match.
    /// Errors: `Refused` for a filter that does not fit the schema, those of reads, and nothing is
    /// deleted then; those of `delete`, after which some rows are gone.
    pub fn delete_where(
        &mut self,
        group: &str,
        filter: &Filter,
        version: u64,
    ) -> Result<u64, Error> {
        filter.check(&self.settings.schema)?;
        let ids = self.reader().matches(group, filter, version)?;
        for &id in &ids {
            self.delete(group, id, version)?;
        }
        Ok(ids.len() as u64)
    }

    /// False if the id belongs to a row of another text.
    fn is_free(&mut self, group: &str, row: RowId) -> Result<bool, Error> {
        if row.check == 0 {
            return Ok(true);
        }
        Ok(self.check_of(group, row.id)?.is_none_or(|check| row.may_be(check)))
    }

    /// The check of the row that an id has now; `None` if it has none.
    fn check_of(&mut self, group: &str, id: u64) -> Result<Option<u64>, Error> {
        let (view, hash) = (self.view.load(), group_hash(group, self.seed)?);
        self.opened.check_of(&view, hash, group, id)
    }

    pub(super) fn put(&mut self, group: &str, row: StoredRow<'_>) -> Result<bool, Error> {
        let hash = group_hash(group, self.seed)?;
        self.make_room()?;
        if !self.view.load().memtable.put(hash, group, &row)? {
            return Ok(false);
        }
        self.log.push(&Record::Row(group, row))?;
        Ok(true)
    }

    /// Removes all rows of a group at once, whatever their versions. Cost: one record; merges free
    /// the space.
    pub fn drop_group(&mut self, group: &str) -> Result<(), Error> {
        let hash = group_hash(group, self.seed)?;
        self.make_room()?;
        self.view.load().memtable.drop_group(hash, group)?;
        self.log.push(&Record::Drop(group))
    }

    /// Makes all writes so far durable: one sync for all of them.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.log.commit()
    }
}

/// The row of an id after an update, or why there is none: `Missing` or `Stale`. Errors: `TooLarge`
/// if its attributes become too large, those of reads.
pub(super) fn merge(
    view: &View,
    schema: &Schema,
    (hash, group): (GroupHash, &str),
    (row, version): (RowId, u64),
    update: &Update<'_>,
) -> Result<Result<MemoryContent, Applied>, Error> {
    let found = find(view, hash, group, row.id)?;
    if found.as_ref().is_some_and(|found| found.version > version) {
        return Ok(Err(Applied::Stale));
    }
    let Some(before) = found.and_then(|found| found.content) else {
        return Ok(Err(Applied::Missing));
    };
    let Content { vector, fields } = before.content();
    if !row.may_be(fields.check) {
        return Ok(Err(Applied::Missing));
    }
    let mut builder = AttributesBuilder::default();
    builder.set_all(fields.attributes);
    update.unset.iter().for_each(|&column| builder.unset(column));
    for (column, value) in update.set.iter() {
        builder.set(schema, column, &value)?;
    }
    let attributes = builder.build();
    if attributes.bytes().len() > ATTRIBUTES_BYTES_MAX {
        let what =
            format!("The attributes of the row would take more than {ATTRIBUTES_BYTES_MAX} bytes.");
        return Err(Refused::new(RefusedKind::TooLarge, what).into());
    }
    let payload = update.payload.of(fields.payload);
    let fields = Fields { attributes, payload, ..fields };
    Ok(Ok(MemoryContent::copy(&Content { vector, fields })))
}
