//! Progress over time: rates of the last seconds and the share of the work that is done.

use std::collections::VecDeque;

use super::{Goal, Scene};
use crate::jvm::Progress;

/// Length of the window over which rates are taken, in seconds.
const WINDOW_SECONDS: f64 = 3.0;

/// The newest progress and what came shortly before it.
pub(super) struct Meter {
    pub(super) scene: Scene,
    window: VecDeque<Progress>,
    stream_began: Option<Progress>,
}

/// Records per second over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) vectors: f64,
    pub(super) deletes: f64,
    pub(super) queries: f64,
}

impl Meter {
    pub(super) fn new(scene: Scene) -> Meter {
        Meter { scene, window: VecDeque::new(), stream_began: None }
    }

    pub(super) fn take(&mut self, progress: Progress) {
        if self.stream_began.is_none() && is_stream(&progress.phase) {
            self.stream_began = Some(progress.clone());
        }
        self.window.push_back(progress);
        let newest = self.latest().seconds;
        while self.window.len() > 2 && self.window[1].seconds <= newest - WINDOW_SECONDS {
            self.window.pop_front();
        }
    }

    /// The newest progress; zeros before the first.
    pub(super) fn latest(&self) -> Progress {
        self.window.back().cloned().unwrap_or_default()
    }

    pub(super) fn rates(&self) -> Rates {
        let (Some(old), Some(new)) = (self.window.front(), self.window.back()) else {
            return Rates::default();
        };
        let seconds = new.seconds - old.seconds;
        if seconds <= 0.0 {
            return Rates::default();
        }
        // Totals shrink for a moment when a job restarts from a checkpoint.
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        Rates {
            vectors: rate(old.vectors, new.vectors),
            deletes: rate(old.deletes, new.deletes),
            queries: rate(old.queries, new.queries),
        }
    }

    /// Share of the current phase that is done, 0..=1, if that can be known.
    pub(super) fn done(&self) -> Option<f64> {
        let now = self.latest();
        let Some(began) = &self.stream_began else {
            let preload = self.scene.preload;
            return (preload > 0).then(|| share(now.vectors as f64, preload as f64));
        };
        match self.scene.goal {
            Goal::Records(goal) => {
                Some(share(records(&now).saturating_sub(records(began)) as f64, goal as f64))
            }
            Goal::Seconds(goal) => Some(share(now.seconds - began.seconds, goal)),
            Goal::EndOfInput => None,
        }
    }
}

/// True from the first phase that follows the preparations.
fn is_stream(phase: &str) -> bool {
    matches!(phase, "stream" | "ended")
}

fn records(progress: &Progress) -> u64 {
    progress.vectors + progress.deletes + progress.queries
}

fn share(done: f64, all: f64) -> f64 {
    if all > 0.0 {
        (done / all).clamp(0.0, 1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(preload: u64, goal: Goal) -> Meter {
        let (title, recall_target) = (String::new(), 0.95);
        Meter::new(Scene { title, parallelism: 2, preload, goal, recall_target })
    }

    fn at(seconds: f64, phase: &str, vectors: u64, queries: u64) -> Progress {
        Progress { seconds, phase: phase.to_owned(), vectors, queries, ..Progress::default() }
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut meter = meter(0, Goal::EndOfInput);
        assert_eq!(meter.rates(), Rates::default());
        meter.take(at(0.0, "stream", 0, 0));
        assert_eq!(meter.rates(), Rates::default());
        for second in 1..=10 {
            meter.take(at(f64::from(second), "stream", 1_000 * second as u64, 0));
        }
        meter.take(at(13.0, "stream", 40_000, 300));
        assert_eq!(meter.rates(), Rates { vectors: 10_000.0, deletes: 0.0, queries: 100.0 });
        meter.take(at(13.5, "stream", 30_000, 0));
        assert!(meter.rates().queries >= 0.0, "a restart gives no negative rate");
        assert_eq!(meter.done(), None);
    }

    #[test]
    fn the_preload_counts_apart_from_the_stream() {
        let mut by_records = meter(1_000, Goal::Records(500));
        by_records.take(at(1.0, "preload", 250, 0));
        assert_eq!(by_records.done(), Some(0.25));
        by_records.take(at(2.0, "training", 1_000, 0));
        assert_eq!(by_records.done(), Some(1.0));
        by_records.take(at(3.0, "stream", 1_000, 0));
        by_records.take(at(4.0, "stream", 1_050, 50));
        assert_eq!(by_records.done(), Some(0.2));

        let mut by_time = meter(0, Goal::Seconds(10.0));
        by_time.take(at(5.0, "stream", 0, 0));
        by_time.take(at(30.0, "ended", 0, 0));
        assert_eq!(by_time.done(), Some(1.0));
    }
}
