//! Invariants of the writer's state, under the worst streams of writes.

use std::collections::BTreeMap;

use vstream_vector::{Element, Metric, SplitMix};

use super::{Cluster, ClusterSettings, EXPECTED_ROWS, TAIL};
use crate::rows::{RowKey, VectorRef};
use crate::traits::{IndexSettings, Insert};

const DIMENSION: usize = 64;
const IDS: usize = 8_000;
/// The id that is rewritten thousands of times.
const HOT: u64 = 77;

/// The expected content of the index: the version and the vector of each id.
type Oracle = BTreeMap<u64, (u64, Vec<f32>)>;

struct Stream {
    index: Cluster,
    oracle: Oracle,
    random: SplitMix,
    version: u64,
    /// Vectors that many rows share, bit for bit.
    shared: Vec<Vec<f32>>,
    largest: usize,
}

impl Stream {
    fn new(seed: u64, metric: Metric, sizes: ClusterSettings) -> Stream {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let settings = IndexSettings { dimension: DIMENSION, metric, element: Element::F32, seed };
        let shared = (0..20).map(|_| normals(&mut random, 1.0)).collect();
        let index = Cluster::new(settings, sizes);
        Stream { index, oracle: Oracle::new(), random, version: 0, shared, largest: 0 }
    }

    fn upsert(&mut self, id: u64, vector: Vec<f32>) {
        self.version += 1;
        let key = RowKey { id, version: self.version, code: 0, shard: 0 };
        self.index.upsert(key, VectorRef::F32(&vector));
        self.oracle.insert(id, (self.version, vector));
        self.look_at_sizes();
    }

    fn delete(&mut self, id: u64) {
        let was_there = self.oracle.remove(&id).is_some();
        assert_eq!(self.index.delete(id, u64::MAX), was_there);
        self.look_at_sizes();
    }

    fn any_id(&mut self) -> u64 {
        self.random.below(IDS) as u64
    }

    /// Around one of 30 places.
    fn plain(&mut self) -> Vec<f32> {
        let place = self.random.below(30) as u64;
        let centre = normals(&mut SplitMix(place), 1.0);
        let away = normals(&mut self.random, 0.35);
        centre.iter().zip(away).map(|(c, x)| c + x).collect()
    }

    fn write(&mut self, kind: usize) {
        let id = self.any_id();
        match kind {
            0 => {
                let row = self.plain();
                self.upsert(id, row);
            }
            1 => {
                let at = self.random.below(self.shared.len());
                self.upsert(id, self.shared[at].clone());
            }
            2 => {
                let away = normals(&mut self.random, 1e-3);
                let row = self.shared[0].iter().zip(away).map(|(x, d)| x + d).collect();
                self.upsert(id, row);
            }
            3 => {
                let away = normals(&mut self.random, 1e-3);
                let old = self.oracle.get(&HOT).map_or(&self.shared[1], |(_, row)| row);
                let row = old.iter().zip(away).map(|(x, d)| x + d).collect();
                self.upsert(HOT, row);
            }
            _ => self.delete(id),
        }
    }

    /// Replaces the index by one that is loaded with its rows.
    fn reload(&mut self) {
        let (settings, sizes) = (self.index.shared.index, self.index.settings);
        let mut load = Cluster::after(settings, sizes, self.index.sequence).load();
        let (next_serial, mut loose) = (self.index.next_serial, Vec::new());
        self.index.reader().pin().for_each_serial_row(&|_| true, &mut |serial, row| match serial {
            Some(serial) => load.push(serial, row),
            None => loose.push(row.key.id),
        });
        self.index = load.finish().expect("ids that differ");
        // Serials of leaves that are gone and were the last ones may come back: no image has them.
        assert!(self.index.next_serial <= next_serial + self.index.tree.leaves as u32);
        let mut serials: Vec<_> = self.index.tree.leaves().map(|leaf| leaf.serial).collect();
        serials.sort_unstable();
        assert!(serials.is_empty() || serials[serials.len() - 1] < self.index.next_serial);
        for id in loose {
            let (version, vector) = &self.oracle[&id];
            let key = RowKey { id, version: *version, code: 0, shard: 0 };
            self.index.upsert(key, VectorRef::F32(vector));
        }
        let tree = &self.index.tree;
        assert_eq!(tree.leaves().count(), tree.leaves);
        for (node, number) in tree.nodes.iter().zip(0..) {
            assert!(node.leaves.len() <= sizes.node_leaves_max);
            let states = node.leaves.iter().map(|leaf| self.index.state(leaf.id));
            states.for_each(|state| assert_eq!(state.node, number));
        }
    }

