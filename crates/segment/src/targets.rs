//! Defined leaves, to which the rows of a new segment go. So all segments of a partition share their
//! leaves, and a query ranks each leaf once.
//!
//! A row goes to the leaf with the nearest centroid. Rows beyond the reach of that leaf, if they are
//! many, and a run that is too large get leaves of their own, which the new segment defines: so leaves
//! follow rows that drift.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use vstream_index::PinnedRows;
use vstream_quantize::rabitq::Rotation;
use vstream_quantize::scalar8::{Centroids, ScanScratch};
use vstream_quantize::Form;
use vstream_store::{Error, Store};
use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

use crate::points::least;
use crate::read::Segment;
use crate::rows::LeafRows;
use crate::write::{LeafCentroid, SegmentKind, SegmentSettings, SegmentSummary, SegmentWriter};
use crate::yield_to_queries;

/// Most rows of a leaf that a segment defines.
pub const LEAF_ROWS_MAX: usize = 384;
/// A run of a leaf that another segment defines may have this many rows, and twice as many as there are
/// of the leaf elsewhere.
const RUN_ROWS_MAX: usize = 768;
/// Least rows beyond the reach of their leaf that get a leaf of their own: a block of codes.
const FAR_ROWS_MIN: usize = 32;
/// Least rows, on average, of a run: below this, blocks of 32 rows would be mostly empty.
const RUN_ROWS_MIN: usize = 8;
/// A row is compared with this many leaves around the middle of its leaf in memory, and with
/// [`NEAR_SHARE`] times as many as each leaf in memory stands for.
const NEAR_MIN: usize = 64;
const NEAR_SHARE: usize = 4;
/// Parts in which rows are taken from memory: so many walks over them, and one part copied at a time.
const PARTS: usize = 16;
/// Least rows of such a part.
const PART_ROWS_MIN: usize = 4096;
/// Marks the target of a row beyond its reach.
const FAR: u32 = 1 << 31;

/// A defined leaf.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its number and centroid.
    pub leaf: LeafCentroid,
    /// Euclidean distance to the centroid within which its rows are.
    pub reach: f32,
    /// Its rows in all segments.
    pub rows: u64,
}

impl Target {
    /// True if a run of so many rows can be searched well as one.
    pub fn takes(&self, rows: usize) -> bool {
        rows <= RUN_ROWS_MAX || rows as u64 <= 2 * self.rows
    }
}

impl Segment {
    /// A leaf of this segment as a target, with its rows here. Panics if the segment is flat.
    pub fn target(&self, leaf: usize) -> Target {
        Target {
            leaf: self.leaf_definition(leaf),
            reach: self.leaf_reach(leaf),
            rows: u64::from(self.leaf_rows(leaf)),
        }
    }
}

/// True if segments of so many rows are written as runs of these leaves.
pub fn suit(targets: &[Target], rows: usize) -> bool {
    !targets.is_empty() && rows >= RUN_ROWS_MIN * targets.len()
}

/// Those of the targets to which a segment of so many rows is written. Where all together would get runs of
/// few rows, these are as many as get enough, drawn by `seed`: a row then goes to one of the leaves around
/// the nearest, until a merge moves it.
pub fn drawn_for(targets: Vec<Target>, rows: usize, seed: u64) -> Vec<Target> {
    let wanted = (rows / RUN_ROWS_MIN).max(1);
    if wanted >= targets.len() {
        return targets;
    }
    let mut order: Vec<(u64, usize)> =
        (0..targets.len()).map(|at| (SplitMix(seed ^ at as u64).next(), at)).collect();
    order.select_nth_unstable(wanted - 1);
    let mut chosen: Vec<usize> = order[..wanted].iter().map(|&(_, at)| at).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| targets[at].clone()).collect()
}

/// Defined leaves of one rotation. They may be tens of thousands, so no centroid is held in full precision.
pub struct Targets {
    targets: Vec<Target>,
    rotation: Rotation,
    /// A byte per coordinate. Made when the first row asks for a near target: most merges move runs alone.
    coarse: OnceLock<Centroids>,
}

/// Some targets with their centroids, and buffers to find the nearest for rows.
#[derive(Default)]
pub struct NearTargets {
    at: Vec<u32>,
    /// Rotated, row-major.
    centroids: Vec<f32>,
    rotated: Vec<f32>,
    gaps: Vec<f32>,
    scan: ScanScratch,
}

