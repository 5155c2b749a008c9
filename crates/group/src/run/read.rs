//! Opens runs and finds the parts of a group.

use std::sync::{Arc, OnceLock};

use vstream_quantize::rabitq::Rotation;
use vstream_store::blocks::{
    unseal, Block, BlockAddress, BlockHandle, BlockReader, CHECKSUM_BYTES,
};
use vstream_store::{Cache, Error as StoreError, Range, ReadAt, Store};

use super::ahead::Ahead;
use super::format::{
    decode_directory, DirectoryBlock, Footer, Header, Meta, PartEntry, Shape, FOOTER, HEADER,
    VERSION,
};
use super::part::Part;
use super::presence;
use super::write::FOOTER_NUMBER;
use crate::accept::GroupHash;
use crate::error::Error;
use crate::shard::ShardRange;

/// An open run. Any number of threads read it.
pub(crate) struct Run {
    header: Header,
    meta: Meta,
    rotation: Rotation,
    /// Number in the store, which its name holds.
    pub(crate) number: u64,
    bytes: u64,
    /// Reads through the cache.
    pub(super) blocks: BlockReader,
    /// Reads past the cache, for walks.
    passing: BlockReader,
    /// Groups elsewhere are not read.
    shards: ShardRange,
    /// Where the file is removed once nobody reads it any more, and its name.
    doomed: OnceLock<(Arc<dyn Store>, String)>,
}

impl Run {
    /// Opens a run: checks header, footer and meta; every other block when it is read.
    ///
    /// Errors: `Corrupt` with file and offset, also if the run has another shape than `shape`, but
    /// for the kind of codes.
    pub(crate) fn open(
        file: Arc<dyn ReadAt>,
        number: u64,
        shape: &Shape,
        cache: Option<Arc<Cache<Block>>>,
    ) -> Result<Run, Error> {
        let (header, meta) = read_ends(&*file)?;
        let wanted = Shape { codes: header.shape.codes, ..*shape };
        if header.shape != wanted {
            let what = "the run has another shape than its store";
            return Err(StoreError::corrupt(file.name(), 0, what).into());
        }
        let reader = |cache| BlockReader::new(file.clone(), header.identity, VERSION, cache);
        Ok(Run {
            header,
            meta,
            rotation: Rotation::new(shape.dimension, shape.seed),
            number,
            bytes: file.bytes(),
            blocks: reader(cache),
            passing: reader(None),
            shards: ShardRange::ALL,
            doomed: OnceLock::new(),
        })
    }

    /// The run without its groups in other shards.
    pub(crate) fn within(self, shards: ShardRange) -> Run {
        let mut run = self;
        run.shards = shards;
        run
    }

    /// Has the file removed when the last one lets go of the run. The next opening of the store
    /// removes it if that fails.
    pub(crate) fn delete_when_unused(&self, store: Arc<dyn Store>, name: String) {
        // A second call has nothing to add.
        let _ = self.doomed.set((store, name));
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.header.shape
    }

