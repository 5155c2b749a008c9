//! The bytes of a snapshot. Little-endian throughout.
//!
//! ```text
//! shard-NNN.rows   header 32 B: magic "VSTRROWS" | u32 format | u32 dimension | u8 metric
//!                               | u8 element | u16 shard | u32 0 | u64 0
//!                  rows:        u64 id | u64 version | u64 code | dimension x element
//!                  footer 24 B: u64 rows | u64 length of the file | u64 XXH3-64 of all before
//! MANIFEST         magic "VSTRMANI" | u32 format | u32 dimension | u8 metric | u8 element
//!                  | u16 0 | u32 files | u64 rows | u128 digest
//!                  files: u16 shard | u16 0 | u32 0 | u64 rows | u64 bytes | u64 XXH3-64
//!                  footer 8 B: u64 XXH3-64 of all before
//! ```
//!
//! Under cosine a snapshot holds normalised rows; it holds them as `f32` if the collection's
//! element is an integer.

use std::io::Read;
use std::path::{Path, PathBuf};

use vstream_attribute::Fields;
use vstream_index::IndexRow;
use vstream_store::Store;
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{with_number, Element, Metric, Number, Widen};
use xxhash_rust::xxh3::{xxh3_64, Xxh3};

use super::{read_exactly, SnapshotFile, SnapshotSummary};
use crate::error::Error;
use crate::records::{check_format, checked, RecordWriter, Written, FOOTER};
use crate::row::Row;
use crate::settings::{Settings, DIMENSION_MAX};

const ROWS_MAGIC: &[u8; 8] = b"VSTRROWS";
const MANIFEST_MAGIC: &[u8; 8] = b"VSTRMANI";
const FORMAT: u32 = 1;
const HEADER: usize = 32;
const ROW_KEY: usize = 24;
const MANIFEST_HEADER: usize = 48;
const MANIFEST_FILE: usize = 32;

/// Returns the name of a shard's file.
pub(crate) fn file_name(shard: u16) -> String {
    format!("shard-{shard:03}.rows")
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
}

