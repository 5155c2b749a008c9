//! One engine behind the border: bytes in, bytes out, one writer, many readers.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use vstream_engine::{
    Applied, Awaiting, Durability, Engine, EngineBuilder, Journaling, PinnedSnapshot, ReadSnapshot,
    Reader, Residence, Row, RowId, Syncing,
};
use vstream_settings::{CollectionSettings, MergedAudits};

use crate::answer::{answer, answer_fields, reach, Workspace};
use crate::buffer::{Op, Record, Records};
use crate::failure::{Failure, Kind, Poison};
use crate::handover::{bucket, read_ranges, write_loads, Adopting, BUCKETS};
use crate::late::{update_of, LateUpdates};
use crate::leaving::Leaving;
use crate::pool::Pool;
use crate::sample::{self, Draw};
use crate::state::{SharedStateHandle, State};
use crate::written::{Outcome, Reason, Written};

/// A read snapshot to be written to files while the writer goes on.
pub(crate) struct Pinned {
    poison: Poison,
    snapshot: PinnedSnapshot,
}

impl Pinned {
    /// Writes the rows to `directory`, and forces them to the disk if `synced`.
    pub(crate) fn write(&self, directory: &Path, synced: bool) -> Result<(), Failure> {
        let syncing = if synced { Syncing::Full } else { Syncing::Off };
        self.poison.guard(|| {
            self.snapshot.write(directory, syncing)?;
            Ok(())
        })
    }

    /// Writes the rows of moved ranges to `directory`; returns their number.
    pub(crate) fn write_moved(&self, directory: &Path, ranges: &[u8]) -> Result<u64, Failure> {
        self.poison.guard(|| {
            let ranges = read_ranges(ranges)?;
            Ok(self.snapshot.write_moved(directory, &ranges, Syncing::Off)?.rows)
        })
    }
}

/// Mean milliseconds of a row on a level before it went to the next one.
fn residence_ms(of: &Residence) -> Option<u64> {
    (of.rows > 0).then(|| of.mean().as_millis() as u64)
}

/// The shards that a partition owns.
pub(crate) struct Shards(pub(crate) RangeInclusive<u16>);

impl Shards {
    /// The shards from `first` to `last`, both included.
    pub(crate) fn new(first: i32, last: i32) -> Result<Shards, Failure> {
        let shard = |number: i32| {
            u16::try_from(number).map_err(|_| {
                Failure::invalid(format!("Shard {number} is out of range; give 0 to 65535."))
            })
        };
        let shards = shard(first)?..=shard(last)?;
        if shards.is_empty() {
            return Err(Failure::invalid("A partition needs at least one shard."));
        }
        Ok(Shards(shards))
    }

    pub(crate) fn check(&self, shard: u16) -> Result<(), Failure> {
        if self.0.contains(&shard) {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "shard {shard} is not among the engine's, {} to {}: send the row to its partition",
            self.0.start(),
            self.0.end()
        )))
    }
}

/// No durability: a partition outlives its process through the checkpoint that has its files.
fn scratch() -> Journaling {
    Journaling { durability: Durability::None, ..Journaling::default() }
}

/// Gives an engine the remote level of its collection, if there is one.
fn with_remote<'a>(
    builder: EngineBuilder<'a>,
    settings: &CollectionSettings,
) -> Result<EngineBuilder<'a>, Failure> {
    Ok(match settings.remote_level()? {
        Some(level) => builder.remote(level),
        None => builder,
    })
}

/// One partition's engine.
pub(crate) struct Partition {
    poison: Poison,
    settings: CollectionSettings,
    dimension: usize,
    /// Shards whose rows it takes; all shards if `None`.
    shards: Option<Shards>,
    writer: Mutex<Writing>,
    reader: Reader,
    workspaces: Arc<Pool<Workspace>>,
}

