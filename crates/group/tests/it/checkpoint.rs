//! Stores that share their state, continue with it, and take some shards of it.

use std::fs;
use std::path::{Path, PathBuf};

use vstream_attribute::{Attributes, Fields};
use vstream_group::{
    shard_of, GroupQuery, GroupSettings, GroupStore, RowRef, ShardRange, SharedGroups, With, SHARDS,
};
use vstream_store::{FileStore, Syncing};
use vstream_vector::{Element, Metric};

use crate::model::{neighbors, schema, Draw, Model};

const SEED: u64 = 42;
const GROUPS: usize = 300;

fn settings() -> GroupSettings {
    let mut settings = GroupSettings::new(64, Metric::Cosine, Element::Bf16);
    settings.schema = schema();
    settings.seed = Some(SEED);
    settings.memory = 200 << 10;
    settings.coded_rows = 32;
    settings
}

/// The settings of stores of so many shards.
fn settings_of(shards: u16) -> GroupSettings {
    GroupSettings { shards, ..settings() }
}

/// Which of so many partitions of a job a store is.
#[derive(Clone, Copy)]
struct Place {
    at: u16,
    partitions: u16,
}

impl Place {
    /// The shards of this partition, of so many in all.
    fn range(self, shards: u16) -> ShardRange {
        let start = |at: u16| {
            (u32::from(at) * u32::from(shards)).div_ceil(u32::from(self.partitions)) as u16
        };
        ShardRange::new(start(self.at)..=start(self.at + 1) - 1, shards).unwrap()
    }
}

fn all() -> ShardRange {
    ShardRange::all(SHARDS).unwrap()
}

/// Partitions beside their oracle, as a job has them.
struct Job {
    folder: PathBuf,
    shards: u16,
    made: usize,
    partitions: Vec<GroupStore>,
    model: Model,
    draw: Draw,
    version: u64,
}

impl Job {
    fn new(folder: &Path, partitions: usize) -> Job {
        Job::with_shards(folder, partitions, SHARDS)
    }

    fn with_shards(folder: &Path, partitions: usize, shards: u16) -> Job {
        let mut job = Job {
            folder: folder.to_owned(),
            shards,
            made: 0,
            partitions: Vec::new(),
            model: Model::default(),
            draw: Draw::new(&settings(), SEED),
            version: 0,
        };
        for _ in 0..partitions {
            let dir = job.new_dir();
            job.partitions.push(empty(&dir, shards));
        }
        job
    }

    fn range(&self, at: u16, partitions: u16) -> ShardRange {
        Place { at, partitions }.range(self.shards)
    }

    fn new_dir(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.join(format!("dir-{}", self.made))
    }

    fn partition(&mut self, group: &str) -> &mut GroupStore {
        let shard = shard_of(group, SEED, self.shards).unwrap();
        let count = self.partitions.len() as u16;
        let at = (0..count).find(|&at| self.range(at, count).contains(shard)).unwrap();
        &mut self.partitions[usize::from(at)]
    }

    fn write(&mut self, writes: usize) {
        for _ in 0..writes {
            let group = format!("user-{}", self.draw.random.below(GROUPS));
            let id = self.draw.random.below(40) as u64;
            self.version += 1;
            let version = self.version;
            match self.draw.random.below(100) {
                0 => {
                    self.partition(&group).drop_group(&group).unwrap();
                    self.model.drop_group(&group);
                }
                1..15 => {
                    self.partition(&group).delete(&group, id, version).unwrap();
                    self.model.put(&group, id, version, None);
                }
                _ => {
                    let (vector, row) = self.draw.row();
                    let fields = Fields {
                        attributes: Attributes::decode(&row.attributes).unwrap(),
                        payload: row.payload.as_deref(),
                        ..Fields::NONE
                    };
                    let write = RowRef { id, version, vector: &vector, fields };
                    self.partition(&group).upsert(&group, &write).unwrap();
                    self.model.put(&group, id, version, Some(row));
                }
            }
            self.partition(&group).compact().unwrap();
        }
    }

    /// Copies the state of every partition, as a checkpoint does. Writes go on between.
    fn checkpoint(&mut self) -> Vec<(ShardRange, PathBuf)> {
        let count = self.partitions.len() as u16;
        let shared: Vec<SharedGroups> =
            self.partitions.iter_mut().map(|store| store.share().unwrap()).collect();
        let model = self.model.clone();
        self.write(1_000);
        self.partitions.iter_mut().for_each(|store| store.compact_all().unwrap());
        self.model = model;
        let states = shared.iter().enumerate().map(|(at, state)| {
            self.made += 1;
            let dir = self.folder.join(format!("dir-{}", self.made));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("COLLECTION"), state.manifest()).unwrap();
            for file in state.files() {
                let copied = fs::copy(&file.path, dir.join(&file.name)).unwrap();
                assert_eq!(copied, file.bytes, "{}", file.name);
            }
            (Place { at: at as u16, partitions: count }.range(self.shards), dir)
        });
        states.collect()
    }

    /// Begins again with the states of a checkpoint, at another number of partitions.
    fn restore(&mut self, states: &[(ShardRange, PathBuf)], partitions: u16) {
        self.partitions.clear();
        for at in 0..partitions {
            let own = self.range(at, partitions);
            let whole = states.iter().find(|(range, _)| *range == own);
            let store = match whole {
                Some((_, dir)) => GroupStore::open_shared(dir, settings_of(self.shards)).unwrap(),
                None => {
                    let dir = self.new_dir();
                    let mut store = empty(&dir, self.shards);
                    for (_, state) in states {
                        store.adopt(state, own).unwrap();
                    }
                    store
                }
            };
            self.partitions.push(store);
        }
    }

    fn check(&mut self) {
        for user in 0..GROUPS {
            let group = format!("user-{user}");
            let query = self.draw.vector();
            let wanted = self.model.search(&group, &settings(), &query, 5, None);
            let rows: Vec<(u64, u64)> =
                self.model.rows(&group).map(|(id, version, _)| (id, version)).collect();
            let count = self.partitions.len() as u16;
            let shard = shard_of(&group, SEED, self.shards).unwrap();
            for (at, store) in self.partitions.iter().enumerate() {
                let reader = store.reader();
                let asked = GroupQuery::nearest(&query, 5);
                let found = reader.search(&group, &asked).unwrap();
                let scrolled = reader.scroll(&group, None, None, 100, With::default()).unwrap();
                let scrolled: Vec<(u64, u64)> =
                    scrolled.iter().map(|row| (row.id, row.version)).collect();
                if self.range(at as u16, count).contains(shard) {
                    let ids = |neighbors: &[vstream_vector::Neighbor]| {
                        neighbors.iter().map(|n| (n.id, n.version)).collect::<Vec<_>>()
                    };
                    assert_eq!(ids(&neighbors(&found)), ids(&wanted), "{group}");
                    assert_eq!(scrolled, rows, "{group}");
                } else {
                    // Its rows may lie in a file here and belong to another partition.
                    assert!(found.rows.is_empty() && scrolled.is_empty(), "{group}");
                    assert_eq!(reader.count(&group, None).unwrap(), 0, "{group}");
                }
            }
        }
    }
}

