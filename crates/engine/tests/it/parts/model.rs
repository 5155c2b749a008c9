//! Rows come, move from shard to shard, change and go while parts are written, and every moment opens as
//! it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vstream_engine::{
    verify, Applied, AttributeKind, AttributesBuilder, Element, Engine, Fields, IndexKind, Metric,
    PayloadChange, Row, Schema, Settings, Update, ValueRef,
};
use vstream_vector::SplitMix;

use super::{copied, create, open, parts};

const DIMENSION: usize = 64;
const IDS: usize = 2_500;
const SHARDS: usize = 40;
const WRITES: u64 = 16_000;
/// Writes between two moments that are opened.
const LOOK_EVERY: u64 = 1_600;

/// A row: version, shard, vector and price.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    version: u64,
    shard: u16,
    vector: Vec<f32>,
    price: f64,
}

/// What must be there.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<u64, Held>,
    /// The newest delete of each id without a row.
    deleted: BTreeMap<u64, u64>,
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new([("price", AttributeKind::F64)]).expect("a schema"))
}

fn settings(index: IndexKind, remembers: bool) -> Settings {
    let mut settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    (settings.index, settings.recall_guard) = (index, false);
    settings.schema = schema();
    settings.deletes_remembered = remembers.then_some(Duration::from_secs(3_600));
    settings.cluster.leaf_rows_max = 64;
    settings.cluster.leaf_rows_min = 16;
    settings.image_part_bytes = 24 << 10;
    settings
}

fn priced(price: f64) -> AttributesBuilder {
    let mut builder = AttributesBuilder::default();
    builder.set(&schema(), 0, &ValueRef::F64(price)).expect("a value");
    builder
}

fn rows(engine: &Engine) -> BTreeMap<u64, Held> {
    let mut rows = BTreeMap::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        let price = match row.fields.attributes.iter().next() {
            Some((0, ValueRef::F64(price))) => price,
            other => panic!("row {} has {other:?}", row.id),
        };
        let (version, shard, vector) = (row.version, row.shard, row.vector.to_vec());
        let twice = rows.insert(row.id, Held { version, shard, vector, price });
        assert!(twice.is_none(), "row {} is there twice", row.id);
    });
    walked.expect("rows in memory");
    rows
}

impl Model {
    /// Makes a write to both, and compares what they say.
    fn write(&mut self, engine: &mut Engine, random: &mut SplitMix) {
        let (id, version) = (random.below(IDS) as u64, 1 + random.below(40_000) as u64);
        let there = self.rows.get(&id).map(|row| row.version);
        let is_late = there.is_some_and(|there| there > version);
        match random.below(8) {
            0 | 1 => {
                let died = engine.delete(id, version).expect("a delete");
                assert_eq!(died, there.is_some() && !is_late);
                if !is_late {
                    self.rows.remove(&id);
                    let newest = self.deleted.entry(id).or_default();
                    *newest = version.max(*newest);
                }
            }
            2 | 3 => {
                let price = random.below(1_000) as f64;
                let mut set = priced(price);
                let update = Update { set: set.build(), unset: &[], payload: PayloadChange::Keep };
                let applied = engine.update(id, version, &update).expect("an update");
                let row = self.rows.get_mut(&id).filter(|_| !is_late);
                assert_eq!(applied.is_applied(), row.is_some());
                row.into_iter().for_each(|row| (row.version, row.price) = (version, price));
            }
            _ => {
                // Half of the rows keep their shard.
                let kept = self.rows.get(&id).map(|row| row.shard);
                let drawn = random.below(SHARDS) as u16;
                let shard = kept.filter(|_| version % 2 == 0).unwrap_or(drawn);
                let place = random.below(12) as f32 * 20.0;
                let vector: Vec<f32> =
                    (0..DIMENSION).map(|_| place + random.below(8) as f32).collect();
                let held = Held { version, shard, vector, price: id as f64 };
                let remembers = engine.settings().deletes_remembered.is_some();
                let is_dead = remembers && self.deleted.get(&id).is_some_and(|at| *at > version);
                let applied = upsert(engine, id, &held);
                let is_stale = is_late || (there.is_none() && is_dead);
                assert_eq!(applied == Applied::Stale, is_stale, "id {id}, version {version}");
                if !is_stale {
                    self.rows.insert(id, held);
                    self.deleted.remove(&id);
                }
            }
        }
    }

    /// Errors are panics: an engine has other rows, or has forgotten a delete.
    fn compare(&self, engine: &mut Engine) {
        assert!(rows(engine) == self.rows, "other rows than there were");
        if engine.settings().deletes_remembered.is_none() {
            return;
        }
        assert_eq!(engine.stats().deletes_remembered, self.deleted.len());
        for (&id, &version) in self.deleted.iter().step_by(7) {
            let shard = 0;
            let old =
                Held { version: version - 1, shard, vector: vec![0.0; DIMENSION], price: 0.0 };
            assert_eq!(upsert(engine, id, &old), Applied::Stale, "id {id}");
        }
    }
}

