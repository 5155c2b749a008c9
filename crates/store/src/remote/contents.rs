//! Pushed snapshots: files as immutable objects, and lists that name the files of each snapshot.
//!
//! ```text
//! CHECKSUM.NAME        the bytes of file NAME; CHECKSUM is XXH3-128 of them, 32 hex digits
//! SNAPSHOT-NNNNNNNNNN  magic "VSTRPUSH" | u32 format | u32 files | u64 number
//!                      files, by name: u16 length of the name | name | u64 bytes | u128 XXH3-128
//!                      footer 8 B: u64 XXH3-64 of all before
//! ```
//!
//! 1. The name of an object contains the checksum of its content. A file that an earlier snapshot
//!    sent is not sent again, and no object is ever replaced.
//! 2. The list is written last, under the next free number. This is the commit point: before it the
//!    snapshot does not exist, and after it the snapshot is complete.

use vstream_vector::cursor::{ByteReader, Truncated};
use xxhash_rust::xxh3::{xxh3_64, Xxh3};

use super::restore::is_of_restore;
use super::tiered::checksum_near;
use crate::defect::{self, Defect};
use crate::error::{Error, ErrorKind};
use crate::files::{Access, Files};
use crate::names::is_name;
use crate::store::{checksum_of, Range, ReadAt, Store, WALK_BYTES};

const MAGIC: &[u8; 8] = b"VSTRPUSH";
const FORMAT: u32 = 1;
const HEADER: usize = 24;
const ENTRY: usize = 26;
const LIST: &str = "SNAPSHOT-";
/// Longest name of a file, in bytes. The name of its object is 33 bytes longer.
const NAME_BYTES_MAX: usize = 95;
const FILES_MAX: usize = 1 << 20;
const LIST_BYTES_MAX: u64 = 1 << 28;
/// Number of simultaneous pushes that may take the next number before a push gives up.
const RIVALS_MAX: usize = 1000;

/// A file of a pushed snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushedFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-128 of its content.
    pub checksum: u128,
}

impl PushedFile {
    /// The name of the object with its content.
    pub fn object(&self) -> String {
        format!("{:032x}.{}", self.checksum, self.name)
    }

    /// Opens the object in `store`. Errors: `Corrupt` if it is missing or has another length, and
    /// those of the store.
    pub(super) fn open(&self, store: &dyn Store) -> Result<std::sync::Arc<dyn ReadAt>, Error> {
        let object = self.object();
        let file = store.open(&object, Access::Cached).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::new(ErrorKind::Corrupt, store.describe(&object), "it is gone")
            }
            _ => error,
        })?;
        if file.bytes() != self.bytes {
            let what = format!("it has {} bytes, {} were pushed", file.bytes(), self.bytes);
            return Err(Error::corrupt(file.name(), file.bytes().min(self.bytes), what));
        }
        Ok(file)
    }

    /// Reads the whole object and compares its checksum. Errors: `Corrupt` if its content differs
    /// from the pushed one, and those of the store.
    pub fn verify(&self, store: &dyn Store) -> Result<(), Error> {
        let file = self.open(store)?;
        self.check(file.name(), checksum_of(&*file)?)
    }

    /// Reads an entry of a list. `None` if the input ends within it or the name is not UTF-8.
    fn decode(input: &mut ByteReader) -> Option<PushedFile> {
        let length = usize::from(input.u16().ok()?);
        let name = std::str::from_utf8(input.bytes(length).ok()?).ok()?.to_owned();
        Some(PushedFile { name, bytes: input.u64().ok()?, checksum: input.u128().ok()? })
    }

    pub(super) fn check(&self, file: &str, checksum: u128) -> Result<(), Error> {
        if checksum == self.checksum {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Corrupt, file, "its content is not what was pushed"))
    }
}

/// The list of a pushed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Number of the snapshot; each push to a store has a higher one.
    pub number: u64,
    /// Its files, sorted by name.
    pub files: Vec<PushedFile>,
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The list of the new snapshot.
    pub contents: Contents,
    /// Number of files that the store did not have yet.
    pub sent_files: usize,
    /// Bytes of these files.
    pub sent_bytes: u64,
}

