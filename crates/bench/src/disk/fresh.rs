//! A fresh build of the rows of one epoch, asked with the effort of the engine that lived until then.

use std::path::Path;

use serde_json::{json, Value};
use vstream_engine::Effort;
use vstream_vector::SplitMix;

use super::plan::shuffle;
use super::scoring::{insert_all, Made};
use super::{ask, Kept, Moment, RowFile};
use crate::runbook::{Matrix, RunbookError};

/// Builds the rows that live after `epochs` epochs in a seeded order, merges all segments, and asks the
/// scored queries with `effort`. Errors: those of the engine and of reading.
pub fn build(
    (kept, data, queries): (&Kept, &RowFile, &Matrix),
    (made, dir): (&Made, &Path),
    epochs: usize,
    effort: Effort,
) -> Result<Value, RunbookError> {
    let refused = RunbookError::engine(epochs);
    let live = kept.live(epochs)?;
    let mut rows: Vec<u32> = live.rows().collect();
    shuffle(&mut rows, &mut SplitMix(kept.about.seed ^ epochs as u64));
    let mut engine = made.create(dir, data.dimension())?;
    insert_all(&mut engine, data, &rows, &mut |_, _| ())?;
    engine.checkpoint().map_err(&refused)?;
    engine.compact().map_err(&refused)?;
    let truth = kept.truth(epochs)?;
    let asked = ask(&engine, &Moment { queries, truth: &truth, live: &live }, effort)?;
    let stats = engine.stats();
    engine.close().map_err(&refused)?;
    std::fs::remove_dir_all(dir).map_err(RunbookError::io("remove", dir))?;
    Ok(json!({
        "asked": asked, "segments": stats.tree.segments, "leaves": stats.index.leaves,
        "disk-bytes": stats.tree.segment_bytes, "live": stats.index.live,
    }))
}
