//! A row that moves a little at each write must stay the first answer to its own vector.
//!
//! Its old versions lie beside it, nearer to the query than any other living row; a search that
//! drops them after it has cut its candidates finds too few living rows.

use serde::Serialize;
use vstream_engine::{Effort, Engine, Query, Row as Record, Scratch, Settings};
use vstream_vector::{Element, Metric, SplitMix};

use crate::runbook::RunbookError;

const ROWS: usize = 20_000;
const MOVES: usize = 500;
/// Length of a move, per length of the row.
const STEP: f32 = 1e-3;
/// Other rows that are written between two moves.
const BETWEEN: usize = 8;

/// How often the row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MovedRow {
    /// Formula of the distance.
    pub metric: &'static str,
    /// Numbers per row.
    pub dimension: usize,
    /// Moves, and queries for each k.
    pub moves: usize,
    /// Times that it was the first answer for k = 1.
    pub first_of_one: usize,
    /// Times that it was the first answer for k = 10.
    pub first_of_ten: usize,
    /// Times that it was among the ten.
    pub among_ten: usize,
    /// Answers of ten rows that were shorter or held a row twice.
    pub short: usize,
}

/// Moves row 0 of 20,000 normal rows 500 times and asks for it after each.
///
/// Errors: those of the engine.
pub fn moved(dimension: usize, metric: Metric) -> Result<MovedRow, RunbookError> {
    let failed = RunbookError::engine(0);
    let mut chance = SplitMix(7);
    let mut rows: Vec<Vec<f32>> =
        (0..ROWS).map(|_| (0..dimension).map(|_| chance.normal()).collect()).collect();
    let mut engine =
        Engine::create(Settings::new(dimension, metric, Element::F32)).map_err(&failed)?;
    let put = |engine: &mut Engine, id: usize, version: u64, vector: &[f32]| {
        let record = Record {
            id: id as u64,
            version,
            code: 0,
            shard: 0,
            vector,
            fields: Default::default(),
        };
        engine.upsert(&record).map(drop).map_err(&failed)
    };
    for (id, row) in rows.iter().enumerate() {
        put(&mut engine, id, 1, row)?;
    }
    let (reader, mut scratch) = (engine.reader(), Scratch::new());
    let mut found = MovedRow {
        metric: metric.name(),
        dimension,
        moves: MOVES,
        first_of_one: 0,
        first_of_ten: 0,
        among_ten: 0,
        short: 0,
    };
    for at in 0..MOVES {
        let version = at as u64 + 2;
        rows[0].iter_mut().for_each(|x| *x += STEP * chance.normal());
        put(&mut engine, 0, version, &rows[0])?;
        let mut answer = Vec::new();
        let mut ask = |k: usize| -> Result<Vec<u64>, RunbookError> {
            let query =
                Query { vector: &rows[0], k, effort: Effort::Auto, filter: None, radius: None };
            reader.search(&query, &mut scratch, &mut answer).map_err(&failed)?;
            Ok(answer.iter().map(|row| row.id).collect())
        };
        found.first_of_one += usize::from(ask(1)?.first() == Some(&0));
        let mut ten = ask(10)?;
        found.first_of_ten += usize::from(ten.first() == Some(&0));
        found.among_ten += usize::from(ten.contains(&0));
        ten.sort_unstable();
        ten.dedup();
        found.short += usize::from(ten.len() < 10);
        for _ in 0..BETWEEN {
            let id = 1 + chance.below(ROWS - 1);
            put(&mut engine, id, version, &rows[id])?;
        }
    }
    Ok(found)
}
