//! What a run gave: latencies, and replica-seconds.

use super::traffic::SECOND;

/// Life of a replica in nanoseconds, from the order to start it to its end.
pub type Span = (u64, u64);

/// All that happened in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When each query arrived and when it was answered, in the order of arrival.
    pub answers: Vec<(u64, u64)>,
    /// When each query was taken by a replica, in the order in which they were taken, with its number.
    pub taken: Vec<(u64, usize)>,
    /// Lives of all replicas.
    pub spans: Vec<Span>,
    /// Nanoseconds of all replicas, counted from event to event: the same as those of the lives.
    pub replica_ns: u64,
    /// The end: the last answer, or that of the traffic if it is later.
    pub end: u64,
    /// Moments at which it was decided, with the replicas there were and the queries that waited.
    pub course: Vec<(u64, u32, u64)>,
    /// Queries that were answered with the floor of the recall.
    pub at_floor: usize,
}

/// What is compared of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Seconds from arrival to answer: the median.
    pub p50_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Seconds of all replicas together, starts among them.
    pub replica_s: f64,
    /// Replicas in the mean.
    pub replicas: f64,
    /// Share of the answers with the floor of the recall.
    pub at_floor: f64,
}

impl Outcome {
    /// Replicas at their most.
    pub fn peak(&self) -> usize {
        let starts = self.spans.iter().map(|&(from, _)| (from, 1i64));
        // One that ends makes room for one that starts at the same moment.
        let ends = self.spans.iter().map(|&(_, to)| (to, -1i64));
        let mut steps: Vec<(u64, i64)> = starts.chain(ends).collect();
        steps.sort_unstable();
        let counts = steps.iter().scan(0, |now, &(_, step)| {
            *now += step;
            Some(*now)
        });
        counts.max().unwrap_or(0) as usize
    }

    /// What is compared. An outcome has at least one answer.
    pub fn figures(&self) -> Figures {
        let mut latencies: Vec<u64> =
            self.answers.iter().map(|&(arrived, answered)| answered - arrived).collect();
        let count = latencies.len();
        let mut at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as usize).clamp(1, count) - 1;
            *latencies.select_nth_unstable(rank).1 as f64 / SECOND
        };
        let replica_s =
            self.spans.iter().map(|&(from, to)| (to - from) as f64).sum::<f64>() / SECOND;
        Figures {
            p50_s: at(0.5),
            p99_s: at(0.99),
            max_s: at(1.0),
            replica_s,
            replicas: replica_s * SECOND / self.end as f64,
            at_floor: self.at_floor as f64 / count as f64,
        }
    }
}

/// Mean, and deviation of a sample.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}
