//! Decides when the guard audits, and how much CPU time it takes.

use std::sync::atomic::Ordering;
use std::sync::Weak;
use std::time::{Duration, Instant};

use vstream_index::take_turns;
use vstream_store::read_few_at_once;

use super::window::WINDOW_MIN;
use super::{cpu_seconds, locked, moment, Auditor, Guard, EXACT_LEAVES};
use crate::priority::yield_to_others;
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
/// Growth of the collection after which the guard may take as much in advance again: what it knows is of a part
/// of the rows. It grows so often a few dozen times at most.
const RENEWED_GROWTH: f64 = 1.5;
/// Seconds over which growth is measured, and the growth in them above which a load is fast: audits are stale within
/// two seconds, when a tenth of the rows is new (`window.rs`).
const GROWTH_TIME: f64 = 0.25;
const GROWTH_MAX: f64 = 1.0 / 64.0;
/// Rows that are no growth in that time: they are estimated by leaves.
const GROWTH_LEAST: u64 = 512;
/// Part of the share that pays back what was taken in advance.
const PAID_BACK: f64 = 0.5;
/// Most seconds that the guard rests before it checks whether it is still wanted.
const REST_MAX: f64 = 2.0;

/// Urgency of the next audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressing {
    /// Queries go through every code, or much farther than decided, until there is a new decision.
    Undecided,
    /// No query has come yet; the first would go through every code.
    Unasked,
    /// A decision rests on few audits, so queries go farther than they must; or the newest say that they do not go
    /// far enough.
    Few,
    /// Audits are stale and should be made again, or rows were written since all but a few.
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
        let is_far =
            || self.stretch(class, &now).is_some_and(|stretch| stretch.probes > STRETCH_MAX);
        let has_few = window.fresh(&now) < WINDOW_MIN;
        if now.leaves > EXACT_LEAVES && self.is_filtered_undecided() {
            return Pressing::Undecided;
        }
        if self.reached(class, &now).is_none() || (has_few && is_far()) {
            return if self.is_asked() { Pressing::Undecided } else { Pressing::Unasked };
        }
        let is_narrow = queries.len() >= WINDOW_MIN && !queries.is_fair();
        let is_few = window.is_short() || is_narrow || has_few || self.has_few_filtered();
        if is_few || window.is_doubted(&now) {
            return Pressing::Few;
        }
        if window.is_stale(&now) || window.is_behind(&now) {
            Pressing::Unsure
        } else {
            Pressing::Calm
        }
    }
}

/// CPU seconds that the guard may take.
struct Budget {
    /// For the next audits; below 0 after one that cost more than was left.
    ready: f64,
    /// Taken in advance for audits that were urgent. It is paid back out of a part of the share, so
    /// that the audits after them need not wait until all of it is.
    lent: f64,
    /// Rows when a loan was last to be had anew.
    rows: u64,
}

impl Budget {
    /// Enough for a first decision.
    fn new() -> Budget {
        Budget { ready: SAVED_MAX, lent: 0.0, rows: 0 }
    }

    /// True if the guard may make an audit now. While queries go through every code, each of them
    /// costs as much as an audit, so the audit waits for nothing.
    fn allows(&self, pressing: Pressing) -> bool {
        pressing == Pressing::Undecided || self.ready >= 0.0
    }

    /// Share of one core that is for audits: less while a part of it pays back.
    fn income(&self) -> f64 {
        if self.lent > 0.0 {
            CPU_SHARE * (1.0 - PAID_BACK)
        } else {
            CPU_SHARE
        }
    }

    /// Seconds until the next audit that is not urgent.
    fn rest(&self) -> f64 {
        (-self.ready).max(0.0) / self.income()
    }

    /// Adds to what is ready.
    fn earn(&mut self, seconds: f64) {
        self.ready = (self.ready + seconds).min(SAVED_MAX);
    }

    /// Accounts for `seconds` of wall time with `used` CPU seconds of the guard.
    fn pass(&mut self, seconds: f64, used: f64, pressing: Pressing) {
        let paid = self.lent.min(seconds * CPU_SHARE * PAID_BACK);
        self.lent -= paid;
        self.earn(seconds * CPU_SHARE - paid);
        let is_urgent = matches!(pressing, Pressing::Undecided | Pressing::Unasked);
        let room = if is_urgent { LENT_MAX - self.lent } else { 0.0 };
        let lent = (used - self.ready.max(0.0)).clamp(0.0, room);
        self.lent += lent;
        self.ready -= used - lent;
        // What queries waited for is owed only up to the loan. Other audits are owed in full: one of
        // a large collection may cost many times the loan.
        if pressing == Pressing::Undecided {
            self.ready = self.ready.max(0.0);
        }
    }

    /// Takes note of the rows: where they have become many more, nothing is owed any more.
    fn grow(&mut self, rows: u64) {
        if rows > self.rows && rows as f64 >= self.rows as f64 * RENEWED_GROWTH {
            self.rows = rows;
            self.lent = 0.0;
            self.ready = self.ready.max(0.0);
        }
    }

