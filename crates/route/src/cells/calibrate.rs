//! Step 4: calibrates the threshold on held-out rows, which stand for queries.
//!
//! 1. Take each held-out row as a query and find its true neighbours among the other rows.
//! 2. For each neighbour, compute the sum of the shares of the partitions that would be visited
//!    before the neighbour's own partition. The threshold must reach this sum for the neighbour to
//!    be found.
//! 3. The threshold is the quantile of these sums at the recall target. It is the least threshold
//!    that finds the target, and so it visits the fewest partitions. Each parallelism has its own.
//!    Above 128 partitions only some parallelisms are calibrated (`parallelisms`), and each one
//!    between takes the higher threshold of the two beside it, which visits more and never less.
//! 4. Of a few temperatures, keep the one that visits the fewest partitions in this way.
//!
//! A sample is sparser than the stream. The tenth neighbour in the sample is about as far away as
//! the hundredth in the stream, so it lies more often across a cut, and the stream exceeds the
//! target. Under inner_product the stream has longer rows than the sample, and these rows are the
//! neighbours, so the stream would miss the target. There the calibration keeps back half of the
//! misses that the target allows.

use super::nearest::Distances;
use super::neighbors::search_exact;
use super::train::Sample;
use super::Cells;
use crate::fan_out::Ranking;

/// Neighbours of a query that must be found.
pub(super) const NEIGHBORS: usize = 10;
/// Rank of the cell whose mean distance beyond the nearest cell is the unit of temperature.
const SCALE_CELL: usize = 32;
/// Temperatures that calibration tries, in that unit.
const TEMPERATURES: [f32; 5] = [0.1, 0.15, 0.2, 0.25, 0.35];
/// Parallelisms at which calibration compares temperatures.
const COMPARED: [u32; 4] = [2, 4, 8, 16];
/// Parallelisms up to this one are all calibrated.
const EACH_UP_TO: u32 = 128;
/// Calibrated parallelisms from there to the double, and so on. With one for each parallelism the
/// time of training would grow with the square of the shards.
const PER_DOUBLING: u32 = 16;

/// One held-out query.
struct Query {
    distances: Distances,
    /// Shards of its true neighbours.
    neighbor_shards: Vec<u16>,
}

/// The expected shares of all queries at one temperature.
struct Trial<'a> {
    queries: &'a [Query],
    /// `queries × shards`.
    shares: Vec<f32>,
    /// Shards of the cells of each query's nearest root cell.
    nearest_shards: &'a [Vec<u16>],
    shards: u16,
}

/// Queries, the rows to be found, and their shards.
pub(super) struct CalibrationData<'a> {
    /// Number of neighbours of a query that must be found among these rows.
    pub(super) neighbors: usize,
    /// Rows that training did not use; they are the queries.
    pub(super) held_out: &'a Sample<'a>,
    /// The rows to be found, with the shard of each.
    pub(super) kept: &'a Sample<'a>,
    pub(super) shard_of_row: &'a [u16],
    pub(super) shard_of_cell: &'a [u16],
}

/// Sets the temperature and the thresholds of `cells`.
pub(super) fn calibrate(cells: &mut Cells, recall_target: f32, data: &CalibrationData) {
    let queries = queries(cells, data);
    let nearest_shards = nearest_shards(cells, &queries, data);
    let scale = scale(&queries);
    let target = target(recall_target, data);
    let mut best: Option<(f64, f32, Trial)> = None;
    for times in TEMPERATURES {
        let temperature = (scale * times).clamp(f32::MIN_POSITIVE, f32::MAX);
        let trial = Trial::new(cells, &queries, &nearest_shards, temperature);
        let cost: f64 = COMPARED
            .iter()
            .filter(|&&parallelism| parallelism <= u32::from(cells.shards))
            .map(|&parallelism| {
                let threshold = trial.threshold(parallelism, target);
                trial.fan_out(parallelism, threshold).ln()
            })
            .sum();
        if best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, temperature, trial));
        }
    }
    if let Some((_, temperature, trial)) = best {
        cells.temperature = temperature;
        cells.thresholds =
            thresholds(u32::from(cells.shards), |parallelism| trial.threshold(parallelism, target));
    }
}

