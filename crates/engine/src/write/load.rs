//! Loads the rows of a base image into the index of an engine, leaf by leaf.

use vstream_index::ClusterLoad;
use vstream_store::FileStore;

use super::stored_row;
use crate::accept::{check_fields, check_restored, refused};
use crate::applied::Applied;
use crate::engine::Engine;
use crate::error::Error;
use crate::recovery::twice;
use crate::row::Row;
use crate::snapshot::read_leaves;

impl Engine {
    /// Fills this engine, which is empty and has an index of leaves, with rows of the image whose files
    /// begin with `prefix`.
    ///
    /// * `admit`: is given every row, and says whether the engine gets it.
    ///
    /// Rows that the image has in leaves are not routed again; all others are inserted, which logs them.
    /// Errors: those of `read_leaves` and of `admit`; `Corrupt` if an id comes twice; `Invalid` for a row
    /// that no engine accepts.
    pub(crate) fn load_image(
        &mut self,
        store: &FileStore,
        prefix: &str,
        admit: &mut dyn FnMut(&Row<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let settings = self.settings.clone();
        let mut load = Some(self.tree.begin_load());
        let mut last = None;
        read_leaves(store, prefix, &settings, &mut |leaf, row| {
            if !admit(row)? {
                return Ok(());
            }
            if leaf.is_none() {
                // No row of a leaf comes after this one.
                self.end_load(load.take(), store, prefix)?;
                return match self.restore_row(row)? {
                    Applied::Inserted => Ok(()),
                    _ => Err(twice(store, prefix)),
                };
            }
            let load = load.as_mut().expect("rows in leaves come first");
            if last.replace(leaf).is_some_and(|last| last != leaf) {
                load.end_leaf();
            }
            self.load_row(load, row)
        })?;
        self.end_load(load, store, prefix)
    }

    fn load_row(&mut self, load: &mut ClusterLoad, row: &Row<'_>) -> Result<(), Error> {
        check_restored(row.vector, &self.settings).map_err(refused)?;
        check_fields(&row.fields, &self.settings.schema)?;
        load.push(stored_row(&mut self.buffers.narrowed, row));
        Ok(())
    }

    /// Serves the rows that were loaded, if any were and are not served yet.
    fn end_load(
        &self,
        load: Option<ClusterLoad>,
        store: &FileStore,
        prefix: &str,
    ) -> Result<(), Error> {
        let Some(load) = load else { return Ok(()) };
        let index = load.finish().ok_or_else(|| twice(store, prefix))?;
        self.tree.end_load(index);
        Ok(())
    }
}
