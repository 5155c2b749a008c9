//! Defined leaves, to which the rows of a new segment go. So all segments of a partition share their
//! leaves, and a query ranks each leaf once.
//!
//! A row goes to the leaf with the nearest centroid. Rows beyond the reach of that leaf, if they are
//! many, and a run that is too large get leaves of their own, which the new segment defines: so leaves
//! follow rows that drift.

use std::collections::BTreeMap;

use vstream_index::PinnedRows;
use vstream_quantize::rabitq::Rotation;
use vstream_store::{Error, Store};
use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

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

/// Points in the space of rotated vectors, to the nearest of which rows go.
pub struct Points {
    rotation: Rotation,
    /// Rotated, row-major.
    points: Vec<f32>,
}

impl Points {
    /// No points, for vectors of segments with this dimension and seed.
    pub fn new(dimension: usize, seed: u64) -> Points {
        Points { rotation: Rotation::new(dimension, seed), points: Vec::new() }
    }

    /// Adds a point, given without rotation.
    pub fn push(&mut self, point: &[f32]) {
        let at = self.points.len();
        self.points.resize(at + self.rotation.padded(), 0.0);
        self.rotation.apply(point, &mut self.points[at..]);
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len() / self.rotation.padded()
    }

    /// True if there is no point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    fn point(&self, at: u32) -> &[f32] {
        let padded = self.rotation.padded();
        &self.points[at as usize * padded..][..padded]
    }

    /// The `count` points nearest to a rotated vector, in no order. Cost: O(points · dimension).
    pub fn near(&self, rotated: &[f32], count: usize) -> Vec<u32> {
        let gaps = self.points.chunks_exact(self.rotation.padded());
        let gaps = gaps.map(|of| kernels::l2_squared(rotated, of));
        let mut near: Vec<(f32, u32)> = gaps.zip(0..).collect();
        if near.len() > count {
            near.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0));
            near.truncate(count);
        }
        // By reference: the vector of the gaps, which is as long as all points, must not live on as the result's.
        near.iter().map(|&(_, at)| at).collect()
    }

    /// Divides some points in two by 2-means, each part with at least a quarter of their weight.
    ///
    /// * `weights`: of every point.
    pub fn halves(&self, among: &[u32], weights: &[u32], seed: u64) -> (Vec<u32>, Vec<u32>) {
        let padded = self.rotation.padded();
        let vectors: Vec<f32> = among.iter().flat_map(|&at| self.point(at)).copied().collect();
        let settings = KMeansSettings { clusters: 2, iterations: 8, seed, balance: 0.0 };
        let means = KMeans::train(&vectors, padded, settings).centroids;
        let (first, second) = means.split_at(padded);
        let gap = |at: u32| {
            let point = self.point(at);
            kernels::l2_squared(point, first) - kernels::l2_squared(point, second)
        };
        let mut order: Vec<(f32, u32)> = among.iter().map(|&at| (gap(at), at)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let all: u64 = among.iter().map(|&at| u64::from(weights[at as usize])).sum();
        let mut before = 0;
        let cut = order.iter().position(|&(gap, at)| {
            let is_cut = before >= all - all / 4 || (gap >= 0.0 && before >= all / 4);
            before += u64::from(weights[at as usize]);
            is_cut
        });
        let cut = cut.unwrap_or(order.len()).clamp(1, order.len() - 1);
        let points = |part: &[(f32, u32)]| part.iter().map(|&(_, at)| at).collect();
        (points(&order[..cut]), points(&order[cut..]))
    }

    /// The nearest of some points to a vector, and its squared distance. Panics if there is none.
    ///
    /// * `rotated`: a buffer.
    pub fn nearest(&self, vector: &[f32], among: &[u32], rotated: &mut Vec<f32>) -> (u32, f32) {
        rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(vector, rotated);
        let gaps = among.iter().map(|&at| (kernels::l2_squared(rotated, self.point(at)), at));
        let (gap, at) = gaps.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a point");
        (at, gap)
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

/// Defined leaves of one rotation.
pub struct Targets {
    targets: Vec<Target>,
    /// Their centroids.
    points: Points,
}

impl Targets {
    /// Takes the leaves of a partition whose segments have this dimension and seed.
    pub fn new(dimension: usize, seed: u64, targets: Vec<Target>) -> Targets {
        let mut points = Points::new(dimension, seed);
        let padded = points.rotation.padded();
        points.points.resize(targets.len() * padded, 0.0);
        for (target, out) in targets.iter().zip(points.points.chunks_exact_mut(padded)) {
            target.leaf.write(out);
        }
        Targets { targets, points }
    }

    /// The targets, in the order given.
    pub fn all(&self) -> &[Target] {
        &self.targets
    }

    /// The `count` targets nearest to a rotated vector: see [`Points::near`].
    pub fn near(&self, rotated: &[f32], count: usize) -> Vec<u32> {
        self.points.near(rotated, count)
    }

    /// The nearest of some targets to a vector, and whether it is within that target's reach.
    ///
    /// * `rotated`: a buffer.
    pub fn nearest(&self, vector: &[f32], among: &[u32], rotated: &mut Vec<f32>) -> (u32, bool) {
        let (at, gap) = self.points.nearest(vector, among, rotated);
        (at, gap.sqrt() <= self.targets[at as usize].reach)
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
/// row, a sixteenth of the rows, and that of [`SegmentWriter`]. Errors: those of the writer. No file
/// exists after an error.
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
    let mut rotated = vec![0.0; targets.points.rotation.padded()];
    let near: BTreeMap<u32, Vec<u32>> = sums
        .into_iter()
        .map(|(leaf, (n, mut mean))| {
            mean.iter_mut().for_each(|x| *x /= n);
            targets.points.rotation.apply(&mean, &mut rotated);
            (leaf, targets.near(&rotated, share.max(NEAR_MIN)))
        })
        .collect();
    let all: Vec<u32> = (0..targets.targets.len() as u32).collect();
    let mut assigned = Vec::new();
    rows.for_each_leaf_row(&mut |leaf, row| {
        if assigned.len().is_multiple_of(FAR_ROWS_MIN) {
            yield_to_queries();
        }
        let among = leaf.and_then(|leaf| near.get(&leaf)).unwrap_or(&all);
        row.vector.read(&mut vector);
        let (target, is_within) = targets.nearest(&vector, among, &mut rotated);
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
mod tests {
    use super::*;

    /// A flush keeps such a list for each leaf in memory: 900 of them, of 20,000 leaves on the disk.
    #[test]
    fn a_list_of_near_points_takes_no_more_memory_than_it_needs() {
        let (mut points, mut random) = (Points::new(64, 1), SplitMix(1));
        let mut draw = || -> Vec<f32> { (0..64).map(|_| random.normal()).collect() };
        (0..2_000).for_each(|_| points.push(&draw()));
        let query = draw();
        let near = points.near(&query, 64);
        assert_eq!(near.len(), 64);
        assert!(near.capacity() <= 128, "{}", near.capacity());
        let worst = |at: &u32| kernels::l2_squared(&query, points.point(*at));
        let bound = near.iter().map(worst).fold(0.0, f32::max);
        let nearer = (0..2_000).filter(|at| worst(at) < bound).count();
        assert_eq!(nearer, 63);
    }
}
