//! The write-ahead log: records in frames. A commit appends a frame and syncs it, so all writes since
//! the last commit share one sync.
//!
//! ```text
//! header   magic 8 | u32 version | u64 identity | u64 checksum
//! frame    u32 magic | u32 bytes of records | u64 synced | records | u64 checksum
//! record   u8 kind: 1 upsert, 2 delete, 3 drop, 4 update | u16 bytes | group
//!          but for a drop: u64 id | u64 version
//!          delete: u32 seconds since 1970 UTC
//!          update: u32 bytes | attributes to set | u16 count | u16 column to unset, each |
//!                  u8 payload: 0 keep, 1 remove, 2 set, then u32 bytes | payload
//!          upsert: vector | u64 check | u16 bytes | name | u32 bytes | attributes |
//!                  u32 bytes, u32::MAX for none | payload
//! ```
//!
//! `synced` is the length of the log at its last sync. Bytes that are no frame are the torn end of
//! the log if no later frame says that they were synced; else the log was damaged.

use std::collections::VecDeque;

use vstream_attribute::{Fields, PayloadChange, Update, PAYLOAD_BYTES_MAX};
use vstream_store::blocks::{seal, unseal, BlockAddress, CHECKSUM_BYTES};
use vstream_store::{Access, Error as StoreError, FileStore, LogFile, Range, Store};
use vstream_vector::cursor::ByteReader;

use crate::error::{Error, Malformed};
use crate::run::{attributes, Content, StoredRow};

const MAGIC: &[u8; 8] = b"VSTRGLOG";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"VSGF");
const VERSION: u32 = 2;
const HEADER: usize = 20 + CHECKSUM_BYTES;
/// Bytes of a log without records.
pub(crate) const LOG_HEADER_BYTES: u64 = HEADER as u64;
const FRAME_HEAD: usize = 16;
/// Records that make a frame even without a commit.
const FRAME_BYTES: usize = 1 << 20;
/// Most bytes of records in a frame: one record may pass `FRAME_BYTES`.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + (4 << 20);
const NO_PAYLOAD: u32 = u32::MAX;

/// A write, as the log holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    /// An upsert, or a delete if there is no content.
    Row(&'a str, StoredRow<'a>),
    /// A change of what the row of an id carries beside its vector, and its new version.
    Update(&'a str, u64, u64, Update<'a>),
    /// A group is gone.
    Drop(&'a str),
}

/// The log that is being written.
pub(crate) struct Log {
    file: LogFile,
    identity: u64,
    synced: u64,
    /// Frames that had no room, the oldest first.
    full: VecDeque<Vec<u8>>,
    /// Records of the next frame, behind room for its head.
    frame: Vec<u8>,
}

fn address(identity: u64, offset: u64) -> BlockAddress {
    BlockAddress { file: identity, number: offset, version: VERSION }
}

impl Log {
    /// Creates an empty log whose header is on the disk.
    pub(crate) fn create(store: &FileStore, name: &str, identity: u64) -> Result<Log, Error> {
        // A failed attempt may have left a file of this name; no manifest names it.
        store.delete(name)?;
        let mut file = store.create_log(name)?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&identity.to_le_bytes());
        seal(address(identity, 0), &mut header);
        file.append(&header)?;
        file.sync()?;
        Ok(Log { synced: file.bytes(), file, identity, full: VecDeque::new(), frame: empty() })
    }

    /// Continues a log behind its last whole frame.
    pub(crate) fn reopen(
        store: &FileStore,
        name: &str,
        identity: u64,
        bytes: u64,
    ) -> Result<Log, Error> {
        let file = store.reopen_log(name, bytes, 0)?;
        Ok(Log { synced: bytes, file, identity, full: VecDeque::new(), frame: empty() })
    }

    /// Adds a record to the next frame. Errors: those of the file; the record is kept.
    pub(crate) fn push(&mut self, record: &Record<'_>) -> Result<(), Error> {
        put_record(&mut self.frame, record);
        if self.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            // No frame may have more than replay takes, however much waits.
            self.full.push_back(std::mem::replace(&mut self.frame, empty()));
        }
        written
    }

    /// Appends all frames. Errors: `Full`, after which it can be tried again, and those that poison
    /// the store.
    fn write(&mut self) -> Result<(), Error> {
        while let Some(frame) = self.full.front_mut() {
            append(&mut self.file, (self.identity, self.synced), frame)?;
            self.full.pop_front();
        }
        append(&mut self.file, (self.identity, self.synced), &mut self.frame)
    }

    /// Makes all records durable.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        self.write()?;
        if self.synced < self.file.bytes() {
            self.file.sync()?;
            self.synced = self.file.bytes();
        }
        Ok(())
    }

    /// Bytes of the log and of records that wait.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = self.full.iter().chain([&self.frame]);
        self.file.bytes() + waiting.map(|frame| (frame.len() - FRAME_HEAD) as u64).sum::<u64>()
    }
}

