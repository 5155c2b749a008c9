//! The bytes of a segment, versions 1 to 3. Little-endian; a checksum follows every block.
//!
//! ```text
//! header     block 0: what the rows are, identity of the file
//! vectors    row blocks: up to 32 rows of one leaf: ids, versions, codes, shards, coded vectors
//! index      cluster only: a posting per leaf: code blocks of 32 rows with their factors
//! ids        id blocks: 1,024 rows by id: ids, versions, row numbers
//! meta       counts, ends of the areas, leaf directory, lengths of row blocks, first ids
//! footer     where meta is, how long the file is
//! ```
//!
//! Blocks are numbered from 0 in this order; the footer's number is [`FOOTER_NUMBER`]. Rows are
//! numbered in the order of the vector area, which is the order of the leaves.
//!
//! Rows may have fields in version 2, and in version 3 if its header says so. Blocks of fields
//! (`fields/`) lie between the row blocks and behind them, in any order, each at the offset that the
//! directory of fields says. That directory is the block before meta. Blocks of fields have numbers
//! of their own.
//!
//! Since version 3 each leaf has a number, which says of which leaf of a partition its rows are. Only
//! version 3 is written.

use std::sync::Arc;

use vstream_index::RowKey;
use vstream_quantize::rabitq::{block_bytes, BLOCK};
use vstream_store::blocks::CHECKSUM_BYTES;
use vstream_store::codec::{Kind, BLOCK_ROWS, DIMENSION_MAX, HEAD};
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{Element, Metric};

use crate::centroid::StoredCentroid;
use crate::column::{self, Column};
pub(crate) use crate::malformed::Malformed;
use crate::write::SegmentKind;

/// Version of a segment whose rows have nothing beside keys and vectors.
const PLAIN: u32 = 1;
/// Version of a segment whose rows may have fields, and whose leaves have no numbers.
const WITH_FIELDS: u32 = 2;
/// Version of a segment whose leaves have numbers; the newest that this program reads.
pub(crate) const NUMBERED: u32 = 3;
const MAGIC: &[u8; 8] = b"VSTRSEGM";
const FOOTER_MAGIC: &[u8; 8] = b"VSTRSEGF";
pub(crate) const HEADER: usize = 64;
pub(crate) const FOOTER: usize = 40;
pub(crate) const FOOTER_NUMBER: u64 = u64::MAX;
/// Rows of an id block.
pub(crate) const ID_ROWS: usize = 1024;
/// Most rows of a segment.
pub(crate) const ROWS_MAX: u64 = 1 << 31;
/// Bytes of a leaf in the directory beside its centroid: before version 3, and since.
const LEAF_BYTES_UNNUMBERED: usize = 16;
const LEAF_BYTES: usize = 24;
/// Least rows of a leaf that a merge writes.
const LEAF_ROWS: u64 = 96;

/// Most rows of a segment of vectors of `dimension`: fewer than 2^31, and so few that the
/// meta block, with a centroid per leaf, stays below 4 GiB.
pub fn rows_max(dimension: usize) -> u64 {
    let leaf_bytes = dimension.next_multiple_of(64) as u64 + LEAF_BYTES as u64;
    (ROWS_MAX - 1).min((1 << 32) / (leaf_bytes + LEAF_ROWS) * LEAF_ROWS)
}
/// Bytes of a column before its values.
const COLUMN_HEAD: usize = 9;

fn finite(input: &mut ByteReader<'_>) -> Result<f32, Malformed> {
    let value = input.f32()?;
    if !value.is_finite() {
        return Err(Malformed("a number that is not finite"));
    }
    Ok(value)
}

/// The header: the settings of the rows and the identity of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) kind: SegmentKind,
    /// Seed of the rotation of the codes.
    pub(crate) seed: u64,
    /// Number that no other file ever had, given by the writer.
    pub(crate) identity: u64,
    /// Whether rows may have fields.
    pub(crate) has_fields: bool,
    /// Whether leaves have numbers: true since version 3.
    pub(crate) is_numbered: bool,
}

/// Reason that a header cannot be used.
pub(crate) enum HeaderError {
    Malformed(Malformed),
    /// A newer version wrote it; the number is that version.
    Version(u32),
}

impl From<Truncated> for HeaderError {
    fn from(truncated: Truncated) -> HeaderError {
        Malformed::from(truncated).into()
    }
}

