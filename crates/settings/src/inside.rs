//! Computes the recall that each partition must reach so that the whole answer reaches the
//! collection's target.

use crate::collection::{CollectionSettings, EncoderSettings};

/// Upper bound. For a higher recall a partition would have to compare nearly every row.
const INSIDE_MAX: f64 = 0.999;
/// Lower bound, the least target that can be set.
const INSIDE_MIN: f64 = 0.5;
/// Weight of the assumptions, as a number of audits.
const ASSUMED: f64 = 16.0;
/// Assumed ratio of two miss rates of a partition: that of its rows in the whole answer, and that
/// of its own nearest rows. Measured: 0.53 on GloVe at two partitions. It is a half if misses grow
/// with the rank and two partitions share the neighbours.
const MISS_RATIO_ASSUMED: f64 = 0.5;
/// Least part of the allowed loss that is left to the partitions. If routing alone loses more than
/// the rest, the partitions cannot compensate for it; they would only become slow.
const LEFT_MIN: f64 = 0.1;
/// Largest correction for partitions that miss more or less than allowed. A partition that finds
/// more with its least effort cannot miss more, so its allowance must not grow without limit.
const CORRECTION_MAX: f64 = 2.0;

/// Sums over merged audits, in which a job answered a query both as usual and exactly. Older audits
/// count less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MergedAudits {
    /// Number of audits.
    pub audits: f64,
    /// Share of the true neighbours in partitions that were not visited, summed over audits.
    pub lost: f64,
    /// Share of the true neighbours that visited partitions hold and did not find, summed over
    /// audits.
    pub missed: f64,
    /// The partitions' own estimates of their misses at these times, summed over audits.
    pub own_missed: f64,
    /// The misses that the partitions were allowed at these times, summed over audits.
    pub own_allowed: f64,
}

impl MergedAudits {
    /// True if the values can be sums over audits.
    pub fn is_valid(&self) -> bool {
        let MergedAudits { audits, lost, missed, own_missed, own_allowed } = *self;
        [audits, lost, missed, own_missed, own_allowed]
            .iter()
            .all(|sum| sum.is_finite() && *sum >= 0.0)
    }
}

impl CollectionSettings {
    /// The recall that a partition must reach on its own neighbours so that the whole answer
    /// reaches the collection's target.
    ///
    /// The target allows a loss. Routing causes one part of it, and the misses of partitions cause
    /// the rest. The rows of a partition that belong to the whole answer are its nearest ones, and
    /// it misses those less often than its k-th. So each partition may miss more than its part of
    /// the loss; the merged audits show how much more. A partition is also more careful than it is
    /// told to be while it has few audits of its own, and the merged audits correct that. Before
    /// the first merged audit, routing is assumed to lose what the encoder's target allows, and a
    /// partition to miss the rows that matter half as often as its other rows. Cost: O(1).
    pub fn recall_inside(&self, merged: &MergedAudits) -> f64 {
        let allowed = 1.0 - self.recall_target;
        let unrouted = match self.encoder {
            EncoderSettings::Cells { recall_target, .. } => 1.0 - f64::from(recall_target),
            EncoderSettings::Lsh { .. } | EncoderSettings::Id => 0.0,
        };
        let lost = (merged.lost + ASSUMED * unrouted) / (merged.audits + ASSUMED);
        let assumed = ASSUMED * allowed;
        let miss_ratio =
            (merged.missed + MISS_RATIO_ASSUMED * assumed) / (merged.own_missed + assumed);
        let left = (allowed - lost).max(LEFT_MIN * allowed);
        let correction = (merged.own_missed + assumed) / (merged.own_allowed + assumed);
        let correction = correction.clamp(1.0 / CORRECTION_MAX, CORRECTION_MAX);
        (1.0 - left / miss_ratio / correction).clamp(INSIDE_MIN, INSIDE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(target: f64, routed: f64) -> CollectionSettings {
        let text = format!(
            r#"{{"dimension": 64, "metric": "l2", "recall-target": {target},
                 "encoder": {{"kind": "cells", "recall-target": {routed}}}}}"#
        );
        CollectionSettings::from_json(&text).expect("accepted")
    }

    /// Simulates a job from its start. Routing loses `lost`. A partition misses `obeyed` times as many
    /// of its own nearest rows as it may, and `part` times as many of the rows in the whole answer.
    /// Returns the recall of the last answers and the recall that the partitions then aimed at.
    fn steered(settings: &CollectionSettings, lost: f64, part: f64, obeyed: f64) -> (f64, f64) {
        let mut merged = MergedAudits::default();
        let mut last = (0.0, 0.0);
        for _ in 0..4_000 {
            let aim = settings.recall_inside(&merged);
            let own_missed = obeyed * (1.0 - aim);
            let missed = part * own_missed;
            last = (1.0 - lost - missed, aim);
            merged.audits += 1.0;
            merged.lost += lost;
            merged.missed += missed;
            merged.own_missed += own_missed;
            merged.own_allowed += 1.0 - aim;
        }
        last
    }

    #[test]
    fn the_whole_answer_comes_to_the_target() {
        for target in [0.8, 0.9, 0.95, 0.99] {
            for (lost, part) in [(0.0, 1.0), (0.1, 0.5), (0.4, 0.55), (0.6, 1.0), (0.8, 0.4)] {
                for obeyed in [0.7, 1.0, 1.4] {
                    let lost = lost * (1.0 - target);
                    let routed = settings(target, 1.0 - lost / 2.0);
                    let (recall, aim) = steered(&routed, lost, part, obeyed);
                    let case = format!("{target}, {lost}, {part}, {obeyed}: {recall}, {aim}");
                    assert!(recall > target - 0.003, "{case}");
                    // No aim is lower.
                    assert!(recall < target + 0.003 || aim == INSIDE_MIN, "{case}");
                }
            }
        }
    }

    #[test]
    fn a_partition_that_cannot_do_worse_is_not_told_ever_less() {
        let (recall, aim) = steered(&settings(0.95, 0.98), 0.01, 0.5, 0.1);
        assert!(recall > 0.95 && (0.83..0.86).contains(&aim), "{recall}, {aim}");
    }

    #[test]
    fn what_routing_alone_loses_does_not_make_partitions_look_at_everything() {
        let settings = settings(0.95, 0.9);
        let merged = MergedAudits {
            audits: 900.0,
            lost: 90.0,
            missed: 4.5,
            own_missed: 4.5,
            own_allowed: 4.5,
        };
        let inside = settings.recall_inside(&merged);
        assert!((inside - 0.995).abs() < 1e-3, "{inside}");
    }

    #[test]
    fn before_the_first_audit_the_encoders_promise_counts() {
        let inside = settings(0.95, 0.98).recall_inside(&MergedAudits::default());
        assert!((inside - 0.94).abs() < 1e-6, "{inside}");
    }

    #[test]
    fn few_audits_change_little() {
        let settings = settings(0.95, 0.98);
        let before = settings.recall_inside(&MergedAudits::default());
        let one = MergedAudits {
            audits: 1.0,
            lost: 0.0,
            missed: 0.0,
            own_missed: 0.03,
            own_allowed: 0.03,
        };
        assert!((settings.recall_inside(&one) - before).abs() < 0.005);
    }

    #[test]
    fn sums_of_no_audits_are_refused() {
        assert!(MergedAudits::default().is_valid());
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(!MergedAudits { missed: bad, ..Default::default() }.is_valid());
        }
    }
}
