//! Decides which codes of the segments are in memory: those that queries visit most, within a
//! limit.
//!
//! 1. Queries count their visits ([`super::heat`]). Every [`COOL_EVERY`]th query scores all
//!    segments again. The thread that moves codes does so too, and it alone looks at every part of
//!    the codes.
//! 2. The temperature of a part of codes is the visits of its leaves per byte, times the heat of
//!    its segment. A plan holds the hottest parts that fit. A part in memory counts as somewhat
//!    hotter than it is, so that two similar parts do not take turns.
//! 3. Parts of which a segment serves no leaf any more are released.
//! 4. A thread carries plans out, the hottest part first and a few MiB at a time. It releases codes
//!    before it reads others, so the limit holds at every moment. Queries never wait.
//!
//! The block cache holds rows and postings that were read, in addition to these codes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::heat::{Scores, Sums};
use super::{LiveSegment, Residence, Tree};
use crate::error::Error;
use crate::settings::{Ablation, Settings};

/// Queries between two scorings of all segments.
const COOL_EVERY: u64 = 128;
/// Factor on the temperature of a part that is in memory.
const STAYING: f64 = 1.25;
/// Bytes of codes that come to memory before the thread scores again.
const STEP_BYTES: u64 = 4 << 20;
/// Time that the thread sleeps between two rounds.
const PAUSE: Duration = Duration::from_millis(50);

/// Query counts and the limit to codes in memory; shared with pinned read snapshots.
pub(crate) struct CodeResidency {
    pub(super) ablation: Ablation,
    code_memory: Option<u64>,
    queries: AtomicU64,
    cooled: Mutex<Cooled>,
}

#[derive(Default)]
struct Cooled {
    /// Queries at the last cooling.
    at: u64,
    /// Queries when the visits of parts were last taken.
    visits_at: u64,
    /// Queries so far, cooled as the sums are.
    queries: f64,
}

/// Something that is kept at hand or not, as the planner sees it: a part of codes, or a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) temperature: f64,
    pub(crate) bytes: u64,
    pub(crate) is_held: bool,
}

/// A step of a plan; the number is the position of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Release(usize),
    Hold(usize),
}

impl CodeResidency {
    pub(super) fn new(settings: &Settings) -> CodeResidency {
        CodeResidency {
            ablation: settings.ablation,
            code_memory: settings.code_memory,
            queries: AtomicU64::new(0),
            cooled: Mutex::default(),
        }
    }

    /// True if a limit makes codes enter and leave memory.
    pub(super) fn is_limited(&self) -> bool {
        self.code_memory.is_some()
    }

    /// Counts a query over the segments; every [`COOL_EVERY`]th query scores them.
    ///
    /// Cost: O(segments) once in [`COOL_EVERY`] queries.
    pub(super) fn note_query(&self, segments: &[Arc<LiveSegment>]) {
        let queries = self.queries.fetch_add(1, Ordering::Relaxed) + 1;
        if queries.is_multiple_of(COOL_EVERY) {
            if let Ok(mut cooled) = self.cooled.try_lock() {
                self.cool(segments, &mut cooled);
            }
        }
    }

    /// Queries so far.
    fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    /// Scores all segments by the counts since the last call.
    fn cool(&self, segments: &[Arc<LiveSegment>], cooled: &mut Cooled) {
        let now = self.queries();
        let queries = now - cooled.at;
        cooled.at = now;
        let one = Sums { queries: cooled.queries, ..Sums::default() };
        let counted = Sums { queries: queries as f64, ..Sums::default() };
        cooled.queries = one.cooled(queries, counted).queries;
        let sums: Vec<Sums> = segments.iter().map(|live| live.heat.cool(queries)).collect();
        let mut all = sums.iter().fold(Sums::default(), |all, one| all.cooled(0, *one));
        all.queries = cooled.queries;
        let rows: u64 = segments.iter().map(|live| live.segment.rows()).sum();
        let mut newer = rows;
        for (live, sums) in segments.iter().zip(&sums) {
            newer -= live.segment.rows();
            live.heat.score(&Scores::new(sums, &all, (newer, rows)));
        }
    }

