//! Writes several segments as one, without the deleted rows.
//!
//! 1. The *targets* are leaves that other live segments define, and those that the source which defines
//!    most of the partition's leaves defines itself. Runs of a target go there as they are. All other
//!    rows are *left over*, or of leaves that a small source defined for itself: each goes to the
//!    nearest target.
//! 2. Rows of leaves that a source defined make new leaves, which the merged segment defines
//!    (`merge/rewrite.rs`). Where another segment defines the leaf, its number and centroid stay.
//! 3. The merge keeps, for every row of the sources, its row in the new segment. Tombstones added
//!    while the segment is written find their rows through this map.
//!
//! Memory: 4 bytes per row of the sources, 8 bytes per row that may change its leaf, a cache of blocks,
//! a few leaves, and that of the writer. Source of splits, merges and reassignment: SPFresh (SOSP '23),
//! section 3.

mod assign;
mod rewrite;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vstream_index::IndexRow;
use vstream_store::blocks::BlockReader;
use vstream_store::{Cache, Store};

use self::assign::Targeted;
use super::plan::Plan;
use crate::error::Error;
use crate::tree::{Leaves, LiveSegment};
use vstream_segment::{
    arrange, divide, LeafCentroid, LeafRows, Segment, SegmentKind, SegmentSettings, SegmentWriter,
    Target, Tombstones,
};

/// A leaf with fewer rows is joined with its neighbour.
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
        leaves: &Leaves,
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
            leaves,
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

/// A reader of each source that has leaves, through a cache of their own.
struct ReadThrough(Vec<Option<BlockReader>>);

impl ReadThrough {
    fn new(sources: &[Arc<LiveSegment>]) -> ReadThrough {
        let cache = Arc::new(Cache::new(CACHE_BYTES));
        let reader = |of: &Arc<LiveSegment>| Some(of.segment.leaves()?.reader_with(cache.clone()));
        ReadThrough(sources.iter().map(reader).collect())
    }

    /// The reader of a source, which is `segment`.
    fn of<'a>(&'a self, source: usize, segment: &'a Segment) -> &'a BlockReader {
        self.0[source].as_ref().unwrap_or(segment.uncached())
    }
}

struct Merge<'a> {
    sources: &'a [Arc<LiveSegment>],
    /// The leaves of the partition when the merge began.
    leaves: &'a Leaves,
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
        let targets = self.targets();
        let all = self.assign(&targets)?;
        let reading = ReadThrough::new(self.sources);
        if targets.own > 0 {
            self.rewrite(&all[..targets.own], &reading)?;
        }
        let mut kept = targets.of.all()[targets.own..].iter();
        for group in self.groups(&all[targets.own..]) {
            self.read_ahead(group, &reading)?;
            for (targeted, target) in group.iter().zip(kept.by_ref()) {
                self.keep(target, targeted, &reading)?;
            }
        }
        Ok(())
    }

    /// Writes the rows of a leaf that another segment defines.
    fn keep(
        &mut self,
        target: &Target,
        targeted: &Targeted,
        reading: &ReadThrough,
    ) -> Result<(), Error> {
        self.check_stop()?;
        for &(source, leaf) in &targeted.runs {
            let segment = self.leaves_of(source).expect("a run of leaves");
            self.gather_leaf((source, segment), leaf, reading.of(source, segment))?;
        }
        self.gather_rows(&targeted.rows, reading)?;
        let n = self.gathered.rows.len();
        if !target.takes(n) {
            return self.flush();
        }
        self.write((0..n as u32).collect(), Some(&target.leaf))?;
        self.end_group();
        Ok(())
    }

    /// Gathers some rows, sorted by source and row.
    fn gather_rows(&mut self, rows: &[(u32, u32)], reading: &ReadThrough) -> Result<(), Error> {
        for group in rows.chunk_by(|a, b| a.0 == b.0) {
            let source = group[0].0 as usize;
            let rows: Vec<u32> = group.iter().map(|&(_, row)| row).collect();
            let gathered = &mut self.gathered;
            let segment = &self.sources[source].segment;
            let gather = &mut |at, row: IndexRow<'_>| gathered.push((source, at), row);
            match (segment.leaves(), &reading.0[source]) {
                (Some(segment), Some(reader)) => segment.for_each_of(&rows, reader, gather)?,
                _ => segment.for_each_of(&rows, gather)?,
            }
        }
        Ok(())
    }

    /// Merges flat segments, which have no centroids: one source after the other.
    fn run_flat(&mut self) -> Result<(), Error> {
        for source in 0..self.sources.len() {
            let segment = self.leaves_of(source).expect("a flat index has no graphs");
            for leaf in 0..segment.leaves() {
                self.check_stop()?;
                self.gather_leaf((source, segment), leaf, segment.uncached())?;
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

    fn is_kept(&self, source: usize, row: u32) -> bool {
        self.sources[source].tombstones.is_visible(row, self.since)
    }

    fn leaves_of(&self, source: usize) -> Option<&'a Segment> {
        self.sources[source].segment.leaves()
    }

    fn gather_leaf(
        &mut self,
        (source, segment): (usize, &Segment),
        leaf: usize,
        reader: &BlockReader,
    ) -> Result<(), Error> {
        let Merge { sources, gathered, since, .. } = self;
        let live = &sources[source];
        segment.for_each_in_leaf(leaf, reader, &mut |at, row| {
            if live.tombstones.is_visible(at, *since) {
                gathered.push((source, at), row);
            }
        })?;
        Ok(())
    }

    /// Writes the gathered rows in leaves of the allowed size, which the new segment defines.
    fn flush(&mut self) -> Result<(), Error> {
        let all: Vec<u32> = (0..self.gathered.rows.len() as u32).collect();
        let seed = self.settings.seed ^ u64::from(self.written);
        for part in divide(&self.gathered.rows, all, seed) {
            self.write(part, None)?;
        }
        self.end_group();
        Ok(())
    }

    /// Writes some of the gathered rows as one leaf.
    ///
    /// * `of`: the leaf, if another segment defines it.
    fn write(&mut self, part: Vec<u32>, of: Option<&LeafCentroid>) -> Result<(), Error> {
        let mut leaf = LeafRows::new(self.settings.element, self.settings.dimension);
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
        match of {
            Some(of) => self.writer.run(&leaf, of)?,
            None => self.writer.leaf(&leaf)?,
        }
        Ok(())
    }

    /// Forgets the rows that were gathered, and does not go faster than the disk should.
    fn end_group(&mut self) {
        self.gathered.clear();
        self.pace();
    }

    /// Sleeps, at most 0.1 s, while the merge is ahead of [`BYTES_PER_SECOND`].
    fn pace(&self) {
        let due = self.writer.bytes() as f64 / BYTES_PER_SECOND;
        let ahead = due - self.begun.elapsed().as_secs_f64();
        if ahead > 0.001 {
            std::thread::sleep(Duration::from_secs_f64(ahead.min(0.1)));
        }
    }
}

/// The error of a merge that was stopped.
pub(super) fn given_up() -> Error {
    Error::unavailable("the engine closes: the compaction was given up")
}
