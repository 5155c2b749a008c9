//! The id table of a segment: finds a row by its id. It is built once and never changes.
//!
//! Entries of 12 bytes lie in buckets by hash, one bucket after the other; a second array holds the
//! start of each bucket. A look-up reads a word and then one or two cache lines. Versions are kept
//! by row, each as its difference to the least version, in as many bytes as the largest difference
//! takes: often none.

use super::sealed::SealedSegment;
use crate::error::Error;
use vstream_index::LeastIds;

/// Average entries of a bucket.
const BUCKET: usize = 8;

/// Rows of a segment by id.
pub(crate) struct IdTable {
    /// Start of each bucket, then the end of the last bucket.
    starts: Box<[u32]>,
    entries: Box<[Entry]>,
    versions: Versions,
    /// Seed of the hash: nobody outside can choose ids that all fall into one bucket.
    seed: u64,
}

/// A row and its id. The id is in two words, so that an entry takes 12 bytes.
#[derive(Clone, Copy, Default)]
struct Entry {
    low: u32,
    high: u32,
    row: u32,
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
        let mut entries = vec![Entry::default(); rows];
        for (id, row) in ids {
            let at = &mut next[bucket(id)];
            entries[*at as usize] = Entry { low: id as u32, high: (id >> 32) as u32, row };
            *at += 1;
        }
        let (starts, entries) = (starts.into(), entries.into());
        Ok(IdTable { starts, entries, versions: Versions::of(&versions), seed })
    }

    /// The row of an id, deleted or not.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let at = bucket(id ^ self.seed, self.starts.len() - 1);
        let entries = &self.entries[self.starts[at] as usize..self.starts[at + 1] as usize];
        let is_it = |entry: &&Entry| u64::from(entry.low) | u64::from(entry.high) << 32 == id;
        entries.iter().find(is_it).map(|entry| entry.row)
    }

    /// Calls `visit` with id, version and row of every row, in no order.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u64, u64, u32)) {
        for entry in &self.entries {
            let id = u64::from(entry.low) | u64::from(entry.high) << 32;
            visit(id, self.version(entry.row), entry.row);
        }
    }

    /// Offers the ids of the rows that are visible. Cost: a pass over the ids.
    pub(crate) fn least_ids(&self, least: &mut LeastIds, is_visible: impl Fn(u32) -> bool) {
        for entry in &self.entries {
            let id = u64::from(entry.low) | u64::from(entry.high) << 32;
            if least.wants(id) && is_visible(entry.row) {
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
        let words = size_of_val(&*self.starts) + size_of_val(&*self.entries);
        (words + self.versions.above.len()) as u64
    }
}

/// Versions by row, as differences to the least version.
struct Versions {
    least: u64,
    /// Bytes of a difference, 0 to 8.
    width: usize,
    above: Box<[u8]>,
}

impl Versions {
    fn of(versions: &[u64]) -> Versions {
        let least = versions.iter().copied().min().unwrap_or(0);
        let most = versions.iter().copied().max().unwrap_or(0);
        let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8) as usize;
        let bytes = |version: &u64| (version - least).to_le_bytes();
        let above = versions.iter().flat_map(|version| bytes(version).into_iter().take(width));
        Versions { least, width, above: above.collect() }
    }

    fn get(&self, row: u32) -> u64 {
        let mut word = [0u8; 8];
        let from = row as usize * self.width;
        word[..self.width].copy_from_slice(&self.above[from..from + self.width]);
        self.least + u64::from_le_bytes(word)
    }
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