/// The parallelisms of 1 to `largest` that are calibrated, ascending; both ends are among them.
fn parallelisms(largest: u32) -> Vec<u32> {
    let mut chosen: Vec<u32> = (1..=largest.min(EACH_UP_TO)).collect();
    let mut doubling = EACH_UP_TO;
    while doubling < largest {
        let steps = (1..=PER_DOUBLING).map(|step| doubling + doubling * step / PER_DOUBLING);
        chosen.extend(steps.take_while(|&parallelism| parallelism < largest));
        doubling *= 2;
    }
    if largest > EACH_UP_TO {
        chosen.push(largest);
    }
    chosen
}

/// A threshold for each parallelism from 1 to `largest`.
fn thresholds(largest: u32, calibrated: impl Fn(u32) -> f32) -> Vec<f32> {
    let mut thresholds: Vec<f32> = Vec::with_capacity(largest as usize);
    for parallelism in parallelisms(largest) {
        let threshold = calibrated(parallelism);
        let between = threshold.max(thresholds.last().copied().unwrap_or(0.0));
        thresholds.resize(parallelism as usize - 1, between);
        thresholds.push(threshold);
    }
    thresholds
}

/// Sets the threshold of `cells` at one parallelism; the temperature stays.
///
/// Two sets of queries decide: held-out live rows, and the centroids of the root cells. The
/// centroids represent the stream at the time of the training, and queries may still look like it.
/// The higher of the two thresholds is set.
pub(super) fn calibrate_threshold(
    cells: &mut Cells,
    recall_target: f32,
    parallelism: u32,
    data: &CalibrationData,
) {
    let held_out = queries(cells, data);
    let centroids = cells.roots.chunks_exact(cells.dimension);
    let roots: Vec<Query> = centroids.filter_map(|form| query(cells, form, data)).collect();
    let target = target(recall_target, data);
    let mut threshold = 0.0f32;
    for queries in [held_out, roots] {
        let nearest_shards = nearest_shards(cells, &queries, data);
        let trial = Trial::new(cells, &queries, &nearest_shards, cells.temperature);
        threshold = threshold.max(trial.threshold(parallelism, target));
    }
    cells.thresholds[parallelism as usize - 1] = threshold;
}

/// For each query, the shards of its nearest root cell.
fn nearest_shards(cells: &Cells, queries: &[Query], data: &CalibrationData) -> Vec<Vec<u16>> {
    let nearest_shards =
        |query: &Query| data.shard_of_cell[cells.cells_of(query.distances.root)].to_vec();
    queries.iter().map(nearest_shards).collect()
}

/// Share of the neighbours among the sample that must be found, so that `recall_target` of all is.
fn target(recall_target: f32, data: &CalibrationData) -> f32 {
    let kept_back = if data.kept.space.is_symmetric() { 0.0 } else { 0.5 };
    recall_target + (1.0 - recall_target) * kept_back
}

fn queries(cells: &Cells, data: &CalibrationData) -> Vec<Query> {
    let forms = data.held_out.queries();
    let rows = 0..data.held_out.rows().len() as u32;
    rows.filter_map(|at| query(cells, forms.row(at), data)).collect()
}

/// Prepares one query. `None` if distances overflow: such a query visits every partition, so the
/// threshold does not matter.
fn query(cells: &Cells, form: &[f32], data: &CalibrationData) -> Option<Query> {
    let CalibrationData { kept, shard_of_row, neighbors, .. } = data;
    let mut distances = Distances::default();
    cells.measure(form, &mut distances);
    if !distances.least.is_finite() {
        return None;
    }
    let neighbor_shards = search_exact(kept.space, kept.rows(), form, *neighbors);
    let neighbor_shards = neighbor_shards.iter().map(|&row| shard_of_row[row as usize]).collect();
    Some(Query { distances, neighbor_shards })
}

