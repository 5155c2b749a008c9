//! How far a search must go to find a true neighbour, as an audit notes it.
//!
//! 1. An audit answers a query through every code. It takes the exact distances of the rows with the
//!    least estimates; how many is its *depth*. It is deep enough if hardly a true neighbour stands
//!    near its end.
//! 2. Of many neighbours the audit notes some. Each of these represents those around it.
//! 3. Of each it notes the rank of the leaf, and the rank of the estimate among the rows of the
//!    1, 2, 4, 8 ... nearest leaves. So the notes tell what any effort would have found.

use vstream_vector::Neighbor;

/// Ranks are kept for this many numbers of leaves: the powers of two below 2^24.
const STEPS: usize = 24;

/// How far an approximate search must go to find one true neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// The neighbour.
    pub id: u64,
    /// Position of the first neighbour that it represents, among the true neighbours, from 0.
    pub nth: u32,
    /// Neighbours that it represents. It is in the middle of them.
    pub weight: u32,
    /// Its distance to the query.
    pub distance: f32,
    /// Rank of its leaf for the query, from 0. `None` for a row that every search scans.
    pub leaf: Option<u32>,
    /// Cost of its leaf for the query; negative infinity for a row that every search scans.
    pub cost: f32,
    /// Ranks of its estimate. `None` for a row that every search scans.
    pub code: Option<CodeRanks>,
}

/// Rank of an estimate among the estimates of visible rows, from 0, by the number of visited leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeRanks([u32; STEPS]);

impl CodeRanks {
    /// Ranks of the row in the leaf of rank `own`.
    ///
    /// * `better`: ranks of the leaves of all rows with a better estimate.
    pub fn new(own: u32, better: impl Iterator<Item = u32>) -> CodeRanks {
        let mut ranks = [0; STEPS];
        // Rows of its own leaf and of nearer leaves count whenever it is scanned.
        better.for_each(|leaf| ranks[if leaf <= own { 0 } else { step_of(leaf) }] += 1);
        let mut sum = 0;
        ranks.iter_mut().for_each(|rank| {
            sum += *rank;
            *rank = sum;
        });
        CodeRanks(ranks)
    }

    /// The same rank whatever leaves are visited: of a row whose place has no leaves.
    pub fn always(rank: u32) -> CodeRanks {
        CodeRanks([rank; STEPS])
    }

    /// The rank if a search visits `probes` leaves, its own among them. Between two numbers of leaves
    /// for which ranks are kept, the rank grows with the logarithm.
    pub fn with_probes(&self, probes: usize) -> f64 {
        let exponent = (probes.max(1) as f64).log2().min((STEPS - 1) as f64);
        let (step, part) = (exponent as usize, exponent.fract());
        let (from, to) = (self.0[step], self.0[(step + 1).min(STEPS - 1)]);
        f64::from(from) + f64::from(to - from) * part
    }

    /// The rank if a search visits all leaves.
    pub fn with_all(&self) -> u32 {
        self.0[STEPS - 1]
    }
}

/// The first step at which a search visits the leaf of this rank.
fn step_of(leaf: u32) -> usize {
    ((leaf + 1).next_power_of_two().ilog2() as usize).min(STEPS - 1)
}

/// The groups in which `k` neighbours are noted, as first position and size. Each of the first 16 is
/// a group, the next 96 come by fours, the others by 37: 64 groups for 1,000 neighbours.
pub fn noted(k: usize) -> impl Iterator<Item = (usize, u32)> {
    let after = move |nth: &usize| Some(nth + width(*nth)).filter(|&next| next < k);
    let first = (k > 0).then_some(0);
    std::iter::successors(first, after).map(move |nth| (nth, width(nth).min(k - nth) as u32))
}

fn width(nth: usize) -> usize {
    match nth {
        0..16 => 1,
        16..112 => 4,
        _ => 37,
    }
}