fn list_name(number: u64) -> String {
    format!("{LIST}{number:010}")
}

/// Sends the files `names` of `from` to `to` and makes them the newest snapshot there.
///
/// Cost: each file that `to` does not have is read twice. Errors: `Invalid` names, also of files of a restore that
/// has not ended, `Corrupt` if a file changes during the push, and those of the stores. After an error there is no new
/// snapshot.
pub fn push(from: &dyn Store, names: &[String], to: &dyn Store) -> Result<Pushed, Error> {
    push_above(from, names, to, 0)
}

/// The same, under a number above another one, so that what is pushed to several places may have one number.
pub fn push_above(
    from: &dyn Store,
    names: &[String],
    to: &dyn Store,
    above: u64,
) -> Result<Pushed, Error> {
    let existing = to.list("")?;
    let mut pushed = Pushed {
        contents: Contents { number: 0, files: Vec::new() },
        sent_files: 0,
        sent_bytes: 0,
    };
    let mut unsent = Vec::new();
    for name in names {
        if !is_name(name) || name.len() > NAME_BYTES_MAX {
            let what = format!("names of pushed files have {NAME_BYTES_MAX} characters at most");
            return Err(Error::new(ErrorKind::Invalid, from.describe(name), what));
        }
        if is_of_restore(name) {
            let what = "this folder is being restored: fetch the snapshot to its end first";
            return Err(Error::new(ErrorKind::Invalid, from.describe(name), what));
        }
        let file = from.open(name, Access::Cached)?;
        let checksum = checksum_of(&*file)?;
        let entry = PushedFile { name: name.clone(), bytes: file.bytes(), checksum };
        let object = entry.object();
        if !existing.iter().any(|have| have.name == object && have.bytes == entry.bytes) {
            if defect::active(Defect::ListBeforeFiles) {
                unsent.push((file, entry.clone()));
            } else {
                send(&*file, &entry, to)?;
            }
            pushed.sent_files += 1;
            pushed.sent_bytes += entry.bytes;
        }
        pushed.contents.files.push(entry);
    }
    pushed.contents.files.sort();
    let last = numbers(to)?.last().copied().unwrap_or(0).max(above);
    for number in last + 1..=last + RIVALS_MAX as u64 {
        pushed.contents.number = number;
        match to.put(&list_name(number), &pushed.contents.encode()) {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            done => {
                done?;
                unsent.iter().try_for_each(|(file, entry)| send(&**file, entry, to))?;
                return Ok(pushed);
            }
        }
    }
    let what = "others push here all the time: try again later";
    Err(Error::new(ErrorKind::Unavailable, to.describe(""), what))
}

fn send(file: &dyn ReadAt, entry: &PushedFile, to: &dyn Store) -> Result<(), Error> {
    let mut out = to.create(&entry.object())?;
    out.expect(entry.bytes)?;
    let mut hash = Xxh3::new();
    let mut offset = 0;
    while offset < entry.bytes {
        let bytes = (entry.bytes - offset).min(WALK_BYTES as u64) as usize;
        let part = file.read(Range { offset, bytes })?;
        hash.update(&part);
        out.append(&part)?;
        offset += bytes as u64;
    }
    entry.check(file.name(), hash.digest128())?;
    match out.finish() {
        // The name contains the checksum, so the existing object has the same bytes.
        Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
        done => done.map(|_| ()),
    }
}

/// Numbers of the snapshots in a store, ascending. Errors: those of the store.
pub fn numbers(store: &dyn Store) -> Result<Vec<u64>, Error> {
    let number = |name: &str| {
        let digits = name.strip_prefix(LIST)?;
        (digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse::<u64>().ok())?
    };
    let mut found: Vec<u64> =
        store.list(LIST)?.iter().filter_map(|entry| number(&entry.name)).collect();
    found.sort_unstable();
    Ok(found)
}

