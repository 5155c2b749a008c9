//! Decides when the guard audits, and how much CPU time it takes.

use std::sync::atomic::Ordering;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::window::WINDOW_MIN;
use super::{cpu_seconds, locked, moment, Auditor, Guard, EXACT_LEAVES};
use crate::tree::Tree;

/// Share of one core that the guard may take, except while queries wait for a decision.
const CPU_SHARE: f64 = 0.03;
/// Part of that share taken when no audit is urgent.
const CALM: f64 = 0.5;
/// Most CPU seconds that the guard saves up.
const SAVED_MAX: f64 = 0.3;
/// Part of the queries' CPU time that the guard may take too while audits are few.
const QUERY_SHARE: f64 = 0.25;
/// Factor by which a search may go farther than decided before a new decision is urgent.
const STRETCH_MAX: f64 = 2.0;
/// Most CPU seconds that the guard takes in advance, so that the first query finds a decision.
const LENT_MAX: f64 = 0.3;
/// Most seconds that the guard rests before it checks whether it is still wanted.
const REST_MAX: f64 = 2.0;

/// Urgency of the next audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressing {
    /// Queries go through every code, or much farther than decided, until there is a new decision.
    Undecided,
    /// No query has come yet; the first would go through every code.
    Unasked,
    /// A decision rests on few audits, so queries go farther than they must.
    Few,
    /// Audits are stale and should be made again.
    Unsure,
    Calm,
}

impl Guard {
    /// Urgency of the next audit.
    fn pressing(&self, search: &Tree, auditor: &Auditor) -> Pressing {
        let class = self.last_class.load(Ordering::Relaxed);
        let now = moment(search);
        let queries = &auditor.queries[class];
        let window = if queries.len() >= WINDOW_MIN { queries } else { &auditor.rows };
        let is_far = || self.stretch(class, &now).is_some_and(|stretch| stretch > STRETCH_MAX);
        let has_few = window.fresh(&now) < WINDOW_MIN;
        if now.leaves > EXACT_LEAVES && self.is_filtered_undecided() {
            return Pressing::Undecided;
        }
        if self.reached(class, &now).is_none() || (has_few && is_far()) {
            return if self.is_asked() { Pressing::Undecided } else { Pressing::Unasked };
        }
        if window.is_short() || has_few || self.has_few_filtered() {
            return Pressing::Few;
        }
        if window.is_stale(&now) {
            Pressing::Unsure
        } else {
            Pressing::Calm
        }
    }
}

/// CPU seconds that the guard may take; below 0 while it owes some.
struct Budget(f64);

impl Budget {
    /// True if the guard may make an audit now.
    fn allows(&self, pressing: Pressing) -> bool {
        match pressing {
            // Every query costs as much as an audit, so the audit waits for nothing.
            Pressing::Undecided => true,
            Pressing::Unasked => self.0 > -LENT_MAX,
            Pressing::Few | Pressing::Unsure | Pressing::Calm => self.0 >= 0.0,
        }
    }

    /// Accounts for `seconds` of wall time with `used` CPU seconds of the guard.
    fn pass(&mut self, seconds: f64, used: f64, pressing: Pressing) {
        self.0 = (self.0 + seconds * CPU_SHARE - used).min(SAVED_MAX);
        // Urgent audits are owed only up to the loan. Audits that nobody asked for are owed in
        // full, since one audit of a large collection may cost many times the loan.
        if pressing != Pressing::Unasked {
            self.0 = self.0.max(-LENT_MAX);
        }
    }
}

/// The guard's thread: audits while the guard and the tree exist.
pub(super) fn watch(guard: &Weak<Guard>, search: &Weak<Tree>) {
    // The thread never yields to queries. Starved on a busy machine, it would make few audits,
    // queries would go farther, and the machine would stay busy.
    //
    // The first budget is enough for a first decision.
    let mut budget = Budget(SAVED_MAX);
    let (mut last, mut spent, mut asked) = (Instant::now(), cpu_seconds(), (0, 0));
    loop {
        let (has_audited, pressing) = {
            let Some(guard) = guard.upgrade() else { return };
            let Some(search) = search.upgrade() else { return };
            let mut auditor = locked(&guard.auditor);
            let pressing = guard.pressing(&search, &auditor);
            let now = (guard.asked(), guard.filtered.seen());
            let before = std::mem::replace(&mut asked, now);
            if pressing == Pressing::Few {
                let unfiltered = (now.0 - before.0) as f64 * guard.query_seconds();
                let filtered = (now.1 - before.1) as f64 * guard.filtered.query_seconds();
                budget.0 += (unfiltered + filtered) * QUERY_SHARE;
            }
            (budget.allows(pressing) && guard.step(&search, &mut auditor), pressing)
        };
        let (now, computed) = (Instant::now(), cpu_seconds());
        let used = computed - spent;
        budget.pass((now - last).as_secs_f64(), used, pressing);
        (last, spent) = (now, computed);
        let rest = match pressing {
            Pressing::Undecided | Pressing::Unasked if has_audited => 0.001,
            // A short rest, so that queries do not wait until the thread wakes.
            Pressing::Unasked | Pressing::Undecided => 0.02,
            Pressing::Few if budget.0 < 0.0 => 0.005,
            _ if budget.0 < 0.0 => -budget.0 / CPU_SHARE,
            _ if !has_audited => 0.02,
            Pressing::Few | Pressing::Unsure => 0.001,
            _ => used / (CPU_SHARE * CALM),
        };
        std::thread::sleep(Duration::from_secs_f64(rest.clamp(0.001, REST_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Audits of `cost` seconds made in `seconds`, with a check every 20 ms.
    fn audits(budget: &mut Budget, seconds: f64, cost: f64, pressing: Pressing) -> usize {
        let (mut now, mut made) = (0.0, 0);
        while now < seconds {
            let used = if budget.allows(pressing) { cost } else { 0.0 };
            made += usize::from(used > 0.0);
            let step = used + 0.02;
            budget.pass(step, used, pressing);
            now += step;
        }
        made
    }

    #[test]
    fn audits_that_nobody_asked_for_are_few_however_dear() {
        for (cost, most) in [(0.005, 800), (0.1, 40), (1.0, 5), (10.0, 2)] {
            let made = audits(&mut Budget(SAVED_MAX), 100.0, cost, Pressing::Unasked);
            assert!((1..=most).contains(&made), "{made} audits of {cost} s");
        }
    }

    #[test]
    fn a_decision_that_queries_wait_for_is_not_put_off() {
        let mut budget = Budget(SAVED_MAX);
        audits(&mut budget, 10.0, 10.0, Pressing::Unasked);
        let made = audits(&mut budget, 10.0, 0.1, Pressing::Undecided);
        assert!(made > 80, "{made}");
        // The guard owes that cost for ten seconds, not for ever.
        assert_eq!(audits(&mut budget, 9.0, 0.1, Pressing::Calm), 0);
        assert!(audits(&mut budget, 5.0, 0.1, Pressing::Calm) > 0);
    }
}
