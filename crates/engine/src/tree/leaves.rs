//! The leaves of all segments of a view, each once: a query ranks them together, and visits the runs of
//! the nearest in every segment.
//!
//! 1. A *leaf* has a number and a centroid. The rows of a leaf in one segment are a *run*; every run of
//!    a leaf has its number and its centroid.
//! 2. The segment whose file the number names *defines* the leaf. Who writes other segments sends rows
//!    to leaves that live segments define, and keeps their runs.
//! 3. When the segment that defines a leaf is merged, its rows go to new leaves. Runs of the old leaf
//!    may be left in segments that were not merged, until these are. Such a leaf is *left over*: a
//!    query visits it if it is as near as those that the query probes, and it counts as no probe. Where
//!    most rows are in such leaves, all leaves count.
//!
//! The value never changes; a change of the list of segments makes a new one. Memory: a byte per
//! dimension and some 40 bytes per leaf, 12 bytes per run.

use std::collections::HashSet;
use std::sync::Arc;

use vstream_index::stages::{form_of, LeafCost, RotatedQuery};
use vstream_index::IndexSettings;
use vstream_quantize::rabitq::Rotation;
use vstream_quantize::scalar8::{Centroids, ScanScratch};
use vstream_quantize::Form;
use vstream_segment::{Segment, SegmentKind, Target};
use vstream_vector::kernels;

use super::segment_entry::definer;
use super::LiveSegment;

/// Stands for the leaf of a run that a segment does not serve.
pub(crate) const NOT_SERVED: u32 = u32::MAX;

/// A segment with so few leaves may have rows from everywhere in each.
const FEW_LEAVES: usize = 8;

/// Leaves whose exact centroids are looked at for the nearest one.
const LOOKED_AT: usize = 8;

/// A leaf, by one of its runs.
struct Leaf {
    /// Position of its first run in the list of runs.
    first_run: u32,
    /// Largest Euclidean distance of a row of a run to the centroid, as the mean of the runs weighed by
    /// their rows: a guess, which costs under inner product need.
    reach: f32,
    /// True if it counts as a probe.
    is_counted: bool,
}

/// Rows of a leaf in one segment: position among the segments with leaves, and leaf of that segment.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) segment: u32,
    pub(crate) leaf: u32,
}

/// The leaves of the segments of one view.
pub(crate) struct Leaves {
    segments: Vec<Arc<LiveSegment>>,
    rotation: Option<Rotation>,
    centroids: Option<Centroids>,
    leaves: Vec<Leaf>,
    /// By leaf.
    runs: Vec<Run>,
    /// By segment and leaf of that segment; [`NOT_SERVED`] for runs that a segment does not serve.
    of_run: Vec<Vec<u32>>,
    /// Leaves that count as probes.
    counted: usize,
    /// Segments with runs of leaves that they do not define.
    deltas: usize,
    /// These, and segments with few leaves; ascending.
    partial: Vec<u32>,
    form: Form,
    dimension: usize,
}

/// Buffers of a thread that ranks leaves, and the ranking of its present query.
#[derive(Default)]
pub(crate) struct LeafRanking {
    scan: ScanScratch,
    estimates: Vec<f32>,
    /// Leaves whose estimates are no larger were ranked.
    bound: f32,
    merged: Vec<f32>,
    centroid: Vec<f32>,
    /// Leaf and run of each.
    near: Vec<(u32, u32)>,
    /// See [`Leaves::nearest_runs`].
    pub(crate) beyond: Vec<(f32, f32, u32)>,
    /// Cost, base and leaf of the nearest, best first.
    pub(crate) ranked: Vec<(f32, f32, u32)>,
    /// Costs of those that count as probes.
    pub(crate) costs: Vec<f32>,
}

