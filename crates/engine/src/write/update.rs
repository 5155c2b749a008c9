//! Updates: changes of attributes or payload, without the vector.

use vstream_attribute::{
    AttributesBuilder, Fields, Refused, RefusedKind, Schema, ATTRIBUTES_BYTES_MAX,
};
use vstream_index::{IndexRow, RowKey};

use super::stored;
use crate::accept::check_update;
use crate::applied::Applied;
use crate::engine::{Buffers, Engine};
use crate::error::Error;
use crate::row::{PayloadChange, RowId, Update};

impl Engine {
    /// Changes attributes and payload of a row, and gives it this version. The vector stays, and so
    /// does all that the update does not name. Every later search and read sees the change.
    ///
    /// Returns [`Applied::Missing`] if there is no row of that id, [`Applied::Stale`] if it is newer.
    /// The log gets the changes alone. Cost: a look-up of the id, and a read of the row if it is in a
    /// segment. Errors: `Invalid` for a change that the schema does not allow, or if the attributes
    /// would become too large ([`Error::refused`]); `Corrupt`, `Io`.
    pub fn update(
        &mut self,
        id: impl Into<RowId>,
        version: u64,
        update: &Update<'_>,
    ) -> Result<Applied, Error> {
        self.update_row(id.into(), version, update)
    }

    fn update_row(
        &mut self,
        RowId { id, check }: RowId,
        version: u64,
        update: &Update<'_>,
    ) -> Result<Applied, Error> {
        check_update(update, &self.settings.schema)?;
        self.make_room()?;
        let mut writer = self.tree.writer();
        let Some(found) = writer.find(id) else { return Ok(Applied::Missing) };
        if found.version > version {
            return Ok(Applied::Stale);
        }
        let Buffers { vector, narrowed, fields, merged } = &mut self.buffers;
        vector.resize(self.settings.dimension, 0.0);
        let mut key = RowKey { id, version, code: 0, shard: 0 };
        writer.show(id, found, &mut |row| {
            (key.code, key.shard) = (row.key.code, row.key.shard);
            row.vector.read(vector);
            fields.set(&row.fields);
        })?;
        let before = fields.fields();
        if check != 0 && before.check != check {
            return Ok(Applied::Missing);
        }
        let fields = merge(before, update, &self.settings.schema, merged)?;
        if let Some(journal) = &mut self.journal {
            journal.update(id, version, found.version, update)?;
        }
        let row = IndexRow { key, vector: stored(narrowed, vector), fields };
        writer.replace_fields(row, found);
        drop(writer);
        self.step();
        Ok(Applied::Replaced)
    }
}

/// The fields of a row after an update. Errors: `TooLarge` if the attributes become too large.
fn merge<'a>(
    before: Fields<'a>,
    update: &Update<'a>,
    schema: &Schema,
    merged: &'a mut AttributesBuilder,
) -> Result<Fields<'a>, Refused> {
    merged.clear();
    merged.set_all(before.attributes);
    update.unset.iter().for_each(|&column| merged.unset(column));
    for (column, value) in update.set.iter() {
        merged.set(schema, column, &value)?;
    }
    let attributes = merged.build();
    if attributes.bytes().len() > ATTRIBUTES_BYTES_MAX {
        let what =
            format!("The attributes of the row would take more than {ATTRIBUTES_BYTES_MAX} bytes.");
        return Err(Refused::new(RefusedKind::TooLarge, what));
    }
    let payload = match update.payload {
        PayloadChange::Keep => before.payload,
        PayloadChange::Set(payload) => Some(payload),
        PayloadChange::Remove => None,
    };
    Ok(Fields { attributes, payload, ..before })
}
