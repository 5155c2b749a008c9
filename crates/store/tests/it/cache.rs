//! The cache stays within its bytes, keeps used entries and forgets files on request.

use std::sync::Arc;

use vstream_store::{Cache, CacheKey};

fn key(file: u64, block: u64) -> CacheKey {
    CacheKey { file, block }
}

#[test]
fn bytes_never_exceed_the_bound() {
    let cache: Cache<u64> = Cache::new(16_000);
    for block in 0..5_000 {
        cache.insert(key(1, block), Arc::new(block), 10 + (block % 500) as usize);
        assert!(cache.stats().bytes <= 16_000);
    }
    cache.insert(key(2, 0), Arc::new(0), 1_001);
    assert!(cache.get(key(2, 0)).is_none(), "larger than a shard");
    assert!(cache.stats().evictions > 4_000);
}

#[test]
fn what_is_used_stays_while_a_scan_passes() {
    let cache: Cache<u64> = Cache::new(160_000);
    (0..100).for_each(|block| cache.insert(key(1, block), Arc::new(block), 500));
    for scanned in 0..10_000 {
        cache.insert(key(2, scanned), Arc::new(scanned), 500);
        (0..100).for_each(|block| drop(cache.get(key(1, block))));
    }
    let kept = (0..100).filter(|&block| cache.get(key(1, block)).is_some()).count();
    assert!(kept >= 95, "only {kept} of 100 stayed");
}

#[test]
fn a_file_is_forgotten_whole_and_alone() {
    let cache: Cache<u64> = Cache::new(1 << 20);
    for block in 0..100 {
        cache.insert(key(1, block), Arc::new(block), 50);
        cache.insert(key(2, block), Arc::new(block + 1), 50);
    }
    cache.forget_file(1);
    assert!((0..100).all(|block| cache.get(key(1, block)).is_none()));
    assert!((0..100).all(|block| *cache.get(key(2, block)).expect("kept") == block + 1));
    assert_eq!(cache.stats().bytes, 5_000);
}

#[test]
fn threads_share_it() {
    let cache: Arc<Cache<u64>> = Arc::new(Cache::new(64_000));
    std::thread::scope(|scope| {
        for file in 0..4 {
            let cache = cache.clone();
            scope.spawn(move || {
                for block in 0..20_000 {
                    let (key, value) = (key(file, block % 700), block % 700);
                    cache.insert(key, Arc::new(value), 64);
                    assert!(cache.get(key).is_none_or(|found| *found == value));
                }
            });
        }
    });
    assert!(cache.stats().bytes <= 64_000);
}
