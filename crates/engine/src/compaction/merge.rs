//! Writes several segments as one, without the deleted rows.
//!
//! 1. The leaves of the largest source are the targets. A row of another source goes to the nearest
//!    of the targets around its own leaf.
//! 2. Target by target, the merge reads its own rows and those assigned to it together. It divides
//!    too many rows by 2-means until leaves have their size. Too few rows wait for the next target,
//!    which is a neighbour in leaf order. LIRE splits and merges in the same way. Its reassignment
//!    of rows whose nearest leaf has changed is not done on disk.
//! 3. The merge keeps, for every row of the sources, its row in the new segment. Tombstones added
//!    while the segment is written find their rows through this map.
//!
//! Memory: 12 bytes per row of the sources, a cache of blocks, a few leaves. Source of the splits:
//! SPFresh (SOSP '23), section 3.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vstream_index::{IndexRow, VectorRef};
use vstream_store::blocks::BlockReader;
use vstream_store::{Cache, Store};
use vstream_vector::{kernels, KMeans, KMeansSettings};

use super::plan::Plan;
use crate::error::Error;
use crate::tree::{LiveSegment, SealedSegment};
use vstream_segment::{
    arrange, yield_to_queries, LeafRows, Segment, SegmentKind, SegmentSettings, SegmentWriter,
    Tombstones,
};

/// Number of targets around a leaf to which its rows may go.
const NEAR: usize = 24;
/// Most rows of a leaf, and the count below which it is joined with its neighbour.
const LEAF_ROWS_MAX: usize = 384;
const LEAF_ROWS_MIN: usize = 96;
/// Rows between two yields of the processor to queries.
const ROWS_PER_WAY: u32 = 32;
/// Bytes of the block cache while leaves are gathered.
const CACHE_BYTES: usize = 16 << 20;
/// Most bytes written per second: the disk serves queries and the write-ahead log too.
const BYTES_PER_SECOND: f64 = 150e6;
/// Marks a row that is not in the new segment.
pub(super) const GONE: u32 = u32::MAX;

/// A segment merged from others.
pub(crate) struct Merged {
    sources: Vec<Arc<LiveSegment>>,
    /// The merge left out rows deleted at or before this sequence.
    since: u64,
    /// Row in the new segment, by source and row; [`GONE`] if there is none. Empty if the sources
    /// were dropped.
    moved: Vec<Vec<u32>>,
    pub(crate) written: Written,
}

/// Counts of a written segment of either kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Sum, mod 2^128, of a hash of (id, version) of every row.
    pub(crate) digest: u128,
}

impl Merged {
    /// Writes the sources of `plan` as segment `name`, which has leaves. Errors: those of reading and
    /// writing, and `Unavailable` if `stop` was set. No file exists after an error.
    pub(super) fn write(
        plan: &Plan,
        store: &dyn Store,
        name: &str,
        settings: SegmentSettings,
        stop: &AtomicBool,
    ) -> Result<Merged, Error> {
        let Plan { sources, since, .. } = plan;
        let moved = sources.iter().map(|of| vec![GONE; of.segment.rows() as usize]).collect();
        let writer = if sources.iter().any(|source| source.segment.has_fields()) {
            SegmentWriter::create_with_fields(store, name, settings)?
        } else {
            SegmentWriter::create(store, name, settings)?
        };
        let mut merge = Merge {
            sources,
            since: *since,
            moved,
            writer,
            settings,
            written: 0,
            gathered: Gathered::new(settings),
            begun: Instant::now(),
            stop,
        };
        merge.run()?;
        let Merge { moved, writer, .. } = merge;
        let summary = writer.finish()?;
        let written = Written { rows: summary.rows, bytes: summary.bytes, digest: summary.digest };
        Ok(Merged::of(plan, moved, written))
    }

    /// A merge that was written.
    ///
    /// * `moved`: row in the new segment, by source and row; [`GONE`] if there is none.
    pub(super) fn of(plan: &Plan, moved: Vec<Vec<u32>>, written: Written) -> Merged {
        Merged { sources: plan.sources.clone(), since: plan.since, moved, written }
    }

