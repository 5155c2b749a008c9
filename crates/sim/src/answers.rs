//! Answers against brute force over the rows that must be there.
//!
//! Exact answers have the distances of the nearest rows, in order. No answer, exact or not, holds a
//! row that does not live, one twice, or another distance than the row's own. How many of the
//! nearest rows approximate answers hold is counted.

use vstream_engine::{Effort, Engine, Filter, Metric, Neighbor, Query, Scratch};
use vstream_vector::{kernels, SplitMix};

use crate::check::{Breach, Violation};
use crate::fields;
use crate::reads;
use crate::script::{hold, Script, DIMENSION};

/// Neighbours that a query asks for.
const K: usize = 10;
/// Part by which two sums of the same products may differ.
const ROUNDOFF: f32 = 1e-5;
/// Share of the nearest rows below which a single state is broken: a few queries say no more.
const COLLAPSED: f64 = 0.5;
/// Rows that are counted before the share in all states is judged.
const JUDGED_ROWS: u64 = 4_000;
/// How far below the target the share in all states may be.
const SLACK: f64 = 0.02;

/// Rows of approximate answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// Rows that are among the nearest.
    pub hits: u64,
    /// Rows that there should have been.
    pub wanted: u64,
}

impl Recall {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Recall) {
        self.hits += other.hits;
        self.wanted += other.wanted;
    }

    /// From 0 to 1; 1 of nothing.
    pub fn share(&self) -> f64 {
        if self.wanted == 0 {
            return 1.0;
        }
        self.hits as f64 / self.wanted as f64
    }

    /// Errors: so many rows were counted, and fewer found than the target allows.
    pub fn judge(&self, target: f64) -> Result<(), Violation> {
        if self.wanted < JUDGED_ROWS || self.share() >= target - SLACK {
            return Ok(());
        }
        let what = format!("recall is {:.3} in all states, the target {target}", self.share());
        Err(Violation::new(Breach::Blind, what))
    }
}

/// Asks `exact` exact and `approximate` automatic queries of an engine after write `lsn`.
///
/// Errors: a wrong answer; the engine's own as `Unread`.
pub fn ask(
    engine: &Engine,
    script: &Script,
    lsn: u64,
    (exact, approximate): (usize, usize),
) -> Result<Recall, Violation> {
    let rows = script.rows_after(lsn);
    let mut random = SplitMix(lsn ^ 0xa5c);
    let (reader, mut scratch, mut found) = (engine.reader(), Scratch::new(), Vec::new());
    let mut recall = Recall::default();
    for turn in 0..exact + approximate {
        let vector = question(script, &rows, &mut random);
        let truth = Truth::new(script, &rows, &vector, None);
        let effort = if turn < exact { Effort::Exact } else { Effort::Unaudited };
        let query = Query { vector: &vector, k: K, effort, filter: None, radius: None };
        let asked = reader.search(&query, &mut scratch, &mut found);
        asked.map_err(|e| Violation::new(Breach::Unread, format!("no answer: {e}")))?;
        truth.check(&found, lsn)?;
        if turn < exact {
            truth.check_exact(&found, lsn)?;
        } else {
            recall.add(truth.recall(&found));
        }
    }
    if script.shape.has_fields {
        // Exact over the rows that match.
        let (filter, vector) = (fields::some_of(lsn), question(script, &rows, &mut random));
        let truth = Truth::new(script, &rows, &vector, Some(&filter));
        let (effort, filter) = (Effort::Exact, Some(&filter));
        let query = Query { vector: &vector, k: K, effort, filter, radius: None };
        let asked = reader.search(&query, &mut scratch, &mut found);
        asked.map_err(|e| Violation::new(Breach::Unread, format!("no filtered answer: {e}")))?;
        truth.check(&found, lsn)?;
        truth.check_exact(&found, lsn)?;
        reads::look(engine, script, lsn)?;
    }
    if recall.share() < COLLAPSED {
        let what = format!("recall is {:.3} after write {lsn}", recall.share());
        return Err(Violation::new(Breach::Blind, what));
    }
    Ok(recall)
}

