//! The bytes of a segment entry in the manifest, and the delete bitmap in a file of its own.
//!
//! ```text
//! marks-N  header 56 B: magic "VSTRMARK" | u32 format | u32 0 | u64 collection | u64 number N
//!                       | u64 number of the segment | u64 rows of the segment | u64 rows deleted
//!          a bit per row of the segment, the first row in the lowest bit; set: the row is gone
//!          u64 XXH3-64 of all before
//! ```

use std::path::Path;

use vstream_store::{Access, Range, Store};
use vstream_vector::cursor::{ByteReader, Truncated};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::layout::delete_bitmap_name;
use crate::records::checked;
use crate::tree::{SegmentEntry, Served};

const MAGIC: &[u8; 8] = b"VSTRMARK";
const FORMAT: u32 = 1;
const HEADER: usize = 56;

impl SegmentEntry {
    pub(crate) const BYTES: usize = 56;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for word in [self.number, self.bytes, self.rows] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.tombstones.to_le_bytes());
        out.extend_from_slice(&self.deleted.to_le_bytes());
    }

    /// Reads the bytes that [`SegmentEntry::put`] wrote: all but the leaves that are served, and
    /// where the file was written. Errors: fewer than [`SegmentEntry::BYTES`] are left.
    pub(crate) fn take(input: &mut ByteReader<'_>) -> Result<SegmentEntry, Truncated> {
        Ok(SegmentEntry {
            number: input.u64()?,
            bytes: input.u64()?,
            rows: input.u64()?,
            digest: input.u128()?,
            tombstones: input.u64()?,
            deleted: input.u64()?,
            served: Served::default(),
            origin: None,
        })
    }

    /// Writes the delete bitmap of this segment as file `self.tombstones`.
    ///
    /// * `bits`: a bit per row, `self.deleted` of them set.
    pub(crate) fn write_delete_bitmap(
        &self,
        store: &dyn Store,
        collection: u64,
        bits: &[u8],
    ) -> Result<(), Error> {
        let mut out = Vec::with_capacity(HEADER + bits.len() + 8);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for word in [collection, self.tombstones, self.number, self.rows, self.deleted] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(bits);
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        // A failed attempt may have left a file of this name; no manifest names it.
        store.delete(&delete_bitmap_name(self.tombstones))?;
        Ok(store.put(&delete_bitmap_name(self.tombstones), &out)?)
    }

    /// Reads the segment's delete bitmap: a bit per row; empty if no row is gone. Errors:
    /// `Corrupt`, `Io`.
    pub(crate) fn read_delete_bitmap(
        &self,
        store: &dyn Store,
        collection: u64,
    ) -> Result<Vec<u8>, Error> {
        if self.tombstones == 0 {
            return Ok(Vec::new());
        }
        let file = store.open(&delete_bitmap_name(self.tombstones), Access::Cached)?;
        let corrupt = |what: &str| Error::corrupt(Path::new(file.name()), what);
        let bits = self.rows.div_ceil(8);
        if file.bytes() != HEADER as u64 + bits + 8 {
            return Err(corrupt("its length is not that of a delete bitmap for its segment"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        let body = checked(&bytes)
            .ok_or_else(|| corrupt("the checksum at its end does not match its content"))?;
        let mut input = ByteReader::new(body);
        let same = self.is_header(collection, &mut input);
        let same = same.map_err(|at| Error::truncated(Path::new(file.name()), at))?;
        let bits = input.rest();
        let deleted: u64 = bits.iter().map(|bits| u64::from(bits.count_ones())).sum();
        if !same || deleted != self.deleted {
            return Err(corrupt("this is not the delete bitmap that the manifest names"));
        }
        Ok(bits.to_vec())
    }

    /// True if `input` begins with the header of this segment's delete bitmap.
    fn is_header(&self, collection: u64, input: &mut ByteReader<'_>) -> Result<bool, Truncated> {
        let mut same = &input.array()? == MAGIC && input.u32()? == FORMAT;
        input.skip(4)?;
        for word in [collection, self.tombstones, self.number, self.rows, self.deleted] {
            same &= input.u64()? == word;
        }
        Ok(same)
    }
}