impl Contents {
    /// Reads the list of snapshot `number`, or of the newest one.
    ///
    /// Errors: `NotFound` if there is none, `Corrupt`, `Unsupported`, and those of the store.
    pub fn read(store: &dyn Store, number: Option<u64>) -> Result<Contents, Error> {
        let number = match number {
            Some(number) => number,
            None => numbers(store)?.last().copied().ok_or_else(|| {
                Error::new(ErrorKind::NotFound, store.describe(""), "no snapshot was pushed here")
            })?,
        };
        let file = store.open(&list_name(number), Access::Cached)?;
        if file.bytes() > LIST_BYTES_MAX {
            return Err(Error::corrupt(file.name(), 0, "too long for the list of a snapshot"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        let contents = Contents::decode(&bytes, file.name())?;
        if contents.number != number {
            return Err(Error::corrupt(file.name(), 16, "it is the list of another snapshot"));
        }
        Ok(contents)
    }

    /// True if a folder has these files, whole, and no others. Cost: a read of all files, if their names and lengths are
    /// right. Errors: those of the folder.
    pub fn are_all_in(&self, local: &dyn Files) -> Result<bool, Error> {
        let failed = |e: std::io::Error| Error::io(local.describe(""), "read", &e);
        let mut listed = local.list().map_err(failed)?;
        listed.sort();
        let names = self.files.iter().map(|file| (&file.name, file.bytes));
        if !listed.iter().map(|(name, bytes)| (name, *bytes)).eq(names) {
            return Ok(false);
        }
        for file in &self.files {
            let near = local.open(&file.name, Access::Cached).map_err(failed)?;
            if checksum_near(&*near, file.bytes).map_err(failed)? != file.checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.files.len() * (ENTRY + 32) + 8);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&(self.files.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        for file in &self.files {
            out.extend_from_slice(&(file.name.len() as u16).to_le_bytes());
            out.extend_from_slice(file.name.as_bytes());
            out.extend_from_slice(&file.bytes.to_le_bytes());
            out.extend_from_slice(&file.checksum.to_le_bytes());
        }
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        out
    }

    /// Decodes a list that `file` holds. The bytes may be damaged: the decoder accepts only names
    /// that stores accept, and it compares counts with the length before it allocates memory.
    ///
    /// Errors: `Corrupt` with the offset, `Unsupported`.
    pub fn decode(bytes: &[u8], file: &str) -> Result<Contents, Error> {
        let corrupt = |offset: usize, what: &str| Error::corrupt(file, offset as u64, what);
        let whole = bytes.split_last_chunk::<8>().filter(|(body, _)| body.len() >= HEADER);
        let Some((body, stored)) = whole else {
            return Err(corrupt(0, "too short for the list of a snapshot"));
        };
        if xxh3_64(body) != u64::from_le_bytes(*stored) {
            return Err(corrupt(body.len(), "the checksum at its end does not match its content"));
        }
        let mut input = ByteReader::new(body);
        let cut = |_: Truncated| corrupt(0, "it is cut short");
        if &input.array().map_err(cut)? != MAGIC {
            return Err(corrupt(0, "it does not begin as the list of a snapshot"));
        }
        let format = input.u32().map_err(cut)?;
        if format != FORMAT {
            let what = format!("format {format}, this version reads {FORMAT}: use a newer version");
            return Err(Error::new(ErrorKind::Unsupported, file, what));
        }
        let count = input.u32().map_err(cut)? as usize;
        let number = input.u64().map_err(cut)?;
        if count > FILES_MAX || count * ENTRY > body.len() - HEADER {
            return Err(corrupt(12, "it has more files than bytes"));
        }
        let mut files: Vec<PushedFile> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = input.offset();
            let entry = PushedFile::decode(&mut input)
                .ok_or_else(|| corrupt(start, "an entry is cut short"))?;
            let follows = files.last().is_none_or(|before| before.name < entry.name);
            let is_fit = is_name(&entry.name) && !is_of_restore(&entry.name);
            if !is_fit || entry.name.len() > NAME_BYTES_MAX || !follows {
                return Err(corrupt(start, "a name is none of a file, or out of order"));
            }
            files.push(entry);
        }
        let total = files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        if !input.is_empty() || total.is_none() {
            return Err(corrupt(input.offset(), "its length does not fit its files"));
        }
        Ok(Contents { number, files })
    }
}
