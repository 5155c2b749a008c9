//! The recall guard: recall is a setting, not a hope.
//!
//! 1. Readers leave every sixteenth query in a small ring (without waiting: a busy ring is skipped).
//! 2. A background thread takes them one by one, answers each exactly and notes, for every true
//!    neighbour, the rank of the leaf that holds it; it also answers as a reader would.
//! 3. The share of true neighbours within the first `p` leaves, over the last audits, says which
//!    `p` meets the target; what the codes lose beside that is measured and added.
//! 4. It sleeps so long after each audit that it takes at most 3 % of one core.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use vstream_index::{Effort, Probe, Scratch, Search};
use vstream_vector::TopK;

use crate::settings::{IndexKind, Settings};

/// One query in this many is offered to the guard.
const NOTE_EVERY: usize = 16;
/// Queries kept for the guard.
const RING: usize = 64;
/// Audits that a decision rests on.
const WINDOW: usize = 128;
/// Audits before the first decision.
const WINDOW_MIN: usize = 16;
/// Share of one core that the guard may take.
const CPU_SHARE: f64 = 0.03;
/// Rows refined exactly per query, at least.
const REFINE_MIN: usize = 160;
/// k beyond which audits are cut: the target is stated for small k.
const AUDIT_K_MAX: usize = 10;

/// What sampled exact checks say about the recall of `Effort::Auto`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallEstimate {
    /// Mean recall@k over the audits of the window.
    pub recall: f64,
    /// Half width of its 95 % confidence interval.
    pub margin: f64,
    /// Audits in the window.
    pub audits: usize,
}

struct Audit {
    /// Rank of the leaf of each true neighbour; `None` in the tail, which is always scanned.
    ranks: Vec<Option<u32>>,
    /// Share of the true neighbours that the approximate answer held.
    recall: f64,
    /// The same, counting only neighbours in leaves that were probed.
    code_recall: f64,
}

#[derive(Default)]
struct State {
    recent: VecDeque<(Vec<f32>, usize)>,
    estimate: Option<RecallEstimate>,
}

pub(crate) struct Guard {
    target: f64,
    on: bool,
    /// 0: not decided yet.
    probes: AtomicUsize,
    refine: AtomicUsize,
    seen: AtomicUsize,
    state: Mutex<State>,
}

impl Guard {
    /// A guard for `search`; its thread ends when the guard is dropped.
    pub(crate) fn start(settings: &Settings, search: &Arc<dyn Search>) -> Arc<Guard> {
        let guard = Arc::new(Guard {
            target: settings.recall_target,
            on: settings.recall_guard && settings.index == IndexKind::Cluster,
            probes: AtomicUsize::new(0),
            refine: AtomicUsize::new(REFINE_MIN),
            seen: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        });
        if guard.on {
            let (watched, search) = (Arc::downgrade(&guard), Arc::downgrade(search));
            let thread = std::thread::Builder::new().name("vstream-recall-guard".to_owned());
            // Without the thread the effort stays the fixed function of the size.
            let _detached = thread.spawn(move || watch(&watched, &search));
        }
        guard
    }

    /// Leaves that an automatic search visits when there are `leaves`.
    pub(crate) fn probes(&self, leaves: usize) -> usize {
        match self.probes.load(Ordering::Relaxed) {
            0 => (2.5 * (leaves as f64).sqrt()) as usize + 8,
            probes => probes,
        }
    }

    /// The index's effort for `probes` and `k`.
    pub(crate) fn effort(&self, probes: usize, k: usize) -> Effort {
        let refine = self.refine.load(Ordering::Relaxed).max(4 * k + 40);
        Effort::Approximate { probes, refine }
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
        self.state().estimate
    }

