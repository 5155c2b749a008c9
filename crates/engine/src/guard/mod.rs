//! The recall guard keeps automatic searches at the recall that the settings ask for.
//!
//! 1. Readers put queries into a small ring: every one at first, one of sixteen once enough are
//!    known. They never wait: a busy ring is skipped.
//! 2. A background thread takes them one by one and answers each through every code, over segments
//!    through those of enough leaves. For true neighbours it notes the rank of the leaf, and the rank
//!    of the estimate among the visited leaves: how far a search must go to find them. It also
//!    searches as a reader would.
//! 3. While there are no queries, the guard asks for the neighbours of rows of the collection, each
//!    left out of its own answer. So the first query finds a decision.
//! 4. The ranks of the last audits of a class of k (`classes.rs`) give the estimate of recall
//!    (`window.rs`). When the estimate leaves the target, they also give the leaves to visit and
//!    the rows to refine that meet it (`choice.rs`). No output is fed back, so the decision cannot
//!    run away.
//! 5. The guard takes at most 3 % of one core. It saves half of that up, for some hundred audits at
//!    once when the collection has changed. It takes more where that makes queries cheaper at once:
//!    as much as it needs while queries go through every code, and a quarter of the queries' CPU
//!    time while few audits make them go farther than they must. Before the first query it takes
//!    some of its share in advance, and pays it back while it goes on auditing.
//! 6. Readers do not wait for the guard. A search probes more leaves in a tree that has grown since
//!    the decision, and it trusts a decision less the more rows were written since. Without a
//!    decision, a query is answered through every code in memory, and goes through segments as far as
//!    the rows that it finds ask for (`tree/search/cautious.rs`).

mod caution;
mod choice;
mod classes;
mod depth;
mod filtered;
mod pace;
mod rows;
mod spread;
mod window;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::time::{clock_gettime, ClockId};
use vstream_index::{Effort, IndexSettings, Probe};
use vstream_vector::{Neighbor, SplitMix, TopK};

use self::caution::{is_dear, Margins};
use self::choice::{choose, Costs};
use self::classes::{class_of, CLASSES, USUAL};
use self::depth::Depths;
use self::filtered::{FilteredAudits, FilteredDecisions, FilteredQuery};
use self::pace::watch;
use self::rows::{has_copy, leave_out};
use self::spread::is_drawn;
use self::window::{Audit, Made, Moment, Neighbours, Reached, Window, REFRESHED_AFTER, WINDOW_MIN};
use crate::error::Error;
use crate::settings::{IndexKind, Settings};
use crate::tree::{Tree, TreeScratch, SHARE_CLASSES};

/// Most queries kept for the guard.
const RING: usize = 64;
/// Leaves up to which a search is exact: some thousand rows cost no more than a search.
const EXACT_LEAVES: usize = 4;
/// Rows refined per leaf that a caller asks for, and the most.
const REFINE_PER_PROBE: usize = 3;
const REFINE_CHOSEN_MAX: usize = 1024;
/// Least rows refined for probes that a caller chose.
const REFINE_CHOSEN_MIN: usize = 64;
/// Least neighbours that an audit asks for: fewer say little about the depth it needs.
const AUDIT_K_MIN: usize = 10;
/// Ratio of what queries miss to what rows of the collection miss at the same effort,
/// approximately: a row has helped to place its leaf. Chosen on one data set, GloVe with half
/// duplicates at 9 leaves, where queries missed 0.30 and rows 0.11. Applies until some queries are
/// audited.
const ROWS_EASIER: f64 = 2.0;
/// Without a guard: probes per square root of the number of leaves, and rows refined. These promise
/// no recall.
const UNGUARDED_PER_ROOT: f64 = 2.5;
const UNGUARDED_REFINE: usize = 512;
/// Audits between two conclusions, when there are many audits or they are of rows.
const AUDITS_PER_CONCLUSION: usize = 8;
/// While queries need rows beside them, every so many audits one is of a query.
const QUERY_TURN: usize = 4;
/// How much farther a search goes when half of the rows were written since audits supported the
/// decision, and the turnovers after which the decision is not used at all. Support as fresh as the
/// kept audits is trusted, so a guard that keeps up asks for no more than its audits do.
const DISTRUST: f64 = 2.0;
const TURNOVERS_MAX: f64 = 3.0;

