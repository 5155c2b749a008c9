//! The manifest of a snapshot. Little-endian.
//!
//! ```text
//! MANIFEST         magic "VSTRMANI" | u32 format | u32 dimension | u8 metric | u8 element
//!                  | u16 0 | u32 files | u64 rows | u128 digest
//!                  files: u16 shard | u16 0 | u32 0 | u64 rows | u64 bytes | u64 XXH3-64
//!                  in format 2: u32 bytes of the schema | schema, as in `vstream_attribute`
//!                  footer 8 B: u64 XXH3-64 of all before
//! ```
//!
//! Format 2 is written only for a collection with a schema. `rows.rs` has the bytes of the files.

use std::path::Path;
use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use super::{SnapshotFile, SnapshotSummary};
use crate::error::Error;
use crate::records::{check_format, checked};
use crate::settings::{Settings, DIMENSION_MAX};

const MANIFEST_MAGIC: &[u8; 8] = b"VSTRMANI";
/// The format of a collection without a schema, and the newest.
pub(super) const FORMAT_PLAIN: u32 = 1;
pub(super) const FORMAT: u32 = 2;
const MANIFEST_HEADER: usize = 48;
const MANIFEST_FILE: usize = 32;

pub(super) fn encode_manifest(summary: &SnapshotSummary) -> Vec<u8> {
    let mut out = Vec::with_capacity(MANIFEST_HEADER + MANIFEST_FILE * summary.files.len() + 8);
    out.extend_from_slice(MANIFEST_MAGIC);
    let format = if summary.schema.is_plain() { FORMAT_PLAIN } else { FORMAT };
    out.extend_from_slice(&format.to_le_bytes());
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
    if format == FORMAT {
        let mut schema = Vec::new();
        summary.schema.encode(&mut schema);
        out.extend_from_slice(&(schema.len() as u32).to_le_bytes());
        out.extend_from_slice(&schema);
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
    let format = check_format(path, &mut input, MANIFEST_MAGIC, FORMAT)?;
    let truncated = |at| Error::truncated(path, at);
    let header = ManifestHeader::take(&mut input).map_err(truncated)?;
    let unfit = || Error::corrupt(path, "its length does not fit its number of files");
    let files = header.files.saturating_mul(MANIFEST_FILE);
    let mut input_files = input.split(files).map_err(|_| unfit())?;
    let schema = if format == FORMAT {
        let bytes = input.u32().map_err(truncated)? as usize;
        let schema = Schema::decode(input.bytes(bytes).map_err(truncated)?);
        schema.map_err(|what| Error::corrupt(path, what))?
    } else {
        Schema::default()
    };
    if !input.is_empty() {
        return Err(unfit());
    }
    let ManifestHeader { dimension, metric, element, rows, digest, .. } = header;
    let (metric, element) = (Metric::from_tag(metric), Element::from_tag(element));
    let (Some(metric), Some(element), 1..=DIMENSION_MAX) = (metric, element, dimension) else {
        return Err(Error::corrupt(path, "dimension, metric or element is out of range"));
    };
    let files = (0..header.files).map(|_| take_file(&mut input_files));
    let files: Vec<SnapshotFile> = files.collect::<Result<_, _>>().map_err(truncated)?;
    if files.iter().try_fold(0u64, |sum, f| sum.checked_add(f.rows)) != Some(rows) {
        return Err(Error::corrupt(path, "the files' rows do not add up to its count"));
    }
    let schema = Arc::new(schema);
    Ok(SnapshotSummary { dimension, metric, element, schema, rows, digest, files })
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
