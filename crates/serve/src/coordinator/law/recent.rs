//! Arrivals of the last seconds.

use std::collections::VecDeque;

/// Entries at most: more observations than these within the span are joined to the last one.
const ENTRIES_MAX: usize = 4_096;

/// Arrivals of the last seconds, by the time at which they were seen.
#[derive(Debug)]
pub(super) struct Recent {
    span_s: f64,
    seen: VecDeque<(f64, u64)>,
}

impl Recent {
    /// * `span_s`: the longest span that is asked for.
    pub(super) fn new(span_s: f64) -> Recent {
        Recent { span_s, seen: VecDeque::new() }
    }

    /// Cost: O(1), amortised.
    pub(super) fn add(&mut self, time_s: f64, arrivals: u64) {
        while self.seen.front().is_some_and(|&(at, _)| at <= time_s - self.span_s) {
            self.seen.pop_front();
        }
        let is_full = self.seen.len() >= ENTRIES_MAX;
        match self.seen.back_mut() {
            Some(last) if is_full => *last = (time_s, last.1.saturating_add(arrivals)),
            _ => self.seen.push_back((time_s, arrivals)),
        }
    }

    /// Arrivals per second over the last `span_s` seconds, at most those of [`Recent::new`].
    pub(super) fn rate(&self, time_s: f64, span_s: f64) -> f64 {
        // A tick of a tenth of a second is not a whole number in binary: half a microsecond is nothing.
        let after = time_s - span_s + 5e-7;
        let recent = self.seen.iter().rev().take_while(|&&(at, _)| at > after);
        recent.map(|&(_, arrivals)| arrivals as f64).sum::<f64>() / span_s
    }
}
