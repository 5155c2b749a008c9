//! Writes a segment, one leaf at a time.
//!
//! 1. The writer rotates the rows of a leaf. Their mean, rounded to bytes, is the leaf's centroid.
//!    The codes refer to the rounded centroid, so that memory need not hold a more exact one.
//! 2. It appends the row blocks to the file at once. The posting and the ids wait for their areas.
//! 3. Behind the row blocks of a leaf it appends the blocks of fields that are full.
//! 4. At the end it appends the other blocks of fields, postings, ids in order, the directory of
//!    fields, meta and footer.
//!
//! Memory: postings (`padded / 8 + 4` bytes per row) and ids (24 bytes per row), not the vectors. With
//! fields also 8 bytes per row, and what `fields/gather.rs` says; not names, numbers or payloads.

use std::fmt;
use std::sync::Arc;

use vstream_index::stages::form_of;
use vstream_quantize::rabitq::{clear, encode_measured, pack_lane, Rotation, BLOCK};
use vstream_store::blocks::{seal, BlockAddress, CHECKSUM_BYTES};
use vstream_store::codec::{Encoder, Policy, Shape, BLOCK_ROWS, DIMENSION_MAX};
use vstream_store::{Error, ErrorKind, FileWriter, Store};
use vstream_vector::{Element, Metric};

use crate::arrange::arrange;
use crate::centroid::StoredCentroid;
use crate::defect::{self, Defect};
use crate::digest::row_digest;
use crate::fields::{number, Area, Extent, FieldsWriter};
use crate::format::{
    encode_ids, put_keys, Footer, Header, IdEntry, IdRow, LeafEntry, Meta, FOOTER_NUMBER, ID_ROWS,
    ROWS_MAX,
};
use crate::rows::LeafRows;

/// The kind of a segment's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// No index: a search reads every row.
    Flat,
    /// Leaves with centroids and codes.
    Cluster,
}

impl SegmentKind {
    pub(crate) fn tag(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_tag(tag: u8) -> Option<SegmentKind> {
        [SegmentKind::Flat, SegmentKind::Cluster].into_iter().find(|kind| kind.tag() == tag)
    }
}

/// Settings of a new segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSettings {
    /// Dimensions of every vector.
    pub dimension: usize,
    /// Formula of the distance. Rows under cosine come normalised.
    pub metric: Metric,
    /// Element type of the rows.
    pub element: Element,
    /// Kind of the index.
    pub kind: SegmentKind,
    /// Seed of the rotation of its codes.
    pub seed: u64,
    /// A number that no other file ever had. It exposes blocks of another file.
    pub identity: u64,
    /// Number of the first leaf; each later leaf gets the next number. No other leaf of the partition
    /// may have had any of these numbers, unless rows of one leaf are meant.
    pub first_leaf: u64,
    /// Policy that chooses the codec of vectors.
    pub policy: Policy,
}

/// Counts of a written segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Number of rows.
    pub rows: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of the vector area: keys, coded vectors, checksums.
    pub vector_bytes: u64,
    /// Bytes of the coded vectors alone.
    pub coded_bytes: u64,
    /// Bytes of the index area.
    pub index_bytes: u64,
    /// Bytes of the id area.
    pub id_bytes: u64,
    /// Bytes of the columns of attributes, with their dictionaries.
    pub column_bytes: u64,
    /// Bytes of the names.
    pub name_bytes: u64,
    /// Bytes of the payloads and texts.
    pub payload_bytes: u64,
    /// Bytes of the directory of fields, with the summaries of leaves.
    pub fields_bytes: u64,
    /// Sum, mod 2^128, of a hash of (id, version) of every row.
    pub digest: u128,
}

/// Writes one segment. If it is dropped before [`SegmentWriter::finish`], no file exists.
pub struct SegmentWriter {
    /// Name of the file in messages.
    name: String,
    header: Header,
    policy: Policy,
    /// Number of the next leaf; `None` after the largest.
    next_leaf: Option<u64>,
    rotation: Rotation,
    out: Box<dyn FileWriter>,
    number: u64,
    offset: u64,
    meta: Meta,
    postings: Vec<Vec<u8>>,
    ids: Vec<IdRow>,
    /// Fields of the rows, if they may have some.
    fields: Option<FieldsWriter>,
    /// Check of each row, if rows may have fields.
    checks: Vec<u64>,
    encoder: Encoder,
    summary: SegmentSummary,
}

