//! How far a query goes that finds out itself how far to go: one without a decision to trust, over segments
//! (`tree/search/cautious.rs`).
//!
//! Ranks of leaves and of estimates make a decision, and are out of date once much was written. What an audit
//! found relative to the distances of its query lasts longer: the θ of a leaf, and how many estimates are
//! better than that of a neighbour. Rows of the same kind change neither, however many come. So audits that are
//! too old for a decision still say how far such a query must go. The older they are the less they are
//! trusted; at last, and before any audit, constants that suit any data stand in for them.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use vstream_index::{Effort, IndexSettings};

use super::choice::{quantile, NEIGHBOURS_MIN};
use super::window::{Moment, Neighbours, Window, WINDOW_MIN};
use super::TURNOVERS_MAX;

/// θ without audits, up to a target of 0.95, and what each halving of the allowed loss adds. Audits
/// find 0.9 to 1.3 for 0.95 on text, words and descriptors; measured with 1.5: 0.967 of 1.5 million
/// descriptors, 0.990 of 300,000 words.
const THETA: f32 = 1.5;
const THETA_PER_HALVING: f32 = 0.25;
/// Rows of segments that are measured then at least; each halving doubles them.
const LEAST: f32 = 384.0;
/// Factor by which leaves are visited beyond the θ that was needed.
const BEYOND: f32 = 1.01;
/// Parts of the allowed loss for leaves that are not visited, which are dear, and for rows that are not measured.
const LEAVES_LOSS: f64 = 0.6;
const ROWS_LOSS: f64 = 0.3;

/// What the last audits of a class of k found, for readers, without a lock.
#[derive(Default)]
pub(super) struct Margins {
    /// Bits of θ.
    theta: AtomicU32,
    /// Rows to measure; 0 before there are enough audits.
    measured: AtomicUsize,
    /// Writes at the time of the audits.
    writes: AtomicU64,
}

impl Margins {
    /// Notes what the audits of a window say for a target of recall. Rows need about as large a θ as queries
    /// (`filtered.rs`).
    pub(super) fn note(
        &self,
        window: &Window,
        of: Neighbours,
        target: f64,
        settings: IndexSettings,
    ) {
        let Some(writes) = window.supported_writes() else { return };
        debug_assert!(window.len() >= WINDOW_MIN);
        let (mut thetas, mut ranks) = (Vec::new(), Vec::new());
        for audit in &window.audits {
            let k = of.unwrap_or(audit.k).max(NEIGHBOURS_MIN);
            let needs = audit.needs(k, settings);
            thetas.extend(needs.map(|(theta, weight)| (f64::from(theta), f64::from(weight))));
            ranks.extend(audit.hits(k).map(|(hit, weight)| {
                let rank = hit.code.as_ref().map_or(0, |code| code.with_all());
                (f64::from(rank), f64::from(weight))
            }));
        }
        let all: f64 = ranks.iter().map(|(_, weight)| weight).sum();
        let enough = |part: f64| (1.0 - (1.0 - target) * part) * all;
        let theta = quantile(thetas.into_iter(), enough(LEAVES_LOSS));
        let rank = quantile(ranks.into_iter(), enough(ROWS_LOSS));
        let Some((theta, rank)) = theta.zip(rank).filter(|_| all > 0.0) else { return };
        // The leaf of this very neighbour is to be visited too.
        let theta = theta.max(0.0) as f32 * BEYOND;
        self.theta.store(theta.to_bits(), Ordering::Relaxed);
        self.measured.store(rank as usize + 1, Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
    }

    /// The effort of a query for `k` neighbours without a decision. Audits never raise θ: that of the audits of rows
    /// is up to 3 for 0.95 of descriptors, where searches with the constant find 0.967.
    ///
    /// * `depth`: rows that audits measure.
    pub(super) fn effort(&self, k: usize, target: f64, depth: usize, now: &Moment) -> Effort {
        let halvings = (0.05 / (1.0 - target).max(1e-4)).log2().max(0.0) as f32;
        let theta = THETA + THETA_PER_HALVING * halvings;
        let least = (LEAST * halvings.exp2()) as usize;
        let measured = self.measured.load(Ordering::Relaxed);
        let then = Moment { writes: self.writes.load(Ordering::Relaxed), ..*now };
        let age = (now.turnovers_since(&then) / TURNOVERS_MAX).min(1.0);
        if measured == 0 || age == 1.0 {
            return Effort::Cautious { depth, theta, least, most: usize::MAX };
        }
        let known = f32::from_bits(self.theta.load(Ordering::Relaxed)).min(theta);
        let known_least = measured.max(4 * k + 40);
        let older = |young: f64, old: f64| young + age * (old - young).max(0.0);
        let least = older(known_least as f64, least as f64) as usize;
        let theta = older(f64::from(known), f64::from(theta)) as f32;
        Effort::Cautious { depth, theta, least, most: least }
    }
}

#[cfg(test)]
mod tests;
