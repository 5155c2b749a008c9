//! The recall guard: recall is a setting, not a hope.
//!
//! 1. Readers leave every sixteenth query in a small ring (without waiting: a busy ring is skipped).
//! 2. A background thread takes them one by one, answers each exactly and notes, for every true
//!    neighbour, the rank of its leaf and the rank of its estimate among the visited leaves: how
//!    far a search must go to find it. It also asks as a reader would, for the estimate of recall.
//! 3. From the ranks of the last audits follow the leaves to visit and the rows to refine that
//!    meet the target. Nothing is fed back, so the decision cannot run away.
//! 4. It sleeps so long after each audit that it takes at most 3 % of one core.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use vstream_index::{Effort, Probe, Reach, Scratch, Search, CODE_RANK_MAX};
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
/// Rows refined exactly per leaf that a caller asks for.
const REFINE_PER_PROBE: usize = 4;
/// Rows refined exactly per query at least: chosen by a caller, and decided from audits.
const REFINE_CHOSEN_MIN: usize = 160;
const REFINE_MIN: usize = 40;
/// Shares of the allowed loss that may be left to the codes; the rest is for leaves not visited.
const CODE_LOSS_SHARES: [f64; 6] = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8];
/// Cost of a leaf in that of an exact distance: some 250 codes in cache lines that follow one
/// another against one row anywhere in memory (measured: 0.4 to 0.9 us and 60 to 100 ns).
const LEAF_COST: usize = 7;
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
    reach: Vec<Reach>,
    /// Leaves there were.
    leaves: usize,
    /// Share of the true neighbours that the approximate answer held.
    recall: f64,
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
    /// Leaves there were at that decision.
    decided_leaves: AtomicUsize,
    /// 0: not decided yet.
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
            decided_leaves: AtomicUsize::new(0),
            refine: AtomicUsize::new(0),
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
    ///
    /// A collection that has grown since the last decision needs more, about with the square root.
    pub(crate) fn probes(&self, leaves: usize) -> usize {
        match self.probes.load(Ordering::Relaxed) {
            0 => (2.5 * (leaves as f64).sqrt()) as usize + 8,
            probes => (probes as f64 * growth(self.decided_leaves.load(Ordering::Relaxed), leaves))
                .round() as usize,
        }
    }

    /// The effort of an automatic search when there are `leaves`.
    pub(crate) fn effort(&self, leaves: usize, k: usize) -> Effort {
        let probes = self.probes(leaves);
        match self.refine.load(Ordering::Relaxed) {
            0 => self.chosen(probes, k),
            refine => Effort::Approximate { probes, refine: refine.max(4 * k + 40) },
        }
    }

    /// The effort for probes that the caller chose: refinement grows with them, about as the guard
    /// chooses the two together on real embeddings, so that recall is not held down by the codes.
    pub(crate) fn chosen(&self, probes: usize, k: usize) -> Effort {
        let refine = (REFINE_PER_PROBE * probes).clamp(REFINE_CHOSEN_MIN, CODE_RANK_MAX / 2);
        Effort::Approximate { probes, refine: refine.max(4 * k + 40) }
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
        let leaves = search.leaves();
        let effort = self.effort(leaves, k);
        let probe = Probe { vector: query, k, effort };
        tools.top.reset(k);
        let mut reach = Vec::with_capacity(k);
        search.audit(&probe, &mut tools.scratch, &mut tools.top, &mut reach);
        tools.top.reset(k);
        search.search(&probe, &mut tools.scratch, &mut tools.top);
        tools.top.drain_sorted(&mut tools.found);
        let is_found = |hit: &&Reach| tools.found.iter().any(|row| row.id == hit.id);
        let hits = reach.iter().filter(is_found).count();
        let recall = if reach.is_empty() { 1.0 } else { hits as f64 / reach.len() as f64 };
        Audit { reach, leaves, recall }
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
        let choice = CODE_LOSS_SHARES
            .iter()
            .map(|share| self.choose(window, leaves, 1.0 - (1.0 - self.target) * share))
            .min_by_key(|&(probes, refine)| probes * LEAF_COST + refine);
        let (probes, refine) = choice.expect("some share");
        self.decided_leaves.store(leaves, Ordering::Relaxed);
        self.probes.store(probes, Ordering::Relaxed);
        self.refine.store(refine, Ordering::Relaxed);
    }

    /// Probes and refinement that meet the target if the codes keep `code_share` of the neighbours
    /// in visited leaves.
    fn choose(&self, window: &VecDeque<Audit>, leaves: usize, code_share: f64) -> (usize, usize) {
        let leaf_ranks = window.iter().flat_map(|audit| {
            let grown = growth(audit.leaves, leaves);
            let ranks = audit.reach.iter().map(|hit| hit.leaf.unwrap_or(0));
            ranks.map(move |rank| (f64::from(rank) * grown) as u32)
        });
        let probes = quantile(leaf_ranks, self.target / code_share) + 1;
        let visited = |hit: &&Reach| hit.leaf.is_some_and(|rank| (rank as usize) < probes);
        let code_ranks = window
            .iter()
            .flat_map(|audit| audit.reach.iter().filter(visited))
            .map(|hit| hit.code.unwrap_or(0));
        let refine = quantile(code_ranks, code_share) + 1;
        (probes.clamp(1, leaves.max(1)), refine.clamp(REFINE_MIN, CODE_RANK_MAX / 2))
    }
}

/// How much farther down the same neighbour's leaf stands in a tree that has grown.
fn growth(before: usize, now: usize) -> f64 {
    (now as f64 / before.max(1) as f64).max(1.0).sqrt()
}

/// The rank that `share` of the ranks do not exceed; 0 if there are none.
fn quantile(ranks: impl Iterator<Item = u32>, share: f64) -> usize {
    let mut ranks: Vec<u32> = ranks.collect();
    if ranks.is_empty() {
        return 0;
    }
    let at = ((ranks.len() as f64 * share).ceil() as usize).clamp(1, ranks.len()) - 1;
    *ranks.select_nth_unstable(at).1 as usize
}

#[derive(Default)]
struct Tools {
    scratch: Scratch,
    top: TopK,
    found: Vec<vstream_vector::Neighbor>,
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
        if window.len() < WINDOW_MIN {
            // Some 30 ms once, so that the first decision does not wait for a second.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        // Wall time bounds CPU time from above, so the share is kept on a busy machine too.
        let rest = started.elapsed().mul_f64(1.0 / CPU_SHARE - 1.0);
        std::thread::sleep(rest.clamp(Duration::from_millis(1), Duration::from_secs(2)));
    }
}