/// A read snapshot, for queries from any thread.
pub(crate) struct Snapshot {
    poison: Poison,
    dimension: usize,
    rows: ReadSnapshot,
    workspaces: Arc<Pool<Workspace>>,
}

impl Snapshot {
    /// Answers a batch of queries; returns the number of bytes written to `out`.
    pub(crate) fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| {
            answer(self.dimension, &self.workspaces, bytes, out, &|query, workspace| {
                let Workspace { scratch, found } = workspace;
                let first = self.rows.search(query, scratch, found);
                reach(self.rows.reader(), first, &mut |rows| rows.search(query, scratch, found))
            })
        })
    }

    /// Answers a batch of queries that ask what rows carry.
    pub(crate) fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            answer_fields(self.dimension, &self.workspaces, bytes, &|query, with, workspace| {
                let scratch = &mut workspace.scratch;
                let first = self.rows.answer(query, with, scratch);
                reach(self.rows.reader(), first, &mut |rows| rows.answer(query, with, scratch))
            })
        })
    }
}

/// State of the one writer.
struct Writing {
    engine: Engine,
    /// Deletes recorded while rows of another partition are awaited; `None` otherwise.
    awaiting: Option<Awaiting>,
    /// Updates of rows that are awaited and not here yet.
    late: LateUpdates,
    /// Rows that went to another partition and are not dropped yet.
    leaving: Option<Leaving>,
    /// Upserts so far by bucket of the code; the counts wrap.
    writes: Vec<u32>,
}

impl Partition {
    /// Makes an empty engine with these settings.
    pub(crate) fn create(settings: &CollectionSettings) -> Result<Partition, Failure> {
        Ok(Partition::of(settings, Engine::create(settings.engine())?))
    }

    /// Makes an engine with the rows of the snapshot in `directory`.
    pub(crate) fn restore(
        settings: &CollectionSettings,
        directory: &Path,
    ) -> Result<Partition, Failure> {
        Ok(Partition::of(settings, Engine::restore(settings.engine(), directory)?))
    }

    /// Makes an empty engine that keeps the rows of some shards in `dir`, so that its state can be
    /// shared.
    pub(crate) fn create_in(
        settings: &CollectionSettings,
        dir: &Path,
        shards: Shards,
    ) -> Result<Partition, Failure> {
        let builder = with_remote(Engine::builder().dir(dir), settings)?;
        let engine = builder.scratch().journaling(scratch()).create(settings.engine())?;
        Ok(Partition { shards: Some(shards), ..Partition::of(settings, engine) })
    }

    /// Opens the engine of the shared state in `dir`, which has only rows of these shards. It
    /// continues there, with these settings.
    pub(crate) fn open(
        settings: &CollectionSettings,
        dir: &Path,
        shards: Shards,
    ) -> Result<Partition, Failure> {
        let mut differs = None;
        let engine = with_remote(Engine::builder().dir(dir), settings)?
            .scratch()
            .adjust(&mut |found, journaling| {
                let wanted = settings.engine();
                if let Err(refused) = wanted.schema.extends(&found.schema) {
                    differs = Some(refused.message);
                    return;
                }
                (*found, *journaling) = (wanted, scratch());
            })
            .open()?;
        if let Some(why) = differs {
            let what = format!("The rows of the state have other attributes. {why}");
            return Err(Failure::invalid(what));
        }
        Ok(Partition { shards: Some(shards), ..Partition::of(settings, engine) })
    }

    /// Adds the rows of some shards from the shared state in `source`; returns their number.
    pub(crate) fn take(&self, source: &Path, shards: &Shards) -> Result<u64, Failure> {
        self.poison.guard(|| {
            Ok(self.writer()?.engine.take_shared(source, &|shard| shards.0.contains(&shard))?)
        })
    }

