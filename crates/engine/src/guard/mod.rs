//! The recall guard: recall is a setting, not a hope.
//!
//! 1. Readers leave every sixteenth query in a small ring (without waiting: a busy ring is skipped).
//! 2. A background thread takes them one by one, answers each exactly and notes, for every true
//!    neighbour, the rank of its leaf and the rank of its estimate among the visited leaves: how
//!    far a search must go to find it. It also asks as a reader would.
//! 3. From the ranks of the last audits follow the estimate of recall and, when that leaves the
//!    target, the leaves to visit and the rows to refine that meet it (`window.rs`). Nothing is fed
//!    back, so the decision cannot run away.
//! 4. It takes 3 % of one core at most. Half of that is saved up, for some hundred audits at once
//!    when the collection has changed.
//! 5. Readers do not wait for it: a tree that has grown since the decision is probed more, and one
//!    that has been written over is searched as if nothing had been decided.

mod window;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};
use vstream_index::{Effort, Probe, Reach, CODE_RANK_MAX};
use vstream_vector::TopK;

use self::window::{Audit, Moment, Reached, Window, WINDOW_MIN};
use crate::error::Error;
use crate::places::{Places, PlacesScratch};
use crate::settings::{IndexKind, Settings};

/// One query in this many is offered to the guard.
const NOTE_EVERY: usize = 16;
/// Queries kept for the guard.
const RING: usize = 64;
/// Share of one core that the guard may take.
const CPU_SHARE: f64 = 0.03;
/// Part of that share which it takes when nothing presses.
const CALM: f64 = 0.5;
/// Seconds of CPU that it may have saved at most.
const SAVED_MAX: f64 = 0.3;
/// Leaves up to which every row is looked at: some thousand rows cost no more than a search.
const EXACT_LEAVES: usize = 4;
/// Rows refined exactly per leaf that a caller asks for.
const REFINE_PER_PROBE: usize = 3;
/// Rows refined exactly at least for probes that a caller chose.
const REFINE_CHOSEN_MIN: usize = 64;
/// Rows refined exactly while nothing is decided: enough where codes are the limit, which they are
/// in a collection so small that all its leaves are visited.
const REFINE_UNDECIDED: usize = 512;
/// k beyond which audits are cut: the target is stated for small k.
const AUDIT_K_MAX: usize = 10;

/// What sampled exact checks say about the recall of `Effort::Auto` as it is decided now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallEstimate {
    /// Mean recall@k over the audits that still count.
    pub recall: f64,
    /// Half width of its 95 % confidence interval; never 0.
    pub margin: f64,
    /// Audits that it rests on.
    pub audits: usize,
}

#[derive(Default)]
struct State {
    recent: VecDeque<(Vec<f32>, usize)>,
    estimate: Option<RecallEstimate>,
}

/// What makes audits: the guard's thread, or a caller who cannot wait for it.
#[derive(Default)]
struct Auditor {
    window: Window,
    scratch: PlacesScratch,
    top: TopK,
    found: Vec<vstream_vector::Neighbor>,
}

pub(crate) struct Guard {
    target: f64,
    on: bool,
    /// 0: not decided yet.
    probes: AtomicUsize,
    refine: AtomicUsize,
    /// Leaves there were at that decision.
    decided_leaves: AtomicUsize,
    /// Writes there were when enough audits last supported it.
    supported_writes: AtomicU64,
    seen: AtomicUsize,
    /// Readers touch it, the auditor holds it for moments only.
    state: Mutex<State>,
    auditor: Mutex<Auditor>,
}

impl Guard {
    /// A guard for `search`; its thread ends when the guard is dropped.
    pub(crate) fn start(settings: &Settings, search: &Arc<Places>) -> Arc<Guard> {
        let guard = Arc::new(Guard {
            target: settings.recall_target,
            on: settings.recall_guard && settings.index == IndexKind::Cluster,
            probes: AtomicUsize::new(0),
            refine: AtomicUsize::new(0),
            decided_leaves: AtomicUsize::new(0),
            supported_writes: AtomicU64::new(0),
            seen: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            auditor: Mutex::new(Auditor::default()),
        });
        if guard.on {
            let (watched, search) = (Arc::downgrade(&guard), Arc::downgrade(search));
            let thread = std::thread::Builder::new().name("vstream-recall-guard".to_owned());
            // Without the thread the effort stays the fixed function of the size.
            let _detached = thread.spawn(move || watch(&watched, &search));
        }
        guard
    }

    /// The effort of an automatic search for `k` neighbours.
    pub(crate) fn effort(&self, search: &Places, k: usize) -> Effort {
        match self.reached(&moment(search)).for_k(k) {
            Reached { probes: usize::MAX, .. } => Effort::Exact,
            Reached { probes, refine } => Effort::Approximate { probes, refine },
        }
    }

    /// How far an automatic search goes now.
    fn reached(&self, now: &Moment) -> Reached {
        if now.leaves <= EXACT_LEAVES {
            return Reached::EXACT;
        }
        let undecided = Reached {
            probes: ((2.5 * (now.leaves as f64).sqrt()) as usize + 8).min(now.leaves),
            refine: REFINE_UNDECIDED,
        };
        let probes = self.probes.load(Ordering::Relaxed);
        if probes == 0 {
            return undecided;
        }
        let leaves = self.decided_leaves.load(Ordering::Relaxed);
        let then = Moment { leaves, writes: self.supported_writes.load(Ordering::Relaxed) };
        let grown = (probes as f64 * now.growth_since(&then)).ceil() as usize;
        let refine = self.refine.load(Ordering::Relaxed);
        let decided = Reached { probes: grown.min(now.leaves), refine };
        if now.has_outlived(&then) {
            decided.or(undecided)
        } else {
            decided
        }
    }

