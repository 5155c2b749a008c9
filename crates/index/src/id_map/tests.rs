use super::{hash, IdMap, Table, CAPACITY_MIN, TABLES};
use std::collections::HashMap;
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

/// Entries lie in the order of their hashes, none before its home, none behind a gap.
fn check(table: &Table, seed: u64) {
    let mut last = 0;
    for (slot, entry) in table.entries.iter().enumerate() {
        if entry.address == super::FREE {
            continue;
        }
        let key = hash(seed, entry.id) & 0xffff_ffff;
        let home = table.home(key);
        assert!(home <= slot && last <= key);
        assert!((home..slot).all(|before| table.entries[before].address != super::FREE));
        last = key;
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
                map.remove(id);
                model.remove(&id);
            }
            assert_eq!(map.get(id), model.get(&id).copied(), "step {step}");
            assert_eq!(map.len(), model.len());
        }
        map.tables.iter().for_each(|table| check(table, map.seed));
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
    (0..n - 1_000).for_each(|id| map.remove(id));
    assert_eq!(map.len(), 1_000);
    assert!(map.memory_bytes() < 200_000, "{} bytes for a thousand ids", map.memory_bytes());
    assert!((n - 1_000..n).all(|id| map.get(id) == Some((0, 0))));
}

/// Hashes that crowd in one place of a table, whatever the seed is.
#[test]
fn crowded_hashes_are_still_found() {
    let mut map = IdMap { seed: 5, ..IdMap::default() };
    let crowd: Vec<u64> = (0..4_000_000u64)
        .filter(|&id| hash(5, id) & 0xffff_ffff > 0xffff_f000 - (1 << 20))
        .collect();
    assert!(crowd.len() > 900);
    for (place, &id) in (0..).zip(&crowd) {
        map.insert(id, (place, 1));
    }
    assert!((0..).zip(&crowd).all(|(place, &id)| map.get(id) == Some((place, 1))));
    crowd.iter().for_each(|&id| map.remove(id));
    assert!(map.tables.iter().all(|table| table.len == 0 && table.capacity >= CAPACITY_MIN));
    assert_eq!(map.tables.len(), TABLES);
}
