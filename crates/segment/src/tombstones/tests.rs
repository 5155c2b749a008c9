use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use vstream_vector::SplitMix;

use super::*;

/// Every question that readers ask, held to a map.
fn check(tombstones: &Tombstones, expected: &BTreeMap<u32, u64>) {
    let mut found = Vec::new();
    tombstones.for_each(&mut |row, sequence| found.push((row, sequence)));
    assert!(found.iter().copied().eq(expected.iter().map(|(&row, &sequence)| (row, sequence))));
    assert_eq!(tombstones.count(), expected.len() as u64);
    for (&row, &sequence) in expected {
        assert!(!tombstones.is_visible(row, sequence), "{row}");
        assert!(!tombstones.is_visible(row, u64::MAX - 1), "{row}");
        assert!(sequence == 0 || tombstones.is_visible(row, sequence - 1), "{row}");
    }
    let rows = tombstones.rows;
    let free = (0..rows).filter(|row| !expected.contains_key(row));
    free.for_each(|row| assert!(tombstones.is_visible(row, u64::MAX - 1), "{row}"));
    for part in [0..rows / 3, rows / 3..rows, 1_000..1_100, 1_024..2_048] {
        let (mut some, end) = (Vec::new(), part.end.min(rows));
        tombstones.for_each_in(part.clone(), &mut |row, _| some.push(row));
        assert!(some.iter().eq(expected.range(part.start.min(end)..end).map(|(row, _)| row)));
    }
}

#[test]
fn sequences_far_apart_are_kept_as_they_are() {
    let tombstones = Tombstones::none(3_000);
    let near = [(5, 7), (6, 7), (1_023, 0), (900, 4_000_000_000)];
    let far = [(7, 1 << 40), (8, u64::MAX - 1), (2_050, 1 << 50), (2_051, 3), (2_999, 1 << 51)];
    let mut expected = BTreeMap::new();
    for (row, sequence) in near.into_iter().chain(far) {
        assert!(tombstones.add(row, sequence) && !tombstones.add(row, 1));
        assert!(!tombstones.add(row, 0));
        expected.insert(row, sequence);
        check(&tombstones, &expected);
    }
}

#[test]
fn any_share_of_rows_in_any_order_is_kept() {
    for (seed, share) in [0.001, 0.05, 0.3, 1.0].repeat(8).into_iter().enumerate() {
        println!("seed {seed}");
        let mut random = SplitMix(seed as u64);
        let rows = 1 + random.below(5_000) as u32;
        let tombstones = Tombstones::none(rows);
        let mut expected = BTreeMap::new();
        let mut sequence = 0;
        for _ in 0..(f64::from(rows) * share * 2.0) as usize {
            let row = random.below(rows as usize) as u32;
            sequence += random.below(3) as u64;
            let is_new = !expected.contains_key(&row);
            assert_eq!(tombstones.add(row, sequence), is_new);
            expected.entry(row).or_insert(sequence);
        }
        check(&tombstones, &expected);
        (0..rows).for_each(|row| {
            assert_eq!(tombstones.add(row, sequence), !expected.contains_key(&row));
            expected.entry(row).or_insert(sequence);
        });
        check(&tombstones, &expected);
    }
}

#[test]
fn few_take_little_memory_and_rows_that_never_were_take_a_bit() {
    let rows = 102_400;
    let held = |sequence: &dyn Fn(u32) -> Option<u64>| {
        let tombstones = Tombstones::none(rows);
        let before = tombstones.memory_bytes();
        let mut expected = BTreeMap::new();
        for (row, sequence) in (0..rows).filter_map(|row| Some((row, sequence(row)?))) {
            assert!(tombstones.add(row, sequence));
            expected.insert(row, sequence);
        }
        check(&tombstones, &expected);
        (tombstones.memory_bytes() - before) / 100
    };
    let chunk = size_of::<Chunk>() as u64;
    assert!(chunk < 400, "{chunk}");
    // 51 or 52 in a chunk.
    assert_eq!(held(&|row| (row % 20 == 0).then_some(u64::from(row) + 9)), chunk + 64 * 8);
    assert_eq!(held(&|_| Some(0)), chunk);
    // A merge takes leaves: runs of rows with one sequence.
    assert_eq!(held(&|row| Some(u64::from(row / 16) + 1)), chunk + 64 * 8);
    // Where another row of the run had gone before there are two entries.
    assert_eq!(held(&|row| Some(if row % 16 == 7 { 3 } else { 5 })), chunk + 256 * 8);
}

/// What a reader pinned is gone, and what came later stands, however far the writer is.
#[test]
fn readers_beside_the_writer_see_what_they_pinned() {
    const ROWS: u32 = 20_000;
    let mut random = SplitMix(1);
    let mut order: Vec<u32> = (0..ROWS).collect();
    order.sort_by_cached_key(|_| random.below(1 << 40));
    let (tombstones, published) = (Tombstones::none(ROWS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (tombstones, published, order) = (&tombstones, &published, &order);
            scope.spawn(move || {
                let mut random = SplitMix(reader);
                let mut pin = 0;
                while pin < u64::from(ROWS) {
                    pin = published.load(Ordering::Acquire);
                    for _ in 0..200 {
                        // The row at `at` is deleted with sequence `at + 1`.
                        let at = random.below(ROWS as usize) as u32;
                        let row = order[at as usize];
                        assert_eq!(tombstones.is_visible(row, pin), u64::from(at) >= pin);
                    }
                    let mut gone = 0;
                    tombstones.for_each(&mut |_, sequence| gone += u64::from(sequence <= pin));
                    assert_eq!(gone, pin);
                }
            });
        }
        for (&row, sequence) in order.iter().zip(1..) {
            assert!(tombstones.add(row, sequence));
            published.store(sequence, Ordering::Release);
        }
    });
}

#[test]
fn rows_that_go_together_go_as_one_by_one() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let (rows, mut sequence) = (5_000u32, seed % 2 * 3);
        let (tombstones, mut expected) = (Tombstones::none(rows), BTreeMap::new());
        for _ in 0..60 {
            sequence += random.next() % 3;
            let from = random.below(rows as usize) as u32;
            let most = if random.below(4) == 0 { 2_500 } else { 70 };
            let range = from..(from + random.below(most) as u32).min(rows);
            let before = expected.len();
            range.clone().for_each(|row| {
                expected.entry(row).or_insert(sequence);
            });
            let added = tombstones.add_rows(range, sequence);
            assert_eq!(added as usize, expected.len() - before);
            check(&tombstones, &expected);
        }
        // From far before the first: an entry has no room for the distance.
        let far = Tombstones::none(100);
        assert_eq!(far.add_rows(0..10, 1 << 50), 10);
        assert_eq!(far.add_rows(5..80, 7), 70);
        let expected = (0..80).map(|row| (row, if row < 10 { 1 << 50 } else { 7 })).collect();
        check(&far, &expected);
    }
}