impl Leaves {
    /// The leaves of some segments, which have one rotation. Graphs and flat segments have none.
    ///
    /// Cost: O(runs · log(runs) + leaves · dimension).
    pub(crate) fn of(segments: &[Arc<LiveSegment>], settings: IndexSettings) -> Leaves {
        let with_leaves = |live: &&Arc<LiveSegment>| live.segment.leaves().is_some();
        let segments: Vec<_> = segments.iter().filter(with_leaves).cloned().collect();
        let files: Vec<&Segment> =
            segments.iter().filter_map(|live| live.segment.leaves()).collect();
        let all = runs_by_number(&segments);
        let rotation = files.first().filter(|_| !all.is_empty());
        let rotation = rotation.map(|file| Rotation::new(settings.dimension, file.seed()));
        let padded = rotation.as_ref().map_or(0, Rotation::padded);
        let mut leaves = Vec::new();
        let mut of_run: Vec<Vec<u32>> =
            files.iter().map(|file| vec![NOT_SERVED; file.leaves()]).collect();
        let (mut first_run, mut all_rows, mut defined_rows) = (0, 0.0, 0.0);
        for runs in all.chunk_by(|a, b| a.0 == b.0) {
            let number = runs[0].0;
            for (_, run) in runs {
                of_run[run.segment as usize][run.leaf as usize] = leaves.len() as u32;
            }
            let is_definer = |run: &Run| segments[run.segment as usize].number == definer(number);
            let is_defined = runs.iter().any(|(_, run)| is_definer(run));
            let spread = runs.iter().map(|(_, run)| spread(&files, *run));
            let (rows, sum) = spread.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            all_rows += rows;
            defined_rows += if is_defined { rows } else { 0.0 };
            let reach = (sum / rows.max(1.0)) as f32;
            leaves.push(Leaf { first_run, reach, is_counted: is_defined });
            first_run += runs.len() as u32;
        }
        // Few defined leaves would say little about how far a query should go. So it is where rows end
        // oldest first: the segment that defined a leaf is gone before others that have runs of it.
        if defined_rows < all_rows / 2.0 {
            leaves.iter_mut().for_each(|leaf| leaf.is_counted = true);
        }
        let counted = leaves.iter().filter(|leaf| leaf.is_counted).count();
        let is_foreign = |&(number, run): &(u64, Run)| {
            (segments[run.segment as usize].number != definer(number)).then_some(run.segment)
        };
        let deltas: HashSet<u32> = all.iter().filter_map(is_foreign).collect();
        let is_partial =
            |at: &u32| deltas.contains(at) || files[*at as usize].leaves() <= FEW_LEAVES;
        let partial = (0..files.len() as u32).filter(is_partial).collect();
        let mut centroid = Vec::new();
        let mut centroid_of = |at: usize, out: &mut [f32]| {
            let leaf: &Leaf = &leaves[at];
            let (_, run) = all[leaf.first_run as usize];
            files[run.segment as usize].leaf_centroid(run.leaf as usize, &mut centroid);
            out.copy_from_slice(&centroid);
        };
        let centroids =
            (!leaves.is_empty()).then(|| Centroids::of(leaves.len(), padded, &mut centroid_of));
        // By reference: collected in place, the runs would keep twice the memory that they need.
        let runs = all.iter().map(|&(_, run)| run).collect();
        let (form, dimension) = (form_of(settings.metric), settings.dimension);
        Leaves {
            segments,
            rotation,
            centroids,
            leaves,
            runs,
            of_run,
            counted,
            deltas: deltas.len(),
            partial,
            form,
            dimension,
        }
    }

    /// True if these are the leaves of these segments.
    pub(crate) fn are_of(&self, segments: &[Arc<LiveSegment>]) -> bool {
        let others = segments.iter().filter(|live| live.segment.leaves().is_some());
        self.segments.iter().map(Arc::as_ptr).eq(others.map(Arc::as_ptr))
    }

    /// Leaves that count as probes.
    pub(crate) fn len(&self) -> usize {
        self.counted
    }

    /// Rotation of the centroids; `None` without a leaf.
    pub(crate) fn rotation(&self) -> Option<&Rotation> {
        self.rotation.as_ref()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let centroids = self.centroids.as_ref().map_or(0, |c| c.len() * (c.dimension() + 16));
        let own = self.leaves.len() * size_of::<Leaf>() + self.runs.len() * (size_of::<Run>() + 4);
        (centroids + own) as u64
    }

    /// The leaf of each run of a segment, by leaf of that segment; [`NOT_SERVED`] if it does not serve it.
    pub(crate) fn of_segment(&self, segment: usize) -> &[u32] {
        &self.of_run[segment]
    }

    /// Segments with runs of leaves that they do not define.
    pub(crate) fn deltas(&self) -> usize {
        self.deltas
    }

