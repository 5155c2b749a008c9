//! One partition of isolated groups behind the border.
//!
//! Writes and queries name their group, which lies in one of the partition's shards. Runs are merged
//! on a thread of the partition's own, one merge at a time, while writes go on. Queries read what is
//! there when they run: every write before them, and maybe some that came while they waited.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::json;
use vstream_attribute::{Attributes, AttributesBuilder, Fields, Schema};
use vstream_group::{
    shard_of, Compaction, Error, GroupHit, GroupQuery, GroupReader, GroupStore, OwnedRow,
    PayloadChange, RowId, RowRef, ShardRange, Update, With,
};
use vstream_settings::{CollectionSettings, MergedAudits};
use vstream_store::{FileStore, Syncing};
use vstream_vector::Neighbor;

use crate::answer::FIELDS_BYTES_MAX;
use crate::buffer::{push_answer, push_fields, Op, Queries, Query, Record, Records, Writer};
use crate::failure::{Failure, Kind, Poison};
use crate::filters;
use crate::partition::Shards;
use crate::ranked::Ranked;
use crate::serve::{Moment, Serve};
use crate::state::{SharedStateHandle, State};
use crate::written::{Outcome, Written};

/// Code of a delete or an update whose row may be elsewhere: it follows the row to the place where
/// it was before its group was spread, or it is an update of a slice whose row may be there still.
/// Many ids have no row here, and that is no news.
const MAY_BE_ELSEWHERE: u64 = 1;

/// One partition of groups.
pub(crate) struct Groups {
    poison: Poison,
    shards: Shards,
    writing: Arc<Mutex<Writing>>,
    reads: Reads,
}

/// State of the one writer, which merges share.
struct Writing {
    store: GroupStore,
    merging: Option<JoinHandle<()>>,
    /// Why a merge failed; the next write says it.
    failed: Option<Failure>,
    closed: bool,
}

/// What queries need.
#[derive(Clone)]
struct Reads {
    dimension: usize,
    seed: u64,
    /// Number of shards of the collection.
    shards: u16,
    schema: Arc<Schema>,
    reader: GroupReader,
}

impl Groups {
    /// Makes an empty partition of some shards in a directory.
    pub(crate) fn create_in(
        settings: &CollectionSettings,
        dir: &Path,
        shards: Shards,
    ) -> Result<Groups, Failure> {
        let store = FileStore::create_dir(dir, Syncing::Off).map_err(Error::from)?;
        Ok(Groups::of(settings, GroupStore::open(store, settings.group_store())?, shards))
    }

    /// Continues in the directory of a shared state, whose shards are these.
    pub(crate) fn open(
        settings: &CollectionSettings,
        dir: &Path,
        shards: Shards,
    ) -> Result<Groups, Failure> {
        let store = GroupStore::open_shared(dir, settings.group_store())?;
        Ok(Groups::of(settings, store, shards))
    }

    fn of(settings: &CollectionSettings, store: GroupStore, shards: Shards) -> Groups {
        let reads = Reads {
            dimension: settings.dimension,
            seed: settings.seed,
            shards: settings.shards,
            schema: Arc::new(settings.schema.clone()),
            reader: store.reader(),
        };
        let writing = Writing { store, merging: None, failed: None, closed: false };
        Groups { poison: Poison::default(), shards, writing: Arc::new(Mutex::new(writing)), reads }
    }

    fn apply(&self, store: &mut GroupStore, record: &Record<'_>) -> Result<Outcome, Failure> {
        let block = record.fields.filter(|block| !block.group.is_empty());
        let block = block.ok_or_else(|| Failure::invalid("A record names no group."))?;
        let (group, id, version) = (block.group, record.id, record.version);
        self.shards.check(shard_of(group, self.reads.seed, self.reads.shards)?)?;
        let may_be_elsewhere = record.code == MAY_BE_ELSEWHERE;
        // 0 where ids are numbers.
        let row = RowId { id, check: block.fields.check };
        Outcome::of_group(match record.op {
            Op::Upsert(vector) => {
                let row = RowRef { id, version, vector, fields: block.fields };
                store.upsert(group, &row).map(|_| Outcome::Applied)
            }
            Op::Delete if may_be_elsewhere => {
                store.delete_existing(group, row, version).map(|_| Outcome::Applied)
            }
            Op::Delete => store.delete(group, row, version).map(|_| Outcome::Applied),
            Op::Update => {
                let unset: Vec<u16> = block.unset().collect();
                let payload = match block.fields.payload {
                    Some(payload) => PayloadChange::Set(payload),
                    None if block.removes_payload => PayloadChange::Remove,
                    None => PayloadChange::Keep,
                };
                let update = Update { set: block.fields.attributes, unset: &unset, payload };
                let applied = store.update(group, row, version, &update);
                applied.map(|applied| Outcome::found(applied.is_applied() || may_be_elsewhere))
            }
            Op::Drop => store.drop_group(group).map(|()| Outcome::Applied),
        })
    }

