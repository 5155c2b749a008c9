//! Step 3: the order of the cells on the line, by cutting their graph in halves.
//!
//! 1. Begin with one group that holds all cells and all shards.
//! 2. Split each group: its shards in the middle, its cells by load in the same ratio. Start from
//!    the balanced 2-means of the centroids, then improve the cut by single moves (C. Fiduccia and
//!    R. Mattheyses, DAC 1982): move the cell that saves most, even if it saves nothing, never
//!    the same one twice; return to the best state that was balanced; repeat until no gain. Of a
//!    few starts keep the smallest cut.
//! 3. Turn the two halves so that what is next to each other shares more neighbours.
//! 4. Repeat until each group is one cell. A group that has but one shard keeps it.
//!
//! A neighbour across a cut is a partition more to visit, so the weight of the cuts is what the
//! fan-out of queries is made of.

use super::neighbors::Edges;
use std::ops::Range;
use vstream_vector::{kernels, SplitMix};

/// Share of a group's load by which a half may miss its target.
const TOLERANCE: f32 = 0.004;
/// Starts of a split, each from another random direction.
const STARTS: usize = 4;
/// Rounds of balanced 2-means in one start.
const MEANS_ROUNDS: usize = 6;
/// Passes of improvement in one start.
const PASSES: usize = 12;
/// Moves without a better state after which a pass ends.
const PATIENCE: usize = 150;

/// Cells in their order, with the shard of each.
pub(super) struct Ordered {
    /// Old numbers in new order.
    pub(super) cells: Vec<u32>,
    /// Shard of each cell in new order; ascends.
    pub(super) shards: Vec<u16>,
}

/// The cells as nodes of a graph whose edges count shared neighbours.
pub(super) struct CellGraph<'a> {
    /// `cells × dimension`.
    pub(super) centroids: &'a [f32],
    pub(super) dimension: usize,
    /// Share of the stream expected in each cell, > 0.
    pub(super) loads: &'a [f32],
    /// Edges of each cell to the others.
    pub(super) edges: &'a Edges,
}

struct Group {
    cells: Vec<u32>,
    shards: Range<u16>,
}

/// Orders all cells and deals `shards` shards to them.
///
/// Cost: O(log cells · starts · passes · (cells² + edges)), the square being one comparison.
pub(super) fn order(graph: &CellGraph, shards: u16, random: &mut SplitMix) -> Ordered {
    let all = (0..graph.loads.len() as u32).collect();
    let mut groups = vec![Group { cells: all, shards: 0..shards }];
    while groups.iter().any(|group| group.cells.len() > 1) {
        groups = split_groups(graph, groups, random);
    }
    Ordered {
        cells: groups.iter().map(|group| group.cells[0]).collect(),
        // Fewer cells than shards: a lone cell takes the middle one of its shards.
        shards: groups
            .iter()
            .map(|g| g.shards.start + (g.shards.end - 1 - g.shards.start) / 2)
            .collect(),
    }
}

