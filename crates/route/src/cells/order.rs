//! Step 3: orders the cells on the line by cutting their graph into halves.
//!
//! 1. Begin with one group that holds all cells and all shards.
//! 2. Split each group: its shards in the middle, its cells by load in the same ratio. Start from
//!    balanced 2-means of the centroids and improve the cut by single moves (C. Fiduccia and R.
//!    Mattheyses, DAC 1982): move the cell that saves most, even if it saves nothing, and never the
//!    same cell twice. Return to the best balanced state, and repeat until nothing is gained. Of a
//!    few starts keep the smallest cut.
//! 3. Swap the two halves if that brings cells with shared neighbours closer together.
//! 4. Repeat until each group is one cell. A group that has a single shard passes it on to both
//!    halves.
//!
//! A query has to visit one more partition for a neighbour across a cut. So the weight of the cuts
//! determines the fan-out.

use super::neighbors::Edges;
use std::ops::Range;
use vstream_vector::{kernels, SplitMix};

/// Share of a group's load by which a half may differ from its target.
const TOLERANCE: f32 = 0.004;
/// Starts of a split. Each begins with another random direction.
const STARTS: usize = 4;
/// Rounds of balanced 2-means in one start.
const MEANS_ROUNDS: usize = 6;
/// Improvement passes in one start.
const PASSES: usize = 12;
/// A pass ends after this many moves without a better state.
const PATIENCE: usize = 150;

/// The cells in their new order, with the shard of each.
pub(super) struct Ordered {
    /// The old number of each cell.
    pub(super) cells: Vec<u32>,
    /// Shard of each cell in the new order; ascending.
    pub(super) shards: Vec<u16>,
}

/// The cells as nodes of a graph. An edge counts the neighbours that two cells share.
pub(super) struct CellGraph<'a> {
    /// `cells × dimension`.
    pub(super) centroids: &'a [f32],
    pub(super) dimension: usize,
    /// Expected share of the stream in each cell, > 0.
    pub(super) loads: &'a [f32],
    /// Edges of each cell to the others.
    pub(super) edges: &'a Edges,
}

struct Group {
    cells: Vec<u32>,
    shards: Range<u16>,
}

/// Orders all cells and assigns `shards` shards to them.
///
/// Cost: O(log cells · starts · passes · (cells² + edges)), where the square counts one comparison.
pub(super) fn order(graph: &CellGraph, shards: u16, random: &mut SplitMix) -> Ordered {
    let all = (0..graph.loads.len() as u32).collect();
    let mut groups = vec![Group { cells: all, shards: 0..shards }];
    while groups.iter().any(|group| group.cells.len() > 1) {
        groups = split_groups(graph, groups, random);
    }
    Ordered {
        cells: groups.iter().map(|group| group.cells[0]).collect(),
        // With fewer cells than shards, a cell takes the middle one of its shards.
        shards: groups
            .iter()
            .map(|g| g.shards.start + (g.shards.end - 1 - g.shards.start) / 2)
            .collect(),
    }
}

fn split_groups(graph: &CellGraph, groups: Vec<Group>, random: &mut SplitMix) -> Vec<Group> {
    // Position of each cell's group in the present order, to find the neighbouring groups.
    let mut place = vec![0usize; graph.loads.len()];
    for (index, group) in groups.iter().enumerate() {
        group.cells.iter().for_each(|&cell| place[cell as usize] = index);
    }
    let mut next = Vec::with_capacity(2 * groups.len());
    for (index, group) in groups.into_iter().enumerate() {
        if group.cells.len() == 1 {
            next.push(group);
            continue;
        }
        let Range { start, end } = group.shards;
        let middle = if end - start > 1 { start + (end - start) / 2 } else { end };
        let ratio = match middle < end {
            true => f32::from(middle - start) / f32::from(end - start),
            false => 0.5,
        };
        let mut split = Split::new(graph, &group.cells, ratio);
        let left = split.best_of(STARTS, random);
        let side = |is_left: bool| -> Vec<u32> {
            let cells = group.cells.iter().zip(&left);
            cells.filter(|(_, &l)| l == is_left).map(|(&cell, _)| cell).collect()
        };
        let (mut left, mut right) = (side(true), side(false));
        // Halves of unequal ratio are not swapped, because the larger one must keep the larger
        // number of shards.
        if ratio == 0.5
            && pull_right(graph, &place, index, &left) > pull_right(graph, &place, index, &right)
        {
            std::mem::swap(&mut left, &mut right);
        }
        let left_shards = start..middle;
        let right_shards = if middle < end { middle..end } else { start..end };
        next.push(Group { cells: left, shards: left_shards });
        next.push(Group { cells: right, shards: right_shards });
    }
    next
}

