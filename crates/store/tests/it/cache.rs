//! The cache stays within its bytes, keeps used entries and forgets files on request.

use std::sync::Arc;

use vstream_store::{Cache, CacheKey};
use vstream_vector::SplitMix;

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

#[test]
fn what_was_read_ahead_stays_until_older_blocks_are_gone() {
    let cache: Cache<u64> = Cache::for_reading_ahead(16 * 100 * 10);
    (0..8_000).for_each(|block| cache.insert(key(7, block), Arc::new(block), 10));
    let kept_of = |blocks: std::ops::Range<u64>| {
        blocks.filter(|&block| cache.get(key(7, block)).is_some()).count()
    };
    // A quarter of what fits, as one long read brings it, used only once all of it is there.
    for from in [10_000, 20_000, 30_000] {
        for block in from..from + 400 {
            cache.insert(key(7, block), Arc::new(block), 10);
        }
        assert_eq!(kept_of(from..from + 400), 400);
        // Some of it is used more often.
        assert_eq!(kept_of(from + 40..from + 400), 360);
    }
    assert!(cache.stats().bytes <= 16_000);
}

/// Share of look-ups that hit: half of them are for a twentieth of the blocks, the others for any, in a cache
/// that holds a tenth.
fn share_of_hits(cache: &Cache<u64>) -> f64 {
    let mut random = SplitMix(20_230);
    let look_up = |random: &mut SplitMix| {
        let is_hot = random.next().is_multiple_of(2);
        let block = random.next() % if is_hot { 1_000 } else { 20_000 };
        let is_hit = cache.get(key(3, block)).is_some();
        if !is_hit {
            cache.insert(key(3, block), Arc::new(block), 10);
        }
        is_hit
    };
    let before = (0..100_000).filter(|_| look_up(&mut random)).count();
    assert!(before > 0);
    (0..100_000).filter(|_| look_up(&mut random)).count() as f64 / 1e5
}

#[test]
fn blocks_that_many_queries_need_stay() {
    // The best there is keeps the thousand, and a thousand of the others.
    let shared = share_of_hits(&Cache::new(2_000 * 10));
    let reading_ahead = share_of_hits(&Cache::for_reading_ahead(2_000 * 10));
    assert!(shared > 0.5, "{shared} of look-ups hit, {reading_ahead} where what came last stays");
    assert!(shared > reading_ahead, "{shared} {reading_ahead}");
}

#[test]
fn a_limit_that_no_machine_has_takes_no_memory() {
    let cache: Cache<u64> = Cache::new(usize::MAX);
    (0..1_000).for_each(|block| cache.insert(key(1, block), Arc::new(block), 4_096));
    assert!((0..1_000).all(|block| cache.get(key(1, block)).is_some()));
    assert_eq!(cache.stats().bytes, 1_000 * 4_096);
}
