//! Layouts are permutations, and the better ones have more neighbours in a block.

use vstream_vector::{Metric, SplitMix};

use super::*;
use crate::build::{shuffle, whole, BuildSettings};
use crate::vectors::Vectors;

const LAYOUTS: [Layout; 4] =
    [Layout::IdOrder, Layout::Bnp, Layout::Bnf { passes: 8 }, Layout::Bns { passes: 8, swaps: 4 }];

/// A graph over rows that lie near some centres, in a random order.
fn graph(rows: usize, degree: usize) -> Graph {
    let mut random = SplitMix(17);
    let centres: Vec<f32> = (0..60 * 64).map(|_| random.normal() * 30.0).collect();
    let numbers = (0..rows).flat_map(|_| {
        let centre = random.below(60) * 64;
        (0..64).map(|d| centres[centre + d] + random.normal() * 12.0).collect::<Vec<f32>>()
    });
    let vectors = Vectors::new(numbers.collect(), 64, Metric::L2);
    whole(&vectors, BuildSettings { degree, list: 40, alpha: 1.2, seed: 1 })
}

fn is_permutation(order: &[u32], rows: usize) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted == (0..rows as u32).collect::<Vec<_>>()
}

#[test]
fn every_layout_places_each_row_once() {
    for rows in [1, 2, 15, 16, 17, 250, 1003] {
        let graph = graph(rows, 12);
        for layout in LAYOUTS {
            for capacity in [1, 2, 7, 16] {
                let order = arrange(&graph, capacity, layout, 5);
                assert!(is_permutation(&order, rows), "{layout:?}, {rows} rows by {capacity}");
            }
        }
    }
}

#[test]
fn better_layouts_overlap_more() {
    let graph = graph(4000, 31);
    let ratios = LAYOUTS.map(|layout| overlap(&graph, &arrange(&graph, 16, layout, 5), 16));
    assert!(ratios[0] < 0.02, "{ratios:?}");
    assert!(ratios[1] > 5.0 * ratios[0], "{ratios:?}");
    assert!(ratios[2] > 1.2 * ratios[1], "{ratios:?}");
    assert!(ratios[3] > 1.02 * ratios[2], "{ratios:?}");
}

/// The oracle counts pairs, as the definition says.
#[test]
fn overlap_is_the_share_of_neighbours() {
    let graph = graph(203, 9);
    let mut order: Vec<u32> = (0..203).collect();
    shuffle(&mut order, &mut SplitMix(3));
    for capacity in [1, 2, 8, 16, 300] {
        let mut sum = 0.0;
        for block in order.chunks(capacity).filter(|block| block.len() > 1) {
            for u in block {
                let others = block.iter().filter(|v| *v != u);
                let near = others.filter(|v| graph.neighbours(*u).contains(v)).count();
                sum += near as f64 / (block.len() - 1) as f64;
            }
        }
        let ratio = overlap(&graph, &order, capacity);
        assert!((ratio - sum / 203.0).abs() < 1e-9, "{capacity}: {ratio}");
    }
}

#[test]
fn swaps_keep_count_of_the_edges_inside_blocks() {
    let graph = graph(1500, 20);
    let mutual = Mutual::of(&graph);
    let before = frequency::order(&mutual, (16, 2), 5);
    let mut after = before.clone();
    swaps::improve(&mutual, &mut after, (16, 3), 5);
    let (low, high) = (overlap(&graph, &before, 16), overlap(&graph, &after, 16));
    assert!(is_permutation(&after, 1500) && high > low, "{low} {high}");
}

#[test]
fn tags_are_read_back_and_wrong_ones_refused() {
    for layout in LAYOUTS {
        assert_eq!(Layout::from_tags(layout.tags()), Some(layout));
    }
    for tags in [[0, 1, 0], [1, 0, 1], [2, 0, 0], [2, 65, 0], [3, 4, 0], [4, 1, 1]] {
        assert_eq!(Layout::from_tags(tags), None, "{tags:?}");
    }
}