fn empty(dir: &Path, shards: u16) -> GroupStore {
    let store = FileStore::create_dir(dir, Syncing::Off).unwrap();
    GroupStore::open(store, settings_of(shards)).unwrap()
}

#[test]
fn a_job_continues_at_any_number_of_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::new(folder.path(), 2);
    job.write(4_000);
    job.check();
    for partitions in [2, 3, 3, 1, 5, 2] {
        let states = job.checkpoint();
        job.restore(&states, partitions);
        job.check();
        job.write(1_500);
        job.check();
        job.partitions.iter_mut().for_each(|store| {
            store.compact_all().unwrap();
        });
        job.check();
    }
}

#[test]
fn a_job_of_more_shards_continues_at_any_number_of_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::with_shards(folder.path(), 3, 1024);
    job.write(1_500);
    for partitions in [3, 7, 150, 2] {
        let states = job.checkpoint();
        job.restore(&states, partitions);
        job.check();
    }
}

#[test]
fn a_state_of_another_number_of_shards_is_refused_with_both() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::with_shards(folder.path(), 1, 1024);
    job.write(200);
    let state = job.checkpoint().remove(0).1;
    let says_both = |error: vstream_group::Error| {
        let text = error.to_string();
        assert!(text.contains("1024 shards") && text.contains("128"), "{text}");
    };
    says_both(GroupStore::open_shared(&state, settings()).err().unwrap());
    let mut store = empty(&folder.path().join("usual"), SHARDS);
    says_both(store.adopt(&state, all()).unwrap_err());
    let mut store = empty(&folder.path().join("same"), 1024);
    let others = store.adopt(&state, all()).unwrap_err();
    assert!(others.to_string().contains("some of 128 and the store has 1024"), "{others}");
    assert!(store.adopt(&state, ShardRange::all(1024).unwrap()).unwrap() > 0);
}

#[test]
fn runs_of_a_state_stay_until_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::new(folder.path(), 1);
    job.write(1_000);
    let state = job.partitions[0].share().unwrap();
    let files = state.files();
    assert!(!files.is_empty());
    job.write(1_000);
    job.partitions[0].compact_all().unwrap();
    assert!(files.iter().all(|file| Path::new(&file.path).exists()));
    drop(state);
    assert!(!files.iter().any(|file| Path::new(&file.path).exists()));
    job.check();
}

/// Two attempts of a job continue with the same files and write others of the same names.
#[test]
fn keys_tell_the_runs_of_two_attempts_apart() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::new(folder.path(), 1);
    job.write(500);
    let states = job.checkpoint();
    let mut keys = Vec::new();
    for seed in [1, 2] {
        let dir = folder.path().join(format!("attempt-{seed}"));
        fs::create_dir(&dir).unwrap();
        for file in fs::read_dir(&states[0].1).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), dir.join(file.file_name())).unwrap();
        }
        job.partitions = vec![GroupStore::open_shared(&dir, settings()).unwrap()];
        job.write(100);
        let files = job.partitions[0].share().unwrap().files();
        keys.push(files.into_iter().map(|file| file.key).collect::<Vec<_>>());
    }
    let both = keys[0].iter().filter(|key| keys[1].contains(key)).count();
    assert!(both < keys[0].len() && both < keys[1].len(), "{keys:?}");
}

#[test]
fn what_is_no_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = empty(&folder.path().join("a"), SHARDS);
    let nothing = folder.path().join("b");
    fs::create_dir(&nothing).unwrap();
    assert!(store.adopt(&nothing, all()).is_err());
    assert!(GroupStore::open_shared(&nothing, settings()).is_err());
    let state = store.share().unwrap();
    let mut bytes = state.manifest().to_vec();
    fs::write(nothing.join("COLLECTION"), &bytes).unwrap();
    let other = GroupSettings { dimension: 65, ..settings() };
    assert!(GroupStore::open_shared(&nothing, other).is_err());
    let seeded = GroupSettings { seed: Some(SEED + 1), ..settings() };
    assert!(GroupStore::open_shared(&nothing, seeded).is_err());
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(nothing.join("COLLECTION"), &bytes).unwrap();
    let damaged = store.adopt(&nothing, all()).unwrap_err();
    assert!(damaged.is_corrupt(), "{damaged}");
}
