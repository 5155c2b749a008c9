//! Files of records. A file has a header that begins with magic and format, then the records, then
//! a footer of 24 bytes: number of records, length of the file, XXH3-64 of all before.

use std::path::Path;

use vstream_store::{FileWriter, Store};
use vstream_vector::cursor::ByteReader;
use xxhash_rust::xxh3::{xxh3_64, Xxh3};

use crate::error::Error;

pub(crate) const FOOTER: usize = 24;

/// Counts of a finished file.
pub(crate) struct Written {
    pub(crate) records: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

/// Writes one file of records. If the writer is dropped before [`RecordWriter::finish`], the file
/// never exists.
pub(crate) struct RecordWriter {
    out: Box<dyn FileWriter>,
    hash: Xxh3,
    records: u64,
    bytes: u64,
    buffer: Vec<u8>,
}

impl RecordWriter {
    /// Begins `name` in `store`. Errors: those of the store.
    pub(crate) fn create(
        store: &dyn Store,
        name: &str,
        header: &[u8],
    ) -> Result<RecordWriter, Error> {
        let (out, hash, buffer) = (store.create(name)?, Xxh3::new(), Vec::new());
        let mut writer = RecordWriter { out, hash, records: 0, bytes: 0, buffer };
        writer.put(header)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(self.out.append(bytes)?)
    }

    /// Appends the record that `fill` puts into an empty buffer.
    pub(crate) fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        fill(&mut buffer);
        self.records += 1;
        let put = self.put(&buffer);
        self.buffer = buffer;
        put
    }

    /// Ends and publishes the file.
    pub(crate) fn finish(mut self) -> Result<Written, Error> {
        let (records, bytes) = (self.records, self.bytes + FOOTER as u64);
        self.put(&records.to_le_bytes())?;
        self.put(&bytes.to_le_bytes())?;
        let checksum = self.hash.digest();
        self.put(&checksum.to_le_bytes())?;
        self.out.finish()?;
        Ok(Written { records, bytes, checksum })
    }
}

/// Returns the content of a file that ends with the XXH3-64 of all before; `None` if the checksum
/// does not match.
pub(crate) fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = bytes.split_last_chunk()?;
    (xxh3_64(body) == u64::from_le_bytes(*checksum)).then_some(body)
}

/// Reads and checks the magic number and the format of a file, from 1 to `format`; returns the
/// format. Errors: `Corrupt`, `Unsupported`.
pub(crate) fn check_format(
    path: &Path,
    input: &mut ByteReader<'_>,
    magic: &[u8; 8],
    format: u32,
) -> Result<u32, Error> {
    let found = input.array().and_then(|found| Ok((found, input.u32()?)));
    let (begins, found) = found.map_err(|at| Error::truncated(path, at))?;
    if &begins != magic {
        return Err(Error::corrupt(path, "it does not begin as a file of ours"));
    }
    if !(1..=format).contains(&found) {
        return Err(Error::unsupported(format!(
            "{} has format {found}, this version reads format {format} and older: use a newer version",
            path.display()
        )));
    }
    Ok(found)
}