    /// Segments that have rows of leaves that others define, or few leaves. Their rows may be in few places, all of
    /// them far from a query.
    pub(crate) fn partial(&self) -> &[u32] {
        &self.partial
    }

    /// Fills `ranking.beyond` with the nearest runs of a segment beyond the leaves that were ranked: cost, base, and
    /// leaf of the segment of each, the nearest first.
    ///
    /// * `ranking`: of this query.
    ///
    /// Cost: O(runs of the segment), unless `count` is 0.
    pub(crate) fn nearest_runs(
        &self,
        query: &RotatedQuery,
        segment: u32,
        count: usize,
        ranking: &mut LeafRanking,
    ) {
        let LeafRanking { estimates, bound, centroid, near, beyond, .. } = ranking;
        near.clear();
        beyond.clear();
        if count == 0 {
            return;
        }
        let estimate = |leaf: u32| estimates[leaf as usize];
        let is_beyond = |leaf: u32| leaf != NOT_SERVED && estimate(leaf).total_cmp(bound).is_gt();
        let runs = self.of_run[segment as usize].iter().copied().zip(0..);
        near.extend(runs.filter(|run| is_beyond(run.0)));
        if near.len() > count {
            near.select_nth_unstable_by(count - 1, |a, b| estimate(a.0).total_cmp(&estimate(b.0)));
            near.truncate(count);
        }
        beyond.extend(near.iter().map(|&(leaf, run)| {
            let (cost, base) = self.exact(query, leaf, centroid);
            (cost, base, run)
        }));
        beyond.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Runs of all leaves.
    pub(crate) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The runs of a leaf.
    pub(crate) fn runs(&self, leaf: u32) -> &[Run] {
        let from = self.leaves[leaf as usize].first_run as usize;
        let next = self.leaves.get(leaf as usize + 1);
        &self.runs[from..next.map_or(self.runs.len(), |next| next.first_run as usize)]
    }

    /// The estimated cost of each leaf; `query` is rotated.
    pub(crate) fn estimate(
        &self,
        query: &RotatedQuery,
        scan: &mut ScanScratch,
        out: &mut Vec<f32>,
    ) {
        let Some(centroids) = &self.centroids else { return out.clear() };
        centroids.scan(self.form, query.vector(), scan, out);
        let cost = LeafCost::new(self.form, self.dimension, query.norm());
        let leaves = out.iter_mut().zip(&self.leaves);
        leaves.for_each(|(estimate, leaf)| *estimate = cost.of_leaf(*estimate, || leaf.reach));
    }

    /// What `of` says of a segment with a run of the leaf whose centroid is nearest to a rotated vector, among leaves
    /// with a segment of which it says something.
    ///
    /// * `of`: takes the number of a segment.
    pub(crate) fn nearest_of<T>(
        &self,
        rotated: &[f32],
        of: &dyn Fn(u64) -> Option<T>,
        ranking: &mut LeafRanking,
    ) -> Option<T> {
        let LeafRanking { scan, estimates, centroid, .. } = ranking;
        self.centroids.as_ref()?.scan(Form::L2, rotated, scan, estimates);
        let of_run = |run: &Run| of(self.segments[run.segment as usize].number);
        let leaves = estimates.iter().zip(0..);
        let said = leaves
            .filter_map(|(&gap, leaf)| Some((gap, leaf, self.runs(leaf).iter().find_map(of_run)?)));
        let mut nearest: Vec<(f32, u32, T)> = said.collect();
        if nearest.len() > LOOKED_AT {
            nearest.select_nth_unstable_by(LOOKED_AT - 1, |a, b| a.0.total_cmp(&b.0));
            nearest.truncate(LOOKED_AT);
        }
        for (gap, leaf, _) in &mut nearest {
            self.centroid(*leaf, centroid);
            *gap = kernels::l2_squared(rotated, centroid);
        }
        let first = nearest.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        first.map(|(_, _, said)| said)
    }

    /// Writes the rotated centroid of a leaf to `out`.
    fn centroid(&self, leaf: u32, out: &mut Vec<f32>) {
        let run = self.runs(leaf)[0];
        let segment = self.segments[run.segment as usize].segment.leaves();
        segment.expect("a run of leaves").leaf_centroid(run.leaf as usize, out);
    }

    /// Cost and base of a leaf, from the exact distance to its centroid.
    ///
    /// * `centroid`: a buffer.
    pub(crate) fn exact(
        &self,
        query: &RotatedQuery,
        leaf: u32,
        centroid: &mut Vec<f32>,
    ) -> (f32, f32) {
        self.centroid(leaf, centroid);
        let base = self.form.base(query.vector(), centroid);
        let cost = LeafCost::new(self.form, self.dimension, query.norm());
        (cost.of_leaf(base, || self.leaves[leaf as usize].reach), base)
    }

    /// Ranks the nearest leaves; the `probes` nearest are among them, and those left over that are as
    /// near.
    pub(crate) fn rank(&self, query: &RotatedQuery, probes: usize, ranking: &mut LeafRanking) {
        let LeafRanking { scan, estimates, merged, centroid, ranked, costs, .. } = ranking;
        ranked.clear();
        costs.clear();
        self.estimate(query, scan, estimates);
        // These costs come from centroids rounded to bytes. Exact centroids may give another order,
        // so more leaves than `probes` are ranked by exact distance.
        let near = probes.saturating_add(probes / 4 + 8);
        let bound = if near >= self.counted {
            f32::INFINITY
        } else {
            merged.clear();
            let counted = estimates.iter().zip(&self.leaves).filter(|(_, leaf)| leaf.is_counted);
            merged.extend(counted.map(|(&cost, _)| cost));
            *merged.select_nth_unstable_by(near - 1, f32::total_cmp).1
        };
        ranking.bound = bound;
        for (leaf, cost) in (0..).zip(&*estimates) {
            if cost.total_cmp(&bound).is_le() {
                let (cost, base) = self.exact(query, leaf, centroid);
                ranked.push((cost, base, leaf));
            }
        }
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let counted = ranked.iter().filter(|(_, _, leaf)| self.leaves[*leaf as usize].is_counted);
        costs.extend(counted.map(|&(cost, _, _)| cost));
    }

    /// The leaves that segments other than some define, in the order of their numbers.
    ///
    /// * `is_left_out`: true for the numbers of those segments.
    pub(crate) fn targets(&self, is_left_out: &dyn Fn(u64) -> bool) -> Vec<Target> {
        let mut targets = Vec::new();
        for leaf in 0..self.leaves.len() as u32 {
            let runs = self.runs(leaf);
            let file = |run: &Run| (&self.segments[run.segment as usize], run.leaf as usize);
            let rows = |run: &Run| {
                let (live, leaf) = file(run);
                u64::from(live.segment.leaves().map_or(0, |segment| segment.leaf_rows(leaf)))
            };
            let defining = runs.iter().map(file).find_map(|(live, leaf)| {
                let segment = live.segment.leaves()?;
                (definer(segment.leaf_number(leaf)) == live.number).then_some((live, segment, leaf))
            });
            let Some((live, segment, leaf)) = defining else { continue };
            if !is_left_out(live.number) {
                let rows = runs.iter().map(rows).sum();
                let reach = segment.leaf_reach(leaf);
                targets.push(Target { leaf: segment.leaf_definition(leaf), reach, rows });
            }
        }
        targets
    }
}

/// The runs that some segments serve with the numbers of their leaves, those of a leaf together.
fn runs_by_number(segments: &[Arc<LiveSegment>]) -> Vec<(u64, Run)> {
    let mut all: Vec<(u64, Run)> = Vec::new();
    for (segment, live) in (0..).zip(segments) {
        let Some(file) = live.segment.leaves() else { continue };
        if file.kind() == SegmentKind::Cluster {
            let number = |leaf| file.leaf_number(leaf as usize);
            all.extend(live.served_leaves().map(|leaf| (number(leaf), Run { segment, leaf })));
        }
    }
    all.sort_unstable_by_key(|&(number, run)| (number, run.segment));
    all
}

/// Rows of a run, and its reach as often.
fn spread(files: &[&Segment], run: Run) -> (f64, f64) {
    let (file, leaf) = (files[run.segment as usize], run.leaf as usize);
    let rows = f64::from(file.leaf_rows(leaf));
    (rows, rows * f64::from(file.leaf_reach(leaf)))
}
