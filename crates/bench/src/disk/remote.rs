//! Rows most of whose segments are in a far store: what queries wait for, by the ranges that they read
//! there.
//!
//! 1. All rows come to a collection whose remote level holds nothing yet; everything is merged.
//! 2. For each share, the collection is opened again with a limit to the local disk, and segments are
//!    moved until the limit is kept. Audits and a part of the queries fill caches. Then every query is
//!    timed with the ranges that it read in the far store, and the scored ones are scored.
//!
//! One thread asks, so the ranges between two looks at the counter are those of one query.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Value};
use vstream_engine::{Effort, Engine, Neighbor, Query, RemoteLevel, Scratch};

use super::scoring::{insert_all, residence_ms, Made};
use super::updates::{beside, scored};
use super::{ask, Kept, Moment, RowFile, K};
use crate::runbook::{Matrix, RunbookError};
use crate::Percentiles;

/// Bounds of the groups of queries by the ranges that they read: up to so many.
const GROUPS: [u64; 5] = [0, 8, 32, 128, u64::MAX];

/// One far store.
pub struct RemoteSettings<'a> {
    /// The engine.
    pub made: Made,
    /// Folder of the collection.
    pub dir: &'a Path,
    /// Address of the far store.
    pub address: &'a str,
    /// Shares of the segments' bytes that stay local, one measurement each.
    pub shares: &'a [f64],
}

/// Runs all shares over the first rows of a plan. Errors: those of the engine and of reading;
/// `BadRequest` if an answer holds a row that is not there.
pub fn run(
    (kept, data, queries): (&Kept, &RowFile, &Matrix),
    settings: &RemoteSettings<'_>,
) -> Result<Value, RunbookError> {
    let refused = RunbookError::engine(0);
    let level = |bytes| RemoteLevel::at(settings.address, bytes).map_err(&refused);
    let (beside, scored) = (beside(kept, queries), scored(kept, queries));
    let mut engine =
        settings.made.create_with(settings.dir, data.dimension(), Some(level(u64::MAX)?))?;
    let rows = kept.first(0, kept.about.rows)?;
    insert_all(&mut engine, data, &rows, &mut |_, _| ())?;
    engine.checkpoint().map_err(&refused)?;
    engine.compact().map_err(&refused)?;
    let all = engine.stats().tree.segment_bytes;
    let truth = kept.truth(0)?;
    let live = kept.live(0)?;
    let moment = Moment { queries: &scored, truth: &truth, live: &live };
    let mut every = Vec::new();
    for &share in settings.shares {
        engine.close().map_err(&refused)?;
        let opening = Instant::now();
        let opened = Engine::builder()
            .dir(settings.dir)
            .adjust(&mut |given, _| given.ablation.page_cache = true)
            .remote(level((all as f64 * share) as u64)?)
            .open();
        engine = opened.map_err(&refused)?;
        let open_s = opening.elapsed().as_secs_f64();
        let moving = Instant::now();
        engine.place_segments().map_err(&refused)?;
        let moving_s = moving.elapsed().as_secs_f64();
        // What these ask for fills the cache, and the guard learns from them.
        asked(&engine, &beside)?;
        engine.catch_up();
        let times = asked(&engine, &beside)?;
        let found = ask(&engine, &moment, Effort::Unaudited)?;
        let placed = engine.remote_stats().expect("a remote level");
        let stats = engine.stats();
        every.push(json!({
            "share": share,
            "open-s": open_s,
            "moving-s": moving_s,
            "local-bytes": placed.local_bytes,
            "remote-bytes": placed.remote_bytes,
            "segments": [placed.local_segments, placed.remote_segments],
            "sent-bytes": placed.counts.sent_bytes,
            "fetched-bytes": placed.counts.fetched_bytes,
            "on-disk-ms": residence_ms(&stats.tree.on_disk),
            "asked": found,
            "guard": stats.recall.map(|estimate| estimate.recall),
            "probes": stats.probes,
            "all": grouped(&times, |_| true),
            "groups": groups(&times),
        }));
    }
    engine.close().map_err(&refused)?;
    std::fs::remove_dir_all(settings.dir).map_err(RunbookError::io("remove", settings.dir))?;
    Ok(json!({
        "plan": kept.about,
        "element": settings.made.element.to_string(),
        "memory-bytes": settings.made.memory,
        "code-memory-bytes": settings.made.code_memory,
        "target": settings.made.target,
        "segment-bytes": all,
        "shares": every,
    }))
}

/// Nanoseconds, far ranges and far bytes of a query.
type Timed = (u64, u64, u64);

/// Asks each query once, with automatic effort.
fn asked(engine: &Engine, queries: &Matrix) -> Result<Vec<Timed>, RunbookError> {
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let reader = engine.reader();
    let far = || {
        let counts = engine.remote_stats().map(|stats| stats.counts).unwrap_or_default();
        (counts.far_reads, counts.far_read_bytes)
    };
    let mut times = Vec::with_capacity(queries.rows());
    for at in 0..queries.rows() {
        let query = Query { effort: Effort::Auto, ..Query::new(queries.row(at), K) };
        let before = far();
        let begun = Instant::now();
        reader.search(&query, &mut scratch, &mut out).map_err(RunbookError::engine(0))?;
        let ns = begun.elapsed().as_nanos() as u64;
        let after = far();
        times.push((ns, after.0 - before.0, after.1 - before.1));
    }
    Ok(times)
}

fn groups(times: &[Timed]) -> Vec<Value> {
    let bounds = GROUPS.iter().enumerate();
    let group = |(at, &most): (usize, &u64)| {
        let above = at.checked_sub(1).map(|at| GROUPS[at]);
        let mut group =
            grouped(times, |reads| reads <= most && above.is_none_or(|above| reads > above));
        group["ranges"] = json!([above.map_or(0, |above| above + 1), most]);
        group
    };
    bounds.map(group).filter(|group| group["queries"] != 0).collect()
}

/// Latencies and far reads of the queries that read so many ranges.
fn grouped(times: &[Timed], is_in: impl Fn(u64) -> bool) -> Value {
    let of: Vec<&Timed> = times.iter().filter(|timed| is_in(timed.1)).collect();
    let mut ns: Vec<u64> = of.iter().map(|timed| timed.0).collect();
    let each = |sum: u64| sum as f64 / of.len().max(1) as f64;
    json!({
        "queries": of.len(),
        "far-reads": each(of.iter().map(|timed| timed.1).sum()),
        "far-bytes": each(of.iter().map(|timed| timed.2).sum()),
        "latency": Percentiles::of(&mut ns),
    })
}
