//! A cache of blocks, bounded in bytes, that all readers of a process share.
//!
//! It is a sharded CLOCK cache. A hit sets the entry's bit. When the cache needs room, a hand
//! passes over the entries, clears set bits and evicts the first entry without one. A new entry
//! starts without the bit, so blocks that are read once leave first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;

/// The key of an entry: block `block` of the file with identity `file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// Identity of the file. No two files ever have the same one.
    pub file: u64,
    /// Number of the block.
    pub block: u64,
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not find their block.
    pub misses: u64,
    /// Entries that were evicted.
    pub evictions: u64,
    /// Bytes in the cache now.
    pub bytes: u64,
}

/// Values by block, with a bound on their bytes.
pub struct Cache<V> {
    shards: Vec<Mutex<Shard<V>>>,
    shard_bytes_max: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

struct Shard<V> {
    by_key: HashMap<CacheKey, usize>,
    slots: Vec<Slot<V>>,
    hand: usize,
    bytes: usize,
}

struct Slot<V> {
    key: CacheKey,
    value: Arc<V>,
    bytes: usize,
    used: bool,
}

impl<V> Cache<V> {
    /// An empty cache of at most `bytes_max` bytes. An entry may have at most a sixteenth of them.
    pub fn new(bytes_max: usize) -> Cache<V> {
        let shard =
            || Mutex::new(Shard { by_key: HashMap::new(), slots: Vec::new(), hand: 0, bytes: 0 });
        Cache {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shard_bytes_max: bytes_max / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: CacheKey) -> MutexGuard<'_, Shard<V>> {
        let mixed = (key.file ^ key.block.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(mixed >> 60) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a block, if it is cached.
    pub fn get(&self, key: CacheKey) -> Option<Arc<V>> {
        let mut shard = self.shard(key);
        let found = shard.by_key.get(&key).copied().map(|slot_index| {
            let slot = &mut shard.slots[slot_index];
            slot.used = true;
            slot.value.clone()
        });
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Caches a value that takes `bytes` bytes of memory and evicts others to make room. A value
    /// that is too large is not cached. A value whose key is cached already is dropped.
    pub fn insert(&self, key: CacheKey, value: Arc<V>, bytes: usize) {
        if bytes > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(key);
        if shard.by_key.contains_key(&key) {
            return;
        }
        while shard.bytes + bytes > self.shard_bytes_max {
            shard.evict();
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        let slot_index = shard.slots.len();
        shard.slots.push(Slot { key, value, bytes, used: false });
        shard.by_key.insert(key, slot_index);
        shard.bytes += bytes;
    }

    /// Removes all blocks of a file, for example when the file is removed. Cost: O(entries).
    pub fn forget_file(&self, file: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(slot_index) = shard.slots.iter().position(|slot| slot.key.file == file) {
                shard.remove(slot_index);
            }
        }
    }

    /// The present counters.
    pub fn stats(&self) -> CacheStats {
        let held = |shard: &Mutex<Shard<V>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).bytes as u64
        };
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            bytes: self.shards.iter().map(held).sum(),
        }
    }
}

impl<V> Shard<V> {
    /// Evicts the next entry that was not used since the hand last passed it. The shard must not be
    /// empty.
    fn evict(&mut self) {
        loop {
            self.hand %= self.slots.len();
            if !std::mem::take(&mut self.slots[self.hand].used) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, slot_index: usize) {
        let slot = self.slots.swap_remove(slot_index);
        self.by_key.remove(&slot.key);
        self.bytes -= slot.bytes;
        if let Some(moved) = self.slots.get(slot_index) {
            self.by_key.insert(moved.key, slot_index);
        }
    }
}