/// Mean distance between the nearest cell and the 33rd nearest one, or the last one. 0 if there is
/// only one cell.
fn scale(queries: &[Query]) -> f32 {
    let mut sum = 0.0f64;
    for query in queries {
        let mut distances = query.distances.cells.clone();
        let at = SCALE_CELL.min(distances.len() - 1);
        let far = *distances.select_nth_unstable_by(at, f32::total_cmp).1;
        sum += f64::from((far - query.distances.least).min(f32::MAX));
    }
    (sum / queries.len().max(1) as f64) as f32
}

impl<'a> Trial<'a> {
    fn new(
        cells: &Cells,
        queries: &'a [Query],
        nearest_shards: &'a [Vec<u16>],
        temperature: f32,
    ) -> Trial<'a> {
        let mut shares = Vec::with_capacity(queries.len() * usize::from(cells.shards));
        let mut query_shares = Vec::new();
        for query in queries {
            cells.weigh(&query.distances, temperature, &mut query_shares);
            shares.extend_from_slice(&query_shares);
        }
        Trial { queries, shares, nearest_shards, shards: cells.shards }
    }

    fn each(&self, parallelism: u32, mut visit: impl FnMut(&Query, &Ranking)) {
        let shards = usize::from(self.shards);
        let mut ranking = Ranking::default();
        for (at, query) in self.queries.iter().enumerate() {
            let shares = &self.shares[at * shards..][..shards];
            ranking.rank(shares, &self.nearest_shards[at], parallelism);
            visit(query, &ranking);
        }
    }

    /// Least threshold at which the share `target` of all true neighbours is visited.
    fn threshold(&self, parallelism: u32, target: f32) -> f32 {
        let mut needed = Vec::with_capacity(self.queries.len() * NEIGHBORS);
        self.each(parallelism, |query, ranking| {
            needed.extend(query.neighbor_shards.iter().map(|&shard| ranking.before(shard)));
        });
        // Counts one neighbour more than there are, with a worse sum, so that a quantile of few
        // values is not too low.
        let rank = (f64::from(target) * (needed.len() + 1) as f64).ceil() as usize;
        if target >= 1.0 || rank > needed.len() {
            return 1.0;
        }
        let at = rank.saturating_sub(1);
        needed.select_nth_unstable_by(at, f32::total_cmp).1.min(1.0)
    }

    /// Mean number of visited partitions.
    fn fan_out(&self, parallelism: u32, threshold: f32) -> f64 {
        let mut visited = 0;
        self.each(parallelism, |_, ranking| visited += ranking.visited(threshold).len());
        visited as f64 / self.queries.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parallelism_to_128_is_calibrated_and_then_16_per_doubling() {
        for largest in [1, 5, 100, 128] {
            assert_eq!(parallelisms(largest), (1..=largest).collect::<Vec<_>>());
        }
        for (largest, count) in [(129, 129), (256, 144), (300, 147), (1024, 176), (4096, 208)] {
            let chosen = parallelisms(largest);
            assert_eq!((chosen.len(), chosen.last()), (count, Some(&largest)));
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
        }
    }

    #[test]
    fn a_parallelism_between_takes_the_higher_threshold_beside_it() {
        // The thresholds of this rule rise and fall.
        let rule = |parallelism: u32| (parallelism * 37 % 101) as f32 / 101.0;
        let thresholds = thresholds(1024, rule);
        assert_eq!(thresholds.len(), 1024);
        let chosen = parallelisms(1024);
        for pair in chosen.windows(2) {
            assert_eq!(thresholds[pair[0] as usize - 1], rule(pair[0]));
            for between in pair[0] + 1..pair[1] {
                assert_eq!(thresholds[between as usize - 1], rule(pair[0]).max(rule(pair[1])));
            }
        }
    }
}
