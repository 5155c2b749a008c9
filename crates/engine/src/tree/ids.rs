//! The id table of a segment: finds a row by its id. It is built once and never changes.
//!
//! Entries lie in buckets by hash, one bucket after the other; a second array holds the start of each
//! bucket. A look-up reads a word and then one or two cache lines. The hash is a permutation of the
//! differences of ids to the least id, so an entry has only what the number of its bucket does not say of
//! it, and its row, each in as many bits as the largest takes: 24 together for a million ids in a
//! row, 68 for ids that are hashes. Versions are kept by row in as many bytes as their differences take, often
//! in none at all.

use std::ops::Range;

use super::sealed::SealedSegment;
use crate::error::Error;
use vstream_index::LeastIds;
use vstream_vector::kernels;

mod permutation;

use self::permutation::{lowest, Permutation};

/// Average entries of a bucket, if there are as many; up to twice as many, since the number of buckets is a power of 2.
const BUCKET: usize = 8;

/// Rows of a segment by id.
pub(crate) struct IdTable {
    /// Start of each bucket, then the end of the last bucket.
    starts: Box<[u32]>,
    entries: Entries,
    versions: Packed,
}

impl IdTable {
    /// Builds the table of the rows of a segment that are kept, and calls `visit` with id and version of
    /// each. Cost: one read of its id area. Errors: `Corrupt`, those of the store.
    pub(crate) fn of(
        segment: &SealedSegment,
        is_kept: &dyn Fn(u32) -> bool,
        visit: &mut dyn FnMut(u64, u64),
    ) -> Result<IdTable, Error> {
        let rows = segment.rows() as usize;
        let mut ids: Vec<(u64, u32)> = Vec::with_capacity(rows);
        // Nobody asks for the version of a row that is not kept: it takes no room if it is the least.
        let (mut versions, mut least) = (vec![u64::MAX; rows], u64::MAX);
        segment.for_each_id(&mut |id, version, row| {
            if is_kept(row) {
                ids.push((id, row));
                versions[row as usize] = version;
                least = least.min(version);
                visit(id, version);
            }
        })?;
        if ids.len() < rows {
            let mut is_known = vec![false; rows];
            ids.iter().for_each(|&(_, row)| is_known[row as usize] = true);
            let others = versions.iter_mut().zip(is_known).filter(|(_, is_known)| !is_known);
            others.for_each(|(version, _)| *version = least);
        }
        let (kept, most) = (ids.len(), segment.rows());
        let of = || ids.iter().map(|&(id, _)| id);
        let range = (of().min().unwrap_or(0), of().max().unwrap_or(0));
        let mut entries = Entries::new(kept, range, most, segment.identity());
        let mut starts = vec![0u32; entries.buckets() + 1];
        of().for_each(|id| starts[entries.bucket(id) + 1] += 1);
        (0..entries.buckets()).for_each(|at| starts[at + 1] += starts[at]);
        let mut next = starts.clone();
        for (id, row) in ids {
            let at = &mut next[entries.bucket(id)];
            entries.set(*at as usize, id, row);
            *at += 1;
        }
        Ok(IdTable { starts: starts.into(), entries, versions: Packed::of(&versions) })
    }

    /// The row of an id, deleted or not.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        self.find_in(self.entries.bucket(id), id)
    }

    /// Finds the bucket of an id, and prefetches the place of its entries for [`IdTable::prefetch`].
    #[inline]
    pub(crate) fn approach(&self, id: u64) -> usize {
        let at = self.entries.bucket(id);
        kernels::prefetch(&self.starts[at..at + 1]);
        at
    }

    /// Prefetches the entries of a bucket.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: usize) {
        self.entries.prefetch(self.range(bucket));
    }

    /// The row of an id in its bucket, deleted or not.
    #[inline]
    pub(crate) fn find_in(&self, bucket: usize, id: u64) -> Option<u32> {
        self.entries.find(self.range(bucket), id)
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    /// Calls `visit` with id, version and row of every row, in no order.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u64, u64, u32)) {
        for (id, row) in self.rows() {
            visit(id, self.version(row), row);
        }
    }

    /// Ids and their rows, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.starts.windows(2).enumerate().flat_map(move |(bucket, ends)| {
            (ends[0]..ends[1]).map(move |at| self.entries.get(bucket, at as usize))
        })
    }

    /// Offers the ids of the rows that are visible. Cost: a pass over the ids.
    pub(crate) fn least_ids(&self, least: &mut LeastIds, is_visible: impl Fn(u32) -> bool) {
        for (id, row) in self.rows() {
            if least.wants(id) && is_visible(row) {
                least.offer(id);
            }
        }
    }

    /// The version of a row.
    pub(crate) fn version(&self, row: u32) -> u64 {
        self.versions.get(row)
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entries = self.entries.packed.len() + self.versions.above.len();
        (size_of_val(&*self.starts) + entries) as u64
    }
}

/// Ids and their rows.
struct Entries {
    /// The least id: the permutation is of differences to it.
    least: u64,
    permutation: Permutation,
    /// Bits of the number of a bucket, which are the highest of what an id becomes.
    bucket_bits: u32,
    /// Bits of what is left of an id, 0 to 64, and of a row, at most 32.
    id_bits: u32,
    row_bits: u32,
    packed: Box<[u8]>,
}