impl RowFileWriter {
    /// Begins `name` in `store`.
    pub(crate) fn create(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        shard: u16,
    ) -> Result<RowFileWriter, Error> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(ROWS_MAGIC);
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&(settings.dimension as u32).to_le_bytes());
        header.extend_from_slice(&[settings.metric.tag(), stored_element(settings).tag()]);
        header.extend_from_slice(&shard.to_le_bytes());
        header.resize(HEADER, 0);
        Ok(RowFileWriter { out: RecordWriter::create(store, name, &header)?, shard })
    }

    pub(crate) fn push(&mut self, row: &IndexRow<'_>) -> Result<(), Error> {
        let IndexRow { key, vector, .. } = row;
        self.out.push(|record| {
            for word in [key.id, key.version, key.code] {
                record.extend_from_slice(&word.to_le_bytes());
            }
            vector.put(record);
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

/// Reads a file once and verifies its checksum; returns the checksum.
pub(super) fn verify_file(path: &Path, reader: &mut dyn Read, bytes: u64) -> Result<u64, Error> {
    if bytes < (HEADER + FOOTER) as u64 {
        return Err(Error::corrupt(path, format!("only {bytes} bytes long, torn or not ours")));
    }
    let mut hash = Xxh3::new();
    let mut left = bytes - 8;
    let mut buffer = vec![0u8; 1 << 18];
    while left > 0 {
        let part = buffer.len().min(left as usize);
        read_exactly(path, reader, &mut buffer[..part])?;
        hash.update(&buffer[..part]);
        left -= part as u64;
    }
    let mut stored = [0u8; 8];
    read_exactly(path, reader, &mut stored)?;
    let checksum = u64::from_le_bytes(stored);
    if hash.digest() != checksum {
        return Err(Error::corrupt(path, "the checksum at its end does not match its content"));
    }
    Ok(checksum)
}

/// Decodes the rows of a verified file.
pub(super) struct RowDecoder {
    path: PathBuf,
    element: Element,
    shard: u16,
    left: u64,
    bytes: Vec<u8>,
    vector: Vec<f32>,
}

impl RowDecoder {
    pub(super) fn open(
        path: &Path,
        settings: &Settings,
        bytes: u64,
        reader: &mut dyn Read,
    ) -> Result<RowDecoder, Error> {
        let mut header = [0u8; HEADER];
        read_exactly(path, reader, &mut header)?;
        let mut input = ByteReader::new(&header);
        check_format(path, &mut input, ROWS_MAGIC, FORMAT)?;
        let mut fields = || -> Result<_, Truncated> {
            Ok((input.u32()? as usize, input.u8()?, input.u8()?, input.u16()?))
        };
        let (dimension, metric, element, shard) =
            fields().map_err(|at| Error::truncated(path, at))?;
        let unknown = |what, tag| Error::corrupt(path, format!("unknown {what} tag {tag}"));
        let metric = Metric::from_tag(metric).ok_or_else(|| unknown("metric", metric))?;
        let element = Element::from_tag(element).ok_or_else(|| unknown("element", element))?;
        let fits = dimension == settings.dimension
            && metric == settings.metric
            && element == stored_element(settings);
        if !fits {
            return Err(Error::invalid(format!(
                "{} holds {dimension}-dimensional {element} rows for {metric}, the settings say \
                 {}-dimensional {} rows for {}",
                path.display(),
                settings.dimension,
                stored_element(settings),
                settings.metric
            )));
        }
        let row = (ROW_KEY + dimension * element.bytes()) as u64;
        let body = bytes - (HEADER + FOOTER) as u64;
        if !body.is_multiple_of(row) {
            return Err(Error::corrupt(path, "its length is not a whole number of rows"));
        }
        Ok(RowDecoder {
            path: path.to_owned(),
            element,
            shard,
            left: body / row,
            bytes: vec![0; row as usize],
            vector: vec![0.0; dimension],
        })
    }

    /// Returns the number of rows that are not decoded yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn next(&mut self, reader: &mut dyn Read) -> Result<Option<Row<'_>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        read_exactly(&self.path, reader, &mut self.bytes)?;
        let mut input = ByteReader::new(&self.bytes);
        let mut key = || -> Result<_, Truncated> { Ok((input.u64()?, input.u64()?, input.u64()?)) };
        let (id, version, code) = key().map_err(|at| Error::truncated(&self.path, at))?;
        read_vector(self.element, input.rest(), &mut self.vector);
        Ok(Some(Row {
            id,
            version,
            code,
            shard: self.shard,
            vector: &self.vector,
            fields: Fields::NONE,
        }))
    }
}

pub(super) fn encode_manifest(summary: &SnapshotSummary) -> Vec<u8> {
    let mut out = Vec::with_capacity(MANIFEST_HEADER + MANIFEST_FILE * summary.files.len() + 8);
    out.extend_from_slice(MANIFEST_MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&(summary.dimension as u32).to_le_bytes());
    out.extend_from_slice(&[summary.metric.tag(), summary.element.tag(), 0, 0]);
    out.extend_from_slice(&(summary.files.len() as u32).to_le_bytes());
    out.extend_from_slice(&summary.rows.to_le_bytes());
    out.extend_from_slice(&summary.digest.to_le_bytes());
    for file in &summary.files {
        out.extend_from_slice(&file.shard.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        for word in [file.rows, file.bytes, file.checksum] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

pub(super) fn decode_manifest(path: &Path, bytes: &[u8]) -> Result<SnapshotSummary, Error> {
    if bytes.len() < MANIFEST_HEADER + 8 {
        return Err(Error::corrupt(path, "too short for a manifest"));
    }
    let body = checked(bytes).ok_or_else(|| {
        Error::corrupt(path, "the checksum at its end does not match its content")
    })?;
    let mut input = ByteReader::new(body);
    check_format(path, &mut input, MANIFEST_MAGIC, FORMAT)?;
    let truncated = |at| Error::truncated(path, at);
    let header = ManifestHeader::take(&mut input).map_err(truncated)?;
    if input.left() != header.files.saturating_mul(MANIFEST_FILE) {
        return Err(Error::corrupt(path, "its length does not fit its number of files"));
    }
    let ManifestHeader { dimension, metric, element, rows, digest, .. } = header;
    let (metric, element) = (Metric::from_tag(metric), Element::from_tag(element));
    let (Some(metric), Some(element), 1..=DIMENSION_MAX) = (metric, element, dimension) else {
        return Err(Error::corrupt(path, "dimension, metric or element is out of range"));
    };
    let files = (0..header.files).map(|_| take_file(&mut input));
    let files: Vec<SnapshotFile> = files.collect::<Result<_, _>>().map_err(truncated)?;
    if files.iter().try_fold(0u64, |sum, f| sum.checked_add(f.rows)) != Some(rows) {
        return Err(Error::corrupt(path, "the files' rows do not add up to its count"));
    }
    Ok(SnapshotSummary { dimension, metric, element, rows, digest, files })
}

/// The fields of a manifest between its format and its files.
struct ManifestHeader {
    dimension: usize,
    metric: u8,
    element: u8,
    files: usize,
    rows: u64,
    digest: u128,
}

impl ManifestHeader {
    fn take(input: &mut ByteReader<'_>) -> Result<ManifestHeader, Truncated> {
        let dimension = input.u32()? as usize;
        let [metric, element, ..] = input.array::<4>()?;
        let files = input.u32()? as usize;
        let (rows, digest) = (input.u64()?, input.u128()?);
        Ok(ManifestHeader { dimension, metric, element, files, rows, digest })
    }
}

fn take_file(input: &mut ByteReader<'_>) -> Result<SnapshotFile, Truncated> {
    let shard = input.u16()?;
    input.skip(6)?;
    let (rows, bytes, checksum) = (input.u64()?, input.u64()?, input.u64()?);
    Ok(SnapshotFile { shard, rows, bytes, checksum })
}

/// Errors if a snapshot belongs to another collection: dimension, metric or element differ.
pub(super) fn check_collection(
    path: &Path,
    settings: &Settings,
    summary: &SnapshotSummary,
) -> Result<(), Error> {
    let same = (summary.dimension, summary.metric, summary.element)
        == (settings.dimension, settings.metric, settings.element);
    if same {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is of a {}-dimensional {} collection for {}, the settings say {}-dimensional {} for {}",
        path.display(),
        summary.dimension,
        summary.element,
        summary.metric,
        settings.dimension,
        settings.element,
        settings.metric
    )))
}
