use super::order::{order, CellGraph};
use super::*;
use crate::random::seeded;

#[test]
fn a_cell_number_is_the_prefix_of_its_code() {
    assert_eq!(code(0, 1), 0);
    assert_eq!(code(1, 2), 1 << 63);
    assert_eq!(code(5, 8), 5 << 61);
    assert_eq!(code(1023, 1024), 1023 << 54);
    // Not a power of two: as many bits as the largest number needs.
    assert_eq!(code(999, 1000), 999 << 54);
}

/// Four cliques of eight cells with weak links, their centroids scattered at random, so that only
/// the graph tells which cells belong together.
#[test]
fn the_order_follows_the_graph_and_deals_shards_by_load() {
    let (cells, clique) = (32u32, 8);
    let mut edges = vec![Vec::new(); cells as usize];
    for a in 0..cells {
        for b in (0..cells).filter(|&b| b != a) {
            // Cells of a clique are those equal modulo 4.
            if a % 4 == b % 4 {
                edges[a as usize].push((b, 10.0));
            }
        }
        let next = a / 4 * 4 + (a + 1) % 4;
        edges[a as usize].push((next, 1.0));
        edges[next as usize].push((a, 1.0));
    }
    let loads = vec![1.0 / cells as f32; cells as usize];
    for seed in 0..20 {
        let mut random = seeded(seed, 0);
        let centroids: Vec<f32> = (0..cells * 2).map(|_| random.normal()).collect();
        let graph = CellGraph { centroids: &centroids, dimension: 2, loads: &loads, edges: &edges };
        let ordered = order(&graph, 4, &mut random);
        let mut seen = ordered.cells.clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..cells).collect::<Vec<_>>(), "each cell once, seed {seed}");
        for (group, shards) in ordered.cells.chunks(clique).zip(ordered.shards.chunks(clique)) {
            assert!(group.iter().all(|c| c % 4 == group[0] % 4), "seed {seed}: {group:?}");
            assert!(shards.iter().all(|&s| s == shards[0]));
        }
    }
}

#[test]
fn fewer_cells_than_shards_spread_over_them() {
    let edges = vec![Vec::new(); 3];
    let graph = CellGraph {
        centroids: &[0.0, 1.0, 2.0],
        dimension: 1,
        loads: &[0.3, 0.3, 0.4],
        edges: &edges,
    };
    let ordered = order(&graph, 128, &mut seeded(1, 0));
    assert!(ordered.shards.windows(2).all(|w| w[0] < w[1]), "{:?}", ordered.shards);
    assert!(ordered.shards[0] < 64 && ordered.shards[2] >= 64);
}

#[test]
fn cells_without_edges_are_dealt_evenly_along_a_line() {
    let cells = 64;
    let edges = vec![Vec::new(); cells];
    let centroids: Vec<f32> = (0..cells).map(|c| (c * 37 % cells) as f32).collect();
    let loads = vec![1.0 / cells as f32; cells];
    let graph = CellGraph { centroids: &centroids, dimension: 1, loads: &loads, edges: &edges };
    let ordered = order(&graph, 16, &mut seeded(1, 0));
    for shard in 0..16 {
        assert_eq!(ordered.shards.iter().filter(|&&s| s == shard).count(), 4);
    }
    let of_first_half: Vec<f32> =
        ordered.cells[..32].iter().map(|&c| centroids[c as usize]).collect();
    let low = of_first_half.iter().filter(|&&x| x < 32.0).count();
    assert!(low == 0 || low == 32, "a half of the line is a half of the order: {low}");
}

/// A path has one order, up to its direction, in which all neighbours are side by side; every
/// split has to turn its halves for it.
#[test]
fn halves_are_turned_towards_their_neighbours() {
    let cells = 64u32;
    let link = |c: u32| [c.wrapping_sub(1), c + 1].into_iter().filter(|&o| o < cells);
    let edges = (0..cells).map(|c| link(c).map(|other| (other, 1.0)).collect()).collect();
    let centroids: Vec<f32> = (0..cells).map(|c| c as f32).collect();
    let loads = vec![1.0 / cells as f32; cells as usize];
    let graph = CellGraph { centroids: &centroids, dimension: 1, loads: &loads, edges: &edges };
    for seed in 0..20 {
        let ordered = order(&graph, 64, &mut seeded(seed, 0));
        let steps: Vec<u32> = ordered.cells.windows(2).map(|w| w[0].abs_diff(w[1])).collect();
        assert!(steps.iter().all(|&s| s == 1), "seed {seed}: {:?}", ordered.cells);
    }
}
