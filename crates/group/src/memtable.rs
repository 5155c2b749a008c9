//! The memtable: rows that no run holds yet, by group.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vstream_attribute::{Attributes, Fields};

use crate::accept::{same_hash, GroupHash};
use crate::error::Error;
use crate::run::{Content, StoredRow};

/// Locks of a memtable. A writer holds one for the time of one insert, a query for the time of a
/// scan of its group.
const SHARDS: usize = 64;
/// Bytes that a row takes beside its contents: tree, pointers, allocations.
const ROW_OVERHEAD: usize = 160;

/// New rows of all groups.
pub(crate) struct Memtable {
    shards: Vec<RwLock<HashMap<GroupHash, MemoryGroup>>>,
    bytes: AtomicUsize,
    /// Rows without tombstones. Only the writer changes it.
    living: AtomicUsize,
}

/// New rows of a group.
pub(crate) struct MemoryGroup {
    name: Box<str>,
    /// True if rows of the group in runs are gone.
    pub(crate) drops: bool,
    rows: BTreeMap<u64, MemoryRow>,
}

struct MemoryRow {
    version: u64,
    /// When it was deleted, in seconds since 1970 UTC; 0 for a row.
    deleted_at: u32,
    /// `None` for a tombstone. Queries share it, so that they hold no lock while they read.
    content: Option<Arc<MemoryContent>>,
}

/// What a new row holds.
pub(crate) struct MemoryContent {
    vector: Box<[u8]>,
    attributes: Box<[u8]>,
    check: u64,
    name: Box<str>,
    payload: Option<Box<[u8]>>,
}

impl MemoryContent {
    /// Borrows everything.
    pub(crate) fn content(&self) -> Content<'_> {
        let attributes = Attributes::decode(&self.attributes).expect("they were checked");
        let payload = self.payload.as_deref();
        let fields = Fields { name: &self.name, check: self.check, attributes, payload };
        Content { vector: &self.vector, fields }
    }

    /// A row with this content.
    pub(crate) fn row(&self, id: u64, version: u64) -> StoredRow<'_> {
        StoredRow { id, version, content: Some(self.content()), deleted_at: 0 }
    }

    pub(crate) fn copy(content: &Content<'_>) -> MemoryContent {
        let Content { vector, fields } = content;
        MemoryContent {
            vector: (*vector).into(),
            attributes: fields.attributes.bytes().into(),
            check: fields.check,
            name: fields.name.into(),
            payload: fields.payload.map(Box::from),
        }
    }

    fn bytes(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.len());
        self.vector.len() + self.attributes.len() + self.name.len() + payload
    }
}

impl MemoryRow {
    fn bytes(&self) -> usize {
        ROW_OVERHEAD + self.content.as_ref().map_or(0, |content| content.bytes())
    }

    /// 1 for a row, 0 for a tombstone.
    fn living(&self) -> usize {
        usize::from(self.content.is_some())
    }

    fn stored(&self, id: u64) -> StoredRow<'_> {
        let content = self.content.as_ref().map(|content| content.content());
        StoredRow { id, version: self.version, content, deleted_at: self.deleted_at }
    }
}

impl MemoryGroup {
    /// Rows and tombstones with ids from `from` on, ascending.
    pub(crate) fn rows_from(&self, from: u64) -> impl Iterator<Item = StoredRow<'_>> {
        self.rows.range(from..).map(|(id, row)| row.stored(*id))
    }

    /// Id, version and content of every row and tombstone, by id; `None` for a tombstone.
    pub(crate) fn shared(
        &self,
    ) -> impl Iterator<Item = (u64, u64, Option<Arc<MemoryContent>>)> + use<'_> {
        self.rows.iter().map(|(id, row)| (*id, row.version, row.content.clone()))
    }

    /// Version and content of an id.
    pub(crate) fn shared_row(&self, id: u64) -> Option<(u64, Option<Arc<MemoryContent>>)> {
        self.rows.get(&id).map(|row| (row.version, row.content.clone()))
    }

    /// Version of an id, and the check of its row; no check for a tombstone.
    pub(crate) fn check_of(&self, id: u64) -> Option<(u64, Option<u64>)> {
        let check = |row: &MemoryRow| row.content.as_ref().map(|content| content.check);
        self.rows.get(&id).map(|row| (row.version, check(row)))
    }

    /// The row or tombstone of an id.
    pub(crate) fn row(&self, id: u64) -> Option<StoredRow<'_>> {
        self.rows.get(&id).map(|row| row.stored(id))
    }
}

impl Memtable {
    pub(crate) fn new() -> Memtable {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Memtable { shards, bytes: AtomicUsize::new(0), living: AtomicUsize::new(0) }
    }

