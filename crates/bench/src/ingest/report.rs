//! What the phases found, as a table and as JSON.

use std::fmt::Write;

use serde_json::{json, Value};

use crate::Percentiles;

/// Inserts of one writer, at full rate.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Nanoseconds of each.
    pub inserts_ns: Vec<u64>,
    /// From the first to the last, on the wall.
    pub seconds: f64,
}

/// Nanoseconds of all queries of one round, by phase, and of the inserts beside them.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Nothing else runs: before the writes and after them.
    pub idle: Vec<u64>,
    /// Control: a thread that computes, before the writes and after them.
    pub computing: Vec<u64>,
    /// Control: a thread that writes into another collection.
    pub other: Vec<u64>,
    /// A thread writes into the collection that is queried.
    pub ingesting: Vec<u64>,
    /// Writes into the other collection.
    pub other_writes: Writes,
    /// Writes into the one that is queried.
    pub writes: Writes,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rows at the end.
    pub rows: usize,
    /// Rows before.
    pub preloaded: usize,
    /// Leaves that each query visits.
    pub probes: usize,
    /// Recall@10 with these before the writes.
    pub recall_before: f64,
    /// The same after them.
    pub recall_after: f64,
    /// In their order.
    pub rounds: Vec<Round>,
}

type Times = fn(&Round) -> &Vec<u64>;
type Written = fn(&Round) -> &Writes;

const PHASES: [(&str, Times); 4] = [
    ("idle", |round| &round.idle),
    ("control: a thread computes", |round| &round.computing),
    ("control: a thread writes into another collection", |round| &round.other),
    ("a thread writes into this collection", |round| &round.ingesting),
];
const WRITES: [(&str, Written); 2] = [
    ("into another collection", |round| &round.other_writes),
    ("into the queried collection", |round| &round.writes),
];

impl Report {
    /// Queries of a phase, all rounds together.
    fn queries(&self, times: Times) -> Percentiles {
        Percentiles::of(&mut self.rounds.iter().flat_map(times).copied().collect::<Vec<_>>())
    }

    /// Lowest and highest p99 of a phase over the rounds.
    fn p99_range(&self, times: Times) -> (f64, f64) {
        let each = self.rounds.iter().map(|round| Percentiles::of(&mut times(round).clone()).p99);
        each.fold((f64::INFINITY, 0.0), |(low, high), p99| (low.min(p99), high.max(p99)))
    }

    fn inserts(&self, writes: Written) -> (Percentiles, f64) {
        let times = self.rounds.iter().flat_map(|round| &writes(round).inserts_ns);
        let inserts = Percentiles::of(&mut times.copied().collect::<Vec<_>>());
        let seconds: f64 = self.rounds.iter().map(|round| writes(round).seconds).sum();
        (inserts, inserts.count as f64 / seconds.max(1e-9))
    }

    /// p99 of queries while the collection is written to, over p99 of idle ones.
    pub fn ratio(&self) -> f64 {
        self.queries(PHASES[3].1).p99 / self.queries(PHASES[0].1).p99.max(1e-9)
    }

    /// All figures.
    pub fn to_json(&self) -> Value {
        let phase = |&(name, times): &(&str, Times)| json!({"phase": name, "queries": self.queries(times), "p99-range": self.p99_range(times)});
        let writes = |&(name, of): &(&str, Written)| {
            let (inserts, rate) = self.inserts(of);
            json!({"into": name, "inserts": inserts, "inserts-per-s": rate})
        };
        json!({
            "rows": self.rows,
            "preloaded": self.preloaded,
            "probes": self.probes,
            "recall-before": self.recall_before,
            "recall-after": self.recall_after,
            "rounds": self.rounds.len(),
            "phases": PHASES.iter().map(phase).collect::<Vec<_>>(),
            "writes": WRITES.iter().map(writes).collect::<Vec<_>>(),
            "p99-ratio": self.ratio(),
        })
    }

    /// The tables for people, in Markdown.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} rows, of which {} before the writes; {} probes, recall@10 {:.3} before and {:.3} \
             after; {} rounds.\n\n\
             | beside the queries | queries | p50 / p99 / p99.9 us | p99 of the rounds | p99 over \
             idle |\n|---|---|---|---|---|\n",
            self.rows,
            self.preloaded,
            self.probes,
            self.recall_before,
            self.recall_after,
            self.rounds.len(),
        );
        let idle = self.queries(PHASES[0].1).p99.max(1e-9);
        for (name, times) in PHASES {
            let (found, (low, high)) = (self.queries(times), self.p99_range(times));
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {low:.1} to {high:.1} | {:.2} |",
                found.count,
                found.cell(),
                found.p99 / idle,
            );
        }
        text += "\n| writes | inserts/s | insert p50 / p99 / p99.9 us | mean us | longest us |\n\
                 |---|---|---|---|---|\n";
        for (name, of) in WRITES {
            let (found, rate) = self.inserts(of);
            let _ = writeln!(
                text,
                "| {name} | {rate:.0} | {} | {:.2} | {:.0} |",
                found.cell(),
                found.mean,
                found.max,
            );
        }
        text
    }
}