/// Kind of query that an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Queries that users asked.
    Queries,
    /// Rows of the collection: users have asked too few queries yet.
    Rows,
}

impl Evidence {
    /// Name in statistics: `queries`, `rows`.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Queries => "queries",
            Evidence::Rows => "rows",
        }
    }
}

/// Recall of `Effort::Auto` under the present decision, estimated from sampled exact checks, for
/// the number of neighbours asked for last and numbers near it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallEstimate {
    /// Mean recall@k over the audits that still count.
    pub recall: f64,
    /// Half width of its 95 % confidence interval; never 0.
    pub margin: f64,
    /// Audits in the estimate.
    pub audits: usize,
    /// Kind of query that was audited.
    pub evidence: Evidence,
}

#[derive(Default)]
struct State {
    recent: VecDeque<(Vec<f32>, usize)>,
    estimates: [Option<RecallEstimate>; CLASSES.len()],
    filtered: VecDeque<FilteredQuery>,
    /// By class of k and class of the share of rows that match.
    filtered_estimates: [[Option<RecallEstimate>; SHARE_CLASSES]; CLASSES.len()],
}

/// State of audits, used by the guard's thread or by a caller who cannot wait for it.
struct Auditor {
    /// Audits of queries, by class.
    queries: [Window; CLASSES.len()],
    /// Audits of rows.
    rows: Window,
    filtered: FilteredAudits,
    /// The next audit is of a filtered query, if one waits.
    is_filtered_turn: bool,
    since_conclusion: usize,
    /// Rows with copies passed over in succession.
    copies: usize,
    /// Audits of queries and rows so far.
    turn: usize,
    random: SplitMix,
    scratch: TreeScratch,
    top: TopK,
    found: Vec<Neighbor>,
}

/// The decision for a class of k.
#[derive(Default)]
struct Decision {
    /// Leaves to visit; 0 if nothing is decided, `usize::MAX` for an exact search.
    probes: AtomicUsize,
    refine: AtomicUsize,
    /// Leaves and rows at the time of the decision.
    leaves: AtomicUsize,
    rows: AtomicU64,
    /// Writes at the time when enough audits last supported the decision.
    supported_writes: AtomicU64,
    /// True once enough queries are known.
    is_known: AtomicBool,
    /// For queries that find out themselves how far to go.
    margins: Margins,
}

/// Factors by which a search goes farther than decided.
struct Stretch {
    probes: f64,
    refine: f64,
}

pub(crate) struct Guard {
    /// Bits of the `f64` recall that automatic searches must reach.
    target: AtomicU64,
    on: bool,
    index: IndexSettings,
    costs: Costs,
    decisions: [Decision; CLASSES.len()],
    filtered: FilteredDecisions,
    /// How many rows by estimate, and how many leaves, held the true neighbours in the last audits, by class.
    depth: [Depths; CLASSES.len()],
    /// Class of the last query.
    last_class: AtomicUsize,
    /// Largest k asked for so far.
    most_asked: AtomicUsize,
    /// Queries so far, by class.
    seen: [AtomicUsize; CLASSES.len()],
    /// CPU time, in nanoseconds, of the guard's last search in the way of a reader.
    query_ns: AtomicU64,
    /// Readers try this lock; the auditor holds it for moments only.
    state: Mutex<State>,
    auditor: Mutex<Auditor>,
    /// Number of [`Paused`] that live.
    pauses: AtomicUsize,
}