impl Entries {
    /// Room for entries whose ids lie between two, and whose rows are of so many.
    ///
    /// * `seed`: nobody who does not know it can choose ids that all fall into one bucket.
    fn new(entries: usize, (least, most): (u64, u64), rows: u64, seed: u64) -> Entries {
        let permutation = Permutation::new(bits(most - least), seed);
        // Ids differ, so there are at least as many numbers as entries; but a file may be wrong.
        let bucket_bits = (entries / BUCKET).checked_ilog2().unwrap_or(0).min(permutation.bits());
        let id_bits = permutation.bits() - bucket_bits;
        let row_bits = bits(rows.saturating_sub(1)).max(1);
        let bytes = (entries * (id_bits + row_bits) as usize).div_ceil(8) + ENTRY;
        let packed = vec![0u8; bytes].into();
        Entries { least, permutation, bucket_bits, id_bits, row_bits, packed }
    }

    fn entry_bits(&self) -> usize {
        (self.id_bits + self.row_bits) as usize
    }

    fn buckets(&self) -> usize {
        1 << self.bucket_bits
    }

    /// The bucket of an id; any bucket for one that no entry can have.
    #[inline]
    fn bucket(&self, id: u64) -> usize {
        let place = self.permutation.of(id.wrapping_sub(self.least));
        place.checked_shr(self.id_bits).unwrap_or(0) as usize
    }

    fn set(&mut self, at: usize, id: u64, row: u32) {
        let rest = lowest(self.permutation.of(id - self.least), self.id_bits);
        let entry = u128::from(rest) << self.row_bits | u128::from(row);
        let at = at * self.entry_bits();
        let bytes = &mut self.packed[at / 8..][..ENTRY];
        let there = u128::from_le_bytes((&*bytes).try_into().expect("an entry"));
        bytes.copy_from_slice(&(there | entry << (at % 8)).to_le_bytes());
    }

    /// What is left of the id of an entry, and its row.
    #[inline]
    fn entry(&self, at: usize) -> (u64, u32) {
        let at = at * self.entry_bits();
        let bytes = self.packed[at / 8..at / 8 + ENTRY].try_into().expect("an entry");
        let entry = u128::from_le_bytes(bytes) >> (at % 8);
        let row = lowest(entry as u64, self.row_bits) as u32;
        (lowest((entry >> self.row_bits) as u64, self.id_bits), row)
    }

    /// The id of an entry of a bucket, and its row.
    fn get(&self, bucket: usize, at: usize) -> (u64, u32) {
        let (rest, row) = self.entry(at);
        let place = (bucket as u64).checked_shl(self.id_bits).unwrap_or(0) | rest;
        (self.least + self.permutation.undo(place), row)
    }

    /// The row of an id among the entries of its bucket.
    #[inline]
    fn find(&self, mut range: Range<usize>, id: u64) -> Option<u32> {
        let above =
            id.checked_sub(self.least).filter(|&above| bits(above) <= self.permutation.bits())?;
        let wanted = lowest(self.permutation.of(above), self.id_bits);
        range.find_map(|at| {
            let (rest, row) = self.entry(at);
            (rest == wanted).then_some(row)
        })
    }

    #[inline]
    fn prefetch(&self, range: Range<usize>) {
        let bytes = range.start * self.entry_bits() / 8..range.end * self.entry_bits() / 8;
        kernels::prefetch(&self.packed[bytes.clone()]);
        // Entries that do not begin a cache line end in one more, and a look at the last reads on behind it.
        let last = bytes.end + ENTRY - 1;
        kernels::prefetch(&self.packed[last..last + 1]);
    }
}

/// Bytes that are read for an entry: one has 96 bits at most, from any bit of a byte on.
const ENTRY: usize = size_of::<u128>();

/// Bits that a number takes, 0 to 64.
fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Numbers as differences to the least of them.
struct Packed {
    least: u64,
    /// Bytes of a difference, 0 to 8.
    width: usize,
    above: Box<[u8]>,
}

impl Packed {
    fn of(numbers: &[u64]) -> Packed {
        let least = numbers.iter().copied().min().unwrap_or(0);
        let most = numbers.iter().copied().max().unwrap_or(0);
        let width = width(most - least);
        if width == 0 {
            return Packed { least, width, above: Box::default() };
        }
        let mut above = vec![0u8; numbers.len() * width + WORD];
        for (number, at) in numbers.iter().zip((0..).step_by(width)) {
            above[at..at + width].copy_from_slice(&(number - least).to_le_bytes()[..width]);
        }
        Packed { least, width, above: above.into() }
    }

    fn get(&self, at: u32) -> u64 {
        match self.width {
            0 => self.least,
            width => self.least + number_at(&self.above, at as usize * width, width),
        }
    }
}

/// Bytes that are read for a number, however few it has: as many lie behind the last one.
const WORD: usize = size_of::<u64>();

/// Bytes that a number takes, 0 to 8.
fn width(number: u64) -> usize {
    bits(number).div_ceil(8) as usize
}

/// The number of `width` bytes, at most 8, whose least byte is at `at`.
#[inline]
fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    let word = bytes[at..at + WORD].try_into().expect("a word");
    let above = u64::BITS - 8 * width as u32;
    u64::from_le_bytes(word).checked_shl(above).map_or(0, |word| word >> above)
}

#[cfg(test)]
mod tests;
