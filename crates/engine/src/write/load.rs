//! Loads the rows of a base image into the index of an engine, leaf by leaf.

use vstream_index::ClusterLoad;

use super::stored_row;
use crate::accept::{check_fields, check_restored, refused};
use crate::applied::Applied;
use crate::engine::Engine;
use crate::error::Error;
use crate::row::Row;
use crate::snapshot::ImageFiles;

impl Engine {
    /// Fills this engine, which is empty and has an index of leaves, with rows of an image. Returns the
    /// number and the digest of the wanted rows.
    ///
    /// Rows that the image has in leaves are not routed again; all others are inserted, which logs them.
    /// Errors: those of `ImageFiles::read_leaves`; `Corrupt` if an id comes twice; `Invalid` for a row
    /// that no engine accepts.
    pub(crate) fn load_image(&mut self, files: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        let mut load = Some(self.tree.begin_load());
        let read = files.read_leaves(&mut |serial, row| {
            let Some(serial) = serial else {
                // No row of a leaf comes after this one.
                self.end_load(load.take(), files)?;
                return match self.restore_row(row)? {
                    Applied::Inserted => Ok(()),
                    _ => Err(files.twice()),
                };
            };
            self.load_row(load.as_mut().expect("rows in leaves come first"), serial, row)
        })?;
        self.end_load(load, files)?;
        Ok(read)
    }

    fn load_row(
        &mut self,
        load: &mut ClusterLoad,
        serial: u32,
        row: &Row<'_>,
    ) -> Result<(), Error> {
        check_restored(row.vector, &self.settings).map_err(refused)?;
        check_fields(&row.fields, &self.settings.schema)?;
        load.push(serial, stored_row(&mut self.buffers.narrowed, row));
        Ok(())
    }

    /// Serves the rows that were loaded, if any were and are not served yet.
    fn end_load(&self, load: Option<ClusterLoad>, files: &ImageFiles<'_>) -> Result<(), Error> {
        let Some(load) = load else { return Ok(()) };
        let index = load.finish().ok_or_else(|| files.twice())?;
        self.tree.end_load(index);
        Ok(())
    }
}
