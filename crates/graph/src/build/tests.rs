//! Graphs over rows of real shapes: reachable, bounded, good enough to find neighbours.

use vstream_vector::{kernels, Metric, Number, SplitMix};

use super::*;

/// Rows around some centres, as embeddings are.
pub(crate) fn clustered<N: Number>(rows: usize, dimension: usize, seed: u64) -> Vec<N> {
    let mut random = SplitMix(seed);
    let centres: Vec<f32> = (0..40 * dimension).map(|_| random.normal() * 20.0).collect();
    let mut numbers = Vec::with_capacity(rows * dimension);
    for _ in 0..rows {
        let centre = random.below(40) * dimension;
        for d in 0..dimension {
            let x = centres[centre + d] + random.normal() * 14.0;
            let x = match N::ELEMENT {
                vstream_vector::Element::U8 => (x + 128.0).round().clamp(0.0, 255.0),
                vstream_vector::Element::I8 => x.round().clamp(-128.0, 127.0),
                _ => x,
            };
            numbers.push(N::narrow(x));
        }
    }
    numbers
}

fn settings(degree: usize) -> BuildSettings {
    BuildSettings { degree, list: 50, alpha: 1.2, seed: 7 }
}

/// Share of the 10 nearest rows, by brute force, that a search finds.
fn recall<N: Number>(vectors: &Vectors<N>, graph: &Graph, metric: Metric, width: usize) -> f64 {
    let mut random = SplitMix(99);
    let mut greedy = Greedy::new(vectors.len());
    let (mut found, queries) = (0, 50);
    for _ in 0..queries {
        let mut query = Wide::default();
        vectors.widen(random.below(vectors.len()) as u32, &mut query);
        query.numbers.iter_mut().for_each(|x| *x += random.normal() * 5.0);
        query.lift = 0.0;
        let exact = |row: u32| match metric {
            Metric::InnerProduct => -kernels::inner_product(&query.numbers, vectors.row(row)),
            _ => kernels::l2_squared(&query.numbers, vectors.row(row)),
        };
        let mut all: Vec<(f32, u32)> = (0..vectors.len() as u32).map(|r| (exact(r), r)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        greedy.search(graph, vectors, &query, (width, &[graph.entry]));
        let best: Vec<u32> = greedy.nearest().take(10).map(|near| near.row).collect();
        found += all[..10].iter().filter(|(_, row)| best.contains(row)).count();
    }
    found as f64 / (10 * queries) as f64
}

fn check<N: Number>(rows: usize, dimension: usize, metric: Metric, least: f64) {
    let vectors = Vectors::new(clustered::<N>(rows, dimension, 3), dimension, metric);
    let graph = whole(&vectors, settings(24));
    for row in 0..rows as u32 {
        let neighbours = graph.neighbours(row);
        assert!(neighbours.len() <= 24 && !neighbours.contains(&row), "row {row}");
        let mut sorted = neighbours.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), neighbours.len(), "an edge came twice at row {row}");
    }
    assert!(!reachable(&graph).contains(&u32::MAX));
    let recall = recall(&vectors, &graph, metric, 60);
    assert!(recall >= least, "{}: recall {recall} at {dimension}", N::ELEMENT);
}

#[test]
fn bytes_under_l2() {
    check::<u8>(3000, 128, Metric::L2, 0.95);
    check::<i8>(1500, 100, Metric::L2, 0.95);
}

#[test]
fn floats_under_l2_and_inner_product() {
    check::<f32>(1500, 384, Metric::L2, 0.95);
    check::<vstream_vector::Bf16>(1500, 64, Metric::L2, 0.95);
    check::<f32>(1500, 96, Metric::InnerProduct, 0.85);
}

#[test]
fn the_same_seed_gives_the_same_graph() {
    let vectors = Vectors::new(clustered::<f32>(800, 64, 5), 64, Metric::L2);
    assert_eq!(whole(&vectors, settings(16)), whole(&vectors, settings(16)));
    let other = BuildSettings { seed: 8, ..settings(16) };
    assert_ne!(whole(&vectors, settings(16)), whole(&vectors, other));
}

#[test]
fn few_rows_are_no_special_case() {
    for rows in [1, 2, 3, 5, 17, 40] {
        let vectors = Vectors::new(clustered::<f32>(rows, 64, 11), 64, Metric::L2);
        let graph = whole(&vectors, BuildSettings { degree: 2, ..settings(2) });
        assert!(!reachable(&graph).contains(&u32::MAX), "{rows} rows");
    }
    let none = Vectors::new(Vec::<f32>::new(), 64, Metric::L2);
    assert_eq!(whole(&none, settings(8)).len(), 0);
}

/// Rows on a line that are so near that floats see no distance between some of them.
#[test]
fn rows_without_a_distance_stay_reachable() {
    let numbers: Vec<f32> = (0..600).flat_map(|i| [i as f32 * 1e-25, 1.0]).collect();
    let vectors = Vectors::new(numbers, 2, Metric::L2);
    for degree in [2, 8] {
        let graph = whole(&vectors, settings(degree));
        assert!(!reachable(&graph).contains(&u32::MAX), "degree {degree}");
    }
}

#[test]
fn renumbering_keeps_the_edges() {
    let vectors = Vectors::new(clustered::<f32>(300, 64, 5), 64, Metric::L2);
    let graph = whole(&vectors, settings(12));
    let mut order: Vec<u32> = (0..300).collect();
    shuffle(&mut order, &mut SplitMix(4));
    let moved = graph.renumbered(&order);
    assert_eq!(order[moved.entry as usize], graph.entry);
    for (place, &row) in (0..).zip(&order) {
        let back: Vec<u32> = moved.neighbours(place).iter().map(|&to| order[to as usize]).collect();
        assert_eq!(back, graph.neighbours(row));
    }
}