/// Near a row that lives, or anywhere.
fn question(script: &Script, rows: &[u64], random: &mut SplitMix) -> Vec<f32> {
    let row = rows[random.below(rows.len())];
    if row == 0 || random.below(2) == 0 {
        return script.shape.vector(random);
    }
    let is_integer = script.shape.element.is_integer();
    let near = |&x: &f32| match is_integer {
        true => (x + 2.0 * random.normal()).round().clamp(0.0, 255.0),
        false => x + 0.1 * random.normal(),
    };
    script.stored(row).iter().map(near).collect()
}

/// Distances of all rows from a query.
struct Truth {
    /// By id; infinite where no row lives.
    distances: Vec<f32>,
    /// Those of the nearest rows, ascending.
    nearest: Vec<f32>,
}

impl Truth {
    fn new(script: &Script, rows: &[u64], vector: &[f32], filter: Option<&Filter>) -> Truth {
        let metric = script.shape.metric;
        let mut query = [0.0; DIMENSION];
        hold(metric, vector, &mut query);
        let distance = |&row: &u64| match (row, metric) {
            (0, _) => f32::INFINITY,
            (_, Metric::L2) => kernels::l2_squared(&query, script.stored(row)),
            (_, Metric::InnerProduct) => -kernels::inner_product(&query, script.stored(row)),
            (_, Metric::Cosine) => 1.0 - kernels::inner_product(&query, script.stored(row)),
        };
        let matches = |(id, row): (usize, &u64)| {
            let holds = |filter: &Filter| filter.holds(id as u64, script.fields(*row).attributes);
            *row > 0 && filter.is_none_or(holds)
        };
        let of = |at: (usize, &u64)| if matches(at) { distance(at.1) } else { f32::INFINITY };
        let distances: Vec<f32> = rows.iter().enumerate().map(of).collect();
        let mut nearest: Vec<f32> =
            distances.iter().copied().filter(|distance| distance.is_finite()).collect();
        if nearest.len() > K {
            nearest.select_nth_unstable_by(K - 1, f32::total_cmp);
            nearest.truncate(K);
        }
        nearest.sort_unstable_by(f32::total_cmp);
        Truth { distances, nearest }
    }

    /// Errors: a row that does not live, one that is there twice, or a wrong distance.
    fn check(&self, found: &[Neighbor], lsn: u64) -> Result<(), Violation> {
        let mut ids: Vec<u64> = found.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = format!("row {} is twice in an answer after write {lsn}", pair[0]);
            return Err(Violation::new(Breach::Duplicate, what));
        }
        for row in found {
            let own = self.distances.get(row.id as usize).copied().unwrap_or(f32::INFINITY);
            if !own.is_finite() || !is_same(own, row.distance) {
                let what = format!("{row:?} is in an answer after write {lsn}, not at {own}");
                return Err(Violation::new(Breach::Ghost, what));
            }
        }
        Ok(())
    }

    fn check_exact(&self, found: &[Neighbor], lsn: u64) -> Result<(), Violation> {
        let is_right = found.len() == self.nearest.len()
            && found.iter().zip(&self.nearest).all(|(row, right)| is_same(row.distance, *right));
        if is_right {
            return Ok(());
        }
        let distances: Vec<f32> = found.iter().map(|row| row.distance).collect();
        let what = format!("exact: {distances:?}, not {:?} after write {lsn}", self.nearest);
        Err(Violation::new(Breach::Lost, what))
    }

    fn recall(&self, found: &[Neighbor]) -> Recall {
        let bound = self.nearest.last().copied().unwrap_or(f32::NEG_INFINITY);
        let is_near = |row: &&Neighbor| row.distance < bound || is_same(row.distance, bound);
        let hits = found.iter().filter(is_near).count().min(self.nearest.len());
        Recall { hits: hits as u64, wanted: self.nearest.len() as u64 }
    }
}

fn is_same(a: f32, b: f32) -> bool {
    (a - b).abs() <= ROUNDOFF * (1.0 + a.abs().max(b.abs()))
}