impl Targets {
    /// Takes the leaves of a partition whose segments have this dimension and seed.
    pub fn new(dimension: usize, seed: u64, targets: Vec<Target>) -> Targets {
        Targets { targets, rotation: Rotation::new(dimension, seed), coarse: OnceLock::new() }
    }

    /// The targets, in the order given.
    pub fn all(&self) -> &[Target] {
        &self.targets
    }

    /// Takes the `count` targets nearest to a rotated vector.
    ///
    /// Cost: a nanosecond or so per target; the first call codes all.
    pub fn take_near(&self, rotated: &[f32], count: usize, near: &mut NearTargets) {
        let write = &mut |at: usize, out: &mut [f32]| self.targets[at].leaf.write(out);
        let (len, padded) = (self.targets.len(), self.rotation.padded());
        let coarse = self.coarse.get_or_init(|| Centroids::of(len, padded, write));
        let NearTargets { at, centroids, gaps, scan, .. } = near;
        coarse.scan(Form::L2, rotated, scan, gaps);
        // Centroids in bytes may give another order, so a quarter more are looked at exactly.
        let some = least(gaps.iter().copied(), count + count / 4 + 8);
        centroids.resize(some.len() * padded, 0.0);
        for (&at, out) in some.iter().zip(centroids.chunks_exact_mut(padded)) {
            self.targets[at as usize].leaf.write(out);
        }
        let exact = centroids.chunks_exact(padded).map(|of| kernels::l2_squared(rotated, of));
        let mut kept = least(exact, count);
        // Ascending, so that each moves to a place that is free.
        kept.sort_unstable();
        for (to, &from) in kept.iter().enumerate() {
            centroids
                .copy_within(from as usize * padded..(from as usize + 1) * padded, to * padded);
        }
        centroids.truncate(kept.len() * padded);
        *at = kept.iter().map(|&from| some[from as usize]).collect();
    }

    /// The nearest of the taken targets to a vector, and whether it is within that target's reach. Panics if none
    /// was taken.
    pub fn nearest(&self, vector: &[f32], near: &mut NearTargets) -> (u32, bool) {
        let NearTargets { at, centroids, rotated, .. } = near;
        rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(vector, rotated);
        let gaps = centroids.chunks_exact(self.rotation.padded());
        let gaps = gaps.map(|of| kernels::l2_squared(rotated, of));
        let nearest = gaps.zip(&*at).min_by(|a, b| a.0.total_cmp(&b.0));
        let (gap, &at) = nearest.expect("a target");
        // A reach is the root of another sum of the same numbers: the row that it comes from is within.
        (at, gap.sqrt() <= self.targets[at as usize].reach * (1.0 + 1e-5))
    }

    /// The target of a row of which nothing is known but its vector, and whether it is within that target's reach.
    /// Panics without a target.
    pub fn nearest_of_all(&self, vector: &[f32], near: &mut NearTargets) -> (u32, bool) {
        let mut rotated = vec![0.0; self.rotation.padded()];
        self.rotation.apply(vector, &mut rotated);
        self.take_near(&rotated, NEAR_MIN, near);
        self.nearest(vector, near)
    }
}

/// Divides rows by 2-means until no part has more than [`LEAF_ROWS_MAX`]; near parts follow each other.
///
/// * `rows`: rows of `from`; each part has at least a quarter of what was divided.
pub fn divide(from: &LeafRows, rows: Vec<u32>, seed: u64) -> Vec<Vec<u32>> {
    let (mut parts, mut done) = (vec![rows], Vec::new());
    while let Some(part) = parts.pop() {
        if part.len() > LEAF_ROWS_MAX {
            let (first, second) = halves(from, &part, seed ^ done.len() as u64);
            parts.extend([second, first]);
        } else {
            done.push(part);
        }
    }
    done
}