    /// The state stays usable if a thread died while holding it: it is only statistics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn audit(&self, search: &dyn Search, query: &[f32], k: usize, tools: &mut Tools) -> Audit {
        let probes = self.probes(search.leaves());
        let probe = Probe { vector: query, k, effort: Effort::Exact };
        tools.top.reset(k);
        tools.ranks.clear();
        search.audit(&probe, &mut tools.scratch, &mut tools.top, &mut tools.ranks);
        let ranks: Vec<Option<u32>> = tools.ranks.iter().map(|&(_, rank)| rank).collect();
        tools.top.reset(k);
        let probe = Probe { vector: query, k, effort: self.effort(probes, k) };
        search.search(&probe, &mut tools.scratch, &mut tools.top);
        tools.top.drain_sorted(&mut tools.found);
        let is_found = |id: u64| tools.found.iter().any(|row| row.id == id);
        let hits = tools.ranks.iter().filter(|&&(id, _)| is_found(id)).count();
        let probed = ranks.iter().filter(|r| r.is_none_or(|r| (r as usize) < probes)).count();
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let audit_size = ranks.len();
        Audit {
            ranks,
            recall: if audit_size == 0 { 1.0 } else { share(hits, audit_size) },
            code_recall: if probed == 0 { 1.0 } else { share(hits, probed).min(1.0) },
        }
    }

    /// Chooses probes and refinement from the window.
    fn decide(&self, window: &VecDeque<Audit>, leaves: usize) {
        let n = window.len() as f64;
        let mean = window.iter().map(|a| a.recall).sum::<f64>() / n;
        let variance = window.iter().map(|a| (a.recall - mean).powi(2)).sum::<f64>() / n;
        let margin = 1.96 * (variance / n).sqrt();
        self.state().estimate = Some(RecallEstimate { recall: mean, margin, audits: window.len() });
        if window.len() < WINDOW_MIN {
            return;
        }
        let code = window.iter().map(|a| a.code_recall).sum::<f64>() / n;
        let refine = self.refine.load(Ordering::Relaxed);
        if code < 0.985 && refine < 16 * REFINE_MIN {
            self.refine.store(refine * 5 / 4, Ordering::Relaxed);
        } else if code > 0.997 && refine > REFINE_MIN / 2 {
            self.refine.store(refine * 9 / 10, Ordering::Relaxed);
        }
        let mut ranks: Vec<u32> =
            window.iter().flat_map(|a| a.ranks.iter().map(|rank| rank.unwrap_or(0))).collect();
        if ranks.is_empty() {
            return;
        }
        ranks.sort_unstable();
        let wanted = (self.target / code.max(0.5)).min(0.9995);
        let at = ((ranks.len() as f64 * wanted).ceil() as usize).clamp(1, ranks.len()) - 1;
        let probes = (ranks[at] as usize + 1).clamp(1, leaves.max(1));
        self.probes.store(probes, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Tools {
    scratch: Scratch,
    top: TopK,
    found: Vec<vstream_vector::Neighbor>,
    ranks: Vec<(u64, Option<u32>)>,
}

fn watch(guard: &Weak<Guard>, search: &Weak<dyn Search>) {
    let mut window: VecDeque<Audit> = VecDeque::with_capacity(WINDOW);
    let mut tools = Tools::default();
    loop {
        let Some(guard) = guard.upgrade() else { return };
        let Some(search) = search.upgrade() else { return };
        let taken = guard.state().recent.pop_front();
        let Some((query, k)) = taken else {
            drop((guard, search));
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let started = Instant::now();
        let audit = guard.audit(&*search, &query, k, &mut tools);
        if window.len() == WINDOW {
            window.pop_front();
        }
        window.push_back(audit);
        guard.decide(&window, search.leaves());
        drop((guard, search));
        // Wall time bounds CPU time from above, so the share is kept on a busy machine too.
        let rest = started.elapsed().mul_f64(1.0 / CPU_SHARE - 1.0);
        std::thread::sleep(rest.clamp(Duration::from_millis(1), Duration::from_secs(2)));
    }
}
