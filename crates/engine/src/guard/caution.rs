//! How far a query goes that finds out itself how far to go: one without a decision to trust, over segments
//! (`tree/search/cautious.rs`).
//!
//! Ranks of leaves and of estimates make a decision, and are out of date once much was written. What an audit
//! found relative to the distances of its query lasts longer: the θ of a leaf, and how many estimates are
//! better than that of a neighbour. Rows of the same kind hardly change these, however many come, and a query
//! still goes on as far as the rows that it finds ask for. So audits that are too old for a decision say where such
//! a query begins. The older they are the less they are trusted; at last, and before any audit, constants that suit
//! any data stand in for them.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use vstream_index::{Effort, IndexSettings};

use super::choice::{quantile, NEIGHBOURS_MIN};
use super::window::{Moment, Neighbours, Reached, Window, WINDOW_MIN};
use super::TURNOVERS_MAX;

/// θ without audits, up to a target of 0.95, and what each halving of the allowed loss adds. Audits
/// find 0.9 to 1.3 for 0.95 on text, words and descriptors; measured with 1.5: 0.967 of 1.5 million
/// descriptors, 0.990 of 300,000 words.
const THETA: f32 = 1.5;
const THETA_PER_HALVING: f32 = 0.25;
/// Rows of segments that are measured then at least; each halving doubles them.
const LEAST: f32 = 384.0;
/// Most ratio of the rows per leaf now and then with which audits still say something.
const LEAF_ROWS_RATIO: f64 = 2.0;
/// Factor by which leaves are visited beyond the θ that was needed.
const BEYOND: f32 = 1.01;
/// Parts of the allowed loss for leaves that are not visited, which are dear, and for rows that are not measured.
const LEAVES_LOSS: f64 = 0.6;
const ROWS_LOSS: f64 = 0.3;

/// Part of the leaves above which a search over segments is far, and the leaves up to which there is little to
/// leave out.
const FAR_PART: usize = 4;
const FAR_LEAVES: usize = 256;
/// Factor by which a search may go farther than decided.
const STRETCH_MAX: f64 = 2.0;

/// True if a query over segments finds out itself how far to go although there is a decision, which may ask for more:
/// a far search of all leaves, or of many more than were decided long ago.
///
/// * `stretched`: factor by which it goes farther than decided.
pub(super) fn is_dear(reached: &Reached, stretched: f64, now: &Moment) -> bool {
    let is_far = now.leaves > FAR_LEAVES && reached.probes > now.leaves / FAR_PART;
    is_far && (reached.probes >= now.leaves || stretched > STRETCH_MAX)
}

/// What the last audits of a class of k found, for readers, without a lock.
#[derive(Default)]
pub(super) struct Margins {
    /// Bits of θ.
    theta: AtomicU32,
    /// Writes and bits of [`leaf_rows`] at the time of the audits.
    writes: AtomicU64,
    leaf_rows: AtomicU64,
    /// Rows to measure; 0 before there are enough audits. Stored last.
    measured: AtomicUsize,
}

impl Margins {
    /// Notes what the audits of a window say for a target of recall. Neighbours that every search scans say nothing.
    pub(super) fn note(
        &self,
        window: &Window,
        of: Neighbours,
        target: f64,
        settings: IndexSettings,
    ) {
        let Some(writes) = window.supported_writes() else { return };
        let Some(last) = window.audits.back() else { return };
        let (mut thetas, mut ranks) = (Vec::new(), Vec::new());
        for audit in &window.audits {
            let k = of.unwrap_or(audit.k).max(NEIGHBOURS_MIN);
            for ((hit, weight), (theta, _)) in audit.hits(k).zip(audit.needs(k, settings)) {
                let Some(code) = hit.code.as_ref().filter(|_| hit.leaf.is_some()) else { continue };
                thetas.push((f64::from(theta), f64::from(weight)));
                ranks.push((f64::from(code.with_all()), f64::from(weight)));
            }
        }
        let all: f64 = ranks.iter().map(|(_, weight)| weight).sum();
        if all < (WINDOW_MIN * NEIGHBOURS_MIN) as f64 {
            return;
        }
        let enough = |part: f64| (1.0 - (1.0 - target) * part) * all;
        let theta = quantile(thetas.into_iter(), enough(LEAVES_LOSS));
        let rank = quantile(ranks.into_iter(), enough(ROWS_LOSS));
        let Some((theta, rank)) = theta.zip(rank) else { return };
        // The leaf of this very neighbour is to be visited too.
        let theta = theta.max(0.0) as f32 * BEYOND;
        self.theta.store(theta.to_bits(), Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
        self.leaf_rows.store(leaf_rows(&last.at).to_bits(), Ordering::Relaxed);
        self.measured.store(rank as usize + 1, Ordering::Release);
    }

    /// The effort of a query for `k` neighbours without a decision. Audits never raise θ: that of the audits of rows
    /// is up to 3 for 0.95 of descriptors, where searches with the constant find 0.967.
    ///
    /// * `depth`: rows that audits measure.
    pub(super) fn effort(&self, k: usize, target: f64, depth: usize, now: &Moment) -> Effort {
        let halvings = (0.05 / (1.0 - target).max(1e-4)).log2().max(0.0) as f32;
        let theta = THETA + THETA_PER_HALVING * halvings;
        let least = (LEAST * halvings.exp2()) as usize;
        let measured = self.measured.load(Ordering::Acquire);
        let age = self.age(now);
        if measured == 0 || age == 1.0 {
            return Effort::Cautious { depth, theta, least };
        }
        let known = f32::from_bits(self.theta.load(Ordering::Relaxed)).min(theta);
        let known_least = measured.max(4 * k + 40);
        let older = |young: f64, old: f64| young + age * (old - young).max(0.0);
        let least = older(known_least as f64, least as f64) as usize;
        let theta = older(f64::from(known), f64::from(theta)) as f32;
        Effort::Cautious { depth, theta, least }
    }

    /// How old the audits are: 1 where they say nothing any more.
    fn age(&self, now: &Moment) -> f64 {
        let then = Moment { writes: self.writes.load(Ordering::Relaxed), ..*now };
        let rows = leaf_rows(now) / f64::from_bits(self.leaf_rows.load(Ordering::Relaxed));
        let is_alike = (1.0 / LEAF_ROWS_RATIO..=LEAF_ROWS_RATIO).contains(&rows);
        let turnovers = now.turnovers_since(&then) / TURNOVERS_MAX;
        if is_alike {
            turnovers.min(1.0)
        } else {
            1.0
        }
    }
}

/// Rows per leaf: θ depends on how large leaves are.
fn leaf_rows(at: &Moment) -> f64 {
    at.rows.max(1) as f64 / at.leaves.max(1) as f64
}

#[cfg(test)]
mod tests;