/// The neighbours that `half` shares with the next group, minus those it shares with the previous
/// one.
fn pull_right(graph: &CellGraph, place: &[usize], own: usize, half: &[u32]) -> f32 {
    let mut pull_right = 0.0;
    for &cell in half {
        for &(other, weight) in &graph.edges[cell as usize] {
            let other = place[other as usize];
            if other == own + 1 {
                pull_right += weight;
            } else if other + 1 == own {
                pull_right -= weight;
            }
        }
    }
    pull_right
}

/// One group during its split. Its cells are numbered within the group.
struct Split<'a> {
    graph: &'a CellGraph<'a>,
    cells: &'a [u32],
    loads: Vec<f32>,
    edges: Vec<Vec<(u32, f32)>>,
    /// Load that the left half should have.
    target: f32,
    /// Largest difference from the target in the final state.
    slack: f32,
    /// Largest difference from the target between two moves: enough to move any cell and move one
    /// back.
    room: f32,
}

impl<'a> Split<'a> {
    fn new(graph: &'a CellGraph, cells: &'a [u32], ratio: f32) -> Split<'a> {
        let mut local = vec![u32::MAX; graph.loads.len()];
        for (index, &cell) in cells.iter().enumerate() {
            local[cell as usize] = index as u32;
        }
        let inside = |&cell: &u32| -> Vec<(u32, f32)> {
            let edges = graph.edges[cell as usize].iter();
            let edges = edges.map(|&(other, weight)| (local[other as usize], weight));
            edges.filter(|edge| edge.0 != u32::MAX).collect()
        };
        let loads: Vec<f32> = cells.iter().map(|&cell| graph.loads[cell as usize]).collect();
        let total: f32 = loads.iter().sum();
        let largest = loads.iter().copied().fold(0.0, f32::max);
        let slack = (total * TOLERANCE).max(largest / 2.0);
        Split {
            graph,
            cells,
            edges: cells.iter().map(inside).collect(),
            loads,
            target: total * ratio,
            slack,
            room: slack.max(1.01 * largest),
        }
    }

    /// The split with the smallest cut among some starts; true for cells of the left half.
    fn best_of(&mut self, starts: usize, random: &mut SplitMix) -> Vec<bool> {
        let mut best: Option<(f32, Vec<bool>)> = None;
        // Few cells have few splits, and one start finds the best.
        let starts = if self.cells.len() <= 4 { 1 } else { starts };
        for _ in 0..starts {
            let mut left = self.start(random);
            for _ in 0..PASSES {
                if !self.improve(&mut left) {
                    break;
                }
            }
            let cut = self.cut(&left);
            if best.as_ref().is_none_or(|b| cut < b.0) {
                best = Some((cut, left));
            }
        }
        best.map(|b| b.1).unwrap_or_default()
    }

    /// Balanced 2-means of the centroids, from a random direction.
    fn start(&self, random: &mut SplitMix) -> Vec<bool> {
        let dimension = self.graph.dimension;
        let mut direction: Vec<f32> = (0..dimension).map(|_| random.normal()).collect();
        let mut left = self.halve(&direction);
        for _ in 0..MEANS_ROUNDS {
            let mut sums = [vec![0.0f64; dimension], vec![0.0f64; dimension]];
            let mut loads = [0.0f64; 2];
            for (index, &is_left) in left.iter().enumerate() {
                let side = usize::from(!is_left);
                let load = f64::from(self.loads[index]);
                loads[side] += load;
                let centroid = self.centroid(index);
                sums[side].iter_mut().zip(centroid).for_each(|(s, &x)| *s += load * f64::from(x));
            }
            for (d, (l, r)) in direction.iter_mut().zip(sums[0].iter().zip(&sums[1])) {
                *d = (r / loads[1] - l / loads[0]) as f32;
            }
            left = self.halve(&direction);
        }
        left
    }

    fn centroid(&self, index: usize) -> &[f32] {
        let dimension = self.graph.dimension;
        &self.graph.centroids[self.cells[index] as usize * dimension..][..dimension]
    }

    /// Divides the cells along a direction: the left half gets the target load, and each half at
    /// least one cell.
    fn halve(&self, direction: &[f32]) -> Vec<bool> {
        let mut order: Vec<(f32, usize)> = (0..self.cells.len())
            .map(|index| (kernels::inner_product(self.centroid(index), direction), index))
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut left = vec![false; order.len()];
        let mut load = 0.0;
        for (rank, &(_, index)) in order[..order.len() - 1].iter().enumerate() {
            if rank > 0 && load + self.loads[index] / 2.0 > self.target {
                break;
            }
            left[index] = true;
            load += self.loads[index];
        }
        left
    }

    fn cut(&self, left: &[bool]) -> f32 {
        let mut cut = 0.0;
        for (index, edges) in self.edges.iter().enumerate() {
            cut += edges
                .iter()
                .filter(|edge| left[index] && !left[edge.0 as usize])
                .map(|edge| edge.1)
                .sum::<f32>();
        }
        cut
    }

    /// Makes one pass of moves. Returns whether it made the cut smaller or repaired the balance.
    fn improve(&self, left: &mut [bool]) -> bool {
        let n = left.len();
        let mut gains = self.gains(left);
        let mut locked = vec![false; n];
        let mut load: f32 =
            (0..n).filter(|&index| left[index]).map(|index| self.loads[index]).sum();
        let mut lefts = left.iter().filter(|&&l| l).count();
        let mut moves = Vec::new();
        let (mut gained, mut best, mut best_moves) = (0.0f32, 0.0f32, 0);
        let mut best_miss = (load - self.target).abs();
        while moves.len() - best_moves < PATIENCE {
            let allowed = |index: usize| {
                let count = if left[index] { lefts - 1 } else { lefts + 1 };
                let after =
                    if left[index] { load - self.loads[index] } else { load + self.loads[index] };
                let miss = (after - self.target).abs();
                let room = self.room.max((load - self.target).abs());
                !locked[index] && count > 0 && count < n && miss <= room
            };
            let candidates = (0..n).filter(|&index| allowed(index));
            let Some(index) = candidates.max_by(|&a, &b| gains[a].total_cmp(&gains[b])) else {
                break;
            };
            gained += gains[index];
            load += if left[index] { -self.loads[index] } else { self.loads[index] };
            lefts = if left[index] { lefts - 1 } else { lefts + 1 };
            left[index] = !left[index];
            locked[index] = true;
            moves.push(index);
            gains[index] = -gains[index];
            for &(other, weight) in &self.edges[index] {
                let other = other as usize;
                gains[other] +=
                    if left[other] == left[index] { -2.0 * weight } else { 2.0 * weight };
            }
            let miss = (load - self.target).abs();
            let repairs = best_miss > self.slack && miss < best_miss;
            if repairs || (miss <= self.slack.max(best_miss) && gained > best) {
                (best, best_moves, best_miss) = (gained, moves.len(), miss);
            }
        }
        moves[best_moves..].iter().for_each(|&index| left[index] = !left[index]);
        best_moves > 0
    }

    /// How much the cut shrinks if a cell moves to the other half, for each cell.
    fn gains(&self, left: &[bool]) -> Vec<f32> {
        let gain = |(index, edges): (usize, &Vec<(u32, f32)>)| -> f32 {
            let sign = |other: u32| if left[other as usize] == left[index] { -1.0 } else { 1.0 };
            edges.iter().map(|&(other, weight)| weight * sign(other)).sum()
        };
        self.edges.iter().enumerate().map(gain).collect()
    }
}