    /// Begins a merge if there is one to do and none is under way.
    fn merge(&self, writing: &mut Writing) {
        let Some(compaction) = writing.store.begin_compaction() else { return };
        if let Some(ended) = writing.merging.take() {
            // It has let go of its merge, or there would be no other one: it ends at once.
            let _ = ended.join();
        }
        let shared = self.writing.clone();
        writing.merging = Some(std::thread::spawn(move || merge_all(&shared, compaction)));
    }

    /// Locks the writing side. A panic in a call poisons the handle, one in a merge is a failure.
    fn lock(&self) -> Result<MutexGuard<'_, Writing>, Failure> {
        let mut writing = lock(&self.writing);
        match writing.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(writing),
        }
    }
}

fn lock(writing: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    writing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Merges runs until there is nothing to merge.
fn merge_all(writing: &Mutex<Writing>, first: Compaction) {
    vstream_engine::yield_to_others();
    let mut next = Some(first);
    while let Some(compaction) = next.take() {
        let done = catch_unwind(AssertUnwindSafe(|| compaction.run()));
        let mut writing = lock(writing);
        if writing.closed {
            return;
        }
        let merged = match done {
            Ok(Ok(compacted)) => writing.store.finish_compaction(compacted),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let what = "A merge of groups met a defect. Please report it with the log.";
                writing.failed = Some(Failure::new(Kind::Internal, what));
                return;
            }
        };
        match merged {
            Ok(()) => next = writing.store.begin_compaction(),
            Err(error) => writing.failed = Some(error.into()),
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let merging = {
            let mut writing = lock(&self.writing);
            writing.closed = true;
            writing.store.give_up_compaction();
            writing.merging.take()
        };
        if let Some(merging) = merging {
            // The directory goes next: nothing may be written there any more.
            let _ = merging.join();
        }
    }
}

impl Serve for Groups {
    fn write(&self, bytes: &[u8], count: i32) -> Result<Written, Failure> {
        self.poison.guard(|| {
            let mut writing = self.lock()?;
            let mut written = Written::default();
            for (at, record) in Records::new(bytes, count, self.reads.dimension)?.enumerate() {
                let place = |failure: Failure| failure.at(&format!("record {} of {count}", at + 1));
                written.add(at, self.apply(&mut writing.store, &record?).map_err(place)?);
            }
            self.merge(&mut writing);
            Ok(written)
        })
    }

    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| self.reads.search(bytes, out))
    }

    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| self.reads.search_fields(bytes))
    }

    fn moment(&self) -> Result<Box<dyn Moment>, Failure> {
        self.poison.guard(|| {
            let boxed: Box<dyn Moment> = Box::new(self.reads.clone());
            Ok(boxed)
        })
    }

    fn share(&self) -> Result<SharedStateHandle, Failure> {
        self.poison.guard(|| {
            let mut writing = self.lock()?;
            let shared = writing.store.share()?;
            // The flush has made a run.
            self.merge(&mut writing);
            Ok(SharedStateHandle::new(State::Groups(shared)))
        })
    }

    fn take(&self, source: &Path, shards: &Shards) -> Result<u64, Failure> {
        self.poison.guard(|| {
            let range = ShardRange::new(shards.0.clone(), self.reads.shards)?;
            Ok(self.lock()?.store.adopt(source, range)? as u64)
        })
    }

    fn stats_json(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let stats = self.lock()?.store.stats();
            Ok(json!({
                "live-rows": stats.rows + stats.memtable_rows,
                "deleted-rows": stats.tombstones,
                "leaves": stats.runs,
                "probes": 0,
                "recall": null,
                "memory-bytes": stats.run_memory + stats.memtable_bytes + stats.cache_bytes,
                "segment-bytes": stats.run_bytes,
                "cache-bytes": stats.cache_bytes,
                "splits": 0,
                "merges": 0,
                "rewrites": 0,
                "moved-rows": 0,
            })
            .to_string())
        })
    }

    fn aim(&self, _merged: &MergedAudits) -> Result<f64, Failure> {
        // Every answer is exact.
        Ok(1.0)
    }

    fn guard(&self, work: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        self.poison.guard(work)
    }
}