    fn look_at_sizes(&mut self) {
        // Only leaves that a batch touched have changed; a batch is every few writes.
        if self.version.is_multiple_of(4) {
            let sizes = self.index.leaves.iter().flatten().map(|state| state.rows);
            self.largest = self.largest.max(sizes.max().unwrap_or(0));
        }
    }

    /// Every row lives once, where the writer looks for it, and the counts are those of the rows.
    fn check(&self) {
        let index = &self.index;
        assert_eq!(index.ids.len(), self.oracle.len());
        for (&id, (version, vector)) in &self.oracle {
            let address = index.address_of(id).expect("an id that lives");
            let (rows, lane) = if address.leaf == TAIL {
                (index.tail.chunk(), address.position as usize)
            } else {
                let (chunk, lane) = super::leaf::split_position(address.position);
                (&index.state(address.leaf).leaf.chunk(chunk).rows, lane)
            };
            assert!(rows.is_alive(lane), "id {id} is dead where it is looked for");
            assert_eq!((rows.key(lane).id, rows.key(lane).version), (id, *version));
            assert_eq!(rows.vector(lane), VectorRef::F32(vector), "id {id}");
        }
        let mut alive = index.tail.len() - index.tail_dead;
        for state in index.leaves.iter().flatten() {
            let rows = || state.leaf.chunks().map(|chunk| &chunk.rows);
            let living: usize =
                rows().map(|rows| (0..rows.len()).filter(|&l| rows.is_alive(l)).count()).sum();
            assert_eq!(rows().map(|rows| rows.len()).sum::<usize>(), state.rows);
            assert_eq!(living, state.rows - state.dead);
            alive += living;
        }
        assert_eq!(alive, self.oracle.len(), "a row lives twice");
        let mut seen = Vec::new();
        index.reader().for_each_row(&mut |row| seen.push(row.key.id));
        seen.sort_unstable();
        assert!(seen.iter().eq(self.oracle.keys()), "a reader misses a row or sees one twice");
    }
}

fn normals(random: &mut SplitMix, spread: f32) -> Vec<f32> {
    (0..DIMENSION).map(|_| spread * random.normal()).collect()
}

/// Phases in which one kind of write prevails, and a tenth of all others goes on: rows anywhere,
/// equal rows, rows at one place, one id over and over, deletes.
///
/// * `is_announced`: now and then some rows are announced, of which all come, or not.
fn run(seed: u64, metric: Metric, sizes: ClusterSettings, is_announced: bool) {
    let mut stream = Stream::new(seed, metric, sizes);
    for phase in [0, 1, 3, 2, 4, 3, 1, 4, 0, 2] {
        for _ in 0..6_000 {
            if is_announced && stream.random.below(200) == 0 {
                let upserts = stream.random.below(400);
                stream.index.expect(upserts);
            }
            let kind = if stream.random.below(10) == 0 { stream.random.below(5) } else { phase };
            stream.write(kind);
        }
        stream.check();
    }
    let batch = sizes.batch_rows.max(if is_announced { EXPECTED_ROWS } else { 0 });
    let bound = sizes.leaf_rows_max * 5 / 2 + 2 * batch;
    assert!(stream.largest <= bound, "a leaf held {} rows, more than {bound}", stream.largest);
    let stats = stream.index.stats();
    let jobs = (stats.splits, stats.rewrites, stats.merges);
    assert!(jobs.0 > 20 && jobs.1 > 50 && jobs.2 > 5, "too calm: {stats:?}");
}