    /// Bytes that its rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Its rows, without tombstones. They are counted as they come: a caller may ask after every
    /// commit.
    pub(crate) fn rows(&self) -> u64 {
        self.living.load(Ordering::Relaxed) as u64
    }

    fn shard(&self, group: GroupHash) -> &RwLock<HashMap<GroupHash, MemoryGroup>> {
        &self.shards[group as usize % SHARDS]
    }

    fn write(&self, group: GroupHash) -> RwLockWriteGuard<'_, HashMap<GroupHash, MemoryGroup>> {
        self.shard(group).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row or tombstone unless there is a newer version. True if it was added. Errors:
    /// `BadGroup` if another group has the hash.
    pub(crate) fn put(
        &self,
        hash: GroupHash,
        name: &str,
        row: &StoredRow<'_>,
    ) -> Result<bool, Error> {
        let mut shard = self.write(hash);
        let group = self.group(&mut shard, hash, name)?;
        let old = group.rows.get(&row.id);
        if old.is_some_and(|old| old.version > row.version) {
            return Ok(false);
        }
        let content = row.content.as_ref().map(|content| Arc::new(MemoryContent::copy(content)));
        let new = MemoryRow { version: row.version, deleted_at: row.deleted_at, content };
        self.bytes.fetch_add(new.bytes(), Ordering::Relaxed);
        self.living.fetch_add(new.living(), Ordering::Relaxed);
        if let Some(old) = group.rows.insert(row.id, new) {
            self.bytes.fetch_sub(old.bytes(), Ordering::Relaxed);
            self.living.fetch_sub(old.living(), Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Drops a group: its rows here are gone, and those in runs.
    pub(crate) fn drop_group(&self, hash: GroupHash, name: &str) -> Result<(), Error> {
        let mut shard = self.write(hash);
        let group = self.group(&mut shard, hash, name)?;
        let gone = std::mem::take(&mut group.rows);
        self.bytes.fetch_sub(gone.values().map(MemoryRow::bytes).sum(), Ordering::Relaxed);
        self.living.fetch_sub(gone.values().map(MemoryRow::living).sum(), Ordering::Relaxed);
        group.drops = true;
        Ok(())
    }

    fn group<'a>(
        &self,
        shard: &'a mut HashMap<GroupHash, MemoryGroup>,
        hash: GroupHash,
        name: &str,
    ) -> Result<&'a mut MemoryGroup, Error> {
        let group = shard.entry(hash).or_insert_with(|| {
            self.bytes.fetch_add(ROW_OVERHEAD + name.len(), Ordering::Relaxed);
            MemoryGroup { name: name.into(), drops: false, rows: BTreeMap::new() }
        });
        if &*group.name != name {
            return Err(same_hash(name));
        }
        Ok(group)
    }

    /// Calls `visit` with the group as it is at this moment, if it has new rows or was dropped.
    /// Errors: `BadGroup` if another group has the hash.
    pub(crate) fn visit<T>(
        &self,
        hash: GroupHash,
        name: &str,
        visit: impl FnOnce(&MemoryGroup) -> T,
    ) -> Result<Option<T>, Error> {
        let shard = self.read(self.shard(hash));
        match shard.get(&hash) {
            Some(group) if &*group.name != name => Err(same_hash(name)),
            found => Ok(found.map(visit)),
        }
    }

    fn read<'a>(
        &self,
        shard: &'a RwLock<HashMap<GroupHash, MemoryGroup>>,
    ) -> RwLockReadGuard<'a, HashMap<GroupHash, MemoryGroup>> {
        shard.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes of all groups, ascending.
    pub(crate) fn groups(&self) -> Vec<GroupHash> {
        let keys = |shard| self.read(shard).keys().copied().collect::<Vec<_>>();
        let mut groups: Vec<GroupHash> = self.shards.iter().flat_map(keys).collect();
        groups.sort_unstable();
        groups
    }

    /// The first `limit` hashes of groups from `from` on, ascending. Cost: a pass over all groups.
    pub(crate) fn groups_from(&self, from: GroupHash, limit: usize) -> Vec<GroupHash> {
        let mut groups = self.groups();
        groups.drain(..groups.partition_point(|&hash| hash < from));
        groups.truncate(limit);
        groups
    }

    /// Calls `visit` with name and rows of a group that [`Memtable::groups`] returned.
    pub(crate) fn visit_any<T>(
        &self,
        hash: GroupHash,
        visit: impl FnOnce(&str, &MemoryGroup) -> T,
    ) -> Option<T> {
        let shard = self.read(self.shard(hash));
        shard.get(&hash).map(|group| visit(&group.name, group))
    }
}
