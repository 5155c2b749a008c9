//! State that is opened: how long until a collection answers again, as it was or divided over more
//! partitions?
//!
//! 1. An engine takes the rows; some are written once more at the end, so that the log is not empty. It is
//!    dropped, which leaves the log as it is.
//! 2. It is opened, and asked one query.
//! 3. Partitions take its shards over, one after the other, and each is asked one query. The first part
//!    is taken once more by an engine with another seed, which must insert every row.
//! 4. It is closed, which shortens the log, opened again, and asked one query.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Value};
use vstream_engine::{Effort, Engine, Journaling, Query, Row, Scratch, Settings};

use super::{process, RowFile, K};
use crate::runbook::RunbookError;

/// Shards of the collection, as in a job.
const SHARDS: usize = 128;
/// Rows per commit.
const TOGETHER: usize = 100;

/// One run.
pub struct ReopenSettings<'a> {
    /// The engine.
    pub engine: Settings,
    /// Folder of the collections.
    pub dir: &'a Path,
    /// Rows.
    pub rows: usize,
    /// Rows that are written once more at the end.
    pub rewritten: usize,
    /// Partitions that take the collection over.
    pub parts: usize,
    /// Whether the first part is also inserted.
    pub inserts: bool,
}

/// Runs it over the first rows of a file. Errors: those of the engine and of reading.
pub fn run(data: &RowFile, settings: &ReopenSettings<'_>) -> Result<Value, RunbookError> {
    let refused = RunbookError::engine(0);
    let whole = settings.dir.join("whole");
    let mut engine =
        Engine::builder().dir(&whole).create(settings.engine.clone()).map_err(&refused)?;
    let loading = Instant::now();
    put_all(&mut engine, data, settings.rows, 1)?;
    engine.checkpoint().map_err(&refused)?;
    engine.compact().map_err(&refused)?;
    put_all(&mut engine, data, settings.rewritten, 2)?;
    let loaded_s = loading.elapsed().as_secs_f64();
    let segments = engine.stats().tree.segments;
    engine.flush().map_err(&refused)?;
    drop(engine);

    let mut query = vec![0.0; data.dimension()];
    data.read(settings.rows / 2, &mut query)?;
    process::forget_peak()?;
    let (engine, open_s, answer_s) = open(&whole, &query)?;
    let peak_bytes = process::peak_bytes()?;
    drop(engine);

    let mut parts = Vec::new();
    for part in 0..settings.parts {
        let shards = SHARDS * part / settings.parts..SHARDS * (part + 1) / settings.parts;
        parts.push(take(
            &query,
            settings,
            &format!("part-{part}"),
            (shards, settings.engine.seed),
        )?);
    }
    let inserted = match settings.inserts {
        true => take(
            &query,
            settings,
            "inserted",
            (0..SHARDS / settings.parts, settings.engine.seed ^ 1),
        )?,
        false => Value::Null,
    };
    let (engine, ..) = open(&whole, &query)?;
    let closing = Instant::now();
    engine.close().map_err(&refused)?;
    let close_s = closing.elapsed().as_secs_f64();
    let (_, closed_open_s, closed_answer_s) = open(&whole, &query)?;
    std::fs::remove_dir_all(settings.dir).map_err(RunbookError::io("remove", settings.dir))?;
    Ok(json!({
        "rows": settings.rows,
        "dimension": data.dimension(),
        "element": settings.engine.element.to_string(),
        "metric": settings.engine.metric.to_string(),
        "memory-bytes": settings.engine.memory,
        "rewritten": settings.rewritten,
        "segments": segments,
        "loaded-s": loaded_s,
        "open-s": open_s,
        "open-and-answer-s": answer_s,
        "open-peak-bytes": peak_bytes,
        "close-s": close_s,
        "open-closed-s": closed_open_s,
        "open-closed-and-answer-s": closed_answer_s,
        "parts": parts,
        "inserted": inserted,
    }))
}

/// Opens the collection, and asks a query; the engine, seconds until it is there, and until the answer.
fn open(dir: &Path, query: &[f32]) -> Result<(Engine, f64, f64), RunbookError> {
    let began = Instant::now();
    let engine = Engine::open(dir).map_err(RunbookError::engine(0))?;
    let open_s = began.elapsed().as_secs_f64();
    first_answer(&engine, query)?;
    Ok((engine, open_s, began.elapsed().as_secs_f64()))
}

/// Takes some shards over; seconds until they are there, and until the first answer.
fn take(
    query: &[f32],
    settings: &ReopenSettings<'_>,
    name: &str,
    (shards, seed): (std::ops::Range<usize>, u64),
) -> Result<Value, RunbookError> {
    let refused = RunbookError::engine(0);
    let (whole, dir) = (settings.dir.join("whole"), settings.dir.join(name));
    let wanted = Settings { seed, ..settings.engine.clone() };
    let builder = Engine::builder().dir(&dir).scratch().journaling(Journaling::default());
    let mut engine = builder.create(wanted).map_err(&refused)?;
    let began = Instant::now();
    let keep = |shard: u16| shards.contains(&usize::from(shard));
    let rows = engine.take_shared(&whole, &keep).map_err(&refused)?;
    let seconds = began.elapsed().as_secs_f64();
    first_answer(&engine, query)?;
    let answer_s = began.elapsed().as_secs_f64();
    Ok(json!({ "rows": rows, "take-s": seconds, "take-and-answer-s": answer_s }))
}

fn first_answer(engine: &Engine, vector: &[f32]) -> Result<(), RunbookError> {
    let (mut scratch, mut found) = (Scratch::default(), Vec::new());
    let query = Query { effort: Effort::Auto, ..Query::new(vector, K) };
    engine.reader().search(&query, &mut scratch, &mut found).map_err(RunbookError::engine(0))?;
    Ok(())
}

fn put_all(
    engine: &mut Engine,
    data: &RowFile,
    rows: usize,
    version: u64,
) -> Result<(), RunbookError> {
    let refused = RunbookError::engine(0);
    let mut vector = vec![0.0; data.dimension()];
    for at in 0..rows {
        data.read(at, &mut vector)?;
        let (id, shard) = (at as u64, (at % SHARDS) as u16);
        let row = Row { id, version, code: id, shard, vector: &vector, fields: Default::default() };
        engine.upsert(&row).map_err(&refused)?;
        if at % TOGETHER == TOGETHER - 1 {
            engine.commit().map_err(&refused)?;
        }
    }
    engine.commit().map_err(&refused)
}