impl From<Malformed> for HeaderError {
    fn from(malformed: Malformed) -> HeaderError {
        HeaderError::Malformed(malformed)
    }
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + CHECKSUM_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.version().to_le_bytes());
        out.extend_from_slice(&(self.dimension as u32).to_le_bytes());
        let code_bits = u8::from(self.kind == SegmentKind::Cluster);
        out.extend_from_slice(&[self.metric.tag(), self.element.tag(), self.kind.tag(), code_bits]);
        let fields = u8::from(self.is_numbered && self.has_fields);
        out.extend_from_slice(&[fields, 0, 0, 0]);
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.resize(HEADER, 0);
        out
    }

    /// Reads a header before its checksum is known to be right, because the check needs the
    /// identity in it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != MAGIC {
            return Err(Malformed("it does not begin as a segment").into());
        }
        let version = input.u32()?;
        if !(PLAIN..=NUMBERED).contains(&version) {
            return Err(HeaderError::Version(version));
        }
        let is_numbered = version == NUMBERED;
        let dimension = input.u32()? as usize;
        let tags = input.array::<4>()?;
        let marks = input.array::<4>()?;
        let has_fields = match (version, marks) {
            (NUMBERED, [0, 0, 0, 0]) => false,
            (NUMBERED, [1, 0, 0, 0]) => true,
            (NUMBERED, _) => return Err(Malformed("neither with fields nor without").into()),
            (version, _) => version == WITH_FIELDS,
        };
        let (seed, identity) = (input.u64()?, input.u64()?);
        let parts =
            (Metric::from_tag(tags[0]), Element::from_tag(tags[1]), SegmentKind::from_tag(tags[2]));
        let (Some(metric), Some(element), Some(kind)) = parts else {
            return Err(Malformed("an unknown metric, element or index kind").into());
        };
        let bits_fit = tags[3] == u8::from(kind == SegmentKind::Cluster);
        if !(1..=DIMENSION_MAX).contains(&dimension) || !bits_fit {
            return Err(Malformed("the dimension or the width of the codes is out of range").into());
        }
        Ok(Header { dimension, metric, element, kind, seed, identity, has_fields, is_numbered })
    }

    /// Version of the format.
    pub(crate) fn version(&self) -> u32 {
        match (self.is_numbered, self.has_fields) {
            (true, _) => NUMBERED,
            (false, true) => WITH_FIELDS,
            (false, false) => PLAIN,
        }
    }

    /// Dimensions of a rotated vector: those of the codes and of the centroids.
    pub(crate) fn padded(&self) -> usize {
        self.dimension.next_multiple_of(64)
    }

    /// Bytes of a leaf in the directory.
    fn leaf_bytes(&self) -> usize {
        let centroid = if self.kind == SegmentKind::Cluster { self.padded() } else { 0 };
        centroid + if self.is_numbered { LEAF_BYTES } else { LEAF_BYTES_UNNUMBERED }
    }

    /// The codec's kind of number.
    pub(crate) fn codec_kind(&self) -> Kind {
        self.element.into()
    }

    /// Bytes of the posting of a leaf, with its checksum.
    pub(crate) fn posting_bytes(&self, rows: u32) -> usize {
        let blocks = (rows as usize).div_ceil(BLOCK);
        blocks * self.posting_block_bytes() + CHECKSUM_BYTES
    }

    /// Bytes of 32 codes with their factors.
    pub(crate) fn posting_block_bytes(&self) -> usize {
        block_bytes(self.padded())
    }

    /// Most bytes of a row block, with its checksum.
    pub(crate) fn row_block_bytes_max(&self) -> usize {
        let keys = 4 * (COLUMN_HEAD + 8 * BLOCK_ROWS);
        let vectors = HEAD + BLOCK_ROWS * self.dimension * self.element.bytes();
        keys + vectors + CHECKSUM_BYTES
    }
}

/// The footer: the position of meta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) identity: u64,
    pub(crate) meta_number: u64,
    /// Length of the meta block with its checksum; it ends where the footer begins.
    pub(crate) meta_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER + CHECKSUM_BYTES);
        out.extend_from_slice(FOOTER_MAGIC);
        for word in [self.identity, self.meta_number, self.meta_bytes, self.file_bytes] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Footer, Malformed> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != FOOTER_MAGIC {
            return Err(Malformed("it does not end as a segment: torn, or not ours"));
        }
        let (identity, meta_number) = (input.u64()?, input.u64()?);
        let (meta_bytes, file_bytes) = (input.u64()?, input.u64()?);
        Ok(Footer { identity, meta_number, meta_bytes, file_bytes })
    }
}

/// A leaf's entry in the directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LeafEntry {
    pub(crate) rows: u32,
    /// Largest distance (not squared) of a row to the centroid. 0 in a flat segment.
    pub(crate) reach: f32,
    /// Says of which leaf of the partition these rows are; `None` before version 3.
    pub(crate) number: Option<u64>,
    pub(crate) centroid: Arc<StoredCentroid>,
}