    fn of(settings: &CollectionSettings, engine: Engine) -> Partition {
        Partition {
            poison: Poison::default(),
            settings: settings.clone(),
            dimension: settings.dimension,
            shards: None,
            reader: engine.reader(),
            writer: Mutex::new(Writing {
                engine,
                awaiting: None,
                late: LateUpdates::default(),
                leaving: None,
                writes: vec![0; BUCKETS],
            }),
            workspaces: Arc::default(),
        }
    }

    /// Applies `count` records in order. Before the first one, the layout of all and the shards of
    /// upserts are checked: these are the sender's. What the collection refuses of a record has no
    /// effect, and the next records have theirs.
    pub(crate) fn write(&self, bytes: &[u8], count: i32) -> Result<Written, Failure> {
        self.poison.guard(|| {
            let place = |at: usize| format!("record {} of {count}", at + 1);
            let (mut writer, mut upserts) = (self.writer()?, 0);
            for (at, record) in Records::new(bytes, count, self.dimension)?.enumerate() {
                let record = record?;
                let Op::Upsert(_) = record.op else { continue };
                upserts += 1;
                let own = self.shards.as_ref().map_or(Ok(()), |own| own.check(record.shard));
                own.map_err(|failure| failure.at(&place(at)))?;
            }
            let (mut written, mut records) =
                (Written::default(), Records::new(bytes, count, self.dimension)?.enumerate());
            writer.engine.expect_upserts(upserts);
            let done = records.try_for_each(|(at, record)| {
                let outcome = writer.apply(&record?).map_err(|failure| failure.at(&place(at)))?;
                written.add(at, outcome);
                Ok(())
            });
            writer.engine.expect_upserts(0);
            done.map(|()| written)
        })
    }

