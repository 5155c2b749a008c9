//! Blocks: bytes with a checksum that is bound to their address.
//!
//! ```text
//! block   payload | u64 checksum
//! ```
//!
//! The checksum is XXH3-64 of the payload, seeded with XXH3-64 of (file u64, number u64, version
//! u32, length of the payload u64), all little-endian. So verification fails for a block that was
//! changed, cut, swapped with another block of its file, or taken from another file or format. The
//! checksum protects against accidents. It does not protect against an attacker, who can compute it
//! too, so every decoder checks the payload again.

use std::ops::Deref;
use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::buffer::Buffer;
use crate::cache::{Cache, CacheKey};
use crate::error::Error;
use crate::pool::fill;
use crate::store::{Range, ReadAt};

/// A block is longer than its payload by this many bytes.
pub const CHECKSUM_BYTES: usize = 8;

/// The identity of a block: its file, its number and the format's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockAddress {
    /// Identity of the file. It is drawn when the file is written and stored in its header. No
    /// other file has it.
    pub file: u64,
    /// Number of the block in the file.
    pub number: u64,
    /// Version of the file's format.
    pub version: u32,
}

/// The checksum of `payload` as the block at `address`.
pub fn checksum(address: BlockAddress, payload: &[u8]) -> u64 {
    let mut identity = [0u8; 28];
    identity[..8].copy_from_slice(&address.file.to_le_bytes());
    identity[8..16].copy_from_slice(&address.number.to_le_bytes());
    identity[16..20].copy_from_slice(&address.version.to_le_bytes());
    identity[20..].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    xxh3_64_with_seed(payload, xxh3_64(&identity))
}

/// Turns a payload into a block: appends the checksum.
pub fn seal(address: BlockAddress, payload: &mut Vec<u8>) {
    let checksum = checksum(address, payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// Verifies the block `bytes`, which `file` holds at `offset`, and returns its payload. Errors:
/// `Corrupt`.
pub fn unseal<'a>(
    address: BlockAddress,
    bytes: &'a [u8],
    file: &str,
    offset: u64,
) -> Result<&'a [u8], Error> {
    let Some((payload, stored)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::corrupt(file, offset, "too short for a block"));
    };
    if u64::from_le_bytes(*stored) != checksum(address, payload) {
        let what = format!("the checksum of block {} does not match it", address.number);
        return Err(Error::corrupt(file, offset, what));
    }
    Ok(payload)
}

/// The number of a block, and its offset and length in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHandle {
    /// Number of the block.
    pub number: u64,
    /// Offset of the block in its file.
    pub offset: u64,
    /// Length of the block with its checksum.
    pub bytes: usize,
}

/// Largest gap between two blocks that one read covers: a page of the disk.
const GAP_MAX: u64 = 4096;
/// Largest number of bytes that one read covers.
const TOGETHER_MAX: usize = 1 << 18;

/// A verified block, in memory of its own length. It dereferences to its payload.
#[derive(Debug)]
pub struct Block(Box<[u8]>);

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[..self.0.len() - CHECKSUM_BYTES]
    }
}

/// Reads the blocks of one file, verifies them and keeps them in a cache, which readers may share.
#[derive(Clone)]
pub struct BlockReader {
    file: Arc<dyn ReadAt>,
    identity: u64,
    version: u32,
    cache: Option<Arc<Cache<Block>>>,
}

impl BlockReader {
    /// A reader of `file`, whose header holds `identity` and `version`.
    pub fn new(
        file: Arc<dyn ReadAt>,
        identity: u64,
        version: u32,
        cache: Option<Arc<Cache<Block>>>,
    ) -> BlockReader {
        BlockReader { file, identity, version, cache }
    }

    /// The file of this reader.
    pub fn file(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// Reads one block. Errors: `Corrupt`, `Io`.
    pub fn read(&self, handle: BlockHandle) -> Result<Arc<Block>, Error> {
        let mut blocks = self.read_many(&[handle])?;
        Ok(blocks.pop().expect("a block per handle"))
    }

    /// Reads blocks and returns them in the order of `handles`. Blocks that are not cached are read
    /// at the same time, and blocks that nearly follow one another with a single read.
    ///
    /// Errors: `Corrupt`, `Io`; the first error is returned.
    pub fn read_many(&self, handles: &[BlockHandle]) -> Result<Vec<Arc<Block>>, Error> {
        let mut request = self.request(handles);
        let read = self.file.read_many(&request.ranges())?;
        request.take(self, &read)?;
        Ok(request.blocks())
    }

    /// Looks blocks up in the cache and plans the reads of the others.
    fn request<'a>(&self, handles: &'a [BlockHandle]) -> BlockRequest<'a> {
        let key = |handle: &BlockHandle| CacheKey { file: self.identity, block: handle.number };
        let cached = |handle| self.cache.as_ref().and_then(|cache| cache.get(key(handle)));
        let blocks: Vec<Option<Arc<Block>>> = handles.iter().map(cached).collect();
        let mut runs: Vec<(Range, Vec<usize>)> = Vec::new();
        for index in (0..blocks.len()).filter(|&index| blocks[index].is_none()) {
            let handle = handles[index];
            let joined = runs.last().and_then(|(range, _)| join(*range, handle));
            match (joined, runs.last_mut()) {
                (Some(range), Some(run)) => {
                    run.0 = range;
                    run.1.push(index);
                }
                _ => {
                    let range = Range { offset: handle.offset, bytes: handle.bytes };
                    runs.push((range, vec![index]));
                }
            }
        }
        BlockRequest { handles, blocks, runs }
    }

    fn verified(&self, handle: BlockHandle, bytes: &[u8]) -> Result<Block, Error> {
        let address =
            BlockAddress { file: self.identity, number: handle.number, version: self.version };
        unseal(address, bytes, self.file.name(), handle.offset)?;
        Ok(Block(bytes.into()))
    }
}