/// Divides rows in two by 2-means; each part has at least a quarter of them.
fn halves(from: &LeafRows, rows: &[u32], seed: u64) -> (Vec<u32>, Vec<u32>) {
    let dimension = from.dimension;
    let mut vectors = vec![0.0f32; rows.len() * dimension];
    for (&row, out) in rows.iter().zip(vectors.chunks_exact_mut(dimension)) {
        from.vector(row as usize).read(out);
    }
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

/// Writes the rows of a pinned index as runs of the targets, which must be suited to their number.
///
/// Cost: some 18 walks over the rows; a row is compared with 64 targets or more. Memory: 4 bytes per
/// row, a byte per dimension of each target, a sixteenth of the rows, and that of [`SegmentWriter`].
/// Errors: those of the writer. No file exists after an error.
pub fn write_into(
    store: &dyn Store,
    name: &str,
    settings: SegmentSettings,
    rows: &dyn PinnedRows,
    targets: &Targets,
) -> Result<SegmentSummary, Error> {
    debug_assert_eq!(settings.kind, SegmentKind::Cluster, "a flat segment has no leaves");
    let (assigned, has_fields) = assign(settings.dimension, rows, targets);
    let mut writer = SegmentWriter::begin(store, name, settings, has_fields)?;
    let mut counts = vec![0usize; targets.targets.len()];
    assigned.iter().for_each(|&at| counts[(at & !FAR) as usize] += 1);
    let most = (assigned.len() / PARTS).max(PART_ROWS_MIN);
    let mut part = LeafRows::new(settings.element, settings.dimension);
    let mut from = 0;
    while from < counts.len() {
        let mut sum = 0;
        let more = counts[from..].iter().take_while(|&&n| {
            sum += n;
            sum <= most
        });
        let to = from + more.count().max(1);
        part.clear();
        let mut by_target: Vec<Vec<u32>> = vec![Vec::new(); 2 * (to - from)];
        let mut place = assigned.iter();
        rows.for_each_leaf_row(&mut |_, row| {
            let &at = place.next().expect("the rows of a pinned index do not change");
            let target = (at & !FAR) as usize;
            if (from..to).contains(&target) {
                by_target[2 * (target - from) + usize::from(at & FAR > 0)].push(part.len() as u32);
                part.push(row);
            }
        });
        for (both, target) in by_target.chunks_exact(2).zip(&targets.targets[from..to]) {
            write_runs(&mut writer, &part, (both[0].clone(), both[1].clone()), target)?;
        }
        from = to;
    }
    writer.finish()
}

/// The target of each row, in the order of the walk, and whether a row has fields.
fn assign(dimension: usize, rows: &dyn PinnedRows, targets: &Targets) -> (Vec<u32>, bool) {
    let mut sums: BTreeMap<u32, (f32, Vec<f32>)> = BTreeMap::new();
    let mut vector = vec![0.0f32; dimension];
    let mut has_fields = false;
    rows.for_each_leaf_row(&mut |leaf, row| {
        has_fields |= !row.fields.is_empty();
        let Some(leaf) = leaf else { return };
        row.vector.read(&mut vector);
        let (n, sum) = sums.entry(leaf).or_insert_with(|| (0.0, vec![0.0; dimension]));
        *n += 1.0;
        sum.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x);
    });
    let share = NEAR_SHARE * targets.targets.len() / sums.len().max(1);
    let (mut near, mut near_of) = (NearTargets::default(), None);
    let mut rotated = vec![0.0; targets.rotation.padded()];
    let mut assigned = Vec::new();
    rows.for_each_leaf_row(&mut |leaf, row| {
        if assigned.len().is_multiple_of(FAR_ROWS_MIN) {
            yield_to_queries();
        }
        // The rows of a leaf come together.
        if let Some((n, sum)) = leaf.filter(|_| near_of != leaf).and_then(|leaf| sums.get(&leaf)) {
            let middle: Vec<f32> = sum.iter().map(|x| x / n).collect();
            targets.rotation.apply(&middle, &mut rotated);
            targets.take_near(&rotated, share.max(NEAR_MIN), &mut near);
        }
        near_of = leaf;
        row.vector.read(&mut vector);
        let (target, is_within) = match leaf {
            Some(_) => targets.nearest(&vector, &mut near),
            None => targets.nearest_of_all(&vector, &mut near),
        };
        assigned.push(if is_within { target } else { target | FAR });
    });
    (assigned, has_fields)
}

/// Writes rows of one target: as its run, or as leaves of their own.
fn write_runs(
    writer: &mut SegmentWriter,
    rows: &LeafRows,
    (mut near, far): (Vec<u32>, Vec<u32>),
    target: &Target,
) -> Result<(), Error> {
    let mut own = Vec::new();
    if far.len() < FAR_ROWS_MIN {
        near.extend(far);
    } else {
        own.push(far);
    }
    let copy = |part: &[u32]| {
        let mut leaf = rows.like();
        part.iter().for_each(|&at| leaf.push(rows.row(at as usize)));
        leaf
    };
    if target.takes(near.len()) {
        writer.arranged(&copy(&near), Some(&target.leaf))?;
    } else {
        own.push(near);
    }
    for part in own.into_iter().flat_map(|part| divide(rows, part, target.leaf.number)) {
        writer.arranged(&copy(&part), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
