//! The bytes of a captured state. Little-endian throughout; rows are those of a snapshot's files.
//!
//! ```text
//! changes    header 32 B: magic "VSTRCHNG" | u32 format | u32 dimension | u8 metric | u8 element
//!                         | u16 0 | u32 0 | u64 number of the capture
//!            records:     u64 id | u64 version | u64 code | u16 shard | u16 kind | u32 0
//!                         kind 1, an upsert: dimension x element; kind 2, a delete: nothing
//!            footer 24 B: u64 records | u64 length of the file | u64 XXH3-64 of all before
//! manifest   header 80 B: magic "VSTRCAPT" | u32 format | u32 dimension | u8 metric | u8 element
//!                         | u16 first shard | u16 last shard | u16 0 | u32 row files
//!                         | u32 change files | u64 number | u64 live | u128 digest | u64 0 | u64 0
//!            row files:   u16 shard | u16 0 | u32 0 | u64 number | u64 bytes | u64 XXH3-64
//!            change files:                           u64 number | u64 bytes | u64 XXH3-64
//!            footer 8 B:  u64 XXH3-64 of all before
//! ```
//!
//! A row file of 0 bytes stands for a shard that held nothing: there is no such file.

use std::path::Path;

use vstream_index::{RowKey, VectorRef};
use vstream_store::Store;
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use super::{FileId, Manifest, Tally};
use crate::error::Error;
use crate::records::{check_format, RecordWriter, FOOTER};
use crate::settings::{Settings, DIMENSION_MAX};
use crate::snapshot::{read_vector, stored_element};
use crate::words::{u16_at, u32_at, u64_at};

const CHANGES_MAGIC: &[u8; 8] = b"VSTRCHNG";
const MANIFEST_MAGIC: &[u8; 8] = b"VSTRCAPT";
const FORMAT: u32 = 1;
const HEADER: usize = 32;
const RECORD: usize = 32;
const UPSERT: u16 = 1;
const DELETE: u16 = 2;
const MANIFEST_HEADER: usize = 80;
const ROW_FILE: usize = 32;
const CHANGE_FILE: usize = 24;

/// Writes one change file.
pub(super) struct ChangeWriter(RecordWriter);

impl ChangeWriter {
    /// Begins `name` in `store`.
    pub(super) fn create(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        number: u64,
    ) -> Result<ChangeWriter, Error> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(CHANGES_MAGIC);
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&(settings.dimension as u32).to_le_bytes());
        header.extend_from_slice(&[settings.metric.tag(), stored_element(settings).tag()]);
        header.resize(HEADER - 8, 0);
        header.extend_from_slice(&number.to_le_bytes());
        Ok(ChangeWriter(RecordWriter::create(store, name, &header)?))
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Appends an upsert, or a delete if there is no vector.
    pub(super) fn push(
        &mut self,
        key: &RowKey,
        vector: Option<VectorRef<'_>>,
    ) -> Result<(), Error> {
        self.0.push(|record| {
            for word in [key.id, key.version, key.code] {
                record.extend_from_slice(&word.to_le_bytes());
            }
            let kind = if vector.is_some() { UPSERT } else { DELETE };
            record.extend_from_slice(&key.shard.to_le_bytes());
            record.extend_from_slice(&kind.to_le_bytes());
            record.extend_from_slice(&[0; 4]);
            if let Some(vector) = vector {
                vector.put(record);
            }
        })
    }

    /// Ends and publishes the file; returns its length and checksum.
    pub(super) fn finish(self) -> Result<(u64, u64), Error> {
        let written = self.0.finish()?;
        Ok((written.bytes, written.checksum))
    }
}

/// One record of a change file.
pub(super) struct Change<'a> {
    pub(super) key: RowKey,
    /// `None` for a delete.
    pub(super) vector: Option<&'a [f32]>,
}

