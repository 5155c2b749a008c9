//! One line now and then, for logs and pipes.

use std::time::{Duration, Instant};

use super::meter::Meter;
use crate::text;

/// Prints at most one line per interval.
pub(super) struct Plain {
    interval: Duration,
    printed: Option<Instant>,
}

impl Plain {
    pub(super) fn new(interval: Duration) -> Plain {
        Plain { interval, printed: None }
    }

    pub(super) fn print(&mut self, meter: &Meter) {
        // Messages come twice a second: a little early is the right one.
        let due = self.interval.saturating_sub(Duration::from_millis(100));
        if self.printed.is_some_and(|printed| printed.elapsed() < due) {
            return;
        }
        self.printed = Some(Instant::now());
        text::note_line(&line(meter));
    }
}

fn line(meter: &Meter) -> String {
    let now = meter.latest();
    let rates = meter.rates();
    let done = match meter.done() {
        Some(done) => format!("{:3.0} %", done * 100.0),
        None => "  - %".to_owned(),
    };
    let millis = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), text::millis);
    format!(
        "{:4.0} s  {:<8} {done}  vectors {} ({}/s)  queries {} ({}/s)  p50 {}  p99 {}  recall@10 {}  \
         fan-out {}  copies {}  bad {}",
        now.seconds,
        now.phase,
        text::count(now.vectors),
        text::count(rates.vectors.round() as u64),
        text::count(now.queries),
        text::count(rates.queries.round() as u64),
        millis(now.query_p50_ms),
        millis(now.query_p99_ms),
        text::optional(now.recall_at_10, 4),
        text::optional(now.fan_out, 2),
        text::optional(now.copies, 2),
        text::count(now.bad_records)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Goal, Scene};
    use super::*;
    use crate::jvm::Progress;

    #[test]
    fn a_line_says_what_is_known() {
        let mut meter = Meter::new(Scene {
            title: String::new(),
            parallelism: 1,
            preload: 0,
            goal: Goal::EndOfInput,
            recall_target: 0.95,
        });
        meter.take(Progress { seconds: 3.0, phase: "stream".to_owned(), ..Progress::default() });
        assert_eq!(
            line(&meter),
            "   3 s  stream     - %  vectors 0 (0/s)  queries 0 (0/s)  p50 -  p99 -  recall@10 -  \
             fan-out -  copies -  bad 0"
        );
    }
}
