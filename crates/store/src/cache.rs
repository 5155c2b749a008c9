//! A cache of blocks, bounded in bytes, that all readers of a process share.
//!
//! It is sharded, and each shard is two queues (S3-FIFO, Yang et al., SOSP 2023). A new entry is *young*. The young
//! have a tenth of the bytes: who was used by the end of that queue becomes old, the others leave, so blocks that
//! are read once hardly take the place of others. An old entry that was used since its last turn gets another one.
//! Who comes back soon after it has left is old at once.
//!
//! A cache of who reads ahead is one queue: what came last leaves last, used or not ([`Cache::for_reading_ahead`]).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vstream_vector::SplitMix;

const SHARDS: usize = 16;
/// Part of the bytes that the young have.
const YOUNG_PART: usize = 10;
/// Most uses that are counted.
const USES_MAX: u8 = 3;

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
    by_key: HashMap<CacheKey, Entry<V>>,
    young: VecDeque<CacheKey>,
    old: VecDeque<CacheKey>,
    young_bytes: usize,
    bytes: usize,
    /// False where all blocks are read ahead: no entry is young, and no use counts.
    is_shared: bool,
    /// Marks of young entries that left, each in the place that its key says: about as many as there are entries.
    left: Vec<u32>,
}

struct Entry<V> {
    value: Arc<V>,
    bytes: u32,
    uses: u8,
    is_young: bool,
}

impl<V> Cache<V> {
    /// An empty cache of at most `bytes_max` bytes. An entry may have at most a sixteenth of them.
    pub fn new(bytes_max: usize) -> Cache<V> {
        Cache::of(bytes_max, true)
    }

    /// An empty cache for blocks that are read together and used soon: of as many bytes as it has, the last are
    /// there.
    pub fn for_reading_ahead(bytes_max: usize) -> Cache<V> {
        Cache::of(bytes_max, false)
    }

    fn of(bytes_max: usize, is_shared: bool) -> Cache<V> {
        Cache {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(is_shared))).collect(),
            shard_bytes_max: bytes_max / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: CacheKey) -> MutexGuard<'_, Shard<V>> {
        let shard = &self.shards[(mixed(key) >> 60) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a block, if it is cached.
    pub fn get(&self, key: CacheKey) -> Option<Arc<V>> {
        let mut shard = self.shard(key);
        let uses_max = if shard.is_shared { USES_MAX } else { 0 };
        let found = shard.by_key.get_mut(&key).map(|entry| {
            entry.uses = uses_max.min(entry.uses + 1);
            entry.value.clone()
        });
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Caches a value that takes `bytes` bytes of memory and evicts others to make room. A value
    /// that is too large is not cached. A value whose key is cached already is dropped.
    pub fn insert(&self, key: CacheKey, value: Arc<V>, bytes: usize) {
        if bytes > self.shard_bytes_max.min(u32::MAX as usize) {
            return;
        }
        let mut shard = self.shard(key);
        if shard.by_key.contains_key(&key) {
            return;
        }
        let evicted = shard.make_room(bytes, self.shard_bytes_max);
        self.evictions.fetch_add(evicted, Ordering::Relaxed);
        shard.insert(key, value, bytes);
    }

    /// Removes all blocks of a file, for example when the file is removed. Cost: O(entries).
    pub fn forget_file(&self, file: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.forget_file(file);
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
    fn new(is_shared: bool) -> Shard<V> {
        Shard {
            by_key: HashMap::new(),
            young: VecDeque::new(),
            old: VecDeque::new(),
            young_bytes: 0,
            bytes: 0,
            is_shared,
            left: Vec::new(),
        }
    }

    fn insert(&mut self, key: CacheKey, value: Arc<V>, bytes: usize) {
        let is_young = self.is_shared && !self.take_mark(key);
        self.by_key.insert(key, Entry { value, bytes: bytes as u32, uses: 0, is_young });
        self.bytes += bytes;
        if is_young {
            self.young.push_back(key);
            self.young_bytes += bytes;
        } else {
            self.old.push_back(key);
        }
    }

    /// Evicts entries until there is room for `bytes`, at most `most`; returns how many.
    fn make_room(&mut self, bytes: usize, most: usize) -> u64 {
        let mut evicted = 0;
        while self.bytes + bytes > most {
            let is_young = self.young_bytes > most / YOUNG_PART || self.old.is_empty();
            let queue = if is_young { &mut self.young } else { &mut self.old };
            let key = queue.pop_front().expect("a shard with bytes has an entry");
            let entry = self.by_key.get_mut(&key).expect("an entry of a queue");
            if is_young {
                self.young_bytes -= entry.bytes as usize;
            }
            if entry.uses > 0 {
                entry.uses = if is_young { 0 } else { entry.uses - 1 };
                entry.is_young = false;
                self.old.push_back(key);
                continue;
            }
            self.bytes -= entry.bytes as usize;
            self.by_key.remove(&key);
            evicted += 1;
            if is_young {
                let places = self.left.len().max(self.by_key.len().next_power_of_two());
                self.left.resize(places, 0);
                let (place, mark) = self.mark(key);
                self.left[place] = mark;
            }
        }
        evicted
    }

    /// True if `key` left a short while ago; forgets that.
    fn take_mark(&mut self, key: CacheKey) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let (place, mark) = self.mark(key);
        let is_there = self.left[place] == mark;
        if is_there {
            self.left[place] = 0;
        }
        is_there
    }

    /// Place among the marks, of which there is one at least, and mark. Few keys share both; who does comes in as
    /// old.
    fn mark(&self, key: CacheKey) -> (usize, u32) {
        let mixed = mixed(key);
        ((mixed >> 32) as usize % self.left.len(), mixed as u32 | 1)
    }

    fn forget_file(&mut self, file: u64) {
        self.young.retain(|key| key.file != file);
        self.old.retain(|key| key.file != file);
        self.by_key.retain(|key, entry| {
            let is_kept = key.file != file;
            if !is_kept {
                self.bytes -= entry.bytes as usize;
                self.young_bytes -= if entry.is_young { entry.bytes as usize } else { 0 };
            }
            is_kept
        });
    }
}

/// Bits of a key, well mixed.
fn mixed(key: CacheKey) -> u64 {
    SplitMix(key.file ^ key.block.rotate_left(32)).next()
}