/// A frame without records.
fn empty() -> Vec<u8> {
    vec![0; FRAME_HEAD]
}

/// Appends a frame and empties it, if it has records. Errors: those of the file; the frame is as it was.
fn append(
    file: &mut LogFile,
    (identity, synced): (u64, u64),
    frame: &mut Vec<u8>,
) -> Result<(), Error> {
    let unsealed = frame.len();
    if unsealed == FRAME_HEAD {
        return Ok(());
    }
    frame[..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
    frame[4..8].copy_from_slice(&((unsealed - FRAME_HEAD) as u32).to_le_bytes());
    frame[8..FRAME_HEAD].copy_from_slice(&synced.to_le_bytes());
    seal(address(identity, file.bytes()), frame);
    let appended = file.append(frame);
    frame.truncate(if appended.is_ok() { FRAME_HEAD } else { unsealed });
    Ok(appended?)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_record(out: &mut Vec<u8>, record: &Record<'_>) {
    let (kind, group, key) = match record {
        Record::Row(group, row) => {
            (2 - u8::from(row.content.is_some()), group, Some((row.id, row.version)))
        }
        Record::Drop(group) => (3, group, None),
        Record::Update(group, id, version, _) => (4, group, Some((*id, *version))),
    };
    out.push(kind);
    put_text(out, group);
    if let Some((id, version)) = key {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
    }
    match record {
        Record::Drop(_) => {}
        Record::Update(_, _, _, update) => put_update(out, update),
        Record::Row(_, StoredRow { content: Some(content), .. }) => put_content(out, content),
        Record::Row(_, StoredRow { deleted_at, .. }) => {
            out.extend_from_slice(&deleted_at.to_le_bytes());
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_update(out: &mut Vec<u8>, update: &Update<'_>) {
    put_bytes(out, update.set.bytes());
    out.extend_from_slice(&(update.unset.len() as u16).to_le_bytes());
    update.unset.iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
    match update.payload {
        PayloadChange::Keep => out.push(0),
        PayloadChange::Remove => out.push(1),
        PayloadChange::Set(payload) => {
            out.push(2);
            put_bytes(out, payload);
        }
    }
}

fn put_content(out: &mut Vec<u8>, content: &Content<'_>) {
    let Content { vector, fields } = content;
    out.extend_from_slice(vector);
    out.extend_from_slice(&fields.check.to_le_bytes());
    put_text(out, fields.name);
    put_bytes(out, fields.attributes.bytes());
    let length = fields.payload.map_or(NO_PAYLOAD, |payload| payload.len() as u32);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(fields.payload.unwrap_or_default());
}

fn take_text<'a>(input: &mut ByteReader<'a>) -> Result<&'a str, Malformed> {
    let bytes = usize::from(input.u16()?);
    std::str::from_utf8(input.bytes(bytes)?).map_err(|_| Malformed("a name is no UTF-8"))
}

/// Reads a record and calls `apply` with it, which may fail for reasons of its own.
fn take_record(
    input: &mut ByteReader<'_>,
    vector_bytes: usize,
    apply: &mut dyn FnMut(&Record<'_>) -> Result<(), Error>,
) -> Result<Result<(), Error>, Malformed> {
    let kind = input.u8()?;
    let group = take_text(input)?;
    if kind == 3 {
        return Ok(apply(&Record::Drop(group)));
    }
    let (id, version) = (input.u64()?, input.u64()?);
    match kind {
        1 => {
            let content = Some(take_content(input, vector_bytes)?);
            let row = StoredRow { id, version, content, deleted_at: 0 };
            Ok(apply(&Record::Row(group, row)))
        }
        2 => {
            let row = StoredRow { id, version, content: None, deleted_at: input.u32()? };
            Ok(apply(&Record::Row(group, row)))
        }
        4 => {
            let bytes = input.u32()? as usize;
            let set = attributes(input.bytes(bytes)?)?;
            let count = usize::from(input.u16()?);
            input.require_items(count, 2)?;
            let mut unset = Vec::with_capacity(count);
            for _ in 0..count {
                unset.push(input.u16()?);
            }
            let payload = match input.u8()? {
                0 => PayloadChange::Keep,
                1 => PayloadChange::Remove,
                2 => PayloadChange::Set(take_payload(input)?.ok_or(Malformed("no payload"))?),
                _ => return Err(Malformed("an unknown change of a payload")),
            };
            let update = Update { set, unset: &unset, payload };
            Ok(apply(&Record::Update(group, id, version, update)))
        }
        _ => Err(Malformed("an unknown kind of record")),
    }
}

fn take_content<'a>(
    input: &mut ByteReader<'a>,
    vector_bytes: usize,
) -> Result<Content<'a>, Malformed> {
    let vector = input.bytes(vector_bytes)?;
    let (check, name) = (input.u64()?, take_text(input)?);
    let bytes = input.u32()? as usize;
    let attributes = attributes(input.bytes(bytes)?)?;
    let payload = take_payload(input)?;
    Ok(Content { vector, fields: Fields { name, check, attributes, payload } })
}

fn take_payload<'a>(input: &mut ByteReader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match input.u32()? {
        NO_PAYLOAD => Ok(None),
        bytes if bytes as usize > PAYLOAD_BYTES_MAX => Err(Malformed("a payload is too large")),
        bytes => Ok(Some(input.bytes(bytes as usize)?)),
    }
}