/// Shows every record of a change file, whose checksum was compared, to `visit`, in order.
pub(super) fn read_changes(
    path: &Path,
    bytes: &[u8],
    settings: &Settings,
    visit: &mut dyn FnMut(&Change<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let torn = || Error::corrupt(path, "its records do not fit its length");
    if bytes.len() < HEADER + FOOTER {
        return Err(Error::corrupt(path, "too short for a file of changes"));
    }
    check_format(path, bytes, CHANGES_MAGIC, FORMAT)?;
    let element = stored_element(settings);
    let fits = u32_at(bytes, 12) as usize == settings.dimension
        && bytes[16..18] == [settings.metric.tag(), element.tag()];
    if !fits {
        return Err(Error::invalid(format!(
            "{} holds rows of another dimension, metric or element than the settings say",
            path.display()
        )));
    }
    let (mut left, footer) = bytes[HEADER..].split_at(bytes.len() - HEADER - FOOTER);
    let mut vector = vec![0.0; settings.dimension];
    let vector_bytes = settings.dimension * element.bytes();
    for _ in 0..u64_at(footer, 0) {
        let (record, rest) = left.split_at_checked(RECORD).ok_or_else(torn)?;
        let key = RowKey {
            id: u64_at(record, 0),
            version: u64_at(record, 8),
            code: u64_at(record, 16),
            shard: u16_at(record, 24),
        };
        left = match u16_at(record, 26) {
            UPSERT => {
                let (stored, rest) = rest.split_at_checked(vector_bytes).ok_or_else(torn)?;
                read_vector(element, stored, &mut vector);
                visit(&Change { key, vector: Some(&vector) })?;
                rest
            }
            DELETE => {
                visit(&Change { key, vector: None })?;
                rest
            }
            kind => return Err(Error::corrupt(path, format!("unknown kind {kind} of a record"))),
        };
    }
    if left.is_empty() {
        Ok(())
    } else {
        Err(torn())
    }
}

pub(super) fn encode_manifest(manifest: &Manifest) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(MANIFEST_MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&(manifest.dimension as u32).to_le_bytes());
    out.extend_from_slice(&[manifest.metric.tag(), manifest.element.tag()]);
    for shard in [*manifest.shards.start(), *manifest.shards.end(), 0] {
        out.extend_from_slice(&shard.to_le_bytes());
    }
    for count in [manifest.rows.len(), manifest.changes.len()] {
        out.extend_from_slice(&(count as u32).to_le_bytes());
    }
    for word in [manifest.number, manifest.tally.live] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&manifest.tally.digest.to_le_bytes());
    out.resize(MANIFEST_HEADER, 0);
    for (shard, file) in &manifest.rows {
        out.extend_from_slice(&shard.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        put_file(&mut out, file);
    }
    manifest.changes.iter().for_each(|file| put_file(&mut out, file));
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

fn put_file(out: &mut Vec<u8>, file: &FileId) {
    for word in [file.number, file.bytes, file.checksum] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Reads a manifest from bytes that nobody vouches for. Errors: `Corrupt`, `Unsupported`.
pub(super) fn decode_manifest(path: &Path, bytes: &[u8]) -> Result<Manifest, Error> {
    let corrupt = |what: &str| Error::corrupt(path, what);
    if bytes.len() < MANIFEST_HEADER + 8 {
        return Err(corrupt("too short for a manifest"));
    }
    let (body, footer) = bytes.split_at(bytes.len() - 8);
    if xxh3_64(body) != u64_at(footer, 0) {
        return Err(corrupt("the checksum at its end does not match its content"));
    }
    check_format(path, body, MANIFEST_MAGIC, FORMAT)?;
    let (rows, changes) = (u32_at(body, 24) as usize, u32_at(body, 28) as usize);
    let files = rows.saturating_mul(ROW_FILE).saturating_add(changes.saturating_mul(CHANGE_FILE));
    if body.len() - MANIFEST_HEADER != files {
        return Err(corrupt("its length does not fit its number of files"));
    }
    let dimension = u32_at(body, 12) as usize;
    let (metric, element) = (Metric::from_tag(body[16]), Element::from_tag(body[17]));
    let (Some(metric), Some(element), 1..=DIMENSION_MAX) = (metric, element, dimension) else {
        return Err(corrupt("dimension, metric or element is out of range"));
    };
    let (row_part, change_part) = body[MANIFEST_HEADER..].split_at(rows * ROW_FILE);
    let manifest = Manifest {
        dimension,
        metric,
        element,
        shards: u16_at(body, 18)..=u16_at(body, 20),
        number: u64_at(body, 32),
        tally: Tally {
            live: u64_at(body, 40),
            digest: u128::from(u64_at(body, 48)) | u128::from(u64_at(body, 56)) << 64,
        },
        rows: row_part.chunks_exact(ROW_FILE).map(|f| (u16_at(f, 0), file_at(&f[8..]))).collect(),
        changes: change_part.chunks_exact(CHANGE_FILE).map(file_at).collect(),
    };
    if !manifest.rows.keys().copied().eq(manifest.shards.clone()) || manifest.rows.len() != rows {
        return Err(corrupt("it does not name each of its shards once"));
    }
    if !manifest.changes.is_sorted_by(|a, b| a.number < b.number) {
        return Err(corrupt("its files of changes are not in order"));
    }
    Ok(manifest)
}

fn file_at(bytes: &[u8]) -> FileId {
    FileId { number: u64_at(bytes, 0), bytes: u64_at(bytes, 8), checksum: u64_at(bytes, 16) }
}