/// An id block's entry in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdEntry {
    /// Smallest id of the block.
    pub(crate) first: u64,
    /// Length with its checksum.
    pub(crate) bytes: u32,
}

/// The directory of a segment: everything that an open segment keeps in memory, except the codes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meta {
    pub(crate) rows: u64,
    pub(crate) digest: u128,
    pub(crate) codes: (u64, u64),
    pub(crate) leaves: Vec<LeafEntry>,
    /// Lengths in bytes, with checksums.
    pub(crate) row_blocks: Vec<u32>,
    pub(crate) id_blocks: Vec<IdEntry>,
    /// Length of the directory of fields with its checksum; 0 without fields.
    pub(crate) fields_bytes: u32,
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.codes.0.to_le_bytes());
        out.extend_from_slice(&self.codes.1.to_le_bytes());
        for n in [self.leaves.len(), self.row_blocks.len(), self.id_blocks.len()] {
            out.extend_from_slice(&(n as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.fields_bytes.to_le_bytes());
        for leaf in &self.leaves {
            out.extend_from_slice(&leaf.rows.to_le_bytes());
            for x in [leaf.reach, leaf.centroid.low, leaf.centroid.step] {
                out.extend_from_slice(&x.to_le_bytes());
            }
            leaf.number.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            out.extend_from_slice(&leaf.centroid.steps);
        }
        self.row_blocks.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes()));
        for block in &self.id_blocks {
            out.extend_from_slice(&block.first.to_le_bytes());
            out.extend_from_slice(&block.bytes.to_le_bytes());
        }
        out
    }

    /// Reads a meta block. Checks its counts against each other and against its length before it
    /// allocates memory for them.
    pub(crate) fn decode(header: &Header, bytes: &[u8]) -> Result<Meta, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (rows, digest) = (input.u64()?, input.u128()?);
        let codes = (input.u64()?, input.u64()?);
        let (leaves, row_blocks) = (input.u32()?, input.u32()?);
        let (id_blocks, fields_bytes) = (input.u32()?, input.u32()?);
        let length = u64::from(leaves) * header.leaf_bytes() as u64
            + u64::from(row_blocks) * 4
            + u64::from(id_blocks) * 12;
        if length != input.left() as u64 || header.has_fields != (fields_bytes > 0) {
            return Err(Malformed("the directory is not as long as its counts say"));
        }
        if rows > ROWS_MAX || u64::from(id_blocks) != rows.div_ceil(ID_ROWS as u64) {
            return Err(Malformed("the number of rows is out of range"));
        }
        let mut meta = Meta {
            rows,
            digest,
            codes,
            leaves: Vec::with_capacity(leaves as usize),
            row_blocks: Vec::with_capacity(row_blocks as usize),
            id_blocks: Vec::with_capacity(id_blocks as usize),
            fields_bytes,
        };
        for _ in 0..leaves {
            meta.leaves.push(LeafEntry::take(&mut input, header)?);
        }
        for _ in 0..row_blocks {
            meta.row_blocks.push(input.u32()?);
        }
        for _ in 0..id_blocks {
            meta.id_blocks.push(IdEntry { first: input.u64()?, bytes: input.u32()? });
        }
        meta.check(header)?;
        Ok(meta)
    }

    fn check(&self, header: &Header) -> Result<(), Malformed> {
        let rows: u64 = self.leaves.iter().map(|leaf| u64::from(leaf.rows)).sum();
        let blocks: u64 =
            self.leaves.iter().map(|leaf| u64::from(leaf.rows).div_ceil(BLOCK_ROWS as u64)).sum();
        if rows != self.rows || blocks != self.row_blocks.len() as u64 {
            return Err(Malformed("the rows of the leaves do not add up"));
        }
        if self.leaves.iter().any(|leaf| leaf.rows == 0) {
            return Err(Malformed("a leaf without rows"));
        }
        let mut numbers: Vec<u64> = self.leaves.iter().filter_map(|leaf| leaf.number).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Malformed("two leaves with one number"));
        }
        let most = header.row_block_bytes_max();
        if self.row_blocks.iter().any(|&bytes| bytes as usize > most) {
            return Err(Malformed("a row block is longer than its rows"));
        }
        let columns = if header.has_fields { 4 } else { 3 };
        let most = columns * (COLUMN_HEAD + 8 * ID_ROWS) + CHECKSUM_BYTES;
        let ascending = self.id_blocks.windows(2).all(|pair| pair[0].first < pair[1].first);
        if !ascending || self.id_blocks.iter().any(|block| block.bytes as usize > most) {
            return Err(Malformed("the id blocks are out of order or too long"));
        }
        Ok(())
    }
}

