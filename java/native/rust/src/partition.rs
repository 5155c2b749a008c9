//! One engine as Java sees it: bytes in, bytes out, one writer, many readers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use vstream_engine::{
    Engine, Moment, PinnedSnapshot, Query, Reader, Row, Scratch, SearchStats, Syncing,
};
use vstream_settings::CollectionSettings;
use vstream_vector::Neighbor;

use crate::buffer::{Effort, Queries, Record, Records, Writer};
use crate::capture::Captured;
use crate::failure::{Failure, Kind, Poison};
use crate::pool::Pool;

/// The rows of one moment, to be written beside the writer.
pub(crate) struct Pinned {
    poison: Poison,
    snapshot: PinnedSnapshot,
}

impl Pinned {
    /// Writes the rows to `directory`, forced to the disk if `synced`.
    pub(crate) fn write(&self, directory: &Path, synced: bool) -> Result<(), Failure> {
        let syncing = if synced { Syncing::Full } else { Syncing::Off };
        self.poison.guard(|| {
            self.snapshot.write(directory, syncing)?;
            Ok(())
        })
    }
}

/// Where an engine keeps the files of its captured states.
pub(crate) struct Home {
    /// Its own directory.
    pub(crate) dir: PathBuf,
    /// First and last shard that it owns.
    pub(crate) shards: (i32, i32),
}

/// One partition's engine.
pub(crate) struct Partition {
    poison: Poison,
    dimension: usize,
    engine: Mutex<Engine>,
    reader: Reader,
    workspaces: Arc<Pool<Workspace>>,
}

/// The rows of one moment, for queries from any thread.
pub(crate) struct Then {
    poison: Poison,
    dimension: usize,
    moment: Moment,
    workspaces: Arc<Pool<Workspace>>,
}

impl Then {
    /// Answers a batch of queries; returns the bytes written to `out`.
    pub(crate) fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| {
            answer(self.dimension, &self.workspaces, bytes, out, &|query, workspace| {
                self.moment.search(query, &mut workspace.scratch, &mut workspace.found)
            })
        })
    }
}

/// What one search needs beside its answer.
#[derive(Default)]
struct Workspace {
    scratch: Scratch,
    found: Vec<Neighbor>,
}

impl Partition {
    /// An empty engine for these settings.
    pub(crate) fn create(settings: &CollectionSettings) -> Result<Partition, Failure> {
        Ok(Partition::of(settings, Engine::create(settings.engine())?))
    }

    /// An engine with the rows of the snapshot in `directory`.
    pub(crate) fn restore(
        settings: &CollectionSettings,
        directory: &Path,
    ) -> Result<Partition, Failure> {
        Ok(Partition::of(settings, Engine::restore(settings.engine(), directory)?))
    }

    /// An engine whose state can be captured, with the rows of its shards out of `states`.
    pub(crate) fn assemble(
        settings: &CollectionSettings,
        home: &Home,
        states: &[PathBuf],
    ) -> Result<Partition, Failure> {
        let shard = |number: i32| {
            u16::try_from(number).map_err(|_| {
                Failure::invalid(format!("Shard {number} is out of range; give 0 to 65535."))
            })
        };
        let shards = shard(home.shards.0)?..=shard(home.shards.1)?;
        let engine = Engine::assemble(settings.engine(), &home.dir, shards, states)?;
        Ok(Partition::of(settings, engine))
    }

    fn of(settings: &CollectionSettings, engine: Engine) -> Partition {
        Partition {
            poison: Poison::default(),
            dimension: settings.dimension,
            reader: engine.reader(),
            engine: Mutex::new(engine),
            workspaces: Arc::default(),
        }
    }

    /// Applies `count` records in order, after the whole batch has been read once and found good.
    pub(crate) fn write(&self, bytes: &[u8], count: i32) -> Result<(), Failure> {
        self.poison.guard(|| {
            let place = |at: usize| format!("record {} of {count}", at + 1);
            let mut engine = self.engine()?;
            for (at, record) in Records::new(bytes, count, self.dimension)?.enumerate() {
                if let Some(vector) = record?.vector {
                    engine.check(vector).map_err(|e| Failure::from(e).at(&place(at)))?;
                }
            }
            for (at, record) in Records::new(bytes, count, self.dimension)?.enumerate() {
                apply(&mut engine, &record?).map_err(|failure| failure.at(&place(at)))?;
            }
            Ok(())
        })
    }

