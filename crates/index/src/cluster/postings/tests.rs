//! The lists against a map, while leaves come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Postings, COMMON};
use crate::cluster::leaf::Leaf;
use vstream_vector::SplitMix;

fn leaf(id: u32) -> Arc<Leaf> {
    Arc::new(Leaf::new((id, id), Box::default(), Box::default()))
}

/// By leaf: code and chunk of each row that entered it.
type Entered = BTreeMap<u32, BTreeSet<(u32, u32)>>;

#[test]
fn lists_hold_the_chunks_of_the_leaves_that_are_there() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let (postings, mut entered) = (Postings::default(), Entered::new());
        let mut leaves: Vec<Arc<Leaf>> = (0..12).map(leaf).collect();
        let mut found = Vec::new();
        for step in 1..=3_000u64 {
            let at = random.below(leaves.len());
            if random.below(8) == 0 {
                postings.remove(&leaves[at], step);
                entered.remove(&(at as u32));
                leaves[at] = leaf(at as u32);
            } else {
                // Codes below 5 are frequent, the others rare.
                let code = if random.below(2) == 0 { random.below(5) } else { random.below(400) };
                let row = (code as u32, random.below(12) as u32);
                (0..1 + random.below(3)).for_each(|_| found.push(row));
                postings.add(&leaves[at], &mut found);
                entered.entry(at as u32).or_default().insert(row);
            }
            let code = random.below(400) as u32;
            let listed = postings.find(&[code], step).expect("a code that is not common");
            let listed: Vec<(u32, Vec<u16>)> =
                listed.into_iter().map(|(leaf, chunks)| (leaf.id, chunks)).collect();
            let mut expected: Vec<(u32, Vec<u16>)> = Vec::new();
            for (leaf, rows) in &entered {
                let of = rows.iter().filter(|(of, _)| *of == code);
                let chunks: Vec<u16> = of.map(|(_, chunk)| *chunk as u16).collect();
                if !chunks.is_empty() {
                    expected.push((*leaf, chunks));
                }
            }
            let mut by_leaf = listed;
            by_leaf.sort();
            assert_eq!(by_leaf, expected, "code {code} at step {step}");
            let mut marked = Vec::new();
            assert!(postings.mark(&[code], step, &mut marked));
            let bits = (0..marked.len() as u32 * 64)
                .filter(|id| marked[(id / 64) as usize] >> (id % 64) & 1 == 1);
            let leaves: Vec<u32> = expected.iter().map(|(leaf, _)| *leaf).collect();
            assert_eq!(bits.collect::<Vec<u32>>(), leaves, "code {code} at step {step}");
        }
        let listed = postings.0.read().expect("a lock");
        let entries: usize = listed.lists.iter().flatten().map(Vec::len).sum();
        let live: usize = entered.values().map(BTreeSet::len).sum();
        assert!(entries <= 8 * live + 1_000, "{entries} entries for {live}");
        assert!(listed.leaves.len() < 100, "{} numbers for 12 leaves", listed.leaves.len());
    }
}

#[test]
fn a_reader_of_an_older_root_gets_no_list_and_a_common_code_has_none() {
    let postings = Postings::default();
    let leaves: Vec<Arc<Leaf>> = (0..8).map(leaf).collect();
    postings.add(&leaves[0], &mut vec![(7, 3)]);
    postings.remove(&leaves[0], 10);
    assert!(postings.find(&[7], 9).is_none(), "an older root still has the leaf");
    assert_eq!(postings.find(&[7], 10).map(|listed| listed.len()), Some(0));
    for chunk in 0..2 * COMMON as u32 / 7 + 100 {
        leaves[1..].iter().for_each(|leaf| postings.add(leaf, &mut vec![(1, chunk)]));
    }
    assert!(postings.find(&[1], 10).is_none(), "a common code");
    // The same chunks again and again do not make a code common.
    for _ in 0..10_000 {
        leaves[1..].iter().for_each(|leaf| postings.add(leaf, &mut vec![(2, 5)]));
    }
    assert_eq!(postings.find(&[2], 10).map(|listed| listed.len()), Some(7));
}