impl LeafEntry {
    fn take(input: &mut ByteReader<'_>, header: &Header) -> Result<LeafEntry, Malformed> {
        let rows = input.u32()?;
        let (reach, low, step) = (finite(input)?, finite(input)?, finite(input)?);
        let number = if header.is_numbered { Some(input.u64()?) } else { None };
        let steps = if header.kind == SegmentKind::Cluster { header.padded() } else { 0 };
        let steps = input.bytes(steps).map_err(|_| Malformed("a centroid is cut short"))?;
        if reach < 0.0 || step < 0.0 {
            return Err(Malformed("a negative reach or step"));
        }
        let centroid = Arc::new(StoredCentroid::new(low, step, steps.into()));
        Ok(LeafEntry { rows, reach, number, centroid })
    }
}

/// Appends the keys of a row block; the coded vectors follow them.
pub(crate) fn put_keys(out: &mut Vec<u8>, keys: &[RowKey]) {
    column::put(out, keys.iter().map(|key| key.id));
    column::put(out, keys.iter().map(|key| key.version));
    column::put(out, keys.iter().map(|key| key.code));
    column::put(out, keys.iter().map(|key| u64::from(key.shard)));
}

/// A row block in the bytes of its payload.
pub(crate) struct RowBlock<'a> {
    ids: Column<'a>,
    versions: Column<'a>,
    codes: Column<'a>,
    shards: Column<'a>,
    /// Coded vectors, for a codec to decode.
    pub(crate) vectors: &'a [u8],
}

impl<'a> RowBlock<'a> {
    /// * `rows`: number of rows, from the directory.
    pub(crate) fn decode(bytes: &'a [u8], rows: usize) -> Result<RowBlock<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (ids, versions) = (Column::take(&mut input, rows)?, Column::take(&mut input, rows)?);
        let (codes, shards) = (Column::take(&mut input, rows)?, Column::take(&mut input, rows)?);
        Ok(RowBlock { ids, versions, codes, shards, vectors: input.rest() })
    }

    pub(crate) fn key(&self, row: usize) -> RowKey {
        RowKey {
            id: self.ids.get(row),
            version: self.versions.get(row),
            code: self.codes.get(row),
            shard: self.shards.get(row) as u16,
        }
    }
}

/// A row of the id area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdRow {
    pub(crate) id: u64,
    pub(crate) version: u64,
    pub(crate) row: u32,
}

/// Encodes the payload of an id block.
///
/// * `checks`: the check of each row of the segment, if rows may have fields.
pub(crate) fn encode_ids(rows: &[IdRow], checks: Option<&[u64]>) -> Vec<u8> {
    let mut out = Vec::new();
    column::put(&mut out, rows.iter().map(|row| row.id));
    column::put(&mut out, rows.iter().map(|row| row.version));
    column::put(&mut out, rows.iter().map(|row| u64::from(row.row)));
    if let Some(checks) = checks {
        column::put(&mut out, rows.iter().map(|row| checks[row.row as usize]));
    }
    out
}

/// An id block in the bytes of its payload.
pub(crate) struct IdBlock<'a> {
    rows: usize,
    ids: Column<'a>,
    versions: Column<'a>,
    numbers: Column<'a>,
    checks: Option<Column<'a>>,
}

impl<'a> IdBlock<'a> {
    /// * `has_checks`: true if rows may have fields.
    pub(crate) fn decode(
        bytes: &'a [u8],
        rows: usize,
        has_checks: bool,
    ) -> Result<IdBlock<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (ids, versions) = (Column::take(&mut input, rows)?, Column::take(&mut input, rows)?);
        let numbers = Column::take(&mut input, rows)?;
        let checks = match has_checks {
            true => Some(Column::take(&mut input, rows)?),
            false => None,
        };
        if !input.is_empty() {
            return Err(Malformed("bytes are left over in an id block"));
        }
        Ok(IdBlock { rows, ids, versions, numbers, checks })
    }

    pub(crate) fn get(&self, at: usize) -> IdRow {
        let row = self.numbers.get(at) as u32;
        IdRow { id: self.ids.get(at), version: self.versions.get(at), row }
    }

    /// The high half of the hash of the name of the row; 0 without a name.
    pub(crate) fn check(&self, at: usize) -> u64 {
        self.checks.map_or(0, |checks| checks.get(at))
    }

    /// The position of an id.
    pub(crate) fn find(&self, id: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = (low + high) / 2;
            match self.ids.get(middle).cmp(&id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }
}
