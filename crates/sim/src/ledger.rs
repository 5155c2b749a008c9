//! What was tried and what was found, added up and written down.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use crate::answers::Recall;
use crate::check::{Breach, Violation};
use crate::far::Travelled;
use crate::kill::Killed;
use crate::simulation::Crashed;

/// Totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seeds whose workload was crashed at every step.
    pub seeds: u64,
    /// Distinct states after a crash that were opened and compared.
    pub crash_states: u64,
    /// Calls that failed while workloads ran, and requests that met a fault.
    pub faults: u64,
    /// Deaths of pushes, after which an object store was looked at.
    pub deaths: u64,
    /// Processes that were ended by signal 9.
    pub kills: u64,
    /// Changes to bytes at rest.
    pub corruptions: u64,
    /// Rows of approximate answers.
    pub recall: Recall,
    /// Those of them that were asked for after kills: too few of a seed to judge it by them.
    pub recall_of_kills: Recall,
    /// Broken promises, by kind.
    pub breaches: BTreeMap<Breach, u64>,
}

impl Totals {
    /// Adds what a seed went through.
    pub fn add(&mut self, crashed: Crashed) {
        self.seeds += 1;
        self.crash_states += crashed.checked.states;
        self.recall.add(crashed.checked.recall);
        self.faults += crashed.faults;
    }

    /// Adds what a seed went through on its way to an object store and back.
    pub fn travel(&mut self, travelled: Travelled) {
        self.crash_states += travelled.checked.states;
        self.recall.add(travelled.checked.recall);
        self.deaths += travelled.deaths;
        self.faults += travelled.faults;
        self.corruptions += travelled.flips;
    }

    /// Adds processes that were killed.
    pub fn bury(&mut self, killed: Killed) {
        self.kills += killed.kills;
        self.recall.add(killed.recall);
        self.recall_of_kills.add(killed.recall);
    }

    /// Errors: after all kills together fewer of the nearest rows were found than `target` allows.
    pub fn judge_kills(&self, target: f64) -> Result<(), Violation> {
        let judged = self.recall_of_kills.judge(target);
        judged.map_err(|v| Violation::new(v.breach, format!("after kills: {}", v.what)))
    }

    /// Adds the totals of another part of the run.
    pub fn merge(&mut self, other: &Totals) {
        self.seeds += other.seeds;
        self.crash_states += other.crash_states;
        self.faults += other.faults;
        self.deaths += other.deaths;
        self.kills += other.kills;
        self.recall.add(other.recall);
        self.recall_of_kills.add(other.recall_of_kills);
        self.corruptions += other.corruptions;
        for (breach, count) in &other.breaches {
            *self.breaches.entry(*breach).or_default() += count;
        }
    }

    /// Counts a violation and tells how to see it again.
    pub fn note(&mut self, violation: &Violation, replay: &str) {
        *self.breaches.entry(violation.breach).or_default() += 1;
        eprintln!("{:?}: {}\n  again: crash-lab {replay}", violation.breach, violation.what);
    }

    /// Broken promises.
    pub fn violations(&self) -> u64 {
        self.breaches.values().sum()
    }

    /// One line of JSON.
    pub fn to_json(&self, defects: (usize, usize), seconds: u64) -> Value {
        let count = |breach| self.breaches.get(&breach).copied().unwrap_or(0);
        json!({
            "crash_states": self.crash_states,
            "push_deaths": self.deaths,
            "kills": self.kills,
            "corruptions": self.corruptions,
            "undetected": count(Breach::Undetected),
            "lost": count(Breach::Lost),
            "ghosts": count(Breach::Ghost),
            "duplicates": count(Breach::Duplicate),
            "refused": count(Breach::Refused),
            "blind": count(Breach::Blind),
            "unread": count(Breach::Unread),
            "recall": (self.recall.share() * 1e4).round() / 1e4,
            "faults": self.faults,
            "seeds": self.seeds,
            "defects_caught": format!("{}/{}", defects.0, defects.1),
            "seconds": seconds,
        })
    }

    /// Adds a row to the table at the end of `path`.
    pub fn append_to(&self, path: &Path, first_seed: u64, line: &Value) -> std::io::Result<()> {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text.unwrap_or_default().trim().to_owned()
        };
        let mut file = std::fs::File::options().append(true).open(path)?;
        writeln!(
            file,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.4} | {} | {} |",
            said("date", &["-u", "+%F %H:%M"]),
            said("git", &["rev-parse", "--short", "HEAD"]),
            first_seed,
            self.seeds,
            self.crash_states,
            self.faults,
            self.kills,
            self.corruptions,
            self.recall.share(),
            line["defects_caught"].as_str().unwrap_or_default(),
            self.violations(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_after_kills_are_judged_when_all_seeds_are_done() {
        let killed = Killed { kills: 30, recall: Recall { hits: 900, wanted: 1_200 } };
        let mut totals = Totals::default();
        totals.bury(killed);
        assert!(totals.judge_kills(0.95).is_ok(), "too few of one seed");
        let mut others = Totals::default();
        (0..3).for_each(|_| others.bury(killed));
        totals.merge(&others);
        let violation = totals.judge_kills(0.95).expect_err("a quarter is missing");
        assert_eq!(violation.breach, Breach::Blind);
    }
}
