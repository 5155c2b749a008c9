//! Writes rows of several segments as new ones, without the deleted rows.
//!
//! 1. The *targets* are the leaves that rows go to. A merge of a range has those of its base, and makes
//!    new leaves of all rows. A merge of deltas keeps the leaves that other live segments define, and
//!    makes new ones of the rows of leaves that the deltas define themselves. Any other merge has those
//!    that other live segments define, and those that the source which defines most of the partition's
//!    leaves defines itself. Runs of a target go there as they are. All other rows go to the nearest
//!    target.
//! 2. Rows of leaves that a source defined make new leaves, which the merged segment defines
//!    (`merge/rewrite.rs`). Where another segment defines the leaf, its number and centroid stay.
//! 3. A merge of a range that has become too large writes several segments, each of leaves near each
//!    other.
//! 4. The merge keeps, for every row of the sources, its row in the new segments. Tombstones added
//!    while the segments are written find their rows through this map.
//!
//! Memory: 4 bytes per row of the sources, 8 bytes per row that may change its leaf, a cache of blocks,
//! a few leaves, and that of the writer. Source of splits, merges and reassignment: SPFresh (SOSP '23),
//! section 3.

mod assign;
mod rewrite;
mod written;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vstream_index::{IndexRow, IndexStats};
use vstream_store::blocks::BlockReader;
use vstream_store::Cache;

use self::assign::Targeted;
pub(crate) use self::written::Merged;
use super::part::Part;
use super::plan::{Kind, Plan};
use crate::error::Error;
use crate::layout::segment_name;
use crate::settings::Ablation;
use crate::tree::{Leaves, SegmentEntry};
use crate::version::VersionSet;
use vstream_segment::{
    arrange, divide, LeafCentroid, LeafRows, Segment, SegmentKind, SegmentSettings, SegmentWriter,
    Target,
};

/// A leaf with fewer rows is joined with its neighbour.
const LEAF_ROWS_MIN: usize = 96;
/// Rows between two yields of the processor to queries.
const ROWS_PER_WAY: u32 = 32;
/// Bytes of the block cache while leaves are gathered.
const CACHE_BYTES: usize = 4 << 20;
/// Most bytes written per second: the disk serves queries and the write-ahead log too.
const BYTES_PER_SECOND: f64 = 150e6;
/// Marks a row that is not in the new segment.
pub(super) const GONE: u32 = u32::MAX;

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
    fn new(parts: &[Part]) -> ReadThrough {
        let cache = Arc::new(Cache::for_reading_ahead(CACHE_BYTES));
        let reader = |of: &Part| Some(of.segment()?.reader_with(cache.clone()));
        ReadThrough(parts.iter().map(reader).collect())
    }

    /// The reader of a source, which is `segment`.
    fn of<'a>(&'a self, source: usize, segment: &'a Segment) -> &'a BlockReader {
        self.0[source].as_ref().unwrap_or(segment.uncached())
    }
}

