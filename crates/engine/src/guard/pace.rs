//! When the guard audits, and how much of the processor it takes for that.

use std::sync::atomic::Ordering;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::window::WINDOW_MIN;
use super::{cpu_seconds, locked, moment, Auditor, Guard};
use crate::places::Places;

/// Share of one core that the guard may take, but for while queries wait for a decision.
const CPU_SHARE: f64 = 0.03;
/// Part of that share which it takes when nothing presses.
const CALM: f64 = 0.5;
/// Seconds of CPU that it may have saved at most.
const SAVED_MAX: f64 = 0.3;
/// Part of what queries take that it may take too while audits are few.
const QUERY_SHARE: f64 = 0.25;
/// How many times farther than was decided a search may go before a new decision is pressing.
const STRETCH_MAX: f64 = 2.0;
/// Seconds of CPU that it takes in advance at most, so that the first query finds a decision.
const LENT_MAX: f64 = 0.3;
/// Seconds that the guard rests at most before it looks whether it is still wanted.
const REST_MAX: f64 = 2.0;

/// How much the next audit is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressing {
    /// Queries go through every code, or much farther than was decided, until there is a new
    /// decision.
    Undecided,
    /// The first query would.
    Unasked,
    /// A decision rests on few audits, so queries go farther than they would have to.
    Few,
    /// Audits are better made again.
    Unsure,
    Calm,
}

impl Guard {
    /// How much the next audit is waited for.
    fn pressing(&self, search: &Places, auditor: &Auditor) -> Pressing {
        let class = self.last_class.load(Ordering::Relaxed);
        let now = moment(search);
        let queries = &auditor.queries[class];
        let window = if queries.len() >= WINDOW_MIN { queries } else { &auditor.rows };
        let is_far = || self.stretch(class, &now).is_some_and(|stretch| stretch > STRETCH_MAX);
        let has_few = window.fresh(&now) < WINDOW_MIN;
        if self.reached(class, &now).is_none() || (has_few && is_far()) {
            return if self.is_asked() { Pressing::Undecided } else { Pressing::Unasked };
        }
        if window.is_short() || has_few {
            return Pressing::Few;
        }
        if window.is_stale(&now) {
            Pressing::Unsure
        } else {
            Pressing::Calm
        }
    }
}

/// The guard's thread: audits as long as there is a guard.
pub(super) fn watch(guard: &Weak<Guard>, search: &Weak<Places>) {
    // It yields to nobody: starved on a busy machine it would have queries go farther for want of
    // audits, and so keep the machine busy.
    // Enough to begin with for a first decision.
    let mut saved = SAVED_MAX;
    let (mut last, mut spent, mut asked) = (Instant::now(), cpu_seconds(), 0);
    loop {
        let (has_audited, pressing) = {
            let Some(guard) = guard.upgrade() else { return };
            let Some(search) = search.upgrade() else { return };
            let mut auditor = locked(&guard.auditor);
            let pressing = guard.pressing(&search, &auditor);
            let before = std::mem::replace(&mut asked, guard.asked());
            if pressing == Pressing::Few {
                saved += (asked - before) as f64 * guard.query_seconds() * QUERY_SHARE;
            }
            let may = match pressing {
                // Every query costs as much as an audit: that waits for nothing.
                Pressing::Undecided => true,
                Pressing::Unasked => saved > -LENT_MAX,
                Pressing::Few | Pressing::Unsure | Pressing::Calm => saved >= 0.0,
            };
            (may && guard.step(&search, &mut auditor), pressing)
        };
        let (now, computed) = (Instant::now(), cpu_seconds());
        let used = computed - spent;
        saved = saved + (now - last).as_secs_f64() * CPU_SHARE - used;
        // What was pressing is not paid back for ever.
        saved = saved.clamp(-LENT_MAX, SAVED_MAX);
        (last, spent) = (now, computed);
        let rest = match pressing {
            Pressing::Undecided | Pressing::Unasked if has_audited => 0.001,
            // Queries are not to wait until it wakes.
            Pressing::Unasked | Pressing::Undecided => 0.02,
            Pressing::Few if saved < 0.0 => 0.005,
            _ if saved < 0.0 => -saved / CPU_SHARE,
            _ if !has_audited => 0.02,
            Pressing::Few | Pressing::Unsure => 0.001,
            _ => used / (CPU_SHARE * CALM),
        };
        std::thread::sleep(Duration::from_secs_f64(rest.clamp(0.001, REST_MAX)));
    }
}