fn split_groups(graph: &CellGraph, groups: Vec<Group>, random: &mut SplitMix) -> Vec<Group> {
    // Place of each cell's group in the present order, to turn halves towards their neighbours.
    let mut place = vec![0usize; graph.loads.len()];
    for (at, group) in groups.iter().enumerate() {
        group.cells.iter().for_each(|&cell| place[cell as usize] = at);
    }
    let mut next = Vec::with_capacity(2 * groups.len());
    for (at, group) in groups.into_iter().enumerate() {
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
        // Halves of unequal ratio are not turned: the larger one must keep the more shards.
        if ratio == 0.5
            && pull_right(graph, &place, at, &left) > pull_right(graph, &place, at, &right)
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

/// How much more `half` shares with the group after than with the group before its own.
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

/// One group being split; cells are numbered within the group.
struct Split<'a> {
    graph: &'a CellGraph<'a>,
    cells: &'a [u32],
    loads: Vec<f32>,
    edges: Vec<Vec<(u32, f32)>>,
    /// Load that the left half should have.
    target: f32,
    /// By how much it may miss that in the end.
    slack: f32,
    /// By how much it may miss that between two moves: there and back must be possible.
    room: f32,
}

impl<'a> Split<'a> {
    fn new(graph: &'a CellGraph, cells: &'a [u32], ratio: f32) -> Split<'a> {
        let mut local = vec![u32::MAX; graph.loads.len()];
        for (at, &cell) in cells.iter().enumerate() {
            local[cell as usize] = at as u32;
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

    /// The split of the smallest cut among some starts: true for cells of the left half.
    fn best_of(&mut self, starts: usize, random: &mut SplitMix) -> Vec<bool> {
        let mut best: Option<(f32, Vec<bool>)> = None;
        // A handful of cells has few splits: one start finds what there is.
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

    /// Balanced 2-means of the centroids from a random direction.
    fn start(&self, random: &mut SplitMix) -> Vec<bool> {
        let dimension = self.graph.dimension;
        let mut direction: Vec<f32> = (0..dimension).map(|_| random.normal()).collect();
        let mut left = self.halve(&direction);
        for _ in 0..MEANS_ROUNDS {
            let mut sums = [vec![0.0f64; dimension], vec![0.0f64; dimension]];
            let mut loads = [0.0f64; 2];
            for (at, &is_left) in left.iter().enumerate() {
                let side = usize::from(!is_left);
                let load = f64::from(self.loads[at]);
                loads[side] += load;
                let centroid = self.centroid(at);
                sums[side].iter_mut().zip(centroid).for_each(|(s, &x)| *s += load * f64::from(x));
            }
            for (d, (l, r)) in direction.iter_mut().zip(sums[0].iter().zip(&sums[1])) {
                *d = (r / loads[1] - l / loads[0]) as f32;
            }
            left = self.halve(&direction);
        }
        left
    }

    fn centroid(&self, at: usize) -> &[f32] {
        let dimension = self.graph.dimension;
        &self.graph.centroids[self.cells[at] as usize * dimension..][..dimension]
    }

    /// Cells along a direction: left up to the target load, at least one cell on each side.
    fn halve(&self, direction: &[f32]) -> Vec<bool> {
        let mut order: Vec<(f32, usize)> = (0..self.cells.len())
            .map(|at| (kernels::inner_product(self.centroid(at), direction), at))
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut left = vec![false; order.len()];
        let mut load = 0.0;
        for (rank, &(_, at)) in order[..order.len() - 1].iter().enumerate() {
            if rank > 0 && load + self.loads[at] / 2.0 > self.target {
                break;
            }
            left[at] = true;
            load += self.loads[at];
        }
        left
    }

    fn cut(&self, left: &[bool]) -> f32 {
        let mut cut = 0.0;
        for (at, edges) in self.edges.iter().enumerate() {
            cut += edges
                .iter()
                .filter(|edge| left[at] && !left[edge.0 as usize])
                .map(|edge| edge.1)
                .sum::<f32>();
        }
        cut
    }

    /// One pass of moves; says whether it left a smaller cut (or a better balance) behind.
    fn improve(&self, left: &mut [bool]) -> bool {
        let n = left.len();
        let mut gains = self.gains(left);
        let mut locked = vec![false; n];
        let mut load: f32 = (0..n).filter(|&at| left[at]).map(|at| self.loads[at]).sum();
        let mut lefts = left.iter().filter(|&&l| l).count();
        let mut moves = Vec::new();
        let (mut gained, mut best, mut best_moves) = (0.0f32, 0.0f32, 0);
        let mut best_miss = (load - self.target).abs();
        while moves.len() - best_moves < PATIENCE {
            let allowed = |at: usize| {
                let count = if left[at] { lefts - 1 } else { lefts + 1 };
                let after = if left[at] { load - self.loads[at] } else { load + self.loads[at] };
                let miss = (after - self.target).abs();
                let room = self.room.max((load - self.target).abs());
                !locked[at] && count > 0 && count < n && miss <= room
            };
            let candidates = (0..n).filter(|&at| allowed(at));
            let Some(at) = candidates.max_by(|&a, &b| gains[a].total_cmp(&gains[b])) else {
                break;
            };
            gained += gains[at];
            load += if left[at] { -self.loads[at] } else { self.loads[at] };
            lefts = if left[at] { lefts - 1 } else { lefts + 1 };
            left[at] = !left[at];
            locked[at] = true;
            moves.push(at);
            gains[at] = -gains[at];
            for &(other, weight) in &self.edges[at] {
                let other = other as usize;
                gains[other] += if left[other] == left[at] { -2.0 * weight } else { 2.0 * weight };
            }
            let miss = (load - self.target).abs();
            let repairs = best_miss > self.slack && miss < best_miss;
            if repairs || (miss <= self.slack.max(best_miss) && gained > best) {
                (best, best_moves, best_miss) = (gained, moves.len(), miss);
            }
        }
        moves[best_moves..].iter().for_each(|&at| left[at] = !left[at]);
        best_moves > 0
    }

    /// What moving each cell to the other side would take off the cut.
    fn gains(&self, left: &[bool]) -> Vec<f32> {
        let gain = |(at, edges): (usize, &Vec<(u32, f32)>)| -> f32 {
            let sign = |other: u32| if left[other as usize] == left[at] { -1.0 } else { 1.0 };
            edges.iter().map(|&(other, weight)| weight * sign(other)).sum()
        };
        self.edges.iter().enumerate().map(gain).collect()
    }
}