    /// The first query has come: beyond the loan nothing is owed for what nobody had asked for.
    fn begin(&mut self) {
        self.ready = self.ready.max(0.0);
    }
}

/// How fast the collection grows.
#[derive(Default)]
struct Growth {
    /// Rows when the measurement began, and seconds since.
    rows: Option<u64>,
    seconds: f64,
    was_fast: bool,
}

impl Growth {
    /// Accounts for `seconds` after which there are `rows`. True while a load makes audits stale at once. As long as
    /// nobody has asked, they can wait until it ends or slows down.
    fn is_fast(&mut self, seconds: f64, rows: u64) -> bool {
        self.seconds += seconds;
        let before = *self.rows.get_or_insert(rows);
        let grown = rows.saturating_sub(before);
        let is_over = self.seconds >= GROWTH_TIME;
        // A rest of the thread may have been longer than the time in which growth is measured.
        let times = (self.seconds / GROWTH_TIME).max(1.0);
        let most = before as f64 * GROWTH_MAX * times;
        let is_fast = grown > GROWTH_LEAST && grown as f64 > most;
        if is_over || is_fast {
            (self.rows, self.seconds) = (Some(rows), 0.0);
            self.was_fast = is_fast;
        }
        self.was_fast
    }
}

/// Time between two looks whether a paused guard goes on.
const PAUSED: Duration = Duration::from_millis(20);

