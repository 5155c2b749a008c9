//! What was tried and what was found, added up and written down.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use crate::check::{Breach, Violation};
use crate::damage::AtRest;
use crate::far::Travelled;
use crate::simulation::{crash_everywhere, Crashed};
use vstream_engine::{set_defect, Defect};

/// Totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seeds whose workload was crashed at every step.
    pub seeds: u64,
    /// Distinct states after a crash that were opened and compared.
    pub crash_states: u64,
    /// Faults that were injected while workloads ran.
    pub faults: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Changes to bytes at rest.
    pub corruptions: u64,
    /// Broken promises, by kind.
    pub breaches: BTreeMap<Breach, u64>,
}

impl Totals {
    /// Adds what a seed went through.
    pub fn add(&mut self, crashed: Crashed) {
        self.seeds += 1;
        self.crash_states += crashed.states;
        self.faults += crashed.faults;
    }

    /// Adds what a seed went through on its way to an object store and back.
    pub fn travel(&mut self, travelled: Travelled) {
        self.crash_states += travelled.states;
        self.faults += travelled.faults;
        self.corruptions += travelled.flips;
    }

    /// Adds the totals of another part of the run.
    pub fn merge(&mut self, other: &Totals) {
        self.seeds += other.seeds;
        self.crash_states += other.crash_states;
        self.faults += other.faults;
        self.kills += other.kills;
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
            "kills": self.kills,
            "corruptions": self.corruptions,
            "undetected": count(Breach::Undetected),
            "lost": count(Breach::Lost),
            "ghosts": count(Breach::Ghost),
            "duplicates": count(Breach::Duplicate),
            "refused": count(Breach::Refused),
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
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            said("date", &["-u", "+%F %H:%M"]),
            said("git", &["rev-parse", "--short", "HEAD"]),
            first_seed,
            self.seeds,
            self.crash_states,
            self.faults,
            self.kills,
            self.corruptions,
            line["defects_caught"].as_str().unwrap_or_default(),
            self.violations(),
        )
    }
}

/// The first seed from `first` on whose lab notices `defect`, of `seeds` seeds; and how.
pub fn caught(defect: Defect, first: u64, seeds: u64) -> Option<(u64, Violation)> {
    set_defect(Some(defect));
    let found = (first..first + seeds).find_map(|seed| Some((seed, whole_lab(seed).err()?)));
    set_defect(None);
    found
}

/// Crashes and damage of one seed.
fn whole_lab(seed: u64) -> Result<(), Violation> {
    crash_everywhere(seed)?;
    let at_rest = AtRest::new(seed)?;
    at_rest.flip_bits(seed, 300)?;
    at_rest.mangle(seed, 300)?;
    at_rest.flip_unclosed(seed, 30)?;
    Ok(())
}