/// While it lives, the guard's thread begins no audit.
pub(crate) struct Paused(Arc<Guard>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.pauses.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Guard {
    /// Pauses the guard while rows are loaded: audits of a part of them say little, and take processors from
    /// who loads.
    pub(crate) fn pause(self: &Arc<Guard>) -> Paused {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        Paused(self.clone())
    }

    fn is_paused(&self) -> bool {
        self.pauses.load(Ordering::Relaxed) > 0
    }

    /// Starts a guard for `search`; its thread ends when the guard is dropped.
    pub(crate) fn start(settings: &Settings, search: &Arc<Tree>) -> Arc<Guard> {
        let guard = Arc::new(Guard {
            target: AtomicU64::new(settings.recall_target.to_bits()),
            on: settings.recall_guard && settings.index == IndexKind::Cluster,
            index: settings.index_settings(),
            costs: Costs::of(settings),
            decisions: Default::default(),
            filtered: FilteredDecisions::default(),
            depth: Default::default(),
            last_class: AtomicUsize::new(USUAL),
            most_asked: AtomicUsize::new(0),
            seen: Default::default(),
            query_ns: AtomicU64::new(0),
            pauses: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            auditor: Mutex::new(Auditor {
                queries: Default::default(),
                rows: Window::default(),
                filtered: FilteredAudits::default(),
                is_filtered_turn: false,
                since_conclusion: 0,
                copies: 0,
                turn: 0,
                random: SplitMix(settings.seed),
                scratch: TreeScratch::default(),
                top: TopK::default(),
                found: Vec::new(),
            }),
        });
        if guard.on {
            let (watched, search) = (Arc::downgrade(&guard), Arc::downgrade(search));
            let thread = std::thread::Builder::new().name("vstream-recall-guard".to_owned());
            // If the thread cannot start, nothing is decided and queries go through every code.
            let _detached = thread.spawn(move || watch(&watched, &search));
        }
        guard
    }

    /// The recall that automatic searches must reach.
    fn target(&self) -> f64 {
        f64::from_bits(self.target.load(Ordering::Relaxed))
    }

    /// Changes the target recall, from the next conclusion on.
    pub(crate) fn aim(&self, recall: f64) {
        self.target.store(recall.to_bits(), Ordering::Relaxed);
    }

    /// The effort of an automatic search for `k` neighbours.
    pub(crate) fn effort(&self, search: &Tree, k: usize) -> Effort {
        let (class, now) = (class_of(k), moment(search));
        let stretched = || self.stretch(class, &now).map_or(1.0, |stretch| stretch.probes);
        let is_dear = |reached: &Reached| {
            self.on && is_dear(reached, stretched(), &now) && search.bounds_itself()
        };
        let reached = self.reached(class, &now).filter(|reached| !is_dear(reached));
        match reached.map(|reached| reached.for_k(k)) {
            None => {
                let depth = self.depth[class].of(search.is_in_memory()).get();
                self.decisions[class].margins.effort(k, self.target(), depth, &now)
            }
            Some(Reached { probes: usize::MAX, .. }) => Effort::Exact,
            Some(Reached { probes, refine }) => Effort::Approximate { probes, refine },
        }
    }

    /// How far an automatic search goes now; `None` without a decision to trust.
    fn reached(&self, class: usize, now: &Moment) -> Option<Reached> {
        if now.leaves <= EXACT_LEAVES {
            return Some(Reached::EXACT);
        }
        if !self.on {
            let probes = (UNGUARDED_PER_ROOT * (now.leaves as f64).sqrt()) as usize + 8;
            return Some(Reached { probes: probes.min(now.leaves), refine: UNGUARDED_REFINE });
        }
        let decision = &self.decisions[class];
        let probes = decision.probes.load(Ordering::Relaxed);
        if probes == 0 {
            return None;
        }
        let stretch = self.stretch(class, now)?;
        if probes == usize::MAX {
            return Some(Reached::EXACT);
        }
        let grown = probes as f64 * stretch.probes;
        let refine = decision.refine.load(Ordering::Relaxed) as f64 * stretch.refine;
        Some(Reached { probes: (grown.ceil() as usize).min(now.leaves), refine: refine as usize })
    }

    /// Factors by which a search goes farther than decided, because the collection has changed; `None` if the
    /// decision is of no use any more. Leaves that were split hold the rows that they held, so as many estimates
    /// are better than that of a neighbour.
    fn stretch(&self, class: usize, now: &Moment) -> Option<Stretch> {
        let decision = &self.decisions[class];
        let leaves = decision.leaves.load(Ordering::Relaxed);
        let writes = decision.supported_writes.load(Ordering::Relaxed);
        let then = Moment { leaves, writes, rows: decision.rows.load(Ordering::Relaxed) };
        let turnovers = now.turnovers_since(&then);
        let aged = (turnovers - REFRESHED_AFTER).max(0.0) / (1.0 - REFRESHED_AFTER);
        let distrust = 1.0 + DISTRUST * aged;
        (turnovers <= TURNOVERS_MAX).then(|| Stretch {
            probes: now.most_growth_since(&then) * distrust,
            refine: now.more_rows_since(&then) * distrust,
        })
    }

    /// The effort for probes that the caller chose. Without `refine`, refinement grows with the
    /// probes, in about the proportion that the guard chooses on real embeddings, so that the codes
    /// do not hold recall down.
    pub(crate) fn chosen(&self, probes: usize, refine: Option<usize>, k: usize) -> Effort {
        let in_proportion =
            || REFINE_PER_PROBE.saturating_mul(probes).clamp(REFINE_CHOSEN_MIN, REFINE_CHOSEN_MAX);
        let refine = refine.unwrap_or_else(|| in_proportion().max(4 * k + 40));
        Effort::Approximate { probes, refine: refine.max(k) }
    }

    /// Offers a query to the guard.
    pub(crate) fn note(&self, vector: &[f32], k: usize) {
        if !self.on {
            return;
        }
        let class = class_of(k);
        self.last_class.store(class, Ordering::Relaxed);
        self.most_asked.fetch_max(k, Ordering::Relaxed);
        let seen = self.seen[class].fetch_add(1, Ordering::Relaxed);
        let is_known = self.decisions[class].is_known.load(Ordering::Relaxed);
        if is_known && !is_drawn(seen) {
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
            state.recent.push_back((kept, k));
        }
    }

    /// The last estimate for the class of the last query.
    pub(crate) fn estimate(&self) -> Option<RecallEstimate> {
        let class = self.last_class.load(Ordering::Relaxed);
        locked(&self.state).estimates[class]
    }

    /// Audits in the calling thread until the known queries teach nothing more; without known
    /// queries it audits rows.
    pub(crate) fn catch_up(&self, search: &Tree) {
        if !self.on {
            return;
        }
        let mut auditor = locked(&self.auditor);
        let mut has_audited = false;
        while self.step(search, &mut auditor) {
            has_audited = true;
        }
        if has_audited {
            vstream_index::give_back_heap();
        }
        let now = moment(search);
        if now.leaves > EXACT_LEAVES {
            (0..CLASSES.len()).for_each(|class| {
                self.conclude(class, &auditor, &now);
                self.conclude_filtered(class, &auditor);
            });
        }
    }

    /// Makes one audit and concludes from it; false if no audit is needed.
    fn step(&self, search: &Tree, auditor: &mut Auditor) -> bool {
        let now = moment(search);
        if now.leaves <= EXACT_LEAVES {
            return false;
        }
        let in_force = |class| self.reached(class, &now).unwrap_or(Reached::EXACT);
        for (class, window) in auditor.queries.iter_mut().enumerate() {
            window.forget(&now);
            window.drop_stale(None, in_force(class), &now);
            if window.is_behind(&now) {
                // Queries are noted, so that there are some to audit.
                self.decisions[class].is_known.store(false, Ordering::Relaxed);
            }
        }
        let class = self.last_class.load(Ordering::Relaxed);
        auditor.rows.forget(&now);
        auditor.rows.drop_stale(Some(CLASSES[class]), in_force(class), &now);
        auditor.filtered.forget(&now);
        auditor.is_filtered_turn = !auditor.is_filtered_turn;
        if auditor.is_filtered_turn && self.step_filtered(search, auditor) {
            return true;
        }
        auditor.turn += 1;
        // Rows first where the first queries would decide alone, but never rows alone.
        if self.lacks_rows(auditor)
            && !auditor.turn.is_multiple_of(QUERY_TURN)
            && self.step_row(search, auditor)
        {
            return true;
        }
        let noted = locked(&self.state).recent.pop_front();
        let asked = noted
            .or_else(|| auditor.queries.iter_mut().find_map(Window::ask_again))
            .or_else(|| auditor.queries.iter_mut().find_map(|window| window.ask_stale(&now)));
        // An unreadable segment says nothing about recall; its readers get the error.
        if let Some((query, k)) = asked {
            let Ok(audit) = self.audit(search, query, k, None, auditor) else { return false };
            let class = class_of(k);
            auditor.queries[class].push(audit);
            auditor.since_conclusion += 1;
            let is_short = auditor.queries[class].is_short();
            if is_short || auditor.since_conclusion >= AUDITS_PER_CONCLUSION {
                auditor.since_conclusion = 0;
                self.conclude(class, auditor, &moment(search));
            }
            return true;
        }
        if !auditor.is_filtered_turn && self.step_filtered(search, auditor) {
            return true;
        }
        let wants_rows = self.wants_rows(auditor) || self.wants_filtered_rows(auditor);
        if !wants_rows && auditor.rows.take_stale(&now).is_none() {
            return false;
        }
        self.step_row(search, auditor)
    }

    /// Queries without a filter so far.
    fn asked(&self) -> usize {
        self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).sum()
    }

    fn is_asked(&self) -> bool {
        self.asked() > 0
    }

    /// CPU time of a reader's search, in seconds.
    fn query_seconds(&self) -> f64 {
        self.query_ns.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Finds `k` true neighbours of a query, and searches as a reader would.
    ///
    /// * `own`: the row that is the query, which does not count.
    fn audit(
        &self,
        search: &Tree,
        query: Vec<f32>,
        k: usize,
        own: Option<u64>,
        tools: &mut Auditor,
    ) -> Result<Audit, Error> {
        let at = moment(search);
        let spare = usize::from(own.is_some());
        let wanted = k.max(AUDIT_K_MIN) + spare;
        let were_in_memory = search.is_in_memory();
        let depths = &self.depth[class_of(k)];
        let known = depths.known(were_in_memory);
        let begin = search.audit_extent(known, wanted);
        let effort = Effort::Thorough { depth: known.depth };
        let probe = Probe { vector: &query, k: wanted, effort, filter: None };
        tools.top.reset(wanted);
        let goes = (begin, depths.is_whole_due());
        let (mut reach, Auditor { scratch, top, .. }) = (Vec::new(), &mut *tools);
        let reached = search.audit(&probe, goes, scratch, top, &mut reach)?;
        if search.is_in_memory() == were_in_memory {
            depths.note(were_in_memory, begin, reached);
        }
        tools.top.drain_sorted(&mut tools.found);
        let is_of_copy = own.is_some_and(|own| has_copy(own, &tools.found));
        let truth: Vec<Neighbor> =
            tools.found.iter().filter(|row| Some(row.id) != own).copied().collect();
        leave_out(own, &mut reach);
        // A row is searched with the k that most users ask for.
        let k_made = if own.is_some() { CLASSES[USUAL].min(k) } else { k };
        let mut made = None;
        let effort = self.effort(search, k_made);
        // A search that finds out itself how far to go says nothing about the decision, but now and then it says
        // what queries cost.
        let is_as_decided = !matches!(effort, Effort::Cautious { .. });
        let is_made = is_as_decided || tools.turn.is_multiple_of(AUDITS_PER_CONCLUSION);
        let decided = self.reached(class_of(k_made), &at).filter(|_| is_made);
        if let Some(decided) = decided {
            let probe = Probe { vector: &query, k: k_made + spare, effort, filter: None };
            tools.top.reset(k_made + spare);
            let begin = cpu_seconds();
            search.search(&probe, &mut tools.scratch, &mut tools.top)?;
            let took = ((cpu_seconds() - begin) * 1e9) as u64;
            self.query_ns.store(took, Ordering::Relaxed);
            tools.top.drain_sorted(&mut tools.found);
            tools.found.retain(|row| Some(row.id) != own);
            let found = share_of(&truth[..k_made.min(truth.len())], &tools.found);
            made = is_as_decided.then_some(Made { k: k_made, effort: decided, found });
        }
        // Rows speak for no query in particular.
        let seen = || self.seen[class_of(k)].load(Ordering::Relaxed);
        let asked = if own.is_some() { 0 } else { seen() };
        Ok(Audit { asked, query, k, reach, at, made, is_of_copy })
    }

    /// Decides again if the audits do not support the decision, and stores the estimate.
    fn conclude(&self, class: usize, auditor: &Auditor, now: &Moment) {
        let queries = &auditor.queries[class];
        let is_known = queries.len() >= WINDOW_MIN;
        let (window, of): (&Window, Neighbours) =
            if is_known { (queries, None) } else { (&auditor.rows, Some(CLASSES[class])) };
        // Audits of fewer neighbours than the class has allow no conclusion.
        if of.is_some_and(|k| window.audits.iter().any(|audit| audit.k < k)) {
            return;
        }
        let decision = &self.decisions[class];
        let is_known = queries.is_half_full() && !queries.is_stale(now) && !queries.is_behind(now);
        decision.is_known.store(is_known, Ordering::Relaxed);
        // Runs before the judgement: more trust makes a search go less far, and the judgement is
        // about that search.
        if let Some(writes) = window.supported_writes() {
            decision.supported_writes.store(writes, Ordering::Relaxed);
        }
        let of_rows = 1.0 - (1.0 - self.target()) / ROWS_EASIER;
        let target = if of.is_none() { self.target() } else { of_rows };
        if of.is_some() || queries.is_fair() {
            decision.margins.note(window, of, target, self.index);
        }
        let reached = self.reached(class, now);
        let in_force = reached.unwrap_or(Reached::EXACT);
        let is_confirmed = reached.is_some() && window.confirms(of, in_force, target, now);
        if !is_confirmed {
            let mut chosen = choose(window, of, in_force, target, now, &self.costs);
            if of.is_none() && !queries.is_fair() {
                let of = Some(CLASSES[class]);
                let is_deep = auditor.rows.audits.iter().all(|audit| audit.k >= CLASSES[class]);
                let rows = Some(&auditor.rows).filter(|_| is_deep);
                let by_rows = rows
                    .and_then(|rows| choose(rows, of, in_force, of_rows, now, &self.costs))
                    .zip(chosen);
                // Without rows the decision stays: the first queries do not decide alone.
                chosen = by_rows.map(|(rows, few)| few.blend(rows, queries.fairness()));
            }
            if let Some(Reached { probes, refine }) = chosen {
                decision.leaves.store(now.leaves, Ordering::Relaxed);
                decision.rows.store(now.rows, Ordering::Relaxed);
                decision.refine.store(refine, Ordering::Relaxed);
                decision.probes.store(probes, Ordering::Relaxed);
            }
        }
        let in_force = self.reached(class, now).unwrap_or(Reached::EXACT);
        locked(&self.state).estimates[class] = window.estimate(of, in_force, now);
    }
}

/// Share of the true neighbours that were found; a row as near as the last true neighbour counts.
fn share_of(truth: &[Neighbor], found: &[Neighbor]) -> f64 {
    let Some(last) = truth.last() else { return 1.0 };
    let bound = last.distance + 1e-6 * last.distance.abs();
    let hits = found.iter().filter(|row| row.distance <= bound).count();
    hits.min(truth.len()) as f64 / truth.len() as f64
}

fn moment(search: &Tree) -> Moment {
    Moment { leaves: search.leaves(), rows: search.rows_about(), writes: search.writes() }
}

/// Locks `kept`, also if a thread died while holding it: it has only statistics.
fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPU seconds of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests;
