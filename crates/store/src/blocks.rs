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

use crate::buffer::Buffer;
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

/// A verified block. Dereferences to its payload.
#[derive(Debug)]
pub struct Block(Buffer);

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

    /// Blocks in the order of `addresses`; those that are not in the cache are read together.
    /// Errors: `Corrupt`, `Io`; the first one stands for all.
    pub fn read_many(&self, addresses: &[Address]) -> Result<Vec<Arc<Block>>, Error> {
        let key = |address: &Address| CacheKey { file: self.identity, block: address.number };
        let cached = |address| self.cache.as_ref().and_then(|cache| cache.get(key(address)));
        let held: Vec<Option<Arc<Block>>> = addresses.iter().map(cached).collect();
        let missing = || addresses.iter().zip(&held).filter(|(_, held)| held.is_none());
        let ranges: Vec<Range> =
            missing().map(|(a, _)| Range { offset: a.offset, bytes: a.bytes }).collect();
        let mut read = self.file.read_many(&ranges)?.into_iter();
        let mut blocks = Vec::with_capacity(addresses.len());
        for (address, held) in addresses.iter().zip(&held) {
            if let Some(block) = held {
                blocks.push(block.clone());
                continue;
            }
            let bytes = read.next().expect("a buffer per range");
            let block = Arc::new(self.verified(*address, bytes)?);
            if let Some(cache) = &self.cache {
                cache.insert(key(address), block.clone(), block.0.capacity());
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn verified(&self, address: Address, bytes: Buffer) -> Result<Block, Error> {
        let place = Place { file: self.identity, number: address.number, version: self.version };
        unseal(place, &bytes, self.file.name(), address.offset)?;
        Ok(Block(bytes))
    }
}