    /// Answers a batch of queries; returns the number of bytes written to `out`.
    pub(crate) fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| {
            answer(self.dimension, &self.workspaces, bytes, out, &|query, workspace| {
                let Workspace { scratch, found } = workspace;
                let first = self.reader.search(query, scratch, found);
                reach(&self.reader, first, &mut |rows| rows.search(query, scratch, found))
            })
        })
    }

    /// Answers a batch of queries that ask what rows carry.
    pub(crate) fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            answer_fields(self.dimension, &self.workspaces, bytes, &|query, with, workspace| {
                let scratch = &mut workspace.scratch;
                let first = self.reader.answer(query, with, scratch);
                reach(&self.reader, first, &mut |rows| rows.answer(query, with, scratch))
            })
        })
    }

    /// Pins the current rows for queries.
    pub(crate) fn read_snapshot(&self) -> Result<Snapshot, Failure> {
        self.poison.guard(|| {
            Ok(Snapshot {
                poison: Poison::default(),
                dimension: self.dimension,
                rows: self.reader.read_snapshot(),
                workspaces: self.workspaces.clone(),
            })
        })
    }

    /// Pins the current live rows.
    pub(crate) fn pin(&self) -> Result<Pinned, Failure> {
        self.poison.guard(|| {
            Ok(Pinned { poison: Poison::default(), snapshot: self.writer()?.engine.pin() })
        })
    }

    /// Shares the current state for a checkpoint.
    pub(crate) fn share(&self) -> Result<SharedStateHandle, Failure> {
        self.poison
            .guard(|| Ok(SharedStateHandle::new(State::Rows(self.writer()?.engine.share()?))))
    }

    /// Says that no state of the engine before this one will be opened again.
    pub(crate) fn inherit_remote(&self) -> Result<(), Failure> {
        self.poison.guard(|| {
            self.writer()?.engine.inherit_remote();
            Ok(())
        })
    }

    /// The engine's counts as one JSON object.
    pub(crate) fn stats_json(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let (stats, remote) = {
                let engine = &self.writer()?.engine;
                (engine.stats(), engine.remote_stats())
            };
            let remote = remote.map(|remote| {
                json!({
                    "local-bytes": remote.local_bytes,
                    "remote-bytes": remote.remote_bytes,
                    "remote-segments": remote.remote_segments,
                    "read-bytes": remote.counts.far_read_bytes,
                    "failures": remote.counts.far_failures,
                    "failure": remote.failure,
                })
            });
            let recall = stats.recall.map(|estimate| {
                json!({
                    "mean": estimate.recall,
                    "margin": estimate.margin,
                    "audits": estimate.audits,
                    "evidence": estimate.evidence.name(),
                })
            });
            Ok(json!({
                "live-rows": stats.index.live,
                "deleted-rows": stats.index.dead,
                "leaves": stats.index.leaves,
                "probes": stats.probes,
                "recall": recall,
                "remote": remote,
                "memory-bytes": stats.index.memory_bytes,
                "segment-bytes": stats.tree.segment_bytes,
                "cache-bytes": stats.tree.cache_bytes,
                "in-memory-ms": residence_ms(&stats.tree.in_memory),
                "on-disk-ms": residence_ms(&stats.tree.on_disk),
                "splits": stats.index.splits,
                "merges": stats.index.merges,
                "rewrites": stats.index.rewrites,
                "moved-rows": stats.index.moved,
            })
            .to_string())
        })
    }

    /// Sets the recall that automatic searches must reach, from merged audits; returns that recall.
    pub(crate) fn aim(&self, merged: &MergedAudits) -> Result<f64, Failure> {
        self.poison.guard(|| {
            if !merged.is_valid() {
                return Err(Failure::invalid(format!("{merged:?} are not sums over audits.")));
            }
            let inside = self.settings.recall_inside(merged);
            self.writer()?.engine.aim(inside)?;
            Ok(inside)
        })
    }

    /// Rows and writes of every bucket. Cost: O(rows); holds the writer's lock only for a moment.
    pub(crate) fn loads(&self) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            let (pinned, writes) = {
                let writer = self.writer()?;
                (writer.engine.pin(), writer.writes.clone())
            };
            let mut rows = vec![0u32; BUCKETS];
            pinned.for_each_code(&mut |code| {
                let rows = &mut rows[bucket(code)];
                *rows = rows.saturating_add(1);
            })?;
            Ok(write_loads(&rows, &writes))
        })
    }

    /// The live rows that `draw` takes, see [`sample`]. Cost: O(rows + drawn · dimension); holds
    /// the writer's lock only for a moment.
    pub(crate) fn sample(&self, draw: &Draw) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            let pinned = self.writer()?.engine.pin();
            let mut out = Vec::new();
            pinned.for_each_chosen(&|id| draw.takes(id), &mut |row| {
                sample::push(row.id, row.code, row.vector, &mut out);
            })?;
            Ok(out)
        })
    }

    /// If `awaited`, begins to record deletes, because rows of another partition are awaited;
    /// otherwise drops the record.
    pub(crate) fn await_rows(&self, awaited: bool) -> Result<(), Failure> {
        self.poison.guard(|| {
            let mut writer = self.writer()?;
            match awaited {
                true => drop(writer.awaiting.get_or_insert_default()),
                false => {
                    writer.awaiting = None;
                    writer.late.clear();
                }
            }
            Ok(())
        })
    }

    /// Takes in up to `rows_max` sealed rows; returns the number of rows examined.
    pub(crate) fn adopt(&self, adopting: &Adopting, rows_max: i32) -> Result<usize, Failure> {
        let rows_max = usize::try_from(rows_max).unwrap_or(0);
        self.poison.guard(|| {
            let mut writer = self.writer()?;
            let Writing { engine, awaiting, late, .. } = &mut *writer;
            let none = Awaiting::default();
            let rows = adopting.with(|adoption| {
                Ok(adoption.step(engine, awaiting.as_ref().unwrap_or(&none), rows_max)?)
            })?;
            late.apply(engine)?;
            Ok(rows)
        })
    }

    /// Drops up to `rows_max` rows of moved ranges; returns the number left. The first call fixes
    /// the rows; the last one forgets the ranges.
    ///
    /// Cost: the first call visits every row and holds the writer's lock only for a moment. Nobody
    /// puts rows of these ranges here any more, and [`Leaving`] knows the updates that still come.
    /// The other calls cost O(rows_max).
    pub(crate) fn release(&self, ranges: &[u8], rows_max: i32) -> Result<usize, Failure> {
        let rows_max = usize::try_from(rows_max).unwrap_or(0);
        self.poison.guard(|| {
            let ranges = read_ranges(ranges)?;
            let mut writer = self.writer()?;
            if writer.leaving.is_none() {
                writer.leaving = Some(Leaving::default());
                let pinned = writer.engine.pin();
                drop(writer);
                let found = pinned.leaving(&ranges);
                // Frees rows replaced meanwhile, outside the lock, so that no writer waits for it.
                drop(pinned);
                writer = self.writer()?;
                match found {
                    Ok(rows) => writer.leaving.get_or_insert_default().list(rows),
                    Err(error) => {
                        writer.leaving = None;
                        return Err(error.into());
                    }
                }
            }
            let Writing { engine, leaving: slot, .. } = &mut *writer;
            let left = slot.get_or_insert_default().drop_some(engine, rows_max)?;
            if left == 0 {
                *slot = None;
            }
            Ok(left)
        })
    }

    /// Runs `work` in the same way as every call on this engine; for the fault injection of the
    /// tests.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        self.poison.guard(work)
    }

    /// Locks the writing side. Only a panic poisons the lock, and `Poison` refuses the calls after
    /// it. The error here is for a call that waited for the lock while the other call panicked.
    fn writer(&self) -> Result<MutexGuard<'_, Writing>, Failure> {
        self.writer.lock().map_err(|_| {
            Failure::new(Kind::Internal, "Another call on this engine has just met a defect.")
        })
    }
}

