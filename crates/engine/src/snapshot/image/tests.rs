use std::collections::BTreeMap;

use vstream_vector::SplitMix;

use super::{Image, Part, Run, Turn, GROUPS_MAX};

fn part(number: u64) -> Part {
    Part { number, checksum: number * 7, lsn: number * 10 }
}

/// Shards to look at.
fn shards() -> Vec<u16> {
    (0..800).chain((800..=u16::MAX).step_by(97)).chain([u16::MAX]).collect()
}

#[test]
fn turns_take_the_oldest_shards_and_nothing_else() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let mut image = Image::whole(part(1));
        let mut weights = BTreeMap::new();
        for number in 2..150 {
            // Shards come, grow and go.
            for _ in 0..4 {
                let shard = random.next() as u16 % [64, 700, u16::MAX][seed as usize % 3];
                match random.below(5) {
                    0 => drop(weights.remove(&shard)),
                    _ => *weights.entry(shard).or_insert(0) += 1 + random.below(100) as u64,
                }
            }
            let groups = 1 + random.below(12) as u64;
            let (turn, weight) = image.turn(&weights, groups);
            let taken: Vec<_> =
                weights.iter().filter(|(shard, _)| image.takes(turn, **shard)).collect();
            assert_eq!(taken.iter().map(|(_, weight)| **weight).sum::<u64>(), weight);
            let all = weights.values().sum::<u64>();
            let is_in_bounds = taken.len() <= 1 || weight * groups * 8 <= all * 9;
            assert!(turn.is_all() || is_in_bounds, "{weight} of {all} in {groups} turns");
            let key = |shard: u16| (image.part_of(shard), shard);
            let (taken, left): (Vec<u16>, Vec<u16>) =
                shards().into_iter().partition(|&shard| image.takes(turn, shard));
            let last = taken.iter().map(|&shard| key(shard)).max();
            let first = left.iter().map(|&shard| key(shard)).min();
            assert!(first.is_none_or(|first| last < Some(first)), "the oldest come first");

            let before = image;
            image = before.after(turn, part(number));
            let number_of =
                |image: &Image, shard| image.parts()[usize::from(image.part_of(shard))].number;
            for shard in shards() {
                let is_taken = taken.binary_search(&shard).is_ok();
                let expected = if is_taken { number } else { number_of(&before, shard) };
                assert_eq!(number_of(&image, shard), expected, "shard {shard} of part {number}");
            }
            assert_eq!(image.newest(), &part(number));
            // What is no image is not: a part without a shard, a shard without a part.
            let again = Image::of(image.parts().to_vec(), image.runs().to_vec());
            assert_eq!(again.as_ref(), Some(&image));
        }
    }
}

#[test]
fn each_shard_is_written_once_in_as_many_turns_as_there_are_groups() {
    let weights: BTreeMap<u16, u64> =
        (0..GROUPS_MAX as u16).map(|shard| (shard, 1_000 + u64::from(shard))).collect();
    let mut image = Image::whole(part(1));
    for number in 2..2 + GROUPS_MAX {
        let (turn, weight) = image.turn(&weights, GROUPS_MAX);
        assert!((1_000..1_000 + GROUPS_MAX).contains(&weight), "{weight}");
        image = image.after(turn, part(number));
    }
    assert_eq!(image.parts().len() as u64, GROUPS_MAX);
    assert_eq!(image.oldest().number, 2);
}

#[test]
fn small_images_and_those_of_one_shard_are_written_whole() {
    let image = Image::whole(part(1));
    assert_eq!(image.turn(&BTreeMap::from([(7, 1 << 30)]), 64), (Turn::ALL, 1 << 30));
    assert_eq!(image.turn(&BTreeMap::new(), 64), (Turn::ALL, 0));
    let two = BTreeMap::from([(7, 10), (8, 10)]);
    assert_eq!(image.turn(&two, 1), (Turn::ALL, 20));
    assert_eq!(image.turn(&two, 2).1, 10);
    assert_eq!((Image::groups(0, 4), Image::groups(7, 4), Image::groups(9, 4)), (1, 1, 2));
    assert_eq!((Image::groups(1 << 40, 4), Image::groups(5, 0)), (GROUPS_MAX, 5));
}

#[test]
fn files_are_those_of_the_shards_that_a_part_serves() {
    let image = Image::whole(part(3));
    let (turn, _) = image.turn(&BTreeMap::from([(1, 10), (2, 10)]), 2);
    let image = image.after(turn, part(4));
    let has = |name: &str| image.has(name);
    assert!(has("base-0000000003.MANIFEST") && has("base-0000000004.MANIFEST"));
    assert!(has("base-0000000003.shard-002.rows") && has("base-0000000004.shard-001.rows"));
    assert!(has("base-0000000004.shard-000.rows") && has("base-0000000003.shard-4000.rows"));
    for name in [
        "base-0000000004.shard-002.rows",
        "base-0000000003.shard-001.rows",
        "base-0000000005.MANIFEST",
        "base-0000000004.MANIFEST.partial",
        "base-0000000004.shard-99999.rows",
        "log-0000000004",
    ] {
        assert!(!has(name), "{name}");
    }
}

#[test]
fn parts_that_do_not_serve_each_shard_once_are_no_image() {
    let run = |first, part| Run { first, part };
    let two = vec![part(1), part(2)];
    assert!(Image::of(two.clone(), vec![run(0, 1), run(5, 0)]).is_some());
    let older = Part { lsn: 1, ..part(2) };
    for (parts, runs) in [
        (vec![], vec![]),
        (two.clone(), vec![]),
        (two.clone(), vec![run(0, 1)]),
        (two.clone(), vec![run(1, 1), run(5, 0)]),
        (two.clone(), vec![run(0, 1), run(0, 0)]),
        (two.clone(), vec![run(0, 1), run(5, 1), run(6, 0)]),
        (two.clone(), vec![run(0, 1), run(5, 2), run(6, 0)]),
        (vec![part(2), part(1)], vec![run(0, 1), run(5, 0)]),
        (vec![part(1), part(1)], vec![run(0, 1), run(5, 0)]),
        (vec![part(1), older], vec![run(0, 1), run(5, 0)]),
    ] {
        assert_eq!(Image::of(parts.clone(), runs.clone()), None, "{parts:?} {runs:?}");
    }
}
