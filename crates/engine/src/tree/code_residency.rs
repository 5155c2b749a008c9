//! What of the segments is in memory: the codes that are visited most, within a limit.
//!
//! 1. Queries count where they went ([`super::heat`]). Every [`COOL_EVERY`]th of them scores all
//!    segments anew; so does whoever moves codes, who alone looks at every part of them.
//! 2. The temperature of a part of codes is how often its leaves are visited per byte, times how
//!    hot its segment is. A plan holds the hottest parts that fit; a part that is in memory counts
//!    as somewhat hotter than it is, so that two alike do not take turns.
//! 3. A thread carries plans out, the hottest first and a few MiB at a time. What must leave does
//!    so before what comes is read: the limit holds at every moment. Queries never wait.
//!
//! Rows and postings that were read are in the block cache besides, where each that is used stays.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::heat::{Scores, Sums};
use super::{LiveSegment, Tree};
use crate::error::Error;
use crate::settings::{Ablation, Settings};

/// Queries between two scorings of all segments.
const COOL_EVERY: u64 = 128;
/// How much hotter a part counts that is in memory.
const STAYING: f64 = 1.25;
/// Bytes of codes that are read between two looks at what is hot.
const STEP_BYTES: u64 = 4 << 20;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What places know of heat, shared with the moments that readers pinned.
pub(crate) struct CodeResidency {
    pub(super) ablation: Ablation,
    code_memory: Option<u64>,
    queries: AtomicU64,
    cooled: Mutex<Cooled>,
}

#[derive(Default)]
struct Cooled {
    /// Queries when it was cooled last.
    at: u64,
    /// Queries when the visits of parts were taken last.
    visits_at: u64,
    /// Queries, as sums count them.
    queries: f64,
}

/// A part of codes as plans see it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    temperature: f64,
    bytes: u64,
    is_held: bool,
}

/// A step of a plan, by the position of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
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

    /// True if codes come and go.
    pub(super) fn is_limited(&self) -> bool {
        self.code_memory.is_some()
    }

    /// Counts a query over the segments; now and then it scores them.
    ///
    /// Cost: O(segments) once in [`COOL_EVERY`] queries.
    pub(super) fn note_query(&self, live: &[Arc<LiveSegment>]) {
        let queries = self.queries.fetch_add(1, Ordering::Relaxed) + 1;
        if queries.is_multiple_of(COOL_EVERY) {
            if let Ok(mut cooled) = self.cooled.try_lock() {
                self.cool(live, &mut cooled);
            }
        }
    }

    /// Queries so far.
    fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    /// Scores all segments by what was counted since the last time.
    fn cool(&self, live: &[Arc<LiveSegment>], cooled: &mut Cooled) {
        let now = self.queries();
        let queries = now - cooled.at;
        cooled.at = now;
        let one = Sums { queries: cooled.queries, ..Sums::default() };
        let counted = Sums { queries: queries as f64, ..Sums::default() };
        cooled.queries = one.cooled(queries, counted).queries;
        let sums: Vec<Sums> = live.iter().map(|of| of.heat.cool(queries)).collect();
        let mut all = sums.iter().fold(Sums::default(), |all, of| all.cooled(0, *of));
        all.queries = cooled.queries;
        let rows: u64 = live.iter().map(|of| of.segment.rows()).sum();
        let mut newer = rows;
        for (of, sums) in live.iter().zip(&sums) {
            newer -= of.segment.rows();
            of.heat.score(&Scores::new(sums, &all, (newer, rows)));
        }
    }

    /// Scores all segments, then moves codes until memory holds the hottest, but not many more than
    /// `bytes_max` bytes of them; returns how many it read.
    ///
    /// Errors: `Corrupt`, those of the store. Everything is as it was then, or a step further.
    fn place(&self, live: &[Arc<LiveSegment>], bytes_max: u64) -> Result<u64, Error> {
        let Some(limit) = self.code_memory else { return Ok(0) };
        let mut cooled = self.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        self.cool(live, &mut cooled);
        let now = self.queries();
        let queries = now - cooled.visits_at;
        cooled.visits_at = now;
        for of in live {
            let parts = 0..of.segment.parts();
            of.heat.cool_visits(queries, parts.map(|part| of.segment.take_visits(part)));
        }
        let (mut parts, mut owners) = (Vec::new(), Vec::new());
        for of in live {
            let heat = f64::from(of.heat.heat());
            for number in 0..of.segment.parts() {
                let state = of.segment.part(number);
                let temperature = if self.ablation.hot_cold {
                    -(parts.len() as f64)
                } else {
                    let visits = of.heat.visits(number);
                    (visits + heat) * (0.5 + heat) / state.bytes.max(1) as f64
                };
                parts.push(Part { temperature, bytes: state.bytes, is_held: state.is_held });
                owners.push((of, number));
            }
        }
        let mut read = 0;
        for step in plan(&parts, limit) {
            match step {
                Move::Release(at) => owners[at].0.segment.release_codes(owners[at].1),
                Move::Hold(at) => {
                    owners[at].0.segment.hold_codes(owners[at].1)?;
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

/// What is to be done so that the hottest parts are in memory and never more than `limit` bytes.
///
/// Stopped after any step that reads, what is in memory fits.
fn plan(parts: &[Part], limit: u64) -> Vec<Move> {
    let rank = |at: usize| {
        let Part { temperature, is_held, .. } = parts[at];
        // Temperatures below zero say an order and nothing more: all stay as they are then.
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
    /// Moves the codes of what is hot into memory and of what is not out of it, as far as the limit
    /// calls for it; returns the bytes that it read. Errors: `Corrupt`, those of the store.
    pub(crate) fn place_codes(&self) -> Result<u64, Error> {
        self.residency.place(&self.live_segments(), u64::MAX)
    }

    /// The segments of now, without their view: whoever retires one waits for those who hold it.
    fn live_segments(&self) -> Vec<Arc<LiveSegment>> {
        self.view().segments.clone()
    }

    /// Does in the background what [`Tree::place_codes`] does, as long as the places are used.
    pub(crate) fn keep_hot(self: &Arc<Tree>) {
        if !self.residency.is_limited() {
            return;
        }
        let tree = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("vstream-heat".to_owned());
        // Without the thread codes stay on the disk: slower, not wrong.
        let _detached = thread.spawn(move || watch(&tree));
    }
}

fn watch(tree: &Weak<Tree>) {
    let mut seen = None;
    loop {
        {
            let Some(tree) = tree.upgrade() else { return };
            let live = tree.live_segments();
            let segments = live.iter().map(|live| live.number);
            let now = (tree.residency.queries() / COOL_EVERY, segments.collect::<Vec<_>>());
            if seen.as_ref() != Some(&now) {
                // A segment that cannot be read is told to those who search it.
                let read = tree.residency.place(&live, STEP_BYTES).unwrap_or(0);
                seen = (read == 0).then_some(now);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
