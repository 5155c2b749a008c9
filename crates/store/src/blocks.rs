//! Blocks: bytes with a checksum that is bound to where they belong.
//!
//! ```text
//! block   payload | u64 checksum
//! ```
//!
//! The checksum is XXH3-64 of the payload, seeded with XXH3-64 of (file u64, number u64, version
//! u32, length of the payload u64), all little-endian. So a block that was changed, cut, swapped
//! with another of its file, or came from another file or format fails. It guards against
//! accidents, not against an attacker who can compute it too: what a payload says is checked again
//! by whoever reads it.

use std::ops::Deref;
use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::cache::{Cache, CacheKey};
use crate::error::Error;
use crate::store::{Range, ReadAt};

/// Bytes that a block is longer than its payload.
pub const CHECKSUM_BYTES: usize = 8;

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Identity of the file: drawn when it is written, stored in its header, never used again.
    pub file: u64,
    /// Number of the block in the file.
    pub number: u64,
    /// Version of the file's format.
    pub version: u32,
}

/// The checksum of `payload` at `place`.
pub fn checksum(place: Place, payload: &[u8]) -> u64 {
    let mut identity = [0u8; 28];
    identity[..8].copy_from_slice(&place.file.to_le_bytes());
    identity[8..16].copy_from_slice(&place.number.to_le_bytes());
    identity[16..20].copy_from_slice(&place.version.to_le_bytes());
    identity[20..].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    xxh3_64_with_seed(payload, xxh3_64(&identity))
}

/// Makes a payload a block.
pub fn seal(place: Place, payload: &mut Vec<u8>) {
    let checksum = checksum(place, payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// The payload of the block `bytes`, which `file` holds at `offset`. Errors: `Corrupt`.
pub fn unseal<'a>(
    place: Place,
    bytes: &'a [u8],
    file: &str,
    offset: u64,
) -> Result<&'a [u8], Error> {
    let Some((payload, stored)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::corrupt(file, offset, "too short for a block"));
    };
    if u64::from_le_bytes(*stored) != checksum(place, payload) {
        let what = format!("the checksum of block {} does not match it", place.number);
        return Err(Error::corrupt(file, offset, what));
    }
    Ok(payload)
}

/// Where a block lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Number of the block.
    pub number: u64,
    /// First byte.
    pub offset: u64,
    /// Length with its checksum.
    pub bytes: usize,
}

/// Bytes between two blocks that are read with them rather than around them: a page of the disk.
const GAP_MAX: u64 = 4096;
/// Bytes that blocks are read together up to.
const TOGETHER_MAX: usize = 1 << 18;

/// A verified block, in memory of its own length. Dereferences to its payload.
#[derive(Debug)]
pub struct Block(Box<[u8]>);

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[..self.0.len() - CHECKSUM_BYTES]
    }
}

/// Reads blocks of one file, verifies them, and keeps them in a cache that it may share.
#[derive(Clone)]
pub struct BlockReader {
    file: Arc<dyn ReadAt>,
    identity: u64,
    version: u32,
    cache: Option<Arc<Cache<Block>>>,
}

impl BlockReader {
    /// A reader of `file`, whose header says `identity` and `version`.
    pub fn new(
        file: Arc<dyn ReadAt>,
        identity: u64,
        version: u32,
        cache: Option<Arc<Cache<Block>>>,
    ) -> BlockReader {
        BlockReader { file, identity, version, cache }
    }

    /// The file that it reads.
    pub fn file(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// One block. Errors: `Corrupt`, `Io`.
    pub fn read(&self, address: Address) -> Result<Arc<Block>, Error> {
        let mut blocks = self.read_many(&[address])?;
        Ok(blocks.pop().expect("a block per address"))
    }

    /// Blocks in the order of `addresses`; those that are not in the cache are read at the same
    /// time, and with one read where they follow one another, nearly.
    ///
    /// Errors: `Corrupt`, `Io`; the first one stands for all.
    pub fn read_many(&self, addresses: &[Address]) -> Result<Vec<Arc<Block>>, Error> {
        let key = |address: &Address| CacheKey { file: self.identity, block: address.number };
        let cached = |address| self.cache.as_ref().and_then(|cache| cache.get(key(address)));
        let mut blocks: Vec<Option<Arc<Block>>> = addresses.iter().map(cached).collect();
        let missing: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at].is_none()).collect();
        let mut runs: Vec<(Range, &[usize])> = Vec::new();
        let mut from = 0;
        for (at, &index) in missing.iter().enumerate() {
            let address = addresses[index];
            let joined = runs.last().and_then(|(range, _)| join(*range, address));
            match (joined, runs.last_mut()) {
                (Some(range), Some(run)) => *run = (range, &missing[from..=at]),
                _ => {
                    from = at;
                    let range = Range { offset: address.offset, bytes: address.bytes };
                    runs.push((range, &missing[at..=at]));
                }
            }
        }
        let ranges: Vec<Range> = runs.iter().map(|&(range, _)| range).collect();
        for ((range, members), bytes) in runs.iter().zip(self.file.read_many(&ranges)?) {
            for &index in *members {
                let address = addresses[index];
                let from = (address.offset - range.offset) as usize;
                let block = Arc::new(self.verified(address, &bytes[from..from + address.bytes])?);
                if let Some(cache) = &self.cache {
                    cache.insert(key(&address), block.clone(), block.0.len());
                }
                blocks[index] = Some(block);
            }
        }
        Ok(blocks.into_iter().map(|block| block.expect("held or just read")).collect())
    }

    fn verified(&self, address: Address, bytes: &[u8]) -> Result<Block, Error> {
        let place = Place { file: self.identity, number: address.number, version: self.version };
        unseal(place, bytes, self.file.name(), address.offset)?;
        Ok(Block(bytes.into()))
    }
}

/// The range that also holds a block behind it, if that is near enough.
fn join(range: Range, next: Address) -> Option<Range> {
    let gap = next.offset.checked_sub(range.offset + range.bytes as u64)?;
    let bytes = (next.offset - range.offset) as usize + next.bytes;
    (gap <= GAP_MAX && bytes <= TOGETHER_MAX).then_some(Range { offset: range.offset, bytes })
}
