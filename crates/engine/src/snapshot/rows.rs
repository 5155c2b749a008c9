//! The files of rows of a snapshot. Little-endian.
//!
//! ```text
//! shard-NNN.rows   header 32 B: magic "VSTRROWS" | u32 format | u32 dimension | u8 metric
//!                               | u8 element | u16 shard | u32 bytes of the schema | u64 0
//!                  schema:      as in `vstream_attribute`; nothing in format 1
//!                  rows:        u64 id | u64 version | u64 code | in format 3: u32 leaf
//!                               | dimension x element
//!                               with a schema: u32 bytes of the fields | fields, as in
//!                               `field_bytes.rs`
//!                  footer 24 B: u64 rows | u64 length of the file | u64 XXH3-64 of all before
//! ```
//!
//! Format 2 is written only for a collection with a schema. Format 3 is that of base images: it says of
//! each row in which leaf of the index it was, and the rows are in the order of these leaves; those in
//! none (`u32::MAX`) come last. It has a schema or none. Under cosine a snapshot holds normalised
//! rows; it holds them as `f32` if the collection's element is an integer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vstream_attribute::{Fields, Schema};
use vstream_index::IndexRow;
use vstream_store::Store;
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{with_number, Element, Metric, Number, Widen};
use xxhash_rust::xxh3::Xxh3;

use super::format::{FORMAT, FORMAT_PLAIN};
use super::{read_exactly, SnapshotFile};
use crate::error::Error;
use crate::field_bytes::{self, FIELDS_BYTES_MAX};
use crate::records::{check_format, RecordWriter, Written, FOOTER};
use crate::row::Row;
use crate::settings::Settings;

const ROWS_MAGIC: &[u8; 8] = b"VSTRROWS";
/// The format of files that say the leaf of each row.
const FORMAT_LEAVES: u32 = 3;
/// The leaf of a row that is in none.
const NO_LEAF: u32 = u32::MAX;
const HEADER: usize = 32;
const ROW_KEY: usize = 24;
/// Most bytes of a schema: 256 attributes with names of 128 bytes, and what stands before them.
const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Bytes of a row before its vector.
fn row_key(has_leaves: bool) -> usize {
    ROW_KEY + if has_leaves { size_of::<u32>() } else { 0 }
}

/// Returns the name of a shard's file.
pub(crate) fn file_name(shard: u16) -> String {
    format!("shard-{shard:03}.rows")
}

/// The shard of a file with this name; `None` if no shard's file has it.
pub(crate) fn shard_of_file(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("shard-")?.strip_suffix(".rows")?;
    let shard = digits.parse().ok()?;
    (file_name(shard) == name).then_some(shard)
}

pub(super) fn is_file_name(name: &str) -> bool {
    name.strip_prefix("shard-").and_then(|rest| rest.strip_suffix(".rows")).is_some()
}

pub(crate) fn stored_element(settings: &Settings) -> Element {
    settings.index_settings().element
}

/// Writes one shard's file.
pub(crate) struct RowFileWriter {
    out: RecordWriter,
    shard: u16,
    has_fields: bool,
    has_leaves: bool,
    /// The leaf of the last row.
    leaf: u32,
}

impl RowFileWriter {
    /// Begins `name` in `store`.
    ///
    /// * `has_leaves`: whether the file says the leaf of each row.
    pub(crate) fn create(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        (shard, has_leaves): (u16, bool),
    ) -> Result<RowFileWriter, Error> {
        let has_fields = !settings.schema.is_plain();
        let mut schema = Vec::new();
        if has_fields {
            settings.schema.encode(&mut schema);
        }
        let mut header = Vec::with_capacity(HEADER + schema.len());
        header.extend_from_slice(ROWS_MAGIC);
        let format = match (has_leaves, has_fields) {
            (true, _) => FORMAT_LEAVES,
            (false, true) => FORMAT,
            (false, false) => FORMAT_PLAIN,
        };
        header.extend_from_slice(&format.to_le_bytes());
        header.extend_from_slice(&(settings.dimension as u32).to_le_bytes());
        header.extend_from_slice(&[settings.metric.tag(), stored_element(settings).tag()]);
        header.extend_from_slice(&shard.to_le_bytes());
        header.extend_from_slice(&(schema.len() as u32).to_le_bytes());
        header.resize(HEADER, 0);
        header.extend_from_slice(&schema);
        let out = RecordWriter::create(store, name, &header)?;
        Ok(RowFileWriter { out, shard, has_fields, has_leaves, leaf: 0 })
    }

    /// Appends a row. Rows come in the order of their leaves, and those in none come last.
    pub(crate) fn push(&mut self, leaf: Option<u32>, row: &IndexRow<'_>) -> Result<(), Error> {
        let IndexRow { key, vector, fields } = row;
        let (has_fields, has_leaves) = (self.has_fields, self.has_leaves);
        let leaf = leaf.unwrap_or(NO_LEAF);
        assert!(!has_leaves || leaf >= self.leaf, "rows come in the order of their leaves");
        self.leaf = leaf;
        self.out.push(|record| {
            for word in [key.id, key.version, key.code] {
                record.extend_from_slice(&word.to_le_bytes());
            }
            if has_leaves {
                record.extend_from_slice(&leaf.to_le_bytes());
            }
            vector.put(record);
            if has_fields {
                record.extend_from_slice(&(field_bytes::bytes_of(fields) as u32).to_le_bytes());
                field_bytes::put(fields, record);
            }
        })
    }