    /// The effort for probes that the caller chose. Without `refine`, refinement grows with them,
    /// about as the guard chooses the two together on real embeddings, so that recall is not held
    /// down by the codes.
    pub(crate) fn chosen(&self, probes: usize, refine: Option<usize>, k: usize) -> Effort {
        let in_proportion =
            || (REFINE_PER_PROBE * probes).clamp(REFINE_CHOSEN_MIN, CODE_RANK_MAX / 2);
        let refine = refine.unwrap_or_else(|| in_proportion().max(4 * k + 40));
        Effort::Approximate { probes, refine: refine.max(k) }
    }

    /// Offers a query to the guard.
    pub(crate) fn note(&self, vector: &[f32], k: usize) {
        if !self.on || !self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(NOTE_EVERY) {
            return;
        }
        if let Ok(mut state) = self.state.try_lock() {
            let (mut kept, _) = if state.recent.len() >= RING {
                state.recent.pop_front().expect("a full ring")
            } else {
                Default::default()
            };
            kept.clear();
            kept.extend_from_slice(vector);
            state.recent.push_back((kept, k.min(AUDIT_K_MAX)));
        }
    }

    /// The last estimate.
    pub(crate) fn estimate(&self) -> Option<RecallEstimate> {
        locked(&self.state).estimate
    }

    /// Audits in this thread until nothing more is to be learnt from the queries that are known.
    pub(crate) fn catch_up(&self, search: &Places) {
        if !self.on {
            return;
        }
        let mut auditor = locked(&self.auditor);
        while self.step(search, &mut auditor) {}
    }

    /// One audit and what follows from it; false if there is no query to be asked.
    fn step(&self, search: &Places, auditor: &mut Auditor) -> bool {
        auditor.window.forget(&moment(search));
        let noted = locked(&self.state).recent.pop_front();
        let Some((query, k)) = noted.or_else(|| auditor.window.ask_again()) else {
            return false;
        };
        // A segment that cannot be read says nothing of recall: its readers are told.
        let Ok(audit) = self.audit(search, query, k, auditor) else { return false };
        auditor.window.push(audit);
        self.conclude(&auditor.window, &moment(search));
        true
    }

    fn audit(
        &self,
        search: &Places,
        query: Vec<f32>,
        k: usize,
        tools: &mut Auditor,
    ) -> Result<Audit, Error> {
        let at = moment(search);
        let reached = self.reached(&at).for_k(k);
        let effort = self.effort(search, k);
        let probe = Probe { vector: &query, k, effort };
        tools.top.reset(k);
        let mut reach = Vec::with_capacity(k);
        search.audit(&probe, &mut tools.scratch, &mut tools.top, &mut reach)?;
        tools.top.reset(k);
        search.search(&probe, &mut tools.scratch, &mut tools.top)?;
        tools.top.drain_sorted(&mut tools.found);
        let is_found = |hit: &&Reach| tools.found.iter().any(|row| row.id == hit.id);
        let hits = reach.iter().filter(is_found).count();
        let found = if reach.is_empty() { 1.0 } else { hits as f64 / reach.len() as f64 };
        Ok(Audit { query, k, reach, at, effort: reached, found })
    }

    /// Decides anew if the audits do not support what is decided, and states the estimate.
    fn conclude(&self, window: &Window, now: &Moment) {
        let is_decided = self.probes.load(Ordering::Relaxed) > 0;
        if !(is_decided && window.confirms(self.reached(now), self.target, now)) {
            if let Some(Reached { probes, refine }) =
                window.choose(self.reached(now), self.target, now)
            {
                self.decided_leaves.store(now.leaves, Ordering::Relaxed);
                self.probes.store(probes, Ordering::Relaxed);
                self.refine.store(refine, Ordering::Relaxed);
            }
        }
        if window.len() >= WINDOW_MIN {
            self.supported_writes.store(now.writes, Ordering::Relaxed);
        }
        locked(&self.state).estimate = window.estimate(self.reached(now), now);
    }
}

fn moment(search: &Places) -> Moment {
    Moment { leaves: search.leaves(), writes: search.writes() }
}

/// What is kept stays usable if a thread died while holding it: it is only statistics.
fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds that this thread has computed.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn watch(guard: &Weak<Guard>, search: &Weak<Places>) {
    // Enough to begin with for a first decision.
    let mut saved = SAVED_MAX;
    let (mut last, mut spent) = (Instant::now(), cpu_seconds());
    loop {
        let (has_audited, is_short) = {
            let Some(guard) = guard.upgrade() else { return };
            let Some(search) = search.upgrade() else { return };
            let mut auditor = locked(&guard.auditor);
            (guard.step(&search, &mut auditor), auditor.window.is_short())
        };
        let (now, computed) = (Instant::now(), cpu_seconds());
        let used = computed - spent;
        saved = (saved + (now - last).as_secs_f64() * CPU_SHARE - used).min(SAVED_MAX);
        (last, spent) = (now, computed);
        let rest = if saved < 0.0 {
            -saved / CPU_SHARE
        } else if !has_audited {
            0.02
        } else if is_short {
            0.001
        } else {
            used / (CPU_SHARE * CALM)
        };
        std::thread::sleep(Duration::from_secs_f64(rest.clamp(0.001, 2.0)));
    }
}