/// Reduces `measured` to the rows of an answer, sorted by id, each with the position that counts for
/// it.
///
/// All rows at the distance of the last neighbour are equally right answers. The order of ids decided
/// which of them are in the answer. So the answer's rows at that distance get the positions of those
/// that a search meets first.
///
/// * `rows`: the answer, in any order. Rows of no leaf are not among `measured`.
/// * `measured`: rows and their positions by estimate.
/// * `leaf_of`: rank of the leaf at a position.
pub fn positions_of(
    rows: &[Neighbor],
    measured: &mut Vec<(Neighbor, u32)>,
    leaf_of: impl Fn(u32) -> u32,
) {
    let mut answer: Vec<Neighbor> = rows.to_vec();
    answer.sort_unstable_by_key(|row| row.id);
    let last = rows.iter().map(|row| row.distance).fold(f32::NEG_INFINITY, f32::max);
    let is_last = |row: &Neighbor| (row.distance - last).abs() <= 1e-6 * last.abs();
    let mut first: Vec<u32> =
        measured.iter().filter(|(row, _)| is_last(row)).map(|&(_, position)| position).collect();
    first.sort_unstable_by_key(|&position| (leaf_of(position), position));
    let mut first = first.into_iter();
    measured.retain(|(row, _)| answer.binary_search_by_key(&row.id, |row| row.id).is_ok());
    measured.sort_unstable_by_key(|(row, _)| row.id);
    for (_, position) in measured.iter_mut().filter(|(row, _)| is_last(row)) {
        *position = first.next().unwrap_or(*position);
    }
}

/// Fills `reach` with the notes of an answer.
///
/// * `positions`: as [`positions_of`] leaves them.
/// * `ranks_of`: rank and cost of the leaf of the candidate at a position, and ranks of the leaves of
///   all better candidates.
pub fn note<L: Iterator<Item = u32>>(
    rows: &[Neighbor],
    positions: &[(Neighbor, u32)],
    ranks_of: impl Fn(u32) -> (u32, f32, L),
    reach: &mut Vec<Reach>,
) {
    let mut rows: Vec<Neighbor> = rows.to_vec();
    rows.sort_unstable_by(Neighbor::order);
    reach.clear();
    reach.extend(noted(rows.len()).map(|(nth, weight)| {
        // Farther neighbours are harder to find. The first of a group would flatter the others.
        let Neighbor { id, distance, .. } = rows[nth + (weight as usize - 1) / 2];
        let position = positions.binary_search_by_key(&id, |(row, _)| row.id).ok();
        let ranks = position.map(|position| ranks_of(positions[position].1));
        let cost = ranks.as_ref().map_or(f32::NEG_INFINITY, |&(_, cost, _)| cost);
        let ranks = ranks.map(|(own, _, better)| (own, CodeRanks::new(own, better)));
        let (leaf, code) = ranks.unzip();
        Reach { id, nth: nth as u32, weight, distance, leaf, cost, code }
    }));
}

/// Least depth with which an audit begins.
const DEPTH_MIN: usize = 2048;

/// Rows by estimate that an audit measures per leaf at least. They cost about as much as the codes,
/// all of which an audit scans anyway.
const DEPTH_PER_LEAF: usize = 16;

/// The depth with which an audit of `k` neighbours begins, if `known` was enough before.
pub fn depth_from(known: usize, k: usize) -> usize {
    known.max(DEPTH_MIN).max(8 * k)
}

/// As [`depth_from`], in an index in memory alone: rows cost little there, and their number grows with its leaves.
pub fn depth_in_memory(known: usize, k: usize, leaves: usize) -> usize {
    depth_from(known, k).max(leaves * DEPTH_PER_LEAF)
}

/// The depth that hardly misses a true neighbour.
///
/// Ranks by estimate spread over orders of magnitude. If at most one neighbour in fifty stands in the
/// last three quarters of the depth, and none of fewer than fifty, then one in some hundreds stands
/// beyond it.
///
/// * `ranks`: ranks, by estimate, of the nearest rows that were found.
pub fn depth_needed(ranks: impl Iterator<Item = usize>) -> usize {
    let mut ranks: Vec<usize> = ranks.collect();
    let late = ranks.len() / 50;
    if late >= ranks.len() {
        return 0;
    }
    let position = ranks.len() - 1 - late;
    *ranks.select_nth_unstable(position).1 * 4
}

#[cfg(test)]
mod tests;
