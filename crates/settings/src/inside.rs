//! What a partition must reach so that the whole answer reaches the collection's target.

use crate::collection::{CollectionSettings, EncoderSettings};

/// Beyond this a partition would have to look at nearly every row.
const INSIDE_MAX: f64 = 0.999;
/// Below this no target can be set.
const INSIDE_MIN: f64 = 0.5;
/// Audits that what is assumed before the first one counts as.
const ASSUMED: f64 = 16.0;
/// How often a partition misses the rows that matter for the whole answer, of what it misses of its
/// own: assumed. 0.53 on GloVe at two partitions; a half if misses grow with the rank and two
/// partitions share the neighbours.
const PART_ASSUMED: f64 = 0.5;
/// Part of the loss that the target allows which is left to the partitions at least. Where routing
/// alone loses more than the rest, they cannot make up for it, only become slow.
const LEFT_MIN: f64 = 0.1;
/// How many times less or more than it may a partition misses, as far as it is told otherwise for
/// that. One that cannot miss more, since the least effort finds more, is not to be told ever less.
const DISOBEYED_MAX: f64 = 2.0;

/// Sums over merged audits, in which a job has answered queries as usual and exactly; the older ones
/// count for less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MergedAudits {
    /// How many there were.
    pub audits: f64,
    /// Shares of the true neighbours that lie in partitions which were not asked.
    pub lost: f64,
    /// Shares of them that partitions hold which were asked and did not find them.
    pub missed: f64,
    /// What the partitions said at that time that they miss of their own true neighbours.
    pub own_missed: f64,
    /// What they were to miss of these at that time.
    pub own_allowed: f64,
}

impl MergedAudits {
    /// True if these can be sums over audits.
    pub fn is_valid(&self) -> bool {
        let MergedAudits { audits, lost, missed, own_missed, own_allowed } = *self;
        [audits, lost, missed, own_missed, own_allowed]
            .iter()
            .all(|sum| sum.is_finite() && *sum >= 0.0)
    }
}

impl CollectionSettings {
    /// The recall that a partition must reach on its own neighbours so that the whole answer reaches
    /// the collection's target.
    ///
    /// The loss that the target allows is what routing loses and what the partitions miss. The rows
    /// of a partition that belong to the whole answer are its nearest, and it misses its nearest rows
    /// more seldom than its k-th: so each of them may miss more than is left, by as much as merged
    /// audits show. A partition is more careful than it is told to be, the fewer audits of its own it
    /// has; what merged audits know makes that superfluous. Before these, what the encoder promises is
    /// assumed of routing, and that a partition misses what matters half as often as its other rows.
    /// Cost: none to speak of.
    pub fn recall_inside(&self, merged: &MergedAudits) -> f64 {
        let allowed = 1.0 - self.recall_target;
        let unrouted = match self.encoder {
            EncoderSettings::Cells { recall_target, .. } => 1.0 - f64::from(recall_target),
            EncoderSettings::Lsh { .. } | EncoderSettings::Id => 0.0,
        };
        let lost = (merged.lost + ASSUMED * unrouted) / (merged.audits + ASSUMED);
        let assumed = ASSUMED * allowed;
        let part = (merged.missed + PART_ASSUMED * assumed) / (merged.own_missed + assumed);
        let left = (allowed - lost).max(LEFT_MIN * allowed);
        let obeyed = (merged.own_missed + assumed) / (merged.own_allowed + assumed);
        let obeyed = obeyed.clamp(1.0 / DISOBEYED_MAX, DISOBEYED_MAX);
        (1.0 - left / part / obeyed).clamp(INSIDE_MIN, INSIDE_MAX)
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

    /// A job whose routing loses `lost`, and whose partitions miss `part` as many of the rows that
    /// matter as of their own, of which they miss `obeyed` times what they may, steered from the
    /// beginning; recall of its last answers, and what the partitions aimed at then.
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
