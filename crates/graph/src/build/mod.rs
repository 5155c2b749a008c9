//! Builds a Vamana graph in memory (Subramanya et al., "DiskANN", NeurIPS 2019).
//!
//! 1. The *entry* is the row nearest to the mean.
//! 2. Rows are inserted in a random order. A row searches the graph so far from the entry
//!    (`greedy.rs`). Of the rows that the search expanded, pruning keeps few (`prune.rs`): near
//!    ones in different directions. They get an edge back.
//! 3. Lists may grow a third beyond the degree while the graph is built, because pruning at every
//!    edge would cost most of the time. In the end they are pruned to the degree.
//! 4. Every row is made reachable from the entry (`connect.rs`).
//!
//! The result is a function of rows, settings and seed. Rows must differ: the callers keep equal
//! rows out, because a row with a thousand copies would spend its whole list on them.

mod connect;
mod greedy;
mod prune;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use vstream_vector::{Number, SplitMix};

use crate::vectors::{Vectors, Wide};
pub(crate) use connect::{connect, reachable};
pub(crate) use greedy::{Greedy, Near};
use prune::Pruning;

/// Rows between two looks at whether the build should stop, and two yields of the processor.
const ROWS_PER_LOOK: usize = 32;

/// Settings of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildSettings {
    /// Most neighbours of a row, 2..=255.
    pub(crate) degree: usize,
    /// Candidates that a search keeps while the graph is built.
    pub(crate) list: usize,
    /// Pruning factor of squared distances, ≥ 1.
    pub(crate) alpha: f32,
    pub(crate) seed: u64,
}

/// A directed graph over rows `0..len`, each with up to `degree` neighbours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Graph {
    degree: usize,
    /// `degree` places per row; places beyond its count hold 0.
    places: Vec<u32>,
    counts: Vec<u8>,
    /// The row at which searches begin.
    pub(crate) entry: u32,
}

impl Graph {
    /// A graph of `len` rows without edges.
    pub(crate) fn empty(len: usize, degree: usize, entry: u32) -> Graph {
        assert!((1..=255).contains(&degree), "a degree takes one byte");
        Graph { degree, places: vec![0; len * degree], counts: vec![0; len], entry }
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    #[inline]
    pub(crate) fn neighbours(&self, row: u32) -> &[u32] {
        let count = usize::from(self.counts[row as usize]);
        &self.places[row as usize * self.degree..][..count]
    }

    /// Replaces the neighbours of a row. Panics if there are more than the degree.
    pub(crate) fn set(&mut self, row: u32, neighbours: &[u32]) {
        let from = row as usize * self.degree;
        self.places[from..from + self.degree].fill(0);
        self.places[from..from + neighbours.len()].copy_from_slice(neighbours);
        assert!(neighbours.len() <= self.degree, "more neighbours than the degree");
        self.counts[row as usize] = neighbours.len() as u8;
    }

    /// The same graph with row `order[i]` as row `i`. Panics if `order` is no permutation.
    pub(crate) fn renumbered(&self, order: &[u32]) -> Graph {
        let mut place_of = vec![u32::MAX; self.len()];
        for (place, &row) in (0..).zip(order) {
            place_of[row as usize] = place;
        }
        assert!(order.len() == self.len() && !place_of.contains(&u32::MAX), "a permutation");
        let entry = place_of.get(self.entry as usize).copied().unwrap_or(0);
        let mut graph = Graph::empty(self.len(), self.degree, entry);
        let mut moved = Vec::with_capacity(self.degree);
        for (place, &row) in (0..).zip(order) {
            moved.clear();
            moved.extend(self.neighbours(row).iter().map(|&to| place_of[to as usize]));
            graph.set(place, &moved);
        }
        graph
    }

    /// Mean number of neighbours.
    pub(crate) fn mean_degree(&self) -> f64 {
        let edges: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        edges as f64 / self.len().max(1) as f64
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.places) + size_of_val(&*self.counts)
    }
}

/// Lists that may be longer than the degree while the graph is built.
pub(crate) struct Growing {
    room: usize,
    places: Vec<u32>,
    counts: Vec<u16>,
}

impl Growing {
    fn new(rows: usize, degree: usize) -> Growing {
        let room = degree + degree.div_ceil(3);
        Growing { room, places: vec![0; rows * room], counts: vec![0; rows] }
    }

    #[inline]
    fn neighbours(&self, row: u32) -> &[u32] {
        &self.places[row as usize * self.room..][..usize::from(self.counts[row as usize])]
    }