    /// Drops sources without live rows; reads nothing.
    pub(crate) fn drop_of(plan: &Plan) -> Merged {
        let (sources, since) = (plan.sources.clone(), plan.since);
        Merged { sources, since, moved: Vec::new(), written: Written::default() }
    }

    /// Number of segments dropped instead of merged.
    pub(crate) fn dropped(&self) -> u64 {
        if self.moved.is_empty() {
            self.sources.len() as u64
        } else {
            0
        }
    }

    /// True if the segment with this number is a source.
    pub(crate) fn is_source(&self, number: u64) -> bool {
        self.sources.iter().any(|live| live.number == number)
    }

    /// Rows deleted at or before this sequence are not in the new segment.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// A bit per row of the new segment, set if the row was deleted at or before the sequence
    /// `until`, and the number of set bits.
    pub(crate) fn delete_bitmap(&self, until: u64) -> (Vec<u8>, u64) {
        let mut bits = vec![0u8; (self.written.rows as usize).div_ceil(8)];
        let mut deleted = 0;
        self.for_each_death(&mut |row, sequence| {
            if sequence <= until {
                bits[row as usize / 8] |= 1 << (row % 8);
                deleted += 1;
            }
        });
        (bits, deleted)
    }

    /// Copies to the new segment the tombstones added to its sources since the merge began, and
    /// their heat.
    pub(super) fn hand_on(&self, live: &LiveSegment) {
        self.add_tombstones(&live.tombstones);
        self.warm(live);
    }

    /// Adds tombstones for the rows of the new segment deleted since the merge began.
    fn add_tombstones(&self, tombstones: &Tombstones) {
        self.for_each_death(&mut |row, sequence| {
            tombstones.add(row, sequence);
        });
    }

    /// Gives the new segment the heat of its sources.
    fn warm(&self, live: &LiveSegment) {
        let rows: u64 = self.sources.iter().map(|source| source.segment.rows()).sum();
        let share = |source: &Arc<LiveSegment>| source.segment.rows() as f64 / rows.max(1) as f64;
        let of: Vec<_> = self.sources.iter().map(|of| (&of.heat, share(of))).collect();
        live.heat.inherit(&of, live.segment.parts());
    }

    fn for_each_death(&self, visit: &mut dyn FnMut(u32, u64)) {
        for (live, moved) in self.sources.iter().zip(&self.moved) {
            live.tombstones.for_each(&mut |row, sequence| {
                let row = moved[row as usize];
                if row != GONE && sequence > self.since {
                    visit(row, sequence);
                }
            });
        }
    }
}

/// Rows that will form leaves, and the source and row of each.
struct Gathered {
    rows: LeafRows,
    from: Vec<(usize, u32)>,
}

impl Gathered {
    fn new(settings: SegmentSettings) -> Gathered {
        let rows = LeafRows::new(settings.element, settings.dimension);
        Gathered { rows, from: Vec::new() }
    }

    fn push(&mut self, from: (usize, u32), row: IndexRow<'_>) {
        self.rows.push(row);
        self.from.push(from);
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.from.clear();
    }
}

