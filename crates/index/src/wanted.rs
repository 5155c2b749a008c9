//! Rows that a caller wants to read, found by their ids.

use vstream_attribute::FieldsBuffer;
use vstream_vector::Neighbor;

use crate::rows::{IndexRow, RowChunk, Visible};

/// The rows of an answer that are not found yet.
pub(crate) struct Wanted {
    /// Id, version, and position in the answer; sorted.
    rows: Vec<(u64, u64, usize)>,
    found: FieldsBuffer,
}

impl Wanted {
    /// All rows of an answer.
    pub(crate) fn new(rows: &[Neighbor]) -> Wanted {
        let mut rows: Vec<_> = rows.iter().zip(0..).map(|(r, at)| (r.id, r.version, at)).collect();
        rows.sort_unstable();
        Wanted { rows, found: FieldsBuffer::default() }
    }

    /// True if every row was found.
    pub(crate) fn is_done(&self) -> bool {
        self.rows.is_empty()
    }

    /// Shows the row of a lane, if it is visible and wanted.
    pub(crate) fn look_at(
        &mut self,
        chunk: &RowChunk,
        lane: usize,
        visible: Visible,
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    ) {
        let id = chunk.id(lane);
        let Ok(at) = self.rows.binary_search_by_key(&id, |row| row.0) else { return };
        let key = chunk.key(lane);
        if chunk.is_visible(lane, visible) && key.version == self.rows[at].1 {
            let (.., position) = self.rows.remove(at);
            chunk.read_fields(lane, &mut self.found);
            let (vector, fields) = (chunk.vector(lane), self.found.fields());
            visit(position, IndexRow { key, vector, fields });
        }
    }

    /// Shows the wanted rows of a chunk.
    pub(crate) fn find(
        &mut self,
        chunk: &RowChunk,
        visible: Visible,
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    ) {
        for lane in 0..chunk.len() {
            if self.is_done() {
                return;
            }
            self.look_at(chunk, lane, visible, visit);
        }
    }
}
