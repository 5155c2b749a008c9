//! The id table of a segment: finds a row by its id. It is built once and never changes.
//!
//! Entries lie in buckets by hash, one bucket after the other; a second array holds the start of each
//! bucket. A look-up reads a word and then one or two cache lines. An entry is the difference of its id to
//! the least id and its row, each in as many bytes as the largest takes: six together for a million ids in a
//! row, eleven for ids that are hashes. Versions are kept by row in the same way, often in no byte at all.

use std::ops::Range;

use super::sealed::SealedSegment;
use crate::error::Error;
use vstream_index::LeastIds;
use vstream_vector::kernels;

/// Average entries of a bucket.
const BUCKET: usize = 8;

/// Rows of a segment by id.
pub(crate) struct IdTable {
    /// Start of each bucket, then the end of the last bucket.
    starts: Box<[u32]>,
    entries: Entries,
    versions: Packed,
    /// Seed of the hash: nobody outside can choose ids that all fall into one bucket.
    seed: u64,
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
        let rows = ids.len();
        let buckets = rows.div_ceil(BUCKET).max(1);
        let seed = segment.identity();
        let bucket = |id| bucket(id ^ seed, buckets);
        let mut starts = vec![0u32; buckets + 1];
        ids.iter().for_each(|&(id, _)| starts[bucket(id) + 1] += 1);
        (0..buckets).for_each(|at| starts[at + 1] += starts[at]);
        let mut next = starts.clone();
        let least = ids.iter().map(|&(id, _)| id).min().unwrap_or(0);
        let most = ids.iter().map(|&(id, _)| id).max().unwrap_or(0);
        let mut entries = Entries::new(rows, (least, most), segment.rows());
        for (id, row) in ids {
            let at = &mut next[bucket(id)];
            entries.set(*at as usize, id, row);
            *at += 1;
        }
        let starts = starts.into();
        Ok(IdTable { starts, entries, versions: Packed::of(&versions), seed })
    }

    /// The row of an id, deleted or not.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        self.find_in(self.bucket_of(id), id)
    }

    /// Finds the bucket of an id, and prefetches the place of its entries for [`IdTable::prefetch`].
    #[inline]
    pub(crate) fn approach(&self, id: u64) -> usize {
        let at = self.bucket_of(id);
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

    fn bucket_of(&self, id: u64) -> usize {
        bucket(id ^ self.seed, self.starts.len() - 1)
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    /// Calls `visit` with id, version and row of every row, in no order.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u64, u64, u32)) {
        for (id, row) in self.entries.iter() {
            visit(id, self.version(row), row);
        }
    }

    /// Ids and their rows, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.entries.iter()
    }

    /// Offers the ids of the rows that are visible. Cost: a pass over the ids.
    pub(crate) fn least_ids(&self, least: &mut LeastIds, is_visible: impl Fn(u32) -> bool) {
        for (id, row) in self.entries.iter() {
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
    /// The least id: entries hold differences to it.
    least: u64,
    /// Bytes of a difference, 0 to 8, and of a row, 1 to 4.
    id_width: usize,
    row_width: usize,
    packed: Box<[u8]>,
}

impl Entries {
    /// Room for entries whose ids lie between two, and whose rows are of so many.
    fn new(entries: usize, (least, most): (u64, u64), rows: u64) -> Entries {
        let (id_width, row_width) = (width(most - least), width(rows).max(1));
        let packed = vec![0u8; entries * (id_width + row_width) + WORD].into();
        Entries { least, id_width, row_width, packed }
    }

    fn entry_bytes(&self) -> usize {
        self.id_width + self.row_width
    }

    fn set(&mut self, at: usize, id: u64, row: u32) {
        let both = self.entry_bytes();
        let (of_id, of_row) = self.packed[at * both..][..both].split_at_mut(self.id_width);
        of_id.copy_from_slice(&(id - self.least).to_le_bytes()[..self.id_width]);
        of_row.copy_from_slice(&row.to_le_bytes()[..self.row_width]);
    }

    /// The row of an id among some entries.
    #[inline]
    fn find(&self, range: Range<usize>, id: u64) -> Option<u32> {
        let above = id.checked_sub(self.least)?;
        let both = self.entry_bytes();
        let at = (range.start * both..range.end * both)
            .step_by(both)
            .find(|&at| number_at(&self.packed, at, self.id_width) == above)?;
        Some(number_at(&self.packed, at + self.id_width, self.row_width) as u32)
    }

    #[inline]
    fn prefetch(&self, range: Range<usize>) {
        let bytes = range.start * self.entry_bytes()..range.end * self.entry_bytes();
        kernels::prefetch(&self.packed[bytes.clone()]);
        // Entries that do not begin a cache line end in one more.
        kernels::prefetch(&self.packed[bytes.end..bytes.end + 1]);
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let ends = self.packed.len() - WORD;
        (0..ends).step_by(self.entry_bytes()).map(|at| {
            let id = self.least + number_at(&self.packed, at, self.id_width);
            (id, number_at(&self.packed, at + self.id_width, self.row_width) as u32)
        })
    }
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
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// The number of `width` bytes, at most 8, whose least byte is at `at`.
#[inline]
fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    let word = bytes[at..at + WORD].try_into().expect("a word");
    let above = u64::BITS - 8 * width as u32;
    u64::from_le_bytes(word).checked_shl(above).map_or(0, |word| word >> above)
}

/// The bucket of an id that was XORed with the seed. Ids are often consecutive, so it mixes with
/// the finaliser of SplitMix64.
#[inline]
fn bucket(id: u64, buckets: usize) -> usize {
    let mut z = id ^ 0x9e37_79b9_7f4a_7c15;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (((z >> 32) * buckets as u64) >> 32) as usize
}

#[cfg(test)]
mod tests;