impl SegmentWriter {
    /// Begins the file `name` for rows without fields. Errors: `Invalid` settings, those of the store.
    pub fn create(
        store: &dyn Store,
        name: &str,
        settings: SegmentSettings,
    ) -> Result<SegmentWriter, Error> {
        SegmentWriter::begin(store, name, settings, false)
    }

    /// Like [`SegmentWriter::create`], for rows that may have fields. The header says so, because it is
    /// written before the first row comes.
    pub fn create_with_fields(
        store: &dyn Store,
        name: &str,
        settings: SegmentSettings,
    ) -> Result<SegmentWriter, Error> {
        SegmentWriter::begin(store, name, settings, true)
    }

    pub(crate) fn begin(
        store: &dyn Store,
        name: &str,
        settings: SegmentSettings,
        has_fields: bool,
    ) -> Result<SegmentWriter, Error> {
        let SegmentSettings { dimension, metric, element, kind, seed, identity, .. } = settings;
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            let what =
                format!("dimension is {dimension}: choose a value from 1 to {DIMENSION_MAX}");
            return Err(Error::new(ErrorKind::Invalid, store.describe(name), what));
        }
        let is_numbered = true;
        let header =
            Header { dimension, metric, element, kind, seed, identity, has_fields, is_numbered };
        let meta = Meta {
            rows: 0,
            digest: 0,
            codes: (u64::MAX, 0),
            leaves: Vec::new(),
            row_blocks: Vec::new(),
            id_blocks: Vec::new(),
            fields_bytes: 0,
        };
        let mut writer = SegmentWriter {
            header,
            policy: settings.policy,
            next_leaf: Some(settings.first_leaf),
            rotation: Rotation::new(dimension, seed),
            name: store.describe(name),
            out: store.create(name)?,
            number: 0,
            offset: 0,
            meta,
            postings: Vec::new(),
            ids: Vec::new(),
            fields: has_fields.then(FieldsWriter::default),
            checks: Vec::new(),
            encoder: Encoder::new(),
            summary: SegmentSummary::default(),
        };
        writer.append(header.encode())?;
        Ok(writer)
    }

    /// Adds the rows of a leaf after those of earlier leaves; does nothing without rows.
    ///
    /// Errors: `Invalid` if the rows have another element type or dimension or are too many, or have
    /// fields that the segment cannot hold, or if no number of a leaf is left; those of the store. The
    /// segment cannot be finished then.
    pub fn leaf(&mut self, rows: &LeafRows) -> Result<(), Error> {
        self.add(rows, None)
    }

    /// Adds rows of a leaf that another segment defines, after those of earlier leaves: they keep its
    /// number and its centroid. Does nothing without rows.
    ///
    /// Errors: as [`SegmentWriter::leaf`]. A number that comes twice is refused when the segment is
    /// opened. Panics if the segment is flat or the centroid of another dimension.
    pub fn run(&mut self, rows: &LeafRows, of: &LeafCentroid) -> Result<(), Error> {
        assert_eq!(of.dimension(), self.header.padded(), "a centroid of another dimension");
        assert_eq!(self.header.kind, SegmentKind::Cluster, "a flat segment has no leaves");
        self.add(rows, Some(of))
    }

    fn add(&mut self, rows: &LeafRows, of: Option<&LeafCentroid>) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let n = rows.len() as u64;
        let fits = rows.dimension == self.header.dimension
            && rows.numbers.element() == self.header.element;
        if !fits || self.meta.rows + n >= ROWS_MAX {
            return Err(self.invalid(
                "the rows of a leaf are not of their segment's element type and dimension, or \
                 the segment would have more than 2,147,483,647 rows: close it and begin another",
            ));
        }
        if rows.has_fields() && self.fields.is_none() {
            return Err(self.invalid("a row has fields: begin the segment for rows with fields"));
        }
        let number = match (of, self.next_leaf) {
            (Some(of), _) => of.number,
            (None, Some(number)) => {
                self.next_leaf = number.checked_add(1);
                number
            }
            (None, None) => {
                return Err(self.invalid("there is no number after that of its last leaf"));
            }
        };
        let mut entry = match self.header.kind {
            SegmentKind::Flat => LeafEntry { rows: n as u32, ..LeafEntry::default() },
            SegmentKind::Cluster => self.post(rows, of),
        };
        entry.number = Some(number);
        self.meta.leaves.push(entry);
        for (key, row) in rows.keys.iter().zip(self.meta.rows as u32..) {
            self.ids.push(IdRow { id: key.id, version: key.version, row });
            self.meta.digest = self.meta.digest.wrapping_add(row_digest(key.id, key.version));
            self.meta.codes.0 = self.meta.codes.0.min(key.code);
            self.meta.codes.1 = self.meta.codes.1.max(key.code);
        }
        self.meta.rows += n;
        let shape = Shape { kind: self.header.codec_kind(), dimension: rows.dimension };
        for from in (0..rows.len()).step_by(BLOCK_ROWS) {
            let range = from..rows.len().min(from + BLOCK_ROWS);
            let mut payload = Vec::new();
            put_keys(&mut payload, &rows.keys[range.clone()]);
            let keys = payload.len();
            rows.numbers.encode(range, shape, self.policy, &mut self.encoder, &mut payload);
            self.summary.coded_bytes += (payload.len() - keys) as u64;
            let bytes = self.append(payload)?;
            self.meta.row_blocks.push(bytes);
            self.summary.vector_bytes += u64::from(bytes);
        }
        self.take_fields(rows)
    }

    /// Takes the fields of the rows of a leaf, and appends the blocks that are full.
    fn take_fields(&mut self, rows: &LeafRows) -> Result<(), Error> {
        let Some(mut fields) = self.fields.take() else { return Ok(()) };
        fields.begin_leaf(rows.len());
        for row in 0..rows.len() {
            let held = rows.fields(row);
            fields.push(&held).map_err(|what| self.invalid(what))?;
            self.checks.push(held.check);
        }
        fields.end_leaf();
        self.append_ready(&mut fields)?;
        self.fields = Some(fields);
        Ok(())
    }

    /// Appends the blocks of fields that are complete.
    fn append_ready(&mut self, fields: &mut FieldsWriter) -> Result<(), Error> {
        for mut ready in fields.take_ready() {
            let offset = self.offset;
            let bytes = self.append_as(ready.number, std::mem::take(&mut ready.payload))?;
            let area = match ready.area() {
                Area::Names => &mut self.summary.name_bytes,
                Area::Wide => &mut self.summary.payload_bytes,
                Area::Column | Area::Dictionary => &mut self.summary.column_bytes,
                Area::Directory => &mut self.summary.fields_bytes,
            };
            *area += u64::from(bytes);
            fields.note(&ready, Extent { offset, bytes });
        }
        Ok(())
    }

    /// Like [`SegmentWriter::leaf`] or, with a centroid, [`SegmentWriter::run`], in an order that puts
    /// near rows in one block.
    pub(crate) fn arranged(
        &mut self,
        rows: &LeafRows,
        of: Option<&LeafCentroid>,
    ) -> Result<(), Error> {
        if self.header.kind == SegmentKind::Flat || rows.len() <= BLOCK_ROWS {
            return self.add(rows, of);
        }
        let mut arranged = LeafRows::new(rows.numbers.element(), rows.dimension);
        for at in arrange(rows, self.header.seed) {
            arranged.push(rows.row(at as usize));
        }
        self.add(&arranged, of)
    }

    /// Writes the remaining areas and makes the file visible.
    ///
    /// Errors: `Invalid` if an id came twice, those of the store. No file exists after an error.
    pub fn finish(mut self) -> Result<SegmentSummary, Error> {
        let mut fields = self.fields.take();
        if self.header.has_fields && fields.is_none() {
            return Err(self.invalid("rows were refused: the segment cannot be finished"));
        }
        if let Some(fields) = &mut fields {
            fields.end();
            self.append_ready(fields)?;
        }
        for posting in std::mem::take(&mut self.postings) {
            self.summary.index_bytes += u64::from(self.append(posting)?);
        }
        self.ids.sort_unstable();
        if let Some(pair) = self.ids.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(self.invalid(format!(
                "id {} came twice: a segment holds one row of an id",
                pair[0].id
            )));
        }
        let ids = std::mem::take(&mut self.ids);
        let checks = std::mem::take(&mut self.checks);
        let checks = self.header.has_fields.then_some(checks.as_slice());
        for block in ids.chunks(ID_ROWS) {
            let bytes = self.append(encode_ids(block, checks))?;
            self.meta.id_blocks.push(IdEntry { first: block[0].id, bytes });
            self.summary.id_bytes += u64::from(bytes);
        }
        if let Some(fields) = &mut fields {
            let payload = fields.directory().encode();
            self.meta.fields_bytes = self.append_as(number(Area::Directory, 0, 0), payload)?;
            self.summary.fields_bytes = u64::from(self.meta.fields_bytes);
        }
        let meta_number = self.number;
        let meta_bytes = u64::from(self.append(self.meta.encode())?);
        let mut footer =
            Footer { identity: self.header.identity, meta_number, meta_bytes, file_bytes: 0 };
        footer.file_bytes = self.offset + (crate::format::FOOTER + CHECKSUM_BYTES) as u64;
        let mut bytes = footer.encode();
        seal(self.address(FOOTER_NUMBER), &mut bytes);
        self.out.append(&bytes)?;
        self.summary.bytes = self.out.finish()?;
        self.summary.rows = self.meta.rows;
        self.summary.leaves = self.meta.leaves.len() as u64;
        self.summary.digest = self.meta.digest;
        Ok(self.summary)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn invalid(&self, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Invalid, &self.name, what)
    }

    fn address(&self, number: u64) -> BlockAddress {
        BlockAddress { file: self.header.identity, number, version: self.header.version() }
    }

    /// Appends the next block; returns its length with its checksum.
    fn append(&mut self, payload: Vec<u8>) -> Result<u32, Error> {
        let bytes = self.append_as(self.number, payload)?;
        self.number += 1;
        Ok(bytes)
    }

    /// Appends a block with a number of its own.
    fn append_as(&mut self, number: u64, mut payload: Vec<u8>) -> Result<u32, Error> {
        yield_to_queries();
        seal(self.address(number), &mut payload);
        let bytes = u32::try_from(payload.len()).map_err(|_| {
            self.invalid("a block of a segment is beyond 4 GiB: write smaller ones")
        })?;
        self.out.append(&payload)?;
        self.offset += u64::from(bytes);
        Ok(bytes)
    }

    /// Encodes the rows of a leaf; their posting waits for its area.
    ///
    /// * `of`: the leaf, if it is defined already; else the mean of the rows defines it.
    fn post(&mut self, rows: &LeafRows, of: Option<&LeafCentroid>) -> LeafEntry {
        let padded = self.header.padded();
        let mut rotated = vec![0.0f32; rows.len() * padded];
        let mut vector = vec![0.0f32; rows.dimension];
        for (row, out) in rotated.chunks_exact_mut(padded).enumerate() {
            rows.vector(row).read(&mut vector);
            self.rotation.apply(&vector, out);
        }
        let stored = match of {
            Some(of) => of.centroid.clone(),
            None => Arc::new(StoredCentroid::round(&vstream_vector::mean(&rotated, padded))),
        };
        let mut centroid = vec![0.0f32; padded];
        stored.write(&mut centroid);
        let n = rows.len() as u32;
        let mut entry = LeafEntry { rows: n, centroid: stored, ..LeafEntry::default() };
        let form = form_of(self.header.metric);
        let block_bytes = self.header.posting_block_bytes();
        let mut posting = vec![0u8; rows.len().div_ceil(BLOCK) * block_bytes];
        let mut bits = vec![0u8; padded / 8];
        let blocks = posting.chunks_exact_mut(block_bytes).zip(rotated.chunks(BLOCK * padded));
        for (codes, block) in blocks {
            clear(codes);
            for (lane, row) in block.chunks_exact(padded).enumerate() {
                // Not the kernel of distances: its last bit depends on the processor, and a file of
                // the same leaves should not.
                let (factors, squared) = encode_measured(form, row, &centroid, &mut bits);
                let misplaced = usize::from(defect::active(Defect::CodesMisplaced));
                pack_lane(codes, padded, lane ^ misplaced, &bits, factors);
                entry.reach = entry.reach.max(squared.sqrt().min(f32::MAX));
            }
        }
        self.postings.push(posting);
        entry
    }
}

/// Number and centroid of a leaf that is defined: all its runs have the same, so that their codes
/// refer to one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafCentroid {
    /// Number of the leaf.
    pub number: u64,
    /// The centroid after the rotation.
    pub(crate) centroid: Arc<StoredCentroid>,
}

impl LeafCentroid {
    /// Number of its coordinates: the dimensions, padded.
    pub fn dimension(&self) -> usize {
        self.centroid.steps.len()
    }

    /// The centroid as stored; runs of a leaf may share it.
    pub fn stored(&self) -> &Arc<StoredCentroid> {
        &self.centroid
    }

    /// Writes the centroid, rotated, to `out`, which has as many places.
    pub fn write(&self, out: &mut [f32]) {
        self.centroid.write(out);
    }
}

/// Yields the processor of this thread to a query, if one waits for it. Segments are written in the
/// background, and the scheduler lets a running thread use its time slice of some milliseconds,
/// however urgent others are.
pub fn yield_to_queries() {
    std::thread::yield_now();
}
