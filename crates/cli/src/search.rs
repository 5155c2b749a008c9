//! `vstream search`: searches a snapshot without Flink, through the same engine.

use std::collections::HashMap;

use serde::Serialize;
use vstream_engine::{Effort, Engine, IndexKind, Neighbor, Query, Reader, Scratch, Settings};
use vstream_vector::SplitMix;

use crate::arguments::SearchArguments;
use crate::failure::Failure;
use crate::matrix::{Matrix, Names};
use crate::snapshot::{self, Part};
use crate::text;

/// Seed of `--random`: the same rows every time.
const SEED: u64 = 42;

/// A vector to search for, and what it is called.
struct Wanted {
    name: String,
    vector: Vec<f32>,
}

/// One answer as JSON, as the jobs write theirs.
#[derive(Serialize)]
struct AnswerLine<'a> {
    query: &'a str,
    ids: Vec<u64>,
    distances: Vec<f32>,
}

/// Searches for each wanted vector and prints its neighbours.
pub(crate) fn search(arguments: &SearchArguments) -> Result<(), Failure> {
    let parts = snapshot::open(&arguments.snapshot)?;
    let wanted = wanted(arguments)?;
    let names = match &arguments.names {
        Some(path) => Names::read(path)?,
        None => Names::default(),
    };
    let engines: Vec<Engine> =
        parts.iter().map(|part| restore(part, arguments.exact)).collect::<Result<_, _>>()?;
    let readers: Vec<Reader> = engines.iter().map(Engine::reader).collect();
    let effort = if arguments.exact { Effort::Exact } else { Effort::Auto };
    for Wanted { name, vector } in &wanted {
        let query = Query { vector, k: arguments.k, effort, filter: None, radius: None };
        let answer = search_all(&readers, &query)?;
        if arguments.json {
            let line = AnswerLine {
                query: name,
                ids: answer.iter().map(|row| row.id).collect(),
                distances: answer.iter().map(|row| row.distance).collect(),
            };
            text::print_line(&serde_json::to_string(&line).expect("plain numbers"))?;
        } else {
            text::print(&table(name, &answer, &names))?;
        }
    }
    Ok(())
}

fn wanted(arguments: &SearchArguments) -> Result<Vec<Wanted>, Failure> {
    if let Some(text) = &arguments.what.vector {
        let vector = serde_json::from_str(text).map_err(|error| {
            Failure::settings(format!(
                "--vector: '{text}' is not a JSON array of numbers ({error}). Write it like \
                 \"[0.1, 0.2]\"."
            ))
        })?;
        return Ok(vec![Wanted { name: "vector".to_owned(), vector }]);
    }
    let mut queries = Matrix::open(&arguments.queries)?;
    let rows = match (arguments.what.query_id, arguments.what.random) {
        (Some(row), _) => vec![row],
        (None, count) => {
            let mut chance = SplitMix(SEED);
            (0..count.unwrap_or(1)).map(|_| chance.next() % queries.rows()).collect()
        }
    };
    rows.into_iter()
        .map(|row| Ok(Wanted { name: format!("query {row}"), vector: queries.row(row)? }))
        .collect()
}

fn restore(part: &Part, exact: bool) -> Result<Engine, Failure> {
    let summary = &part.summary;
    let mut settings = Settings::new(summary.dimension, summary.metric, summary.element);
    // A few queries are over before a guard has learnt anything.
    settings.recall_guard = false;
    if exact {
        settings.index = IndexKind::Flat;
    }
    Ok(Engine::restore(settings, &part.folder)?)
}

/// The nearest rows of all partitions; a row that lives in several counts once, in its newest
/// version.
fn search_all(readers: &[Reader], query: &Query) -> Result<Vec<Neighbor>, Failure> {
    let mut scratch = Scratch::new();
    let mut found = Vec::new();
    let mut newest: HashMap<u64, Neighbor> = HashMap::new();
    for reader in readers {
        reader.search(query, &mut scratch, &mut found)?;
        for row in found.drain(..) {
            let kept = newest.entry(row.id).or_insert(row);
            if row.version > kept.version {
                *kept = row;
            }
        }
    }
    let mut answer: Vec<Neighbor> = newest.into_values().collect();
    answer.sort_by(Neighbor::order);
    answer.truncate(query.k);
    Ok(answer)
}

fn table(name: &str, answer: &[Neighbor], names: &Names) -> String {
    let mut table = format!("{name}\n");
    for (rank, row) in answer.iter().enumerate() {
        let name = names.of(row.id);
        table.push_str(&format!("  {:>4}  {name:<24} {:.6}\n", rank + 1, row.distance));
    }
    table
}
