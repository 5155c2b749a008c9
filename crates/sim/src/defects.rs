//! Deliberate defects, and whether the lab notices them.

use std::path::Path;

use vstream_engine::Defect;
use vstream_store::Defect as RemoteDefect;

use crate::check::{guarded, Violation};
use crate::crash::Seen;
use crate::damage::AtRest;
use crate::disk::Event;
use crate::far::{there, there_and_back};
use crate::kill::Killer;
use crate::script::Shape;
use crate::simulation::{is_promise, play};

/// Changes to bytes at rest, per seed.
const FLIPS: u64 = 200;
const MANGLES: u64 = 200;
const UNCLOSED_FLIPS: u64 = 30;
/// Children that are killed, per seed.
const KILLS: u64 = 60;
/// Seeds that must show a defect: one alone may do so by luck.
pub const SEEDS_NEEDED: usize = 2;
/// Where any step may show a defect, one in this many is crashed.
const STEP_ONE_IN: u64 = 4;
/// Where any answer may show it, one step in this many is crashed: a few thousand answers are enough.
const ANSWER_ONE_IN: u64 = 32;

/// Which part of the lab must notice which defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// In the engine, seen by simulated crashes and damage.
    Crashes(Defect),
    /// In the engine of a process that is killed.
    Kills(Defect),
    /// In the way to an object store and back.
    Remote(RemoteDefect),
}

impl Planted {
    /// All of them.
    pub fn all() -> Vec<Planted> {
        let crashes = Defect::ALL.into_iter().map(Planted::Crashes);
        let kills = Defect::SHOWN_BY_KILLS.into_iter().map(Planted::Kills);
        crashes.chain(kills).chain(RemoteDefect::ALL.into_iter().map(Planted::Remote)).collect()
    }

    /// The first [`SEEDS_NEEDED`] seeds from `first` on that show it, of `seeds` seeds, and how;
    /// fewer if there are no more. `program` is what [`Killer`] starts.
    pub fn caught(self, first: u64, seeds: u64, program: &Path) -> Vec<(u64, Violation)> {
        let seeds = (first..first + seeds).filter(|seed| self.may_show(*seed));
        let shown = |seed| Some((seed, self.shown(seed, program).err()?));
        seeds.filter_map(shown).take(SEEDS_NEEDED).collect()
    }

    /// Whether the rows of a seed have what the defect spoils.
    fn may_show(self, seed: u64) -> bool {
        let shape = Shape::of(seed);
        match self {
            Planted::Crashes(Defect::RememberedNotPersisted) => shape.remembers,
            Planted::Crashes(Defect::PartsReplayedOver | Defect::OlderPartCounts) => {
                !shape.has_segments
            }
            Planted::Crashes(Defect::TakenRowsStay) => shape.merges_ranges,
            Planted::Crashes(Defect::CodesMisplaced) => shape.has_segments && !shape.has_graphs,
            Planted::Crashes(defect) if Defect::SHOWN_BY_FIELDS.contains(&defect) => {
                shape.has_fields && shape.has_segments
            }
            _ => true,
        }
    }

    fn shown(self, seed: u64, program: &Path) -> Result<(), Violation> {
        match self {
            Planted::Crashes(defect) => {
                vstream_engine::set_defect(Some(defect));
                let shown = guarded(|| look(seed, defect));
                vstream_engine::set_defect(None);
                shown
            }
            Planted::Kills(defect) => {
                let place = std::env::temp_dir();
                let killer = Killer { program, place: &place, seed, defect: Some(defect) };
                killer.run(KILLS).map(|_| ())
            }
            Planted::Remote(defect) => {
                vstream_store::set_defect(Some(defect));
                let shown = match defect {
                    // The way there shows it.
                    RemoteDefect::DoubtTrusted => there(seed),
                    _ => there_and_back(seed, &Seen::default()),
                };
                vstream_store::set_defect(None);
                shown.map(|_| ())
            }
        }
    }
}

/// Parts of the lab, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The workload with its faults and restarts, each compared with the oracle.
    Restarts,
    /// Changed bytes at rest.
    Damage,
    /// Crashes after each promise, where what was lost is missed first.
    Promises,
    /// Crashes after any step.
    Steps,
    /// Approximate answers, also of what some crashes left.
    Answers,
}

impl Part {
    /// The cheapest part that must see a defect. Others may see it too: a run of the whole lab on
    /// each of thirty seeds takes twenty minutes, and tells no more.
    fn that_sees(defect: Defect) -> Part {
        match defect {
            Defect::ChecksumIgnored | Defect::DamageTakenForTail | Defect::WatermarkIgnored => {
                Part::Damage
            }
            // The operating system still has what was not synced: only a loss of power tells.
            Defect::SyncSkipped | Defect::SyncFailureIgnored | Defect::PageCacheTrusted => {
                Part::Promises
            }
            // It needs a state that is written to.
            Defect::TailNotCut => Part::Steps,
            Defect::CodesMisplaced => Part::Answers,
            _ => Part::Restarts,
        }
    }
}

fn look(seed: u64, defect: Defect) -> Result<(), Violation> {
    match Part::that_sees(defect) {
        Part::Restarts => play(seed).map(drop),
        Part::Damage => {
            let at_rest = AtRest::new(seed)?;
            at_rest.flip_bits(seed, FLIPS)?;
            at_rest.mangle(seed, MANGLES)?;
            at_rest.flip_unclosed(seed, UNCLOSED_FLIPS).map(drop)
        }
        Part::Promises => {
            let played = play(seed)?;
            let is_failed = |event: &Event| matches!(event, Event::SyncFailed(_));
            let from = match defect {
                Defect::SyncFailureIgnored => played.trace.iter().position(is_failed),
                _ => Some(0),
            };
            let is_after = |at: usize| from.is_some_and(|from| at >= from);
            let is_chosen = |at: usize, event: &Event| is_after(at) && is_promise(event);
            played.crash_where(seed, &Seen::default(), is_chosen).map(drop)
        }
        Part::Steps => crash_one_in(STEP_ONE_IN, seed),
        Part::Answers => crash_one_in(ANSWER_ONE_IN, seed),
    }
}

/// Crashes after one step in `many`.
fn crash_one_in(many: u64, seed: u64) -> Result<(), Violation> {
    let is_chosen = |at: usize| (seed + at as u64).is_multiple_of(many);
    play(seed)?.crash_where(seed, &Seen::default(), |at, _| is_chosen(at)).map(drop)
}