    pub(crate) fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    pub(crate) fn identity(&self) -> u64 {
        self.header.identity
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn rows(&self) -> u64 {
        self.meta.rows
    }

    pub(crate) fn tombstones(&self) -> u64 {
        self.meta.tombstones
    }

    pub(crate) fn groups(&self) -> u64 {
        self.meta.groups
    }

    /// Bytes of memory that the open run takes, without the cache.
    pub(crate) fn memory(&self) -> u64 {
        let rotation = 4 * 4 * self.rotation.padded();
        let directory = size_of_val(&*self.meta.directory) + self.meta.presence.len();
        (size_of::<Run>() + rotation + directory) as u64
    }

    /// The parts of a group, by id; none if the run does not hold it. Cost: no read in 99 of 100
    /// runs without the group, else mostly one block.
    pub(crate) fn parts(&self, group: GroupHash) -> Result<Vec<PartEntry>, Error> {
        let mut found = Vec::new();
        if !self.shards.holds(group) {
            return Ok(found);
        }
        if !presence::may_hold(&self.meta.presence, group) {
            return Ok(found);
        }
        let directory = &self.meta.directory;
        // A group may begin in the block before the first one that begins with it.
        let from = directory.partition_point(|block| block.first < group).saturating_sub(1);
        for block in directory[from..].iter().take_while(|block| block.first <= group) {
            let entries = self.directory(block, &self.blocks)?;
            found.extend(entries.into_iter().filter(|entry| entry.group == group));
        }
        Ok(found)
    }

    /// The first parts of the first `limit` groups from `from` on. Cost: a block per 64 parts.
    pub(crate) fn groups_from(
        &self,
        from: GroupHash,
        limit: usize,
    ) -> Result<Vec<PartEntry>, Error> {
        let mut found: Vec<PartEntry> = Vec::new();
        let directory = &self.meta.directory;
        let from = from.max(self.shards.least());
        let first = directory.partition_point(|block| block.first < from).saturating_sub(1);
        for block in directory.iter().skip(first) {
            if self.shards.is_before(block.first) {
                break;
            }
            for entry in self.directory(block, &self.blocks)? {
                let is_new = found.last().is_none_or(|last| last.group != entry.group);
                if entry.group >= from && self.shards.holds(entry.group) && is_new {
                    if found.len() == limit {
                        return Ok(found);
                    }
                    found.push(entry);
                }
            }
        }
        Ok(found)
    }

    fn directory(
        &self,
        block: &DirectoryBlock,
        reader: &BlockReader,
    ) -> Result<Vec<PartEntry>, Error> {
        let DirectoryBlock { offset, bytes, .. } = *block;
        let handle = BlockHandle { number: offset, offset, bytes: bytes as usize };
        let payload = reader.read(handle)?;
        decode_directory(&payload, offset).map_err(|what| self.corrupt(offset, what))
    }

    /// A walk over all groups.
    pub(crate) fn walk(self: &Arc<Run>) -> GroupWalk {
        let least = self.shards.least();
        let directory = &self.meta.directory;
        let next = directory.partition_point(|block| block.first < least).saturating_sub(1);
        let file = Arc::new(Ahead::new(self.passing.file().clone()));
        let ahead = BlockReader::new(file, self.header.identity, VERSION, None);
        GroupWalk { run: self.clone(), ahead, next, entries: Vec::new().into_iter().peekable() }
    }

    pub(crate) fn corrupt(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        StoreError::corrupt(self.blocks.file().name(), offset, what).into()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some((store, name)) = self.doomed.get() {
            let _ = store.delete(name);
        }
    }
}

/// Walks over the groups of a run in the order of their hashes.
pub(crate) struct GroupWalk {
    run: Arc<Run>,
    /// Reads parts. A block of the directory lies behind its parts, so it is read on its own.
    ahead: BlockReader,
    next: usize,
    entries: std::iter::Peekable<std::vec::IntoIter<PartEntry>>,
}

impl GroupWalk {
    /// Opens a part of the run; its blocks pass the cache.
    pub(crate) fn open(&self, entry: PartEntry) -> Result<Part, Error> {
        Part::open_with(&self.run, entry, self.ahead.clone())
    }

    /// The next group, which stays the next one.
    pub(crate) fn group(&mut self) -> Result<Option<GroupHash>, Error> {
        self.fill()?;
        Ok(self.entries.peek().map(|entry| entry.group))
    }

    /// The next part if it belongs to `group`.
    pub(crate) fn part_of(&mut self, group: GroupHash) -> Result<Option<PartEntry>, Error> {
        self.fill()?;
        Ok(self.entries.next_if(|entry| entry.group == group))
    }

    fn fill(&mut self) -> Result<(), Error> {
        let shards = self.run.shards;
        while self.entries.peek().is_none() {
            let Some(block) = self.run.meta.directory.get(self.next) else { break };
            if shards.is_before(block.first) {
                break;
            }
            let mut entries = self.run.directory(block, &self.run.passing)?;
            entries.retain(|entry| shards.holds(entry.group));
            self.entries = entries.into_iter().peekable();
            self.next += 1;
        }
        Ok(())
    }
}

/// Reads and checks header, footer and meta.
fn read_ends(file: &dyn ReadAt) -> Result<(Header, Meta), Error> {
    let (name, length) = (file.name(), file.bytes());
    let (head, foot) = (HEADER + CHECKSUM_BYTES, FOOTER + CHECKSUM_BYTES);
    let corrupt = |offset, what: &str| Error::from(StoreError::corrupt(name, offset, what));
    if length < (head + foot) as u64 {
        return Err(corrupt(0, "too short for a run: torn, or not ours"));
    }
    let foot_offset = length - foot as u64;
    let ends = file.read_many(&[
        Range { offset: 0, bytes: head },
        Range { offset: foot_offset, bytes: foot },
    ])?;
    let header = Header::decode(&ends[0]).map_err(|what| corrupt(0, what.0))?;
    let place = |number| BlockAddress { file: header.identity, number, version: VERSION };
    unseal(place(0), &ends[0], name, 0)?;
    unseal(place(FOOTER_NUMBER), &ends[1], name, foot_offset)?;
    let footer = Footer::decode(&ends[1]).map_err(|what| corrupt(foot_offset, what.0))?;
    let fits = footer.identity == header.identity
        && footer.file_bytes == length
        && footer.meta_offset >= head as u64
        && footer.meta_offset.checked_add(footer.meta_bytes) == Some(foot_offset);
    if !fits {
        return Err(corrupt(foot_offset, "the footer is not of a file of this length"));
    }
    let range = Range { offset: footer.meta_offset, bytes: footer.meta_bytes as usize };
    let bytes = file.read(range)?;
    let payload = unseal(place(footer.meta_offset), &bytes, name, footer.meta_offset)?;
    let meta = Meta::decode(payload).map_err(|what| corrupt(footer.meta_offset, what.0))?;
    Ok((header, meta))
}
