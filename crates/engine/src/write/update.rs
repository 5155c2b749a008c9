//! Updates: changes of attributes or payload, without the vector.

use vstream_attribute::{Refused, RefusedKind, ATTRIBUTES_BYTES_MAX};
use vstream_index::{IndexRow, RowKey};

use super::stored;
use crate::accept::check_update;
use crate::applied::Applied;
use crate::engine::{Buffers, Engine};
use crate::error::Error;
use crate::row::{RowId, Update};

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
        // Most rows that change are in the memtable: one look-up says all that is asked of the row.
        if let Some(outlook) = writer.outlook(id, update) {
            if outlook.version > version {
                return Ok(Applied::Stale);
            }
            if check != 0 && outlook.check != check {
                return Ok(Applied::Missing);
            }
            if !outlook.fits {
                return Err(too_large().into());
            }
            if let Some(journal) = &mut self.journal {
                journal.update(id, version, outlook.version, update)?;
            }
            writer.change_fields(id, version, update);
            drop(writer);
            self.step();
            return Ok(Applied::Replaced);
        }
        let Some(found) = writer.find_elsewhere(id) else { return Ok(Applied::Missing) };
        if found.version > version {
            return Ok(Applied::Stale);
        }
        // The row is not in the memtable: the whole of it moves there.
        let Buffers { vector, narrowed, fields, merged } = &mut self.buffers;
        vector.resize(self.settings.dimension, 0.0);
        let mut key = RowKey { id, version, code: 0, shard: 0 };
        writer.show(id, found, &mut |row| {
            (key.code, key.shard) = (row.key.code, row.key.shard);
            row.vector.read(vector);
            fields.set(row.fields);
        })?;
        let before = fields.fields();
        if check != 0 && before.check != check {
            return Ok(Applied::Missing);
        }
        let fields = update.apply(before, merged);
        if fields.attributes.bytes().len() > ATTRIBUTES_BYTES_MAX {
            return Err(too_large().into());
        }
        if let Some(journal) = &mut self.journal {
            journal.update(id, version, found.version, update)?;
        }
        let row = IndexRow { key, vector: stored(narrowed, vector), fields };
        writer.upsert_over(row, Some(found));
        drop(writer);
        self.step();
        Ok(Applied::Replaced)
    }
}

fn too_large() -> Refused {
    let what =
        format!("The attributes of the row would take more than {ATTRIBUTES_BYTES_MAX} bytes.");
    Refused::new(RefusedKind::TooLarge, what)
}
