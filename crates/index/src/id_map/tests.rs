use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{hash, Hint, IdMap, CAPACITY_MIN, TABLES};
use vstream_vector::SplitMix;

#[test]
fn ids_in_sequence_and_in_steps_spread_over_high_and_low_bits() {
    let steps = [1u64, 2, 1 << 7, 1 << 20, 1 << 40, 0x0101_0101];
    for (step, seed) in steps.into_iter().flat_map(|step| (0..50).map(move |s| (step, s))) {
        let seed = 0x1234_5678_9abc_def1u64.wrapping_mul(seed);
        let (mut low, mut high) = ([0u32; 128], [0u32; 128]);
        for i in 0..12_800u64 {
            let bits = hash(seed, i.wrapping_mul(step));
            low[(bits % 128) as usize] += 1;
            high[(bits >> 57) as usize] += 1;
        }
        for count in low.into_iter().chain(high) {
            assert!((45..175).contains(&count), "seed {seed}, step {step}: {count} of 100");
        }
    }
}

#[test]
fn it_is_a_map() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = SplitMix(seed);
    // Few ids: every id is replaced and removed many times. Many: tables grow and shrink.
    for (ids, operations) in [(50, 20_000), (40_000, 300_000)] {
        let (mut map, mut model) = (IdMap::default(), HashMap::new());
        for step in 0..operations {
            let id = (random.next() % ids).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let shrinking = step > operations / 2;
            if random.next() % 10 < if shrinking { 3 } else { 7 } {
                let place = (step as u32, random.next() as u32);
                map.insert(id, place);
                model.insert(id, place);
            } else {
                map.remove(id, step as u64);
                model.remove(&id);
            }
            assert_eq!(map.get(id), model.get(&id).copied(), "step {step}");
            match (map.ids().find(id), map.get(id)) {
                (Hint::At(found), Some(address)) => assert_eq!(found, address),
                (Hint::Absent(removed), None) => assert!(removed <= step as u64),
                wrong => panic!("{wrong:?} at step {step}"),
            }
            assert_eq!(map.len(), model.len());
        }
        map.tables.iter().for_each(|table| table.entries.check(map.ids.seed));
        assert!(model.iter().all(|(&id, &place)| map.get(id) == Some(place)));
    }
}

#[test]
fn it_stays_full_while_it_grows_and_returns_what_it_does_not_need() {
    let mut map = IdMap::default();
    let n = 200_000u64;
    for id in 0..n {
        map.insert(id, (0, 0));
        if id > 20_000 && id % 10_000 == 0 {
            let per_id = map.memory_bytes() as f64 / map.len() as f64;
            assert!(per_id < 26.0, "{per_id} bytes per id slot {id}");
        }
    }
    (0..n - 1_000).for_each(|id| map.remove(id, id));
    assert_eq!(map.len(), 1_000);
    assert!(map.memory_bytes() < 200_000, "{} bytes for a thousand ids", map.memory_bytes());
    assert!((n - 1_000..n).all(|id| map.get(id) == Some((0, 0))));
}

/// Hashes that crowd in one place of a table, whatever the seed is.
#[test]
fn crowded_hashes_are_still_found() {
    let mut map = IdMap::with_seed(5);
    let crowd: Vec<u64> = (0..4_000_000u64)
        .filter(|&id| hash(5, id) & 0xffff_ffff > 0xffff_f000 - (1 << 20))
        .collect();
    assert!(crowd.len() > 900);
    for (place, &id) in (0..).zip(&crowd) {
        map.insert(id, (place, 1));
    }
    assert!((0..).zip(&crowd).all(|(place, &id)| map.get(id) == Some((place, 1))));
    crowd.iter().for_each(|&id| map.remove(id, 1));
    assert!(map
        .tables
        .iter()
        .all(|table| table.len == 0 && table.entries.capacity() >= CAPACITY_MIN));
    assert_eq!(map.tables.len(), TABLES);
}

/// Readers beside the writer. An id below 100 never leaves; the others come and go, so that tables grow,
/// shrink and move their entries. What a reader learns of an id is true of a moment of the look-up.
#[test]
fn readers_learn_nothing_or_the_truth_while_the_writer_moves_entries() {
    const KEPT: u64 = 100;
    const GONE: u64 = 1 << 40;
    let mut map = IdMap::default();
    (0..KEPT).for_each(|id| map.insert(id, (id as u32, 0)));
    let (stop, written, found) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (ids, stop, written, found) = (map.ids().clone(), &stop, &written, &found);
            scope.spawn(move || {
                let mut random = SplitMix(seed);
                while !stop.load(Ordering::SeqCst) {
                    let id = random.below(KEPT as usize) as u64;
                    match ids.find(id) {
                        Hint::At((address, version)) => {
                            assert_eq!(u64::from(address), id);
                            let after = written.load(Ordering::SeqCst) + 1;
                            assert!(u64::from(version) <= after, "version {version} of {after}");
                            found.fetch_add(1, Ordering::Relaxed);
                        }
                        Hint::Absent(_) => panic!("{id} is always there"),
                        Hint::Unknown => {}
                    }
                    let before = written.load(Ordering::SeqCst);
                    let (gone, other) = (ids.find(GONE), KEPT + random.below(20_000) as u64);
                    assert!(matches!(gone, Hint::Absent(_) | Hint::Unknown));
                    match ids.find(other) {
                        Hint::At((address, _)) => assert_eq!(u64::from(address), other),
                        // The last turn in which ids go ends with all of them gone.
                        Hint::Absent(removed) => assert!(removed + 2 >= before || removed == 0),
                        Hint::Unknown => {}
                    }
                }
            });
        }
        for write in 1..=40u32 {
            written.store(u64::from(write), Ordering::SeqCst);
            for id in 0..20_000 {
                let id = KEPT + id;
                match write % 2 {
                    1 => map.insert(id, (id as u32, write)),
                    _ => map.remove(id, u64::from(write)),
                }
                if id.is_multiple_of(64) {
                    map.insert(id % KEPT, ((id % KEPT) as u32, write));
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(found.load(Ordering::SeqCst) > 1_000, "the readers hardly ran");
    map.tables.iter().for_each(|table| table.entries.check(map.ids.seed));
}
