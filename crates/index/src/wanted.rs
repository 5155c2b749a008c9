//! Rows that a caller wants to read, found by their ids.

use vstream_attribute::FieldsBuffer;
use vstream_vector::Neighbor;

use crate::rows::{IndexRow, RowChunk, Visible};

/// Words of 64 bits, one bit per hash of an id: a pass over many ids asks them before the sorted list.
const BITS_WORDS: usize = 64;
/// The golden ratio in 64 bits, which spreads consecutive ids.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rows that are not found yet.
pub(crate) struct Wanted {
    /// Id, version if it matters, and position in the list that was asked for; sorted.
    rows: Vec<(u64, Option<u64>, usize)>,
    bits: [u64; BITS_WORDS],
    found: FieldsBuffer,
}

/// Word and bit of an id.
fn bit(id: u64) -> (usize, u64) {
    // The upper 12 bits of the product: 64 words of 64 bits.
    let hash = id.wrapping_mul(SPREAD) >> 52;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

impl Wanted {
    /// All rows of an answer.
    pub(crate) fn new(rows: &[Neighbor]) -> Wanted {
        Wanted::of(rows.iter().zip(0..).map(|(row, at)| (row.id, Some(row.version), at)).collect())
    }

    /// The rows of some ids, each once, whatever their version.
    pub(crate) fn of_ids(ids: &[u64]) -> Wanted {
        Wanted::of(ids.iter().zip(0..).map(|(&id, at)| (id, None, at)).collect())
    }

    fn of(mut rows: Vec<(u64, Option<u64>, usize)>) -> Wanted {
        rows.sort_unstable();
        let mut bits = [0; BITS_WORDS];
        for (word, one) in rows.iter().map(|row| bit(row.0)) {
            bits[word] |= one;
        }
        Wanted { rows, bits, found: FieldsBuffer::default() }
    }

    /// Rows that are not found yet.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The id of a row that is not found yet, by its position among them.
    pub(crate) fn id(&self, at: usize) -> u64 {
        self.rows[at].0
    }

    /// Forgets a row that is not there, by its position among those that are not found yet.
    pub(crate) fn forget(&mut self, at: usize) {
        self.rows.remove(at);
    }

    /// False if the row of an id is not wanted, or found.
    pub(crate) fn has(&self, id: u64) -> bool {
        let (word, one) = bit(id);
        self.bits[word] & one != 0 && self.rows.binary_search_by_key(&id, |row| row.0).is_ok()
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
        let (word, one) = bit(id);
        if self.bits[word] & one == 0 {
            return;
        }
        let Ok(at) = self.rows.binary_search_by_key(&id, |row| row.0) else { return };
        let key = chunk.key(lane);
        let is_version = self.rows[at].1.is_none_or(|version| version == key.version);
        if is_version && chunk.is_visible(lane, visible) {
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