fn upsert(engine: &mut Engine, id: u64, held: &Held) -> Applied {
    let Held { version, shard, vector, price } = held;
    let mut attributes = priced(*price);
    let fields = Fields { attributes: attributes.build(), ..Fields::NONE };
    let row = Row { id, version: *version, code: id, shard: *shard, vector, fields };
    engine.upsert(&row).expect("a good row")
}

fn run(index: IndexKind, remembers: bool, seed: u64) {
    println!("{index:?}, remembers: {remembers}, seed {seed}");
    let dir = tempfile::tempdir().expect("a directory");
    let made = settings(index, remembers);
    let mut engine = create(dir.path(), made.clone());
    let (mut model, mut random) = (Model::default(), SplitMix(seed));
    let mut several = 0;
    for write in 1..=WRITES {
        model.write(&mut engine, &mut random);
        if random.below(50) == 0 {
            engine.commit().expect("a commit");
        }
        if write % LOOK_EVERY > 0 {
            continue;
        }
        engine.commit().expect("a commit");
        several += u64::from(parts(&engine) > 4);
        let copy = copied(dir.path());
        let findings = verify(copy.path()).expect("a collection").findings;
        assert!(findings.iter().all(|finding| !finding.is_damage), "{findings:?}");
        model.compare(&mut open(copy.path(), &made));
        if write % (3 * LOOK_EVERY) == 0 {
            // Goes on with what was recovered.
            engine.detach().expect("closed");
            engine = open(dir.path(), &made);
        }
    }
    assert!(several >= 6, "only {several} moments had more than four parts");
    taken(&mut engine, &model, dir.path(), &made);
}

/// A copy of the state of this moment.
fn shared(engine: &mut Engine) -> tempfile::TempDir {
    let (state, copy) =
        (engine.share().expect("a state"), tempfile::tempdir().expect("a directory"));
    for file in state.files().expect("files") {
        std::fs::copy(&file.path, copy.path().join(&file.name)).expect("copied");
    }
    std::fs::write(copy.path().join("COLLECTION"), state.manifest()).expect("written");
    copy
}

/// Removes the files of an image that serve shards which do not pass; returns how many.
fn remove_shards(dir: &Path, keep: &dyn Fn(u16) -> bool) -> usize {
    let mut removed = 0;
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let shard = name.split_once(".shard-").and_then(|(_, rest)| rest.strip_suffix(".rows"));
        if shard.is_some_and(|shard| !keep(shard.parse().expect("a shard"))) {
            std::fs::remove_file(&path).expect("removed");
            removed += 1;
        }
    }
    removed
}

/// The rows of a state with many parts, taken by three engines. Unless deletes are remembered, each
/// needs the files of its own shards alone.
fn taken(engine: &mut Engine, model: &Model, dir: &Path, made: &Settings) {
    // A state is the files that a crash would leave, if its log is empty.
    engine.commit().expect("a commit");
    let mut all = BTreeMap::new();
    for third in 0..3 {
        let state = copied(dir);
        let target = tempfile::tempdir().expect("a directory");
        let mut ours = create(target.path(), made.clone());
        let scratch = tempfile::tempdir().expect("a directory");
        let builder = Engine::builder().dir(scratch.path()).scratch();
        let mut theirs = builder.create(made.clone()).expect("an engine");
        let keep = |shard: u16| shard % 3 == third;
        if made.deletes_remembered.is_none() {
            assert!(remove_shards(state.path(), &keep) > 0, "no file of another shard");
        }
        let count = ours.take_shared(state.path(), &keep).expect("a state");
        let expected: BTreeMap<u64, Held> = model
            .rows
            .iter()
            .filter(|(_, row)| keep(row.shard))
            .map(|(&id, row)| (id, row.clone()))
            .collect();
        assert_eq!(count, expected.len() as u64);
        assert!(rows(&ours) == expected, "other rows of third {third}");
        ours.close().expect("closed");
        assert!(rows(&open(target.path(), made)) == expected, "other rows when opened again");
        // This one writes its image meanwhile.
        theirs.take_shared(state.path(), &keep).expect("a state");
        let shared = shared(&mut theirs);
        assert!(rows(&open(shared.path(), made)) == expected, "other rows in the next state");
        theirs.close().expect("closed");
        assert!(rows(&open(scratch.path(), made)) == expected, "other rows when closed");
        if made.deletes_remembered.is_some() {
            // One that remembers none needs no other file, whatever the state remembers.
            remove_shards(state.path(), &keep);
            let settings = Settings { deletes_remembered: None, ..made.clone() };
            let mut forgetful = Engine::create(settings).expect("an engine");
            forgetful.take_shared(state.path(), &keep).expect("a state");
            assert!(rows(&forgetful) == expected, "other rows without deletes");
        }
        all.extend(expected);
    }
    assert!(all == model.rows);
}

#[test]
fn every_moment_opens_as_it_was() {
    run(IndexKind::Cluster, false, 1);
    run(IndexKind::Cluster, true, 2);
}

#[test]
fn every_moment_of_a_flat_index_opens_as_it_was() {
    run(IndexKind::Flat, true, 3);
    run(IndexKind::Flat, false, 4);
}