/// Reads a log and calls `apply` with every record; returns the length of its whole part.
///
/// Errors: `Corrupt` if the header or synced bytes are not those that were written.
pub(crate) fn replay(
    store: &dyn Store,
    name: &str,
    identity: u64,
    vector_bytes: usize,
    apply: &mut dyn FnMut(&Record<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let file = store.open(name, Access::Cached)?;
    let corrupt = |offset, what: &str| Error::from(StoreError::corrupt(file.name(), offset, what));
    let header = file.read(Range { offset: 0, bytes: HEADER })?;
    let header = unseal(address(identity, 0), &header, file.name(), 0)?;
    if header[..8] != MAGIC[..] || header[8..12] != VERSION.to_le_bytes() {
        return Err(corrupt(0, "it does not begin as a log of groups"));
    }
    let mut offset = HEADER as u64;
    while offset < file.bytes() {
        let Some(frame) = read_frame(&*file, identity, offset)? else {
            if let Some(later) = synced_frame_after(&*file, identity, offset)? {
                let what = format!("the frame was synced, says the one at byte {later}");
                return Err(corrupt(offset, &what));
            }
            break;
        };
        let mut input = ByteReader::new(&frame.records);
        while !input.is_empty() {
            let taken = take_record(&mut input, vector_bytes, apply);
            taken.map_err(|what| corrupt(offset, what.0))??;
        }
        offset += frame.bytes;
    }
    Ok(offset)
}

struct Frame {
    records: Vec<u8>,
    synced: u64,
    /// Length in the file.
    bytes: u64,
}

/// The frame at an offset; `None` if there is none.
fn read_frame(
    file: &dyn vstream_store::ReadAt,
    identity: u64,
    offset: u64,
) -> Result<Option<Frame>, Error> {
    let left = file.bytes() - offset;
    if left < (FRAME_HEAD + CHECKSUM_BYTES) as u64 {
        return Ok(None);
    }
    let head = file.read(Range { offset, bytes: FRAME_HEAD })?;
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let records = number(4) as usize;
    let bytes = FRAME_HEAD + records + CHECKSUM_BYTES;
    if number(0) != FRAME_MAGIC || records > FRAME_BYTES_MAX || bytes as u64 > left {
        return Ok(None);
    }
    let all = file.read(Range { offset, bytes })?;
    let Ok(payload) = unseal(address(identity, offset), &all, file.name(), offset) else {
        return Ok(None);
    };
    let synced = u64::from_le_bytes(payload[8..FRAME_HEAD].try_into().expect("eight bytes"));
    Ok(Some(Frame { records: payload[FRAME_HEAD..].to_vec(), synced, bytes: bytes as u64 }))
}

/// Offset of a frame behind `offset` that says that the bytes at `offset` were synced.
fn synced_frame_after(
    file: &dyn vstream_store::ReadAt,
    identity: u64,
    offset: u64,
) -> Result<Option<u64>, Error> {
    const WINDOW: u64 = 1 << 20;
    let magic = FRAME_MAGIC.to_le_bytes();
    let mut from = offset + 1;
    while from < file.bytes() {
        // Windows overlap by the length of the magic.
        let bytes = (file.bytes() - from).min(WINDOW + 3) as usize;
        let window = file.read(Range { offset: from, bytes })?;
        for at in window.windows(4).enumerate().filter(|(_, w)| *w == magic).map(|(at, _)| at) {
            let at = from + at as u64;
            if read_frame(file, identity, at)?.is_some_and(|frame| frame.synced > offset) {
                return Ok(Some(at));
            }
        }
        from += WINDOW;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