struct Merge<'a> {
    sources: &'a [Arc<LiveSegment>],
    since: u64,
    moved: Vec<Vec<u32>>,
    writer: SegmentWriter,
    settings: SegmentSettings,
    /// Rows written.
    written: u32,
    gathered: Gathered,
    begun: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Merge<'a> {
    fn run(&mut self) -> Result<(), Error> {
        if self.settings.kind == SegmentKind::Flat {
            return self.run_flat();
        }
        let live = |at: &usize| self.sources[*at].live_rows();
        let with_leaves = (0..self.sources.len()).filter(|&at| self.leaves_of(at).is_some());
        let base = with_leaves.max_by_key(live).expect("graphs alone become a graph");
        let targets = self.leaves_of(base).expect("it has leaves");
        let coming = self.assign(base, targets)?;
        let cache = Arc::new(Cache::new(CACHE_BYTES));
        let reader = |of: &Arc<LiveSegment>| Some(of.segment.leaves()?.reader_with(cache.clone()));
        let readers: Vec<Option<BlockReader>> = self.sources.iter().map(reader).collect();
        for (target, coming) in coming.iter().enumerate() {
            self.check_stop()?;
            self.gather_leaf(base, targets, target)?;
            for group in coming.chunk_by(|a, b| a.0 == b.0) {
                let source = group[0].0;
                let rows: Vec<u32> = group.iter().map(|&(_, row)| row).collect();
                let gathered = &mut self.gathered;
                let segment = &self.sources[source].segment;
                let gather = &mut |at, row: IndexRow<'_>| gathered.push((source, at), row);
                match (segment.leaves(), &readers[source]) {
                    (Some(segment), Some(reader)) => segment.for_each_of(&rows, reader, gather)?,
                    _ => segment.for_each_of(&rows, gather)?,
                }
            }
            if self.gathered.rows.len() >= LEAF_ROWS_MIN {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Merges flat segments, which have no centroids: one source after the other.
    fn run_flat(&mut self) -> Result<(), Error> {
        for source in 0..self.sources.len() {
            let segment = self.leaves_of(source).expect("a flat index has no graphs");
            for leaf in 0..segment.leaves() {
                self.check_stop()?;
                self.gather_leaf(source, segment, leaf)?;
                if self.gathered.rows.len() >= LEAF_ROWS_MIN {
                    self.flush()?;
                }
            }
        }
        self.flush()
    }

    fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(given_up());
        }
        Ok(())
    }

    /// The rows of the other sources that go to each leaf of the base, sorted by source and row.
    fn assign(&self, base: usize, targets: &Segment) -> Result<Vec<Vec<(usize, u32)>>, Error> {
        let mut coming: Vec<Vec<(usize, u32)>> = vec![Vec::new(); targets.leaves()];
        let mut centroid = Vec::new();
        let mut centroids = Vec::new();
        for leaf in 0..targets.leaves() {
            targets.leaf_centroid(leaf, &mut centroid);
            centroids.extend_from_slice(&centroid);
        }
        let padded = centroid.len();
        let (mut vector, mut rotated) = (vec![0.0; self.settings.dimension], Vec::new());
        let mut place = |source: usize, row: u32, stored: VectorRef<'_>, near: &[usize]| {
            if !self.is_kept(source, row) {
                return;
            }
            if row.is_multiple_of(ROWS_PER_WAY) {
                yield_to_queries();
            }
            stored.read(&mut vector);
            targets.rotate(&vector, &mut rotated);
            let gap = |&target: &usize| {
                let centroid = &centroids[target * padded..][..padded];
                kernels::l2_squared(&rotated, centroid)
            };
            let target = near.iter().min_by(|a, b| gap(a).total_cmp(&gap(b)));
            coming[*target.expect("a target")].push((source, row));
        };
        let all: Vec<usize> = (0..targets.leaves()).collect();
        for (source, live) in self.sources.iter().enumerate().filter(|&(at, _)| at != base) {
            match &live.segment {
                SealedSegment::Leaves(segment) => {
                    for leaf in 0..segment.leaves() {
                        self.check_stop()?;
                        segment.leaf_centroid(leaf, &mut centroid);
                        let near = nearest(&centroids, padded, &centroid);
                        segment.for_each_vector_in_leaf(leaf, &mut |row, _, stored| {
                            place(source, row, stored, &near);
                        })?;
                    }
                }
                SealedSegment::Graph(graph) => {
                    graph.for_each_row(&mut |row, stored| {
                        place(source, row, stored.vector, &all);
                    })?;
                }
            }
        }
        coming.iter_mut().for_each(|rows| rows.sort_unstable());
        Ok(coming)
    }

    fn is_kept(&self, source: usize, row: u32) -> bool {
        self.sources[source].tombstones.is_visible(row, self.since)
    }

    fn leaves_of(&self, source: usize) -> Option<&'a Segment> {
        self.sources[source].segment.leaves()
    }

    fn gather_leaf(&mut self, source: usize, segment: &Segment, leaf: usize) -> Result<(), Error> {
        let Merge { sources, gathered, since, .. } = self;
        let live = &sources[source];
        segment.for_each_in_leaf(leaf, &mut |at, row| {
            if live.tombstones.is_visible(at, *since) {
                gathered.push((source, at), row);
            }
        })?;
        Ok(())
    }

    /// Writes the gathered rows in leaves of the allowed size.
    fn flush(&mut self) -> Result<(), Error> {
        let all: Vec<u32> = (0..self.gathered.rows.len() as u32).collect();
        let mut parts = vec![all];
        let mut leaf = LeafRows::new(self.settings.element, self.settings.dimension);
        while let Some(part) = parts.pop() {
            if part.len() > LEAF_ROWS_MAX {
                let (first, second) = self.halves(&part);
                parts.extend([second, first]);
                continue;
            }
            leaf.clear();
            let rows = &self.gathered.rows;
            part.iter().for_each(|&at| leaf.push(rows.row(at as usize)));
            let order = match self.settings.kind {
                SegmentKind::Flat => (0..part.len() as u32).collect(),
                SegmentKind::Cluster => arrange(&leaf, self.settings.seed),
            };
            leaf.clear();
            for at in order.into_iter().map(|at| part[at as usize]) {
                leaf.push(rows.row(at as usize));
                let (source, row) = self.gathered.from[at as usize];
                self.moved[source][row as usize] = self.written;
                self.written += 1;
            }
            self.writer.leaf(&leaf)?;
        }
        self.gathered.clear();
        self.pace();
        Ok(())
    }

    /// Sleeps, at most 0.1 s, while the merge is ahead of [`BYTES_PER_SECOND`].
    fn pace(&self) {
        let due = self.writer.bytes() as f64 / BYTES_PER_SECOND;
        let ahead = due - self.begun.elapsed().as_secs_f64();
        if ahead > 0.001 {
            std::thread::sleep(Duration::from_secs_f64(ahead.min(0.1)));
        }
    }

    /// Divides rows in two by 2-means; each part has at least a quarter of them.
    fn halves(&self, rows: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let dimension = self.settings.dimension;
        let mut vectors = vec![0.0f32; rows.len() * dimension];
        for (&row, out) in rows.iter().zip(vectors.chunks_exact_mut(dimension)) {
            self.gathered.rows.vector(row as usize).read(out);
        }
        let seed = self.settings.seed ^ u64::from(self.written);
        let settings = KMeansSettings { clusters: 2, iterations: 6, seed, balance: 0.0 };
        let parts = KMeans::train(&vectors, dimension, settings);
        let (first, second) = parts.centroids.split_at(dimension);
        let gap = |row: &[f32]| kernels::l2_squared(row, first) - kernels::l2_squared(row, second);
        let mut order: Vec<(f32, u32)> =
            vectors.chunks_exact(dimension).map(gap).zip(rows.iter().copied()).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let n = order.len();
        let natural = order.partition_point(|&(gap, _)| gap < 0.0);
        let cut = natural.clamp(n / 4, n - n / 4);
        let rows = |part: &[(f32, u32)]| part.iter().map(|&(_, row)| row).collect();
        (rows(&order[..cut]), rows(&order[cut..]))
    }
}

/// The error of a merge that was stopped.
pub(super) fn given_up() -> Error {
    Error::unavailable("the engine closes: the compaction was given up")
}

/// The [`NEAR`] nearest of `centroids`, in no order.
fn nearest(centroids: &[f32], padded: usize, to: &[f32]) -> Vec<usize> {
    let gaps = centroids.chunks_exact(padded).map(|of| kernels::l2_squared(to, of));
    let mut near: Vec<(f32, usize)> = gaps.zip(0..).collect();
    if near.len() > NEAR {
        near.select_nth_unstable_by(NEAR - 1, |a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAR);
    }
    near.into_iter().map(|(_, target)| target).collect()
}
