//! True neighbours of the held-out queries, found by brute force once and kept on disk.
//!
//! File: `u32` queries, `u32` depth, then per query `depth` pairs of `u32` row and `f32` distance,
//! little-endian. Its name holds the digest of the rows, the queries, the metric and what lives.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vstream_vector::{Metric, Neighbor};

use super::DataSet;
use crate::runbook::{Ground, LiveSet, RunbookError};

/// Threads of the brute force; nothing is timed meanwhile.
const THREADS: usize = 2;
/// Bytes of one pair.
const PAIR: usize = 8;

/// Where truths are kept; without a folder each is found anew.
pub struct GroundCache {
    folder: Option<PathBuf>,
}

impl GroundCache {
    /// A cache in `folder`, which is made with the first truth.
    pub fn new(folder: Option<&Path>) -> GroundCache {
        GroundCache { folder: folder.map(Path::to_path_buf) }
    }

    /// The `depth` nearest live rows of each of `queries`, nearest first.
    ///
    /// Cost: O(queries · live · dimension) the first time. Errors: `Io`.
    pub(super) fn nearest(
        &self,
        data: &DataSet,
        live: &LiveSet,
        queries: &[&[f32]],
        depth: usize,
    ) -> Result<Vec<Vec<Neighbor>>, RunbookError> {
        let path = self.folder.as_ref().map(|folder| {
            let digest = digest(data, live, queries);
            folder.join(format!("{}-{depth}-{digest}.truth", data.name.name()))
        });
        if let Some(found) = path.as_deref().and_then(|path| read(path, queries.len())) {
            return Ok(found);
        }
        let ground = Ground { metric: data.metric, base: &data.base };
        let share = queries.len().div_ceil(THREADS).max(1);
        let found: Vec<Vec<Neighbor>> = std::thread::scope(|scope| {
            let parts = queries.chunks(share).map(|part| {
                let ground = &ground;
                scope.spawn(move || ground.nearest(live, part, depth))
            });
            let threads: Vec<_> = parts.collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        if let Some(path) = path {
            write(&path, depth, &found)?;
        }
        Ok(found)
    }
}

fn digest(data: &DataSet, live: &LiveSet, queries: &[&[f32]]) -> String {
    let mut hash = Sha256::new();
    hash.update(match data.metric {
        Metric::L2 => [0u8],
        Metric::Cosine => [1],
        Metric::InnerProduct => [2],
    });
    let mut bytes = Vec::new();
    let mut add = |values: &[f32]| {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        hash.update(&bytes);
    };
    live.iter().for_each(|(_, row)| add(data.base.row(row)));
    queries.iter().for_each(|query| add(query));
    let tags: Vec<u8> = live.iter().flat_map(|(tag, _)| tag.to_le_bytes()).collect();
    hash.update(tags);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// `None` if there is no such file, or one of another shape.
fn read(path: &Path, queries: usize) -> Option<Vec<Vec<Neighbor>>> {
    let bytes = fs::read(path).ok()?;
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    let depth = word(4)? as usize;
    if word(0)? as usize != queries || bytes.len() != 8 + queries * depth * PAIR {
        return None;
    }
    let neighbor = |pair: &[u8]| Neighbor {
        id: u64::from(u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]])),
        distance: f32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]),
        version: 0,
    };
    let rows = bytes[8..].chunks_exact(depth.max(1) * PAIR);
    Some(rows.map(|row| row.chunks_exact(PAIR).map(neighbor).collect()).collect())
}

fn write(path: &Path, depth: usize, found: &[Vec<Neighbor>]) -> Result<(), RunbookError> {
    // Fewer live rows than neighbours asked for: such a truth is found fast.
    if found.iter().any(|rows| rows.len() != depth) {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(8 + found.len() * depth * PAIR);
    bytes.extend((found.len() as u32).to_le_bytes());
    bytes.extend((depth as u32).to_le_bytes());
    for row in found.iter().flatten() {
        bytes.extend((row.id as u32).to_le_bytes());
        bytes.extend(row.distance.to_le_bytes());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(RunbookError::io("make", folder))?;
    let beside = path.with_extension(format!("{}.partial", std::process::id()));
    fs::write(&beside, bytes).map_err(RunbookError::io("write", &beside))?;
    fs::rename(&beside, path).map_err(RunbookError::io("write", path))
}