    pub(crate) fn finish(self) -> Result<SnapshotFile, Error> {
        let Written { records, bytes, checksum } = self.out.finish()?;
        Ok(SnapshotFile { shard: self.shard, rows: records, bytes, checksum })
    }
}

/// Reads a stored vector of `out.len()` elements.
pub(crate) fn read_vector(element: Element, bytes: &[u8], out: &mut [f32]) {
    with_number!(element, N => {
        for (x, bytes) in out.iter_mut().zip(bytes.chunks_exact(size_of::<N>())) {
            *x = N::take(bytes).widen();
        }
    });
}

/// What the footer of a verified file says.
pub(super) struct Footer {
    pub(super) rows: u64,
    pub(super) checksum: u64,
}

impl Footer {
    /// The bytes of the footer of a file of that length.
    pub(super) fn encode(&self, bytes: u64) -> [u8; FOOTER] {
        let mut out = [0; FOOTER];
        for (out, word) in out.chunks_exact_mut(8).zip([self.rows, bytes, self.checksum]) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// Reads a file once and verifies its checksum.
pub(super) fn verify_file(path: &Path, reader: &mut dyn Read, bytes: u64) -> Result<Footer, Error> {
    if bytes < (HEADER + FOOTER) as u64 {
        return Err(Error::corrupt(path, format!("only {bytes} bytes long, torn or not ours")));
    }
    let mut hash = Xxh3::new();
    let mut left = bytes - FOOTER as u64;
    let mut buffer = vec![0u8; 1 << 18];
    while left > 0 {
        let part = buffer.len().min(left as usize);
        read_exactly(path, reader, &mut buffer[..part])?;
        hash.update(&buffer[..part]);
        left -= part as u64;
    }
    let mut footer = [0u8; FOOTER];
    read_exactly(path, reader, &mut footer)?;
    hash.update(&footer[..FOOTER - 8]);
    let mut input = ByteReader::new(&footer);
    let mut words = || -> Result<_, Truncated> { Ok((input.u64()?, input.u64()?, input.u64()?)) };
    let (rows, length, checksum) = words().map_err(|at| Error::truncated(path, at))?;
    if hash.digest() != checksum {
        return Err(Error::corrupt(path, "the checksum at its end does not match its content"));
    }
    if length != bytes {
        return Err(Error::corrupt(path, "its length is not the one that its footer says"));
    }
    Ok(Footer { rows, checksum })
}

/// Decodes the rows of a verified file.
pub(super) struct RowDecoder {
    path: PathBuf,
    element: Element,
    shard: u16,
    schema: Arc<Schema>,
    has_fields: bool,
    has_leaves: bool,
    /// Rows that are not read yet, and their bytes.
    left: u64,
    left_bytes: u64,
    /// The row that was read last, and its leaf.
    bytes: Vec<u8>,
    leaf: u32,
    vector: Vec<f32>,
}

/// The header of a file of rows, after its format.
struct Header {
    dimension: usize,
    metric: u8,
    element: u8,
    shard: u16,
    schema_bytes: usize,
}

impl Header {
    fn take(input: &mut ByteReader<'_>) -> Result<Header, Truncated> {
        Ok(Header {
            dimension: input.u32()? as usize,
            metric: input.u8()?,
            element: input.u8()?,
            shard: input.u16()?,
            schema_bytes: input.u32()? as usize,
        })
    }
}

impl RowDecoder {
    pub(super) fn open(
        path: &Path,
        settings: &Settings,
        (bytes, footer): (u64, &Footer),
        reader: &mut dyn Read,
    ) -> Result<RowDecoder, Error> {
        let mut header = [0u8; HEADER];
        read_exactly(path, reader, &mut header)?;
        let mut input = ByteReader::new(&header);
        let format = check_format(path, &mut input, ROWS_MAGIC, FORMAT_LEAVES)?;
        let header = Header::take(&mut input).map_err(|at| Error::truncated(path, at))?;
        let Header { dimension, shard, schema_bytes, .. } = header;
        let element = check_form(path, settings, &header)?;
        let has_leaves = format == FORMAT_LEAVES;
        let has_fields = format == FORMAT || (has_leaves && schema_bytes > 0);
        let row = (row_key(has_leaves) + dimension * element.bytes()) as u64;
        let mut body = bytes - (HEADER + FOOTER) as u64;
        let mut schema = Schema::default();
        if has_fields {
            if schema_bytes > SCHEMA_BYTES_MAX || schema_bytes as u64 > body {
                return Err(Error::corrupt(path, "its schema is longer than any"));
            }
            let mut bytes = vec![0; schema_bytes];
            read_exactly(path, reader, &mut bytes)?;
            schema = Schema::decode(&bytes).map_err(|what| Error::corrupt(path, what))?;
            body -= schema_bytes as u64;
        } else if footer.rows.checked_mul(row) != Some(body) {
            return Err(Error::corrupt(path, "its length is not that of its number of rows"));
        }
        Ok(RowDecoder {
            path: path.to_owned(),
            element,
            shard,
            schema: Arc::new(schema),
            has_fields,
            has_leaves,
            left: footer.rows,
            left_bytes: body,
            bytes: Vec::new(),
            leaf: 0,
            vector: vec![0.0; dimension],
        })
    }

    /// Returns the number of rows that are not read yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The file that they are of.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The schema of the collection whose rows these are.
    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The leaf of the row that was read last; `None` if it was in none, or if the file does not say.
    pub(super) fn leaf(&self) -> Option<u32> {
        (self.has_leaves && self.leaf != NO_LEAF).then_some(self.leaf)
    }

    fn vector_end(&self) -> usize {
        row_key(self.has_leaves) + self.vector.len() * self.element.bytes()
    }

    /// Reads the next row; false if there is none.
    pub(super) fn advance(&mut self, reader: &mut dyn Read) -> Result<bool, Error> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let vector_end = self.vector_end();
        self.read(reader, 0, vector_end)?;
        if self.has_fields {
            self.read(reader, vector_end, 4)?;
            let mut length = ByteReader::new(&self.bytes[vector_end..]);
            let length = length.u32().map_err(|at| Error::truncated(&self.path, at))? as usize;
            if length > FIELDS_BYTES_MAX {
                return Err(self.corrupt("the fields of a row are longer than any"));
            }
            self.read(reader, vector_end, length)?;
        }
        if self.left == 0 && self.left_bytes > 0 {
            return Err(self.corrupt("bytes are left over after its rows"));
        }
        if self.has_leaves {
            let mut leaf = ByteReader::new(&self.bytes[ROW_KEY..]);
            let leaf = leaf.u32().map_err(|at| Error::truncated(&self.path, at))?;
            if leaf < self.leaf {
                return Err(self.corrupt("its rows are not in the order of their leaves"));
            }
            self.leaf = leaf;
        }
        Ok(true)
    }

    /// The id of the row that was read last.
    pub(super) fn id(&self) -> Result<u64, Error> {
        let mut input = ByteReader::new(&self.bytes);
        input.u64().map_err(|at| Error::truncated(&self.path, at))
    }

    /// Decodes the row that was read last.
    pub(super) fn row(&mut self) -> Result<Row<'_>, Error> {
        let (start, rest) = self.bytes.split_at(self.vector_end());
        let mut input = ByteReader::new(start);
        let mut key = || -> Result<_, Truncated> { Ok((input.u64()?, input.u64()?, input.u64()?)) };
        let (id, version, code) = key().map_err(|at| Error::truncated(&self.path, at))?;
        read_vector(self.element, &start[row_key(self.has_leaves)..], &mut self.vector);
        let mut input = ByteReader::new(rest);
        let fields = match self.has_fields {
            true => field_bytes::take(&mut input).filter(|_| input.is_empty()),
            false => Some(Fields::NONE),
        };
        let Some(fields) = fields else {
            return Err(self.corrupt("the fields of a row cannot be"));
        };
        let (shard, vector) = (self.shard, &self.vector);
        Ok(Row { id, version, code, shard, vector, fields })
    }

