//! Chooses the effort that meets a target at the least cost, by the ranks that audits noted.
//!
//! 1. Take some numbers of probes: those that reach a given share of the neighbours' leaves, from
//!    just what the target asks for to all of them.
//! 2. For each, take the least refinement that finds the target's share of the neighbours.
//! 3. Choose the cheapest of these; if the target is out of their reach and rows may be in segments,
//!    every code and a deep refinement. If nothing is cheaper than a scan of every row, choose that scan:
//!    in memory it may be, but rows of segments would have to be read and decoded.

use vstream_index::Reach;

use super::window::{aim, Moment, Neighbours, Reached, Window, WINDOW_MIN};
use crate::settings::Settings;

/// Shares of the allowed loss left to the codes; the rest is for leaves not visited.
const CODE_LOSS_SHARES: [f64; 9] = [0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95];
/// Rows of a usual leaf.
const LEAF_ROWS: f64 = 256.0;
/// Nanoseconds to stream a byte from memory, and to wait for a cache line at a random address while
/// other lines are fetched. Measured: 0.4 to 0.9 us for a leaf of 128 dimensions, 60 to 100 ns for
/// a row of it.
const STREAMED_NS: f64 = 0.12;
const MISSED_NS: f64 = 25.0;
/// Nanoseconds to fetch a block of a segment from the page cache and to decode a row of it.
const BLOCK_NS: f64 = 2_000.0;
/// Nanoseconds for a row where all rows of a segment are read and decoded, by the byte: 1.5 million rows of
/// 128 bytes took a second.
const READ_NS: f64 = 5.0;
/// Rows refined where no effort that audits know of suffices, over the worst rank that they saw.
const DEEPER: f64 = 4.0;
/// Least neighbours of each audit behind a choice. The nearest neighbour of some hundred queries
/// says too little, and a search that finds ten finds the nearest.
pub(super) const NEIGHBOURS_MIN: usize = 10;
/// Least rows refined.
const REFINE_MIN: usize = 40;

/// Costs of the steps of a search, in nanoseconds; only their proportions matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    leaf: f64,
    refined: f64,
    row: f64,
    /// Rows may be in segments.
    is_read: bool,
}

impl Costs {
    pub(super) fn of(settings: &Settings) -> Costs {
        let index = settings.index_settings();
        let dimension = index.dimension.next_multiple_of(64) as f64;
        let bytes = (index.dimension * index.element.bytes()) as f64;
        let look = if settings.cluster.second_look { dimension / 2.0 + 6.0 } else { bytes };
        let away = if settings.memory.is_some() { BLOCK_NS } else { 0.0 };
        Costs {
            leaf: LEAF_ROWS * (dimension / 8.0 + 4.0) * STREAMED_NS,
            refined: look * STREAMED_NS + MISSED_NS + away,
            row: bytes * if settings.memory.is_some() { READ_NS } else { STREAMED_NS },
            is_read: settings.memory.is_some(),
        }
    }

    /// True if rows may be in segments, and have to be read.
    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    fn of_search(&self, effort: Reached) -> f64 {
        effort.probes as f64 * self.leaf + effort.refine as f64 * self.refined
    }

    fn of_everything(&self, now: &Moment) -> f64 {
        now.rows as f64 * self.row
    }
}

/// A noted neighbour: the present rank of its leaf, the ranks of its code, the time of its audit, and its weight.
struct Hit<'a> {
    leaf: f64,
    reach: &'a Reach,
    at: &'a Moment,
    weight: f64,
}

impl Hit<'_> {
    /// Rank of its estimate if a search visits `probes` leaves now.
    fn code_rank(&self, probes: usize, now: &Moment) -> f64 {
        let then = now.probes_then(probes, self.at);
        let rank = self.reach.code.as_ref().map_or(0.0, |code| code.with_probes(then));
        rank * now.growth_since(self.at)
    }
}

/// The cheapest effort that meets `target` with a reserve, while `effort` is in force; `None`
/// without enough audits.
pub(super) fn choose(
    window: &Window,
    of: Neighbours,
    effort: Reached,
    target: f64,
    now: &Moment,
    costs: &Costs,
) -> Option<Reached> {
    if window.len() < WINDOW_MIN {
        return None;
    }
    let aim = aim(target, &window.estimate(of, effort, now)?) - window.surprise(of);
    let hits: Vec<Hit<'_>> = window
        .audits
        .iter()
        .flat_map(|audit| {
            audit.hits(of.unwrap_or(audit.k).max(NEIGHBOURS_MIN)).map(|(reach, weight)| Hit {
                leaf: now.leaf_rank(reach.leaf.unwrap_or(0), &audit.at),
                reach,
                at: &audit.at,
                weight: f64::from(weight),
            })
        })
        .collect();
    let all: f64 = hits.iter().map(|hit| hit.weight).sum();
    if all == 0.0 {
        return Some(Reached { probes: 1, refine: REFINE_MIN });
    }
    let out_of_reach = || {
        let worst = hits.iter().map(|hit| hit.code_rank(now.leaves, now)).fold(0.0, f64::max);
        let refine = ((DEEPER * worst) as usize).max(REFINE_MIN);
        match costs.is_read {
            true => Reached { probes: now.leaves.max(1), refine },
            false => Reached::EXACT,
        }
    };
    let shares = if aim > 1.0 { &[] } else { &CODE_LOSS_SHARES[..] };
    shares
        .iter()
        .filter_map(|share| {
            let leaf_share = 1.0 - (1.0 - aim) * (1.0 - share);
            let leaves = hits.iter().map(|hit| (hit.leaf, hit.weight));
            let probes = (quantile(leaves, leaf_share * all)?.ceil() as usize + 1).min(now.leaves);
            let visited = hits.iter().filter(|hit| hit.leaf < probes as f64);
            let ranks = visited.map(|hit| (hit.code_rank(probes, now), hit.weight));
            let refine = (quantile(ranks, aim * all)?.ceil() as usize + 1).max(REFINE_MIN);
            Some(Reached { probes: probes.max(1), refine })
        })
        .min_by(|a, b| costs.of_search(*a).total_cmp(&costs.of_search(*b)))
        .or_else(|| Some(out_of_reach()))
        .filter(|chosen| costs.of_search(*chosen) < costs.of_everything(now))
        .or(Some(Reached::EXACT))
}

/// The least value up to which the weights add up to `enough`; `None` if they never do.
pub(super) fn quantile(values: impl Iterator<Item = (f64, f64)>, enough: f64) -> Option<f64> {
    let mut values: Vec<(f64, f64)> = values.collect();
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    values.iter().find_map(|&(value, weight)| {
        sum += weight;
        // A sum of weights may differ in its last bits from their product with a share.
        (sum >= enough - 1e-6).then_some(value)
    })
}