    /// Scores all segments, then moves codes until memory holds the hottest. Stops once `bytes_max` bytes or
    /// more came to memory; returns how many.
    ///
    /// Errors: `Corrupt`, those of the store. The steps done before the error remain.
    fn place(&self, segments: &[Arc<LiveSegment>], bytes_max: u64) -> Result<u64, Error> {
        let Some(limit) = self.code_memory else { return Ok(0) };
        let mut cooled = self.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        self.cool(segments, &mut cooled);
        let now = self.queries();
        let queries = now - cooled.visits_at;
        cooled.visits_at = now;
        for live in segments {
            let Some(segment) = live.segment.leaves() else { continue };
            let parts = 0..segment.parts();
            live.heat.cool_visits(queries, parts.map(|part| segment.take_visits(part)));
        }
        let (mut parts, mut owners) = (Vec::new(), Vec::new());
        for live in segments {
            let heat = f64::from(live.heat.heat());
            // The codes of a graph stay in memory.
            let Some(segment) = live.segment.leaves() else { continue };
            for number in 0..segment.parts() {
                if !live.serves_part(segment, number) {
                    segment.release_codes(number);
                    continue;
                }
                let state = segment.part(number);
                let temperature = if self.ablation.hot_cold {
                    -(parts.len() as f64)
                } else {
                    let visits = live.heat.visits(number);
                    (visits + heat) * (0.5 + heat) / state.bytes.max(1) as f64
                };
                parts.push(Part { temperature, bytes: state.bytes, is_held: state.is_held });
                owners.push((segment, number));
            }
        }
        let mut read = 0;
        for step in plan(&parts, limit) {
            match step {
                Move::Release(at) => owners[at].0.release_codes(owners[at].1),
                Move::Hold(at) => {
                    let (segment, part) = owners[at];
                    segment.hold_codes(part..part + 1)?;
                    read += parts[at].bytes;
                }
            }
            if read >= bytes_max {
                break;
            }
        }
        Ok(read)
    }
}

/// Plans the steps after which the hottest parts are held, never more than `limit` bytes.
///
/// After every step that holds a part, those that are held fit the limit, so the caller may stop there.
pub(crate) fn plan(parts: &[Part], limit: u64) -> Vec<Move> {
    let rank = |at: usize| {
        let Part { temperature, is_held, .. } = parts[at];
        // Temperatures of zero and below only give an order: parts in memory get no bonus then.
        if is_held && temperature > 0.0 {
            temperature * STAYING
        } else {
            temperature
        }
    };
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)).then(a.cmp(&b)));
    let mut wanted = vec![false; parts.len()];
    let mut room = limit;
    for &at in &order {
        if parts[at].bytes <= room {
            room -= parts[at].bytes;
            wanted[at] = true;
        }
    }
    let mut held: u64 = parts.iter().filter(|part| part.is_held).map(|part| part.bytes).sum();
    let mut leaving = order.iter().rev().copied().filter(|&at| parts[at].is_held && !wanted[at]);
    let mut moves = Vec::new();
    let mut make_room = |held: &mut u64, bytes: u64, moves: &mut Vec<Move>| {
        while *held + bytes > limit {
            let Some(at) = leaving.next() else { return };
            *held -= parts[at].bytes;
            moves.push(Move::Release(at));
        }
    };
    make_room(&mut held, 0, &mut moves);
    for &at in order.iter().filter(|&&at| wanted[at] && !parts[at].is_held) {
        make_room(&mut held, parts[at].bytes, &mut moves);
        held += parts[at].bytes;
        moves.push(Move::Hold(at));
    }
    moves
}

impl Tree {
    /// Moves hot codes into memory and cold ones out of it, as the limit requires; returns the bytes that
    /// came. Errors: `Corrupt`, those of the store.
    pub(crate) fn place_codes(&self) -> Result<u64, Error> {
        self.residency.place(&self.live_segments(), u64::MAX)
    }

    /// Number and heat of each segment, scored now.
    pub(crate) fn segment_heat(&self) -> Vec<(u64, f32)> {
        let segments = self.live_segments();
        let mut cooled = self.residency.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        self.residency.cool(&segments, &mut cooled);
        segments.iter().map(|live| (live.number, live.heat.heat())).collect()
    }

    /// Notes that the file of a segment has gone to the far store, or, if it `came`, has come back.
    pub(crate) fn note_move(&self, number: u64, came: bool) {
        let Some(live) = self.live_segments().into_iter().find(|live| live.number == number) else {
            return;
        };
        if came {
            return live.on_disk.restart();
        }
        let (rows, age) = (live.live_rows(), live.on_disk.age(Instant::now()).as_micros() as u64);
        live.on_disk.leave();
        self.left_disk.add(Residence { rows, total_us: rows * age, longest_us: age });
    }

    /// The current segments, without their view: a held view delays the drop of [`super::Retired`].
    fn live_segments(&self) -> Vec<Arc<LiveSegment>> {
        self.view().segments.clone()
    }

    /// Runs [`Tree::place_codes`] in the background for as long as the tree is in use.
    pub(crate) fn keep_hot(self: &Arc<Tree>) {
        if !self.residency.is_limited() {
            return;
        }
        let tree = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("vstream-heat".to_owned());
        // If the thread cannot start, codes stay on disk: queries are slower but correct.
        let _detached = thread.spawn(move || watch(&tree));
    }
}

fn watch(tree: &Weak<Tree>) {
    let mut seen = None;
    loop {
        {
            let Some(tree) = tree.upgrade() else { return };
            let segments = tree.live_segments();
            let numbers: Vec<u64> = segments.iter().map(|live| live.number).collect();
            let now = (tree.residency.queries() / COOL_EVERY, numbers);
            if seen.as_ref() != Some(&now) {
                // An unreadable segment is no error here: the queries that search it report it.
                let read = tree.residency.place(&segments, STEP_BYTES).unwrap_or(0);
                seen = (read == 0).then_some(now);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