/// The guard's thread: audits while the guard and the tree exist.
pub(super) fn watch(guard: &Weak<Guard>, search: &Weak<Tree>) {
    // An audit takes milliseconds where a query takes a fraction of one. As important as a thread of queries,
    // this one would compute for as long as queries did before, 4 ms at a time. But starved on a busy machine, it
    // would make few audits, queries would go farther, and the machine would stay busy. Beside one thread of
    // queries that wants a whole processor it gets a quarter of it.
    yield_to_others();
    take_turns();
    // An audit reads hundreds of ranges where a query reads some fifty.
    read_few_at_once();
    let mut budget = Budget::new();
    let (mut last, mut spent, mut asked) = (Instant::now(), cpu_seconds(), (0, 0));
    let (mut holds_pages, mut growth, mut looked) = (false, Growth::default(), last);
    loop {
        let (has_audited, pressing) = {
            let Some(guard) = guard.upgrade() else { return };
            let Some(search) = search.upgrade() else { return };
            if guard.is_paused() {
                drop((guard, search));
                std::thread::sleep(PAUSED);
                last = Instant::now();
                (growth, looked) = (Growth::default(), last);
                continue;
            }
            let mut auditor = locked(&guard.auditor);
            let pressing = guard.pressing(&search, &auditor);
            let rows = search.rows_about();
            budget.grow(rows);
            let since = std::mem::replace(&mut looked, Instant::now());
            let is_fast = growth.is_fast((looked - since).as_secs_f64(), rows);
            let now = (guard.asked(), guard.filtered.seen());
            let before = std::mem::replace(&mut asked, now);
            if before == (0, 0) && now != before {
                budget.begin();
            }
            if pressing == Pressing::Few {
                let unfiltered = (now.0 - before.0) as f64 * guard.query_seconds();
                let filtered = (now.1 - before.1) as f64 * guard.filtered.query_seconds();
                budget.earn((unfiltered + filtered) * QUERY_SHARE);
            }
            let is_early = is_fast && now == (0, 0);
            let is_allowed = budget.allows(pressing) && !is_early;
            (is_allowed && guard.step(&search, &mut auditor), pressing)
        };
        // An audit of a large collection takes megabytes in small pieces.
        if holds_pages && !has_audited {
            vstream_index::give_back_heap();
        }
        holds_pages = has_audited;
        let (now, computed) = (Instant::now(), cpu_seconds());
        let used = computed - spent;
        budget.pass((now - last).as_secs_f64(), used, pressing);
        (last, spent) = (now, computed);
        let rest = match pressing {
            Pressing::Undecided | Pressing::Unasked if has_audited => 0.001,
            // A short rest, so that queries do not wait until the thread wakes.
            Pressing::Unasked | Pressing::Undecided => 0.02,
            Pressing::Few if budget.ready < 0.0 => 0.005,
            _ if budget.ready < 0.0 => budget.rest(),
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
            let made = audits(&mut Budget::new(), 100.0, cost, Pressing::Unasked);
            assert!((1..=most).contains(&made), "{made} audits of {cost} s");
        }
    }

    #[test]
    fn rows_that_come_are_audited_before_anybody_asks() {
        for cost in [0.01, 0.02] {
            let mut budget = Budget::new();
            let (mut rows, mut made) = (1_000, Vec::new());
            // A load of rows that doubles the collection every ten seconds.
            for _ in 0..10 {
                budget.grow(rows);
                made.push(audits(&mut budget, 10.0, cost, Pressing::Unasked));
                rows *= 2;
            }
            // Each time enough for a decision.
            assert!(made.iter().all(|&n| n >= WINDOW_MIN), "{made:?} audits of {cost} s");
            let used = made.iter().sum::<usize>() as f64 * cost;
            let most = 10.0 * (LENT_MAX + cost) + 100.0 * CPU_SHARE + SAVED_MAX;
            assert!(used <= most, "{used} s of {most} s, audits of {cost} s");
        }
    }

    /// Rows of a load at `rate` to which `first` rows had come, looked at every 20 ms: whether it is fast.
    fn grows_fast(growth: &mut Growth, first: f64, rate: f64, seconds: f64) -> Vec<bool> {
        let looks = (seconds / 0.02) as usize;
        // Rows are known by their leaves, of 256 or so.
        let rows = |at: usize| (first + rate * at as f64 * 0.02) as u64 / 256 * 256;
        (1..=looks).map(|at| growth.is_fast(0.02, rows(at))).collect()
    }

    #[test]
    fn a_load_is_fast_until_it_ends_or_the_collection_is_large() {
        let mut growth = Growth::default();
        assert!(!growth.is_fast(0.02, 300_000), "rows that were there when the guard began");
        for (first, expected) in [(10_000.0, true), (500_000.0, true), (700_000.0, false)] {
            let mut growth = Growth::default();
            growth.is_fast(0.02, first as u64);
            let looks = grows_fast(&mut growth, first, 40_000.0, 0.6);
            assert_eq!(looks.last(), Some(&expected), "{first} rows");
            // It ends: that is known within two measurements.
            let after = grows_fast(&mut growth, first + 24_000.0, 0.0, 0.6);
            let late = after.iter().filter(|&&fast| fast).count();
            assert!(!after[29] && late as f64 * 0.02 <= 2.0 * GROWTH_TIME + 0.02, "{late} looks");
        }
        // Rows that come slowly, and a thread that rested for long.
        let mut growth = Growth::default();
        growth.is_fast(0.02, 10_000);
        assert!(grows_fast(&mut growth, 10_000.0, 500.0, 2.0).iter().all(|fast| !fast));
        let mut growth = Growth::default();
        growth.is_fast(0.02, 10_000);
        assert!(!growth.is_fast(2.0, 11_000));
        assert!(growth.is_fast(2.0, 13_000));
    }

    #[test]
    fn a_decision_that_queries_wait_for_is_not_put_off() {
        let mut budget = Budget::new();
        audits(&mut budget, 10.0, 10.0, Pressing::Unasked);
        budget.begin();
        let made = audits(&mut budget, 10.0, 0.1, Pressing::Undecided);
        assert!(made > 80, "{made}");
        // The guard owes that cost for seconds, not for ever: half of its share is for audits, and
        // the other half pays back 0.3 s of it.
        let made = audits(&mut budget, 20.0, 0.1, Pressing::Calm);
        assert!((2..=4).contains(&made), "{made}");
    }

    #[test]
    fn the_first_queries_do_not_wait_until_the_loan_is_paid_back() {
        for cost in [0.0005, 0.002, 0.01] {
            let mut budget = Budget::new();
            // Rows are audited after a load, at the most that nobody asked for.
            let rows = audits(&mut budget, 1.0, cost, Pressing::Unasked);
            assert!(budget.lent > 0.0 || rows > 45, "{rows} audits of {cost} s");
            budget.begin();
            // The audits of 48 queries, with which a decision is well known.
            let (mut waited, mut known) = (0.0, 0);
            while known < 48 {
                known += audits(&mut budget, 0.1, cost, Pressing::Few);
                waited += 0.1;
            }
            // Half of the share for them, but for the first one.
            let most = 48.0 * cost / (CPU_SHARE * (1.0 - PAID_BACK)) + 1.5;
            assert!(waited <= most, "{waited} s for audits of {cost} s, at most {most} s");
        }
    }

    #[test]
    fn the_share_of_a_core_holds_over_every_minute() {
        for cost in [0.002, 0.02, 0.4, 2.0] {
            let mut budget = Budget::new();
            audits(&mut budget, 5.0, cost, Pressing::Unasked);
            budget.begin();
            // A loan, and what queries waited for.
            audits(&mut budget, 1.0, cost, Pressing::Undecided);
            let lent = budget.lent;
            for minute in 0..5 {
                let used = cost * audits(&mut budget, 60.0, cost, Pressing::Few) as f64;
                // The last audit is paid for in the next minute.
                let most = 60.0 * CPU_SHARE + SAVED_MAX + cost;
                assert!(used <= most, "{used} s in minute {minute}, audits of {cost} s");
                if minute == 0 && lent > 0.0 && cost < 0.1 {
                    let paid_back = 60.0 * CPU_SHARE - lent + cost;
                    assert!(used <= paid_back + 0.01, "{used} s, {lent} s were owed");
                    assert!(used >= 0.9 * (60.0 * CPU_SHARE - lent) - cost, "{used} s");
                }
            }
            assert!(budget.lent < 1e-9, "{} s are still owed", budget.lent);
        }
    }
}