struct Merge<'a> {
    parts: &'a [Part],
    kind: Kind,
    /// The leaves of the partition when the merge began.
    leaves: &'a Leaves,
    since: u64,
    /// Row among those of all new segments, by part and position; [`GONE`] if there is none.
    moved: Vec<Vec<u32>>,
    versions: &'a VersionSet,
    settings: SegmentSettings,
    without: Ablation,
    /// Most rows of a segment of a range.
    rows_max: u64,
    has_fields: bool,
    /// The segment that is being written.
    writer: Option<(SegmentEntry, SegmentWriter)>,
    /// Those that are written.
    new: Vec<SegmentEntry>,
    /// Rows written, in all new segments.
    written: u32,
    /// Leaves that were split, joined with others or written anew, and rows that left theirs.
    made: IndexStats,
    gathered: Gathered,
    begun: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Merge<'a> {
    fn new(
        plan: &'a Plan,
        versions: &'a VersionSet,
        leaves: &'a Leaves,
        stop: &'a AtomicBool,
    ) -> Merge<'a> {
        let parts = &plan.parts;
        // Each new segment gets numbers of its own.
        let settings = versions.tree().segment_settings(0, 0);
        Merge {
            parts,
            kind: plan.kind,
            leaves,
            since: plan.since,
            moved: parts.iter().map(|part| vec![GONE; part.len()]).collect(),
            versions,
            settings,
            without: versions.tree().settings().ablation,
            rows_max: plan.rows_max,
            has_fields: parts.iter().any(|part| part.sealed().has_fields()),
            writer: None,
            new: Vec::new(),
            written: 0,
            made: IndexStats::default(),
            gathered: Gathered::new(settings),
            begun: Instant::now(),
            stop,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        if self.settings.kind == SegmentKind::Flat {
            return self.run_flat();
        }
        let targets = self.targets();
        let all = self.assign(&targets)?;
        let reading = ReadThrough::new(self.parts);
        if targets.own > 0 {
            self.rewrite(&all[..targets.own], &reading)?;
        }
        let mut kept = targets.of.all()[targets.own..].iter();
        let others: Vec<&Targeted> = all[targets.own..].iter().collect();
        for group in self.groups(&others) {
            self.read_ahead(group, &reading)?;
            for (targeted, target) in group.iter().zip(kept.by_ref()) {
                self.keep(target, targeted, &reading)?;
            }
        }
        self.end_segment()
    }

    /// Ends the segment that is being written; the next row begins another.
    fn end_segment(&mut self) -> Result<(), Error> {
        let Some((mut entry, writer)) = self.writer.take() else { return Ok(()) };
        let summary = writer.finish()?;
        (entry.bytes, entry.rows, entry.digest) = (summary.bytes, summary.rows, summary.digest);
        self.new.push(entry);
        Ok(())
    }

    /// The segment that is being written.
    fn writer(&mut self) -> Result<&mut SegmentWriter, Error> {
        if self.writer.is_none() {
            let (entry, collection) = self.versions.new_entry();
            let (identity, first_leaf) = (entry.identity(collection), entry.first_leaf());
            let settings = SegmentSettings { identity, first_leaf, ..self.settings };
            let (store, name) = (&self.versions.directory().store, segment_name(entry.number));
            let writer = match self.has_fields {
                true => SegmentWriter::create_with_fields(store, &name, settings)?,
                false => SegmentWriter::create(store, &name, settings)?,
            };
            self.writer = Some((entry, writer));
        }
        Ok(&mut self.writer.as_mut().expect("a writer").1)
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
        if !target.takes(n) && !self.without.split {
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
            let segment = self.parts[source].sealed();
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
        for (source, part) in self.parts.iter().enumerate() {
            let segment = part.segment().expect("a flat index has no graphs");
            for leaf in part.leaves() {
                self.check_stop()?;
                self.gather_leaf((source, segment), leaf, segment.uncached())?;
                if self.gathered.rows.len() >= LEAF_ROWS_MIN {
                    self.flush()?;
                }
            }
        }
        self.flush()?;
        self.end_segment()
    }

    fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(given_up());
        }
        Ok(())
    }

    fn is_kept(&self, source: usize, row: u32) -> bool {
        self.parts[source].live.tombstones.is_visible(row, self.since)
    }

    fn leaves_of(&self, source: usize) -> Option<&'a Segment> {
        self.parts[source].segment()
    }

    fn gather_leaf(
        &mut self,
        (source, segment): (usize, &Segment),
        leaf: usize,
        reader: &BlockReader,
    ) -> Result<(), Error> {
        let Merge { parts, gathered, since, .. } = self;
        let live = &parts[source].live;
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
        let parts = self.divide(&self.gathered.rows, all, seed);
        if self.settings.kind == SegmentKind::Cluster {
            self.made.splits += parts.len().saturating_sub(1) as u64;
        }
        for part in parts {
            self.write(part, None)?;
        }
        self.end_group();
        Ok(())
    }

    /// Divides rows until each part has the size of a leaf.
    fn divide(&self, rows: &LeafRows, all: Vec<u32>, seed: u64) -> Vec<Vec<u32>> {
        match self.without.split {
            true => vec![all],
            false => divide(rows, all, seed),
        }
    }

    /// Writes some of the gathered rows as one leaf.
    ///
    /// * `of`: the leaf, if another segment defines it.
    fn write(&mut self, part: Vec<u32>, of: Option<&LeafCentroid>) -> Result<(), Error> {
        if part.is_empty() {
            return Ok(());
        }
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
            self.moved[source][self.parts[source].position(row)] = self.written;
            self.written += 1;
        }
        match of {
            Some(of) => self.writer()?.run(&leaf, of)?,
            None => self.writer()?.leaf(&leaf)?,
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
        let written: u64 = self.new.iter().map(|entry| entry.bytes).sum();
        let bytes = written + self.writer.as_ref().map_or(0, |(_, writer)| writer.bytes());
        let due = bytes as f64 / BYTES_PER_SECOND;
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