impl Writing {
    /// Applies one record, unless the collection refuses it.
    fn apply(&mut self, record: &Record<'_>) -> Result<Outcome, Failure> {
        let Record { id, version, code, shard, .. } = *record;
        match record.op {
            Op::Upsert(vector) => {
                let fields = record.fields.map(|block| block.fields).unwrap_or_default();
                if let Err(error) = self.engine.check(vector) {
                    return Ok(Outcome::Refused(Reason::Refused, error.message().to_owned()));
                }
                let row = Row { id, version, code, shard, vector, fields };
                let applied = self.engine.upsert_checked(&row).map(|_| Outcome::Applied);
                let outcome = Outcome::of_engine(applied)?;
                if outcome == Outcome::Applied {
                    if let Some(leaving) = &mut self.leaving {
                        leaving.put(id);
                    }
                    let writes = &mut self.writes[bucket(code)];
                    *writes = writes.wrapping_add(1);
                }
                Ok(outcome)
            }
            Op::Update => {
                let Some(block) = record.fields else { return Ok(Outcome::Applied) };
                let (unset, id) =
                    (block.unset().collect::<Vec<u16>>(), RowId { id, check: block.fields.check });
                let update = update_of(&block.fields, &unset, block.removes_payload);
                let applied = self.engine.update(id, version, &update);
                if let (Some(leaving), Ok(applied)) = (&mut self.leaving, &applied) {
                    leaving.updated(id.id, version, *applied);
                }
                let missing = matches!(applied, Ok(Applied::Missing));
                if missing && self.awaiting.is_some() {
                    self.late.push(id, version, &update);
                    return Ok(Outcome::Applied);
                }
                let found = |applied| Outcome::found(applied != Applied::Missing);
                Outcome::of_engine(applied.map(found))
            }
            Op::Drop => Err(Failure::invalid("The collection has no groups to drop.")),
            Op::Delete => {
                self.engine.delete(id, version)?;
                if let Some(awaiting) = &mut self.awaiting {
                    awaiting.deleted(id, version);
                }
                Ok(Outcome::Applied)
            }
        }
    }
}

#[cfg(test)]
mod tests;
