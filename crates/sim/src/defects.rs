//! Deliberate defects, and whether the lab notices them.

use std::path::Path;

use vstream_engine::Defect;
use vstream_store::Defect as RemoteDefect;

use crate::check::{guarded, Violation};
use crate::crash::Seen;
use crate::damage::AtRest;
use crate::far::there_and_back;
use crate::kill::Killer;
use crate::script::Shape;
use crate::simulation::crash_everywhere;

/// Changes to bytes at rest, per seed.
const FLIPS: u64 = 200;
const MANGLES: u64 = 200;
const UNCLOSED_FLIPS: u64 = 30;
/// Children that are killed, per seed.
const KILLS: u64 = 60;

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

    /// The first seed from `first` on that shows it, of `seeds` seeds; and how. `program` is what
    /// [`Killer`] starts.
    pub fn caught(self, first: u64, seeds: u64, program: &Path) -> Option<(u64, Violation)> {
        let mut seeds = (first..first + seeds).filter(|seed| self.may_show(*seed));
        seeds.find_map(|seed| Some((seed, self.shown(seed, program).err()?)))
    }

    /// Whether the rows of a seed have what the defect spoils.
    fn may_show(self, seed: u64) -> bool {
        let shape = Shape::of(seed);
        match self {
            Planted::Crashes(Defect::RememberedNotPersisted) => shape.remembers,
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
                let shown = guarded(|| crashes_and_damage(seed));
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
                let shown = there_and_back(seed, &Seen::default());
                vstream_store::set_defect(None);
                shown.map(|_| ())
            }
        }
    }
}

fn crashes_and_damage(seed: u64) -> Result<(), Violation> {
    crash_everywhere(seed, &Seen::default())?;
    let at_rest = AtRest::new(seed)?;
    at_rest.flip_bits(seed, FLIPS)?;
    at_rest.mangle(seed, MANGLES)?;
    at_rest.flip_unclosed(seed, UNCLOSED_FLIPS)?;
    Ok(())
}