/// The blocks of one request to a file: the cached ones, and the reads of the others.
struct BlockRequest<'a> {
    handles: &'a [BlockHandle],
    blocks: Vec<Option<Arc<Block>>>,
    runs: Vec<(Range, Vec<usize>)>,
}

impl BlockRequest<'_> {
    fn ranges(&self) -> Vec<Range> {
        self.runs.iter().map(|(range, _)| *range).collect()
    }

    /// Verifies the blocks that were read, and caches them.
    fn take(&mut self, reader: &BlockReader, read: &[Buffer]) -> Result<(), Error> {
        for ((range, members), bytes) in self.runs.iter().zip(read) {
            for &index in members {
                let handle = self.handles[index];
                let from = (handle.offset - range.offset) as usize;
                let block = reader.verified(handle, &bytes[from..from + handle.bytes])?;
                let block = Arc::new(block);
                if let Some(cache) = &reader.cache {
                    let key = CacheKey { file: reader.identity, block: handle.number };
                    cache.insert(key, block.clone(), block.0.len());
                }
                self.blocks[index] = Some(block);
            }
        }
        Ok(())
    }

    fn blocks(self) -> Vec<Arc<Block>> {
        self.blocks.into_iter().map(|block| block.expect("held or just read")).collect()
    }
}

/// Reads blocks of several files, with the reads of all files in flight at the same time. Results
/// and errors of each file are those of [`BlockReader::read_many`].
pub fn read_together(
    wanted: &[(&BlockReader, &[BlockHandle])],
) -> Result<Vec<Vec<Arc<Block>>>, Error> {
    let mut requests: Vec<BlockRequest<'_>> =
        wanted.iter().map(|(reader, handles)| reader.request(handles)).collect();
    let with_runs = requests.iter().filter(|request| !request.runs.is_empty()).count();
    let mut read: Vec<Vec<Buffer>> = Vec::with_capacity(requests.len());
    if with_runs > 1 {
        let parts = requests.iter().zip(wanted).map(|(request, (reader, _))| (request, reader));
        let all: Vec<(Arc<dyn ReadAt>, Range)> = parts
            .flat_map(|(request, reader)| {
                request.ranges().into_iter().map(|range| (reader.file.clone(), range))
            })
            .collect();
        let mut results = read_all(all)?.into_iter();
        read.extend(
            requests.iter().map(|request| results.by_ref().take(request.runs.len()).collect()),
        );
    } else {
        for (request, (reader, _)) in requests.iter().zip(wanted) {
            let ranges = request.ranges();
            read.push(if ranges.is_empty() { vec![] } else { reader.file.read_many(&ranges)? });
        }
    }
    // What was read of a file goes as soon as its blocks are there.
    for ((request, (reader, _)), read) in requests.iter_mut().zip(wanted).zip(read) {
        request.take(reader, &read)?;
    }
    Ok(requests.into_iter().map(BlockRequest::blocks).collect())
}

/// Reads ranges of several files, in the given order, and at the same time if a read may wait.
fn read_all(all: Vec<(Arc<dyn ReadAt>, Range)>) -> Result<Vec<Buffer>, Error> {
    if !all.iter().any(|(file, _)| file.waits()) {
        return all.iter().map(|(file, range)| file.read(*range)).collect();
    }
    let ready = all.iter().map(|(file, range)| file.read_ready(*range)).collect();
    let all = Arc::new(all);
    // The ring is waited for before the pool begins: far files would wait for near ones.
    let is_near = all.iter().all(|(file, _)| file.is_near());
    let planned = all.clone();
    let plan = move |index: usize| {
        let (file, range) = &planned[index];
        is_near.then(|| file.plan(*range))?
    };
    fill(ready, plan, move |index| all[index].0.read(all[index].1))
}

/// Extends a range to the block that follows it. `None` if the block is too far away or the range
/// becomes too long.
fn join(range: Range, next: BlockHandle) -> Option<Range> {
    let gap = next.offset.checked_sub(range.offset + range.bytes as u64)?;
    let bytes = (next.offset - range.offset) as usize + next.bytes;
    (gap <= GAP_MAX && bytes <= TOGETHER_MAX).then_some(Range { offset: range.offset, bytes })
}
