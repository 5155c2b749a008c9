//! Rows of one group on their way into a part of a run.

use vstream_attribute::{Attributes, Fields};
use vstream_quantize::rabitq::Rotation;

use std::collections::HashMap;
use std::sync::Arc;

use super::column::IdEntry;
use super::format::{Shape, PART_BYTES_MAX, PART_ROWS_MAX, ROW_KEY};
use super::load::{CodedRow, LeafCodes};
use crate::accept::read_vector;

/// A row that is written to a run or was read from one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredRow<'a> {
    pub(crate) id: u64,
    pub(crate) version: u64,
    /// `None` for a tombstone.
    pub(crate) content: Option<Content<'a>>,
    /// When a tombstone was made, in seconds since 1970 UTC; 0 for a row.
    pub(crate) deleted_at: u32,
}

/// What a living row holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    /// The vector's numbers, little-endian.
    pub(crate) vector: &'a [u8],
    pub(crate) fields: Fields<'a>,
}

/// What a row carries beside its vector, on its way into a part.
#[derive(Default)]
pub(super) struct PendingFields {
    pub(super) attributes: Vec<u8>,
    pub(super) check: u64,
    pub(super) name: String,
    pub(super) payload: Option<Vec<u8>>,
}

/// Rows and tombstones that become a part, by ascending id.
#[derive(Default)]
pub(super) struct Pending {
    /// Row numbers are positions in the lists below.
    pub(super) entries: Vec<IdEntry>,
    pub(super) keys: Vec<[u8; ROW_KEY]>,
    pub(super) vectors: Vec<u8>,
    pub(super) fields: Vec<PendingFields>,
    /// Leaves of other runs that have codes of some of the rows.
    pub(super) coded: Vec<CodedRows>,
    /// Position in `coded` of a leaf at an address.
    coded_at: HashMap<*const LeafCodes, usize>,
    payload_bytes: usize,
}

/// Rows that have codes in a leaf of another run.
pub(super) struct CodedRows {
    pub(super) leaf: Arc<LeafCodes>,
    /// Number of the row here, and in the leaf; both ascend.
    pub(super) rows: Vec<(u32, u32)>,
}

impl Pending {
    pub(super) fn rows(&self) -> usize {
        self.keys.len()
    }

    /// True if the part should be written before the next row.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= PART_ROWS_MAX
            || self.vectors.len() + self.payload_bytes >= PART_BYTES_MAX
    }

    /// Adds a row or tombstone.
    ///
    /// * `coded`: where the row has codes already.
    pub(super) fn push(&mut self, row: StoredRow<'_>, coded: Option<CodedRow<'_>>) {
        let StoredRow { id, version, content, deleted_at } = row;
        let number = self.keys.len() as u32;
        let row = content.is_some().then_some(number);
        self.entries.push(IdEntry { id, version, row, deleted_at });
        let Some(Content { vector, fields }) = content else { return };
        if let Some(CodedRow { leaf, at }) = coded {
            let known = self.coded_at.entry(Arc::as_ptr(leaf)).or_insert_with(|| {
                self.coded.push(CodedRows { leaf: leaf.clone(), rows: Vec::new() });
                self.coded.len() - 1
            });
            self.coded[*known].rows.push((number, at));
        }
        let mut key = [0; ROW_KEY];
        key[..8].copy_from_slice(&id.to_le_bytes());
        key[8..].copy_from_slice(&version.to_le_bytes());
        self.keys.push(key);
        self.vectors.extend_from_slice(vector);
        self.fields.push(PendingFields {
            attributes: fields.attributes.bytes().to_vec(),
            check: fields.check,
            name: fields.name.to_owned(),
            payload: fields.payload.map(<[u8]>::to_vec),
        });
        self.payload_bytes += fields.payload.map_or(0, <[u8]>::len)
            + fields.attributes.bytes().len()
            + fields.name.len();
    }

    /// Vectors of some rows, rotated.
    pub(super) fn rotated(&self, rows: &[u32], shape: &Shape, rotation: &Rotation) -> Vec<f32> {
        let padded = shape.padded();
        let mut rotated = vec![0.0; rows.len() * padded];
        let mut vector = vec![0.0; shape.dimension];
        let vector_bytes = shape.dimension * shape.element.bytes();
        for (&row, out) in rows.iter().zip(rotated.chunks_exact_mut(padded)) {
            let bytes = &self.vectors[row as usize * vector_bytes..][..vector_bytes];
            read_vector(shape.element, bytes, &mut vector);
            rotation.apply(&vector, out);
        }
        rotated
    }
}

/// The bytes of attributes that were checked before.
pub(crate) fn attributes(bytes: &[u8]) -> Result<Attributes<'_>, crate::error::Malformed> {
    Ok(Attributes::decode(bytes)?)
}