    /// Reads the next bytes of the file to `self.bytes`, from `at` on.
    fn read(&mut self, reader: &mut dyn Read, at: usize, bytes: usize) -> Result<(), Error> {
        let Some(left) = self.left_bytes.checked_sub(bytes as u64) else {
            return Err(self.corrupt("its rows are longer than the file"));
        };
        self.left_bytes = left;
        self.bytes.resize(at + bytes, 0);
        read_exactly(&self.path, reader, &mut self.bytes[at..])
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(&self.path, what)
    }
}

/// Checks that the rows of a file are of the collection's dimension, metric and element.
fn check_form(path: &Path, settings: &Settings, header: &Header) -> Result<Element, Error> {
    let unknown = |what, tag| Error::corrupt(path, format!("unknown {what} tag {tag}"));
    let dimension = header.dimension;
    let metric = Metric::from_tag(header.metric).ok_or_else(|| unknown("metric", header.metric))?;
    let element =
        Element::from_tag(header.element).ok_or_else(|| unknown("element", header.element))?;
    let fits = dimension == settings.dimension
        && metric == settings.metric
        && element == stored_element(settings);
    if fits {
        return Ok(element);
    }
    Err(Error::invalid(format!(
        "{} holds {dimension}-dimensional {element} rows for {metric}, the settings say \
         {}-dimensional {} rows for {}",
        path.display(),
        settings.dimension,
        stored_element(settings),
        settings.metric
    )))
}
