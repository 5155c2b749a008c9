//! The estimate beside the truth, moment by moment and over all.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{json, Value};
use vstream_engine::RecallEstimate;

use super::AuditSettings;
use crate::times::mean_and_margin;

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Audits that were seen until then.
    pub audits: usize,
    /// Rows that live.
    pub live: usize,
    /// Leaves that a query visits.
    pub probes: usize,
    /// What the guard says.
    pub estimate: f64,
    /// Half width of the 95 % confidence interval that it states.
    pub margin: f64,
    /// Audits that this rests on.
    pub window: usize,
    /// Mean recall@10 of queries that the guard never sees.
    pub truth: f64,
    /// Half width of the 95 % confidence interval of that mean.
    pub truth_margin: f64,
}

impl Moment {
    pub(super) fn new(
        audits: usize,
        live: usize,
        probes: usize,
        estimate: RecallEstimate,
        recalls: &[f64],
    ) -> Moment {
        let RecallEstimate { recall, margin, audits: window, .. } = estimate;
        let (truth, truth_margin) = mean_and_margin(recalls);
        Moment { audits, live, probes, estimate: recall, margin, window, truth, truth_margin }
    }

    /// The estimate less the truth.
    pub fn difference(&self) -> f64 {
        self.estimate - self.truth
    }

    /// True if the truth lies in the interval that the guard states.
    pub fn is_inside(&self) -> bool {
        self.difference().abs() <= self.margin
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Recall that the guard steers to.
    pub target: f64,
    /// Rows before the stream.
    pub preloaded: usize,
    /// Every comparison.
    pub moments: Vec<Moment>,
    /// Audits that were seen, at least.
    pub audits: usize,
    /// Records of the stream.
    pub records: usize,
    /// How long it took, with the looks at the truth.
    pub seconds: f64,
    /// CPU that the guard took, in shares of one core.
    pub guard_share: f64,
}

impl Report {
    pub(super) fn new(settings: &AuditSettings) -> Report {
        Report {
            target: settings.target,
            preloaded: settings.preloaded,
            moments: Vec::new(),
            audits: 0,
            records: 0,
            seconds: 0.0,
            guard_share: 0.0,
        }
    }

    /// Mean estimate, mean truth, and the mean of their difference with half its 95 % confidence
    /// interval over the moments.
    pub fn overall(&self) -> (f64, f64, f64, f64) {
        let of = |value: fn(&Moment) -> f64| self.moments.iter().map(value).collect::<Vec<_>>();
        let (difference, margin) = mean_and_margin(&of(Moment::difference));
        (
            mean_and_margin(&of(|m| m.estimate)).0,
            mean_and_margin(&of(|m| m.truth)).0,
            difference,
            margin,
        )
    }

    /// All figures.
    pub fn to_json(&self) -> Value {
        let (estimate, truth, difference, margin) = self.overall();
        json!({
            "target": self.target,
            "preloaded": self.preloaded,
            "audits-at-least": self.audits,
            "records": self.records,
            "seconds": self.seconds,
            "guard-share": self.guard_share,
            "estimate": estimate,
            "truth": truth,
            "difference": difference,
            "difference-margin": margin,
            "inside": self.moments.iter().filter(|moment| moment.is_inside()).count(),
            "moments": self.moments,
        })
    }

    /// The table for people, in Markdown.
    pub fn table(&self) -> String {
        let mut text = "| audits | live rows | probes | estimate | true recall | difference | in \
                        its interval |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
        for moment in &self.moments {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.4} ± {:.4} of {} | {:.4} ± {:.4} | {:+.4} | {} |",
                moment.audits,
                moment.live,
                moment.probes,
                moment.estimate,
                moment.margin,
                moment.window,
                moment.truth,
                moment.truth_margin,
                moment.difference(),
                if moment.is_inside() { "yes" } else { "no" },
            );
        }
        let inside = self.moments.iter().filter(|moment| moment.is_inside()).count();
        let (estimate, truth, difference, margin) = self.overall();
        let _ = writeln!(
            text,
            "\ntarget {}; {} audits at least; {} records in {:.0} s\nmean estimate {estimate:.4}, \
             mean true recall {truth:.4}, difference {difference:+.4} ± {margin:.4}\ntrue recall \
             in the stated interval at {inside} of {} moments\nthe guard took {:.2} % of one core",
            self.target,
            self.audits,
            self.records,
            self.seconds,
            self.moments.len(),
            100.0 * self.guard_share,
        );
        text
    }
}
