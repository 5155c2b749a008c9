//! Bounds of what a law wants, and the levers that cost nothing: batches and effort.

use super::error::{setting, CoordinatorError};
use super::law::Law;
use super::observation::{Decision, Observation};

/// Replicas that a coordinator may ask for at most, whatever its settings say.
pub const REPLICAS_MAX: u32 = 1_000;

/// How queries reach replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dispatch {
    /// A query is fetched when a replica is free.
    Continuous,
    /// All that wait are fetched together.
    Whole,
    /// So many are fetched together as the running replicas answer within these seconds.
    Capped {
        /// Above 0.
        seconds: f64,
    },
}

impl Dispatch {
    /// Batches of a quarter of a second: a burst of one second then takes less than half as long as
    /// in whole batches, because replicas that start meanwhile get a share.
    pub const CAPPED: Dispatch = Dispatch::Capped { seconds: 0.25 };
}

/// Recall that queries may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallRange {
    /// When nothing waits: 0.5 to 0.999.
    pub target: f64,
    /// When queries wait: 0.5 to the target. No decision goes below.
    pub floor: f64,
    /// Seconds of work in the backlog from which the floor is enough; above 0.
    pub wait_s: f64,
}

impl RecallRange {
    /// Always the target.
    pub fn fixed(target: f64) -> RecallRange {
        RecallRange { target, floor: target, wait_s: 0.1 }
    }
}

/// Bounds and levers of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoordinatorSettings {
    /// Replicas at least: 1 or more.
    pub least: u32,
    /// Replicas at most: `least` to [`REPLICAS_MAX`].
    pub cap: u32,
    /// How queries reach replicas.
    pub dispatch: Dispatch,
    /// Recall that queries may ask for.
    pub recall: RecallRange,
}

impl Default for CoordinatorSettings {
    /// One to twelve replicas, as in StreamRAG; no batches; recall 0.95 always.
    fn default() -> CoordinatorSettings {
        CoordinatorSettings {
            least: 1,
            cap: 12,
            dispatch: Dispatch::Continuous,
            recall: RecallRange::fixed(0.95),
        }
    }
}

impl CoordinatorSettings {
    fn check(&self) -> Result<(), CoordinatorError> {
        let (least, cap) = (f64::from(self.least), f64::from(self.cap));
        setting("replicas at least", "1 or more", least, self.least >= 1)?;
        let fits = self.cap >= self.least && self.cap <= REPLICAS_MAX;
        setting("replicas at most", "no less than at least, and 1,000 at most", cap, fits)?;
        if let Dispatch::Capped { seconds } = self.dispatch {
            super::error::seconds("the batch", seconds)?;
        }
        let RecallRange { target, floor, wait_s } = self.recall;
        let is_recall = |recall: f64| (0.5..=0.999).contains(&recall);
        setting("the target recall", "0.5 to 0.999", target, is_recall(target))?;
        let fits = is_recall(floor) && floor <= target;
        setting("the floor of the recall", "0.5 to the target", floor, fits)?;
        super::error::seconds("the wait before the floor", wait_s)
    }
}

/// A law within bounds.
pub struct Coordinator {
    law: Box<dyn Law>,
    settings: CoordinatorSettings,
    /// Time of the last observation.
    last_s: f64,
}

impl Coordinator {
    /// Puts a law within bounds. Errors: `Setting`.
    pub fn new(
        law: Box<dyn Law>,
        settings: CoordinatorSettings,
    ) -> Result<Coordinator, CoordinatorError> {
        settings.check()?;
        Ok(Coordinator { law, settings, last_s: f64::NEG_INFINITY })
    }

    /// The law's name.
    pub fn name(&self) -> &'static str {
        self.law.name()
    }

    /// What should be. Cost: O(1), amortised. Errors: `Observation`, after which nothing has changed.
    pub fn decide(&mut self, seen: &Observation) -> Result<Decision, CoordinatorError> {
        seen.check(self.last_s)?;
        self.last_s = seen.time_s;
        let CoordinatorSettings { least, cap, dispatch, recall } = self.settings;
        let running = f64::from(seen.running.max(1));
        Ok(Decision {
            replicas: self.law.replicas(seen).clamp(least, cap),
            batch: match dispatch {
                Dispatch::Continuous => Some(u64::from(seen.running)),
                Dispatch::Whole => None,
                // One each at least, or replicas would be idle.
                Dispatch::Capped { seconds } => {
                    Some((seconds * running / seen.service_s).max(running).ceil() as u64)
                }
            },
            recall: if seen.wait_s() > recall.wait_s { recall.floor } else { recall.target },
            awaits_replicas: self.law.awaits_replicas(),
        })
    }
}