    fn set(&mut self, row: u32, neighbours: &[u32]) {
        self.places[row as usize * self.room..][..neighbours.len()].copy_from_slice(neighbours);
        self.counts[row as usize] = neighbours.len() as u16;
    }

    /// Adds an edge if it is new. False if there is no room.
    fn add(&mut self, row: u32, to: u32) -> bool {
        let neighbours = self.neighbours(row);
        if neighbours.contains(&to) {
            return true;
        }
        let count = neighbours.len();
        if count == self.room {
            return false;
        }
        self.places[row as usize * self.room + count] = to;
        self.counts[row as usize] += 1;
        true
    }
}

/// Something with lists of neighbours.
pub(crate) trait Edges {
    /// The neighbours of a row.
    fn of(&self, row: u32) -> &[u32];
}

impl Edges for Graph {
    #[inline]
    fn of(&self, row: u32) -> &[u32] {
        self.neighbours(row)
    }
}

impl Edges for Growing {
    #[inline]
    fn of(&self, row: u32) -> &[u32] {
        self.neighbours(row)
    }
}

/// Builds the graph over all rows; none may equal another. `None` if `stop` was set.
///
/// Yields the processor of its thread every [`ROWS_PER_LOOK`] rows: graphs are built in the background,
/// and the scheduler lets a running thread use a time slice of some milliseconds.
///
/// Cost: about `list · degree` distances per row and some more for pruning, 0.25 ms per row at 128
/// dimensions, degree 31 and list 75; one thread. Memory: `5.4 · degree` bytes per row beside the result.
pub(crate) fn build<N: Number>(
    vectors: &Vectors<N>,
    settings: BuildSettings,
    stop: &AtomicBool,
) -> Option<Graph> {
    let rows = vectors.len();
    if rows == 0 {
        return Some(Graph::empty(0, settings.degree, 0));
    }
    let entry = medoid(vectors);
    let order = insertion_order(rows, entry, settings.seed);
    let mut growing = Growing::new(rows, settings.degree);
    let mut greedy = Greedy::new(rows);
    let mut pruning = Pruning::new(settings.degree, settings.alpha);
    let mut wide = Wide::default();
    let (mut pool, mut chosen) = (Vec::new(), Vec::new());
    for (count, &row) in order[1..].iter().enumerate() {
        if count.is_multiple_of(ROWS_PER_LOOK) {
            std::thread::yield_now();
            if stop.load(Ordering::Relaxed) {
                return None;
            }
        }
        vectors.widen(row, &mut wide);
        greedy.search(&growing, vectors, &wide, (settings.list, &[entry]));
        pool.clear();
        pool.extend(greedy.expanded().filter(|near| near.row != row));
        pruning.choose(vectors, &mut pool, &mut chosen);
        growing.set(row, &chosen);
        for &to in &chosen {
            if !growing.add(to, row) {
                let also = Some(row);
                pruning.shorten(vectors, (to, growing.neighbours(to), also), &mut pool);
                let kept = pruning.kept();
                growing.set(to, kept);
            }
        }
    }
    let mut graph = Graph::empty(rows, settings.degree, entry);
    for row in 0..rows as u32 {
        let neighbours = growing.neighbours(row);
        if neighbours.len() <= settings.degree {
            graph.set(row, neighbours);
        } else {
            pruning.shorten(vectors, (row, neighbours, None), &mut pool);
            graph.set(row, pruning.kept());
        }
    }
    connect(&mut graph, vectors, settings.list);
    Some(graph)
}

/// As [`build`], to its end.
#[cfg(test)]
pub(crate) fn whole<N: Number>(vectors: &Vectors<N>, settings: BuildSettings) -> Graph {
    build(vectors, settings, &AtomicBool::new(false)).expect("nobody stops it")
}

/// The row nearest to the mean of all rows.
fn medoid<N: Number>(vectors: &Vectors<N>) -> u32 {
    let rows = vectors.len();
    let mut sums = vec![0.0f64; vectors.dimension()];
    for row in 0..rows as u32 {
        sums.iter_mut().zip(vectors.row(row)).for_each(|(sum, x)| *sum += f64::from(x.widen()));
    }
    let numbers = sums.iter().map(|sum| (sum / rows as f64) as f32).collect();
    let mean = Wide { numbers, lift: 0.0 };
    let near = (0..rows as u32).map(|row| Near { distance: vectors.distance(&mean, row), row });
    near.min_by(Near::order).map_or(0, |near| near.row)
}

/// All rows in a random order, the entry first.
fn insertion_order(rows: usize, entry: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.swap(0, entry as usize);
    shuffle(&mut order[1..], &mut SplitMix(seed));
    order
}

/// Shuffles (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}
