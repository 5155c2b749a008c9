//! What parts of the storage are worth: the same rows and queries with and without each of them.

use std::path::Path;

use vstream_engine::{Ablation, Element, Engine, Journaling, Settings};

use super::streams::{self, Stream};
use super::tiers::{self, AskedRow};
use super::{truth, Asking};
use crate::runbook::Matrix;

/// What is measured.
pub struct AblationRun<'a> {
    /// The rows.
    pub matrix: &'a Matrix,
    /// Queries that streams are drawn from.
    pub queries: &'a Matrix,
    /// Element type of the collection.
    pub element: Element,
    /// Folder for the collections.
    pub dir: &'a Path,
    /// Memory for rows in no segment and for blocks.
    pub memory: u64,
    /// Memory for codes.
    pub code_memory: u64,
    /// Queries that are measured of each stream; as many before fill caches.
    pub count: usize,
    /// Leaves visited, exact distances.
    pub effort: (usize, usize),
    /// Merge the segments before.
    pub merged: bool,
}

/// One line of the table.
pub struct AblationRow {
    /// What was left out.
    pub without: Ablation,
    /// Name of the stream.
    pub stream: &'static str,
    /// Segments.
    pub segments: u64,
    /// Length of their files.
    pub disk_bytes: u64,
    /// Codes in memory, and all.
    pub code_bytes: (u64, u64),
    /// What the queries found and cost.
    pub asked: AskedRow,
}

/// With and without compression, each with and without hot-cold, each with an even and a skewed
/// stream; then everything, but for the threshold stop. `visit` is shown the lines as they come.
///
/// Errors: those of the engine.
pub fn run(of: &AblationRun<'_>, visit: &mut dyn FnMut(&AblationRow)) -> Result<(), String> {
    let streams: Vec<(Stream, Vec<Vec<u64>>)> = [
        streams::uniform(of.queries, 2 * of.count, 1),
        streams::skewed(of.queries, 2 * of.count, 1),
    ]
    .into_iter()
    .map(|stream| {
        let measured: Vec<u32> = (of.count as u32..2 * of.count as u32).collect();
        let truth = truth(of.matrix, &stream.queries.picked(&measured));
        (stream, truth)
    })
    .collect();
    for compression in [false, true] {
        let made = Ablation { compression, ..Ablation::default() };
        let dir = of.dir.join(if compression { "ablation-raw" } else { "ablation" });
        remove(&dir)?;
        fill(of, &dir, made).map_err(|error| error.to_string())?;
        let mut lines = vec![made, Ablation { hot_cold: true, ..made }];
        if !compression {
            lines.push(Ablation { threshold_stop: true, ..made });
        }
        for without in lines {
            for (stream, truth) in &streams {
                visit(&line(of, &dir, without, stream, truth).map_err(|error| error.to_string())?);
            }
        }
        remove(&dir)?;
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), String> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    Ok(())
}

/// Makes the collection in `dir`.
fn fill(of: &AblationRun<'_>, dir: &Path, without: Ablation) -> Result<(), vstream_engine::Error> {
    let limited = Settings {
        ablation: Ablation { page_cache: true, ..without },
        code_memory: Some(of.code_memory),
        recall_guard: false,
        ..tiers::settings(of.matrix.dimension, of.element, Some(of.memory))
    };
    // Without threads rows are flushed and merged at the same points, whatever that takes.
    let kept = Journaling { background: false, ..tiers::journaling() };
    let mut engine = Engine::builder().dir(dir).journaling(kept).create(limited)?;
    tiers::ingest(&mut engine, of.matrix)?;
    engine.checkpoint()?;
    if of.merged {
        engine.compact()?;
    }
    engine.close()
}

/// Opens the collection anew, so that nothing is warm, and asks.
fn line(
    of: &AblationRun<'_>,
    dir: &Path,
    without: Ablation,
    stream: &Stream,
    truth: &[Vec<u64>],
) -> Result<AblationRow, vstream_engine::Error> {
    let engine = Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, kept| {
            settings.ablation = without;
            settings.code_memory = Some(of.code_memory);
            settings.ablation.page_cache = true;
            settings.recall_guard = false;
            // Segments stay as they are.
            kept.background = false;
        })
        .open()?;
    // One effort for all lines, so that they differ by the parts alone.
    let (probes, refine) = of.effort;
    let asking = Asking::Picked(probes, refine);
    let asked = tiers::ask(&engine, &stream.queries, truth, asking)?;
    let tree = engine.stats().tree;
    engine.close()?;
    Ok(AblationRow {
        without,
        stream: stream.name,
        segments: tree.segments,
        disk_bytes: tree.segment_bytes,
        code_bytes: (tree.code_bytes, tree.code_bytes + tree.code_bytes_away),
        asked,
    })
}
