//! Deletes: of one row, and of the rows that match a filter.

use vstream_attribute::Filter;

use crate::accept::check_filter;
use crate::engine::Engine;
use crate::error::Error;
use crate::remembered::{now_ms, RememberedDelete};
use crate::row::RowId;

impl Engine {
    /// Removes the row of an id unless it is newer than `version`. Returns true if a row was
    /// removed.
    ///
    /// An unknown id is no error: a delete may find no row, and may repeat without harm. A
    /// collection that remembers deletes refuses upserts older than `version` from now on, for as
    /// long as its settings say.
    pub fn delete(&mut self, id: impl Into<RowId>, version: u64) -> Result<bool, Error> {
        self.delete_row(id.into(), version)
    }

    fn delete_row(&mut self, RowId { id, check }: RowId, version: u64) -> Result<bool, Error> {
        let mut writer = self.tree.writer();
        let died = if self.journal.is_none() && self.remembered.is_none() && check == 0 {
            writer.delete(id, version)
        } else {
            let found = writer.find(id);
            if let (Some(found), 1..) = (found, check) {
                if writer.check_of(id, found)? != check {
                    // The row of another text with the same hash.
                    return Ok(false);
                }
            }
            let dies = found.filter(|found| found.version <= version);
            if let Some(journal) = &mut self.journal {
                match (dies, found, &self.remembered) {
                    (Some(found), ..) => journal.delete(id, version, found.version)?,
                    (None, None, Some(remembered)) if remembered.version_of(id) < Some(version) => {
                        journal.remember(id, version)?;
                    }
                    _ => {}
                }
            }
            if let Some(found) = dies {
                writer.delete_found(id, found);
            }
            // A newer row that stays says itself that the delete came too late.
            let is_over = dies.is_some() || found.is_none();
            if let (Some(remembered), true) = (&mut self.remembered, is_over) {
                remembered.note(RememberedDelete { id, version, at_ms: now_ms() });
            }
            dies.is_some()
        };
        drop(writer);
        self.step();
        Ok(died)
    }

    /// Removes every row that matches and is not newer than `version`; returns their number.
    ///
    /// The rows are those that match at one moment during the call. Cost: a pass over the matches,
    /// 16 bytes of memory for each, and a delete for each. Errors: `Invalid` for a filter that does
    /// not fit the schema; `Corrupt`, `Io`, if a segment cannot be read, and nothing is removed then;
    /// those of [`Engine::delete`], after which some rows are gone.
    pub fn delete_where(&mut self, filter: &Filter, version: u64) -> Result<u64, Error> {
        check_filter(filter, &self.settings.schema)?;
        let mut matches = Vec::new();
        self.tree.pin().for_each_match(Some(filter), &mut |key| {
            if key.version <= version {
                matches.push(key.id);
            }
        })?;
        let mut removed = 0;
        for id in matches {
            removed += u64::from(self.delete_row(RowId::from(id), version)?);
        }
        Ok(removed)
    }
}