    /// Answers a batch of queries; returns the bytes written to `out`.
    pub(crate) fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| {
            answer(self.dimension, &self.workspaces, bytes, out, &|query, workspace| {
                self.reader.search(query, &mut workspace.scratch, &mut workspace.found)
            })
        })
    }

    /// The rows of now, for queries.
    pub(crate) fn moment(&self) -> Result<Then, Failure> {
        self.poison.guard(|| {
            Ok(Then {
                poison: Poison::default(),
                dimension: self.dimension,
                moment: self.reader.moment(),
                workspaces: self.workspaces.clone(),
            })
        })
    }

    /// The live rows of this moment.
    pub(crate) fn pin(&self) -> Result<Pinned, Failure> {
        self.poison
            .guard(|| Ok(Pinned { poison: Poison::default(), snapshot: self.engine()?.pin() }))
    }

    /// The state of this moment.
    pub(crate) fn capture(&self) -> Result<Captured, Failure> {
        self.poison.guard(|| Ok(Captured::new(self.engine()?.capture()?)))
    }

    /// Counts as one JSON object.
    pub(crate) fn stats_json(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let stats = self.engine()?.stats();
            let recall = stats.recall.map(|estimate| {
                json!({
                    "mean": estimate.recall,
                    "margin": estimate.margin,
                    "audits": estimate.audits,
                })
            });
            Ok(json!({
                "live-rows": stats.index.live,
                "deleted-rows": stats.index.dead,
                "leaves": stats.index.leaves,
                "probes": stats.probes,
                "recall": recall,
                "memory-bytes": stats.index.memory_bytes,
                "segment-bytes": stats.places.segment_bytes,
                "cache-bytes": stats.places.cache_bytes,
                "splits": stats.index.splits,
                "merges": stats.index.merges,
                "rewrites": stats.index.rewrites,
                "moved-rows": stats.index.moved,
            })
            .to_string())
        })
    }

    /// Runs `work` as every call on this engine runs; for the fault injection of the tests.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        self.poison.guard(work)
    }

    /// The writing side. Only a panic poisons the lock, and `Poison` refuses the calls after it;
    /// what is left is the call that waited for the lock while the other one panicked.
    fn engine(&self) -> Result<MutexGuard<'_, Engine>, Failure> {
        self.engine.lock().map_err(|_| {
            Failure::new(Kind::Internal, "Another call on this engine has just met a defect.")
        })
    }
}

fn apply(engine: &mut Engine, record: &Record<'_>) -> Result<(), Failure> {
    let Record { id, version, code, shard, vector } = *record;
    match vector {
        Some(vector) => {
            engine.upsert(&Row { id, version, code, shard, vector })?;
        }
        None => {
            engine.delete(id, version)?;
        }
    }
    Ok(())
}

/// Answers the queries in `bytes` one after the other.
fn answer(
    dimension: usize,
    workspaces: &Pool<Workspace>,
    bytes: &[u8],
    out: &mut [u8],
    search: &dyn Fn(&Query<'_>, &mut Workspace) -> Result<SearchStats, vstream_engine::Error>,
) -> Result<usize, Failure> {
    let queries = Queries::new(bytes, dimension)?;
    let mut writer = Writer::new(out, queries.answer_bytes())?;
    workspaces.with(|workspace| {
        for query in queries.iter() {
            let query = Query { vector: query.vector, k: query.k, effort: effort(query.effort) };
            let stats = search(&query, workspace)?;
            writer.answer(stats.leaves, &workspace.found);
        }
        Ok(writer.written())
    })
}

fn effort(effort: Effort) -> vstream_engine::Effort {
    match effort {
        Effort::Auto => vstream_engine::Effort::Auto,
        Effort::Exact => vstream_engine::Effort::Exact,
        Effort::Probes(probes) => vstream_engine::Effort::probes(probes),
    }
}