#[test]
fn rows_live_once_and_leaves_stay_small_whatever_comes() {
    run(1, Metric::L2, ClusterSettings::default(), false);
    run(
        2,
        Metric::InnerProduct,
        ClusterSettings { second_look: true, ..Default::default() },
        false,
    );
}

#[test]
fn so_they_do_when_rows_are_announced() {
    run(8, Metric::L2, ClusterSettings::default(), true);
    let small = ClusterSettings { leaf_rows_max: 64, leaf_rows_min: 16, ..Default::default() };
    run(9, Metric::InnerProduct, ClusterSettings { second_look: true, ..small }, true);
}

/// Rows that were announced are placed in few steps, and none of them waits in a long tail.
#[test]
fn a_tail_is_short_once_the_announced_rows_are_there() {
    let mut stream = Stream::new(10, Metric::L2, ClusterSettings::default());
    let batch = stream.index.settings.batch_rows;
    for announced in [1, 7, 8, 9, 127, 128, 129, 1_000] {
        // What an announcement before has left over counts no more.
        stream.index.expect(5_000);
        stream.index.expect(announced);
        let mut longest = 0;
        for _ in 0..announced {
            let (id, row) = (stream.any_id(), stream.plain());
            stream.upsert(id, row);
            longest = longest.max(stream.index.tail.len());
        }
        assert!(stream.index.tail.len() < batch, "{announced}");
        assert!(longest < EXPECTED_ROWS.min(announced.max(batch)), "{announced}: {longest}");
        assert!(announced < 300 || longest == EXPECTED_ROWS - 1, "{announced}: {longest}");
        // Single writes go in batches of their own.
        for _ in 0..3 * batch {
            let (id, row) = (stream.any_id(), stream.plain());
            stream.upsert(id, row);
            assert!(stream.index.tail.len() < batch, "{announced}");
        }
        // An announcement is taken back.
        stream.index.expect(5_000);
        for _ in 0..3 * EXPECTED_ROWS / 2 {
            let (id, row) = (stream.any_id(), stream.plain());
            stream.upsert(id, row);
        }
        assert!(stream.index.tail.len() >= batch, "{announced}");
        stream.index.expect(0);
        assert!(stream.index.tail.len() < batch, "{announced}");
    }
    stream.check();
}

#[test]
fn small_leaves_and_large_batches_stay_bounded_too() {
    let small = ClusterSettings { leaf_rows_max: 64, leaf_rows_min: 16, ..Default::default() };
    run(3, Metric::L2, small, false);
    run(4, Metric::L2, ClusterSettings { batch_rows: 500, second_look: true, ..small }, false);
}

/// The phases of `run`, with an index that is loaded anew before each.
#[test]
fn a_loaded_index_maintains_itself() {
    let small = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        node_leaves_max: 8,
        ..Default::default()
    };
    for (seed, sizes) in [(6, ClusterSettings::default()), (7, small)] {
        let mut stream = Stream::new(seed, Metric::L2, sizes);
        for phase in [0, 1, 3, 2, 4, 3, 1, 4, 0, 2] {
            for _ in 0..3_000 {
                let kind =
                    if stream.random.below(10) == 0 { stream.random.below(5) } else { phase };
                stream.write(kind);
            }
            stream.check();
            stream.reload();
            stream.check();
        }
        let bound = sizes.leaf_rows_max * 5 / 2 + 2 * sizes.batch_rows;
        assert!(stream.largest <= bound, "a leaf held {} rows, more than {bound}", stream.largest);
    }
}

/// Leaves of equal rows have centres that differ by rounding alone: their rows stay where they are.
#[test]
fn equal_rows_are_not_moved_from_leaf_to_leaf() {
    let mut stream = Stream::new(5, Metric::L2, ClusterSettings::default());
    let rows = 30_000;
    for id in 0..rows {
        let at = stream.random.below(stream.shared.len());
        stream.upsert(id, stream.shared[at].clone());
    }
    let stats = stream.index.stats();
    assert!(stats.splits > 50, "{stats:?}");
    assert!(stats.moved * 10 < rows && stats.merges * 10 < stats.splits, "{stats:?}");
}