impl Moment for Reads {
    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        let queries = Queries::new(bytes, self.dimension)?;
        if queries.wants_fields() {
            return Err(Failure::invalid("A query asks what rows carry; call searchFields."));
        }
        let mut writer = Writer::new(out, queries.answer_bytes())?;
        for query in queries.iter() {
            let Found { neighbors, order, read, .. } = self.find(&query, With::NOTHING)?;
            writer.answer(read, &neighbors, &order);
        }
        Ok(writer.written())
    }

    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let queries = Queries::new(bytes, self.dimension)?;
        let mut out = Vec::new();
        let mut fields = Vec::new();
        for query in queries.iter() {
            fields.clear();
            if !query.asked.wants_fields() {
                let Found { neighbors, order, read, .. } = self.find(&query, With::NOTHING)?;
                push_answer(&mut out, read, &neighbors, &order, &fields);
                continue;
            }
            let with = With { vector: false, payload: query.asked.payload, attributes: true };
            let Found { neighbors, order, rows, read } = self.find(&query, with)?;
            let columns: Vec<u16> = query.asked.columns().collect();
            for row in &rows {
                self.push_row(&mut fields, row, &columns)?;
            }
            push_answer(&mut out, read, &neighbors, &order, &fields);
        }
        Ok(out)
    }
}

/// The answer of a group.
struct Found {
    neighbors: Vec<Neighbor>,
    /// What they ascend by, if that is not the distance: the score with the other sign. Distances
    /// have 32 bits, in which many times and prices are the same.
    order: Vec<f64>,
    /// What each of them carries.
    rows: Vec<OwnedRow>,
    /// Rows of the group in runs and in memory, hidden ones included.
    read: usize,
}

impl Reads {
    /// The nearest rows of the group that the query names, and what they carry.
    fn find(&self, query: &Query<'_>, with: With) -> Result<Found, Failure> {
        let asked = &query.asked;
        if asked.group.is_empty() {
            return Err(Failure::invalid("A query names no group."));
        }
        let filter = asked.filter.map(filters::read).transpose()?;
        let group_query = GroupQuery {
            filter: filter.as_ref(),
            radius: asked.radius,
            with,
            ..GroupQuery::nearest(query.vector, query.k)
        };
        let found = match asked.ranked {
            None => self.reader.search(asked.group, &group_query)?,
            Some(json) => {
                let ranked = Ranked::read(&self.schema, json)?;
                ranked.with(group_query, |query| self.reader.search(asked.group, query))?
            }
        };
        // In an answer less is nearer; more of a score is better.
        let order = found.rows.iter().filter_map(|hit| hit.score).map(|score| -score).collect();
        let pair = |hit: GroupHit| {
            let distance = match hit.score {
                Some(score) => -score as f32,
                None => hit.distance.expect("the query has a vector"),
            };
            (Neighbor { distance, id: hit.row.id, version: hit.row.version }, hit.row)
        };
        let read = usize::try_from(found.stats.rows).unwrap_or(usize::MAX);
        let (neighbors, rows) = found.rows.into_iter().map(pair).unzip();
        Ok(Found { neighbors, order, rows, read })
    }

    /// Appends what a row of an answer carries of what was asked for.
    fn push_row(&self, out: &mut Vec<u8>, row: &OwnedRow, columns: &[u16]) -> Result<(), Failure> {
        let mut asked = AttributesBuilder::default();
        for &column in columns {
            if let Some(value) = row.attributes().get(column) {
                asked.set(&self.schema, column, &value).map_err(Error::from)?;
            }
        }
        let (attributes, payload) = (asked.build(), row.payload.as_deref());
        let bytes = attributes.bytes().len() + payload.map_or(0, <[u8]>::len);
        let named = Fields { name: &row.name, check: row.check, ..Fields::NONE };
        if out.len() + bytes <= FIELDS_BYTES_MAX {
            push_fields(out, &Fields { attributes, payload, ..named }, false);
        } else {
            push_fields(out, &Fields { attributes: Attributes::NONE, ..named }, true);
        }
        Ok(())
    }
}
