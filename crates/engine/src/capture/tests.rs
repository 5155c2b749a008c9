//! Captured states against a map: every one of them, assembled in every way, is the rows of its moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vstream_vector::SplitMix;

use super::{CapturedState, CAPTURED_MANIFEST};
use crate::{Element, Engine, ErrorKind, IndexKind, Metric, Row, Settings};

const SHARDS: u16 = 16;

/// id -> (version, shard, vector)
type Rows = BTreeMap<u64, (u64, u16, Vec<f32>)>;

fn settings(metric: Metric, element: Element) -> Settings {
    Settings { index: IndexKind::Flat, recall_guard: false, ..Settings::new(4, metric, element) }
}

fn l2() -> Settings {
    settings(Metric::L2, Element::F32)
}

/// An engine and what it should hold.
struct Model {
    engine: Engine,
    rows: Rows,
    version: u64,
    random: SplitMix,
}

impl Model {
    fn new(dir: &Path, settings: Settings) -> Model {
        let engine = Engine::create_capturing(settings, dir, 0..=SHARDS - 1).expect("an engine");
        Model { engine, rows: Rows::new(), version: 0, random: SplitMix(5) }
    }

    fn upsert(&mut self, id: u64, shard: u16) {
        self.version += 1;
        let version = self.version;
        let vector: Vec<f32> = (0..4).map(|_| self.random.below(200) as f32 - 99.0).collect();
        let row = Row { id, version, code: id * 7, shard, vector: &vector };
        self.engine.upsert(&row).expect("a good row");
        self.rows.insert(id, (version, shard, vector));
    }

    fn delete(&mut self, id: u64) {
        self.version += 1;
        let dead = self.engine.delete(id, self.version).expect("a delete");
        assert_eq!(dead, self.rows.remove(&id).is_some());
    }

    /// Writes and deletes of `ids` ids, most of which change their shard.
    fn churn(&mut self, writes: usize, ids: u64) {
        for _ in 0..writes {
            let id = self.random.below(ids as usize) as u64;
            match self.random.below(4) {
                0 => self.delete(id),
                _ => {
                    let shard = self.random.below(SHARDS as usize) as u16;
                    self.upsert(id, shard);
                }
            }
        }
    }

    fn capture(&mut self) -> CapturedState {
        self.engine.capture().expect("a capture").write().expect("a state")
    }
}

/// Copies a state as a checkpoint would; returns its folder.
fn upload(state: &CapturedState, to: &Path) -> PathBuf {
    fs::create_dir_all(to).expect("a folder");
    fs::write(to.join(CAPTURED_MANIFEST), &state.manifest).expect("a manifest");
    for file in state.files() {
        let bytes = fs::copy(state.dir().join(&file.name), to.join(&file.name)).expect("a copy");
        assert_eq!(bytes, file.bytes);
    }
    to.to_owned()
}

fn rows_of(engine: &Engine) -> Rows {
    let mut rows = Rows::new();
    let pinned = engine.pin();
    let walked = pinned.for_each_row(&mut |row| {
        let (version, shard, vector) = (row.version, row.shard, row.vector.to_vec());
        assert_eq!(row.code, row.id * 7);
        assert!(rows.insert(row.id, (version, shard, vector)).is_none(), "id {} twice", row.id);
    });
    walked.expect("rows in memory");
    rows
}

fn assemble(dir: &Path, shards: RangeInclusive<u16>, states: &[PathBuf]) -> Engine {
    Engine::assemble(l2(), dir, shards, states).expect("an engine")
}

fn within(rows: &Rows, shards: &RangeInclusive<u16>) -> Rows {
    rows.iter()
        .filter(|(_, row)| shards.contains(&row.1))
        .map(|(&id, row)| (id, row.clone()))
        .collect()
}

fn dirs() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    (dir, path)
}

#[test]
fn every_state_is_the_rows_of_its_moment_however_it_is_split() {
    let (_dir, path) = dirs();
    let mut model = Model::new(&path.join("engine"), l2());
    let mut moments = Vec::new();
    for round in 0..30 {
        model.churn(if round == 0 { 2_000 } else { 60 }, 1_000);
        let state = upload(&model.capture(), &path.join(format!("state-{round}")));
        moments.push((state, model.rows.clone()));
    }
    for (round, (state, rows)) in moments.iter().enumerate() {
        let copy = path.join(format!("copy-{round}"));
        for (part, shards) in [0..=SHARDS - 1, 0..=4, 5..=15, 7..=7].into_iter().enumerate() {
            // An assembled engine takes the files of a single state for its own.
            let _ = fs::remove_dir_all(&copy);
            copy_folder(state, &copy);
            let dir = path.join(format!("assembled-{round}-{part}"));
            let engine = assemble(&dir, shards.clone(), std::slice::from_ref(&copy));
            assert_eq!(rows_of(&engine), within(rows, &shards), "round {round}, {shards:?}");
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn an_engine_goes_on_from_an_assembled_state_through_splits_and_unions() {
    let (_dir, path) = dirs();
    let mut model = Model::new(&path.join("engine"), l2());
    model.churn(1_500, 600);
    let mut states = vec![upload(&model.capture(), &path.join("start"))];
    let mut rows = model.rows.clone();
    let mut version = model.version;
    for (round, parts) in [2u16, 4, 1, 3, 1, 1].into_iter().enumerate() {
        let before = std::mem::take(&mut rows);
        let mut next = Vec::new();
        for part in 0..parts {
            let shards = part * SHARDS / parts..=(part + 1) * SHARDS / parts - 1;
            let copies: Vec<PathBuf> = (states.iter().enumerate())
                .map(|(at, state)| {
                    let copy = path.join(format!("copy-{round}-{part}-{at}"));
                    copy_folder(state, &copy);
                    copy
                })
                .collect();
            let dir = path.join(format!("engine-{round}-{part}"));
            let engine = assemble(&dir, shards.clone(), &copies);
            let own = within(&before, &shards);
            assert_eq!(rows_of(&engine), own, "round {round}, {shards:?}");
            let random = SplitMix(round as u64);
            let mut model = Model { engine, rows: own, version, random };
            model.churn_own(&shards);
            // Two states: the second names files of the first.
            drop(model.capture());
            model.churn_own(&shards);
            next.push(upload(&model.capture(), &path.join(format!("state-{round}-{part}"))));
            rows.extend(model.rows);
            version = version.max(model.version);
        }
        states = next;
    }
}

impl Model {
    /// Moves, deletes and inserts of ids that no other partition has.
    fn churn_own(&mut self, shards: &RangeInclusive<u16>) {
        let (first, count) = (*shards.start(), shards.len());
        let own: Vec<u64> = self.rows.keys().copied().collect();
        for id in own.into_iter().step_by(7) {
            let shard = first + self.random.below(count) as u16;
            self.upsert(id, shard);
            if id % 3 == 0 {
                self.delete(id);
            }
        }
        let new = 1_000_000 * (1 + u64::from(first)) + self.version;
        (new..new + 20).for_each(|id| self.upsert(id, first + (id % count as u64) as u16));
    }
}

#[test]
fn a_row_that_moved_between_partitions_survives_their_union() {
    let (_dir, path) = dirs();
    let parts = [0..=7u16, 8..=15];
    let mut engines = parts.clone().map(|shards| {
        let dir = path.join(format!("engine-{}", shards.start()));
        Engine::create_capturing(l2(), &dir, shards).expect("an engine")
    });
    let row = |version, shard| Row { id: 9, version, code: 63, shard, vector: &[1.0; 4] };
    engines[0].upsert(&row(1, 3)).expect("a row");
    engines[1].upsert(&Row { id: 8, code: 56, ..row(1, 9) }).expect("a row");
    let mut capture = |at: usize, name: &str| {
        let state = engines[at].capture().expect("a capture").write().expect("a state");
        upload(&state, &path.join(name))
    };
    drop([capture(0, "a"), capture(1, "b")]);
    // It moves: the delete has the version of the row's new copy.
    engines[1].upsert(&row(2, 12)).expect("a row");
    engines[0].delete(9, 2).expect("a delete");
    let mut capture = |at: usize, name: &str| {
        let state = engines[at].capture().expect("a capture").write().expect("a state");
        upload(&state, &path.join(name))
    };
    let states = [capture(1, "c"), capture(0, "d")];
    let whole = assemble(&path.join("whole"), 0..=SHARDS - 1, &states);
    let rows = rows_of(&whole);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [8, 9]);
    assert_eq!((rows[&9].0, rows[&9].1), (2, 12));
}

#[test]
fn a_row_may_change_its_shard_and_keep_its_version() {
    let (_dir, path) = dirs();
    for metric in [Metric::L2, Metric::Cosine] {
        let path = path.join(metric.name());
        let settings = settings(metric, Element::F32);
        let mut model = Model::new(&path.join("engine"), settings.clone());
        (0..200).for_each(|id| model.upsert(id, (id % 4) as u16));
        let mut states = vec![upload(&model.capture(), &path.join("first"))];
        let stored: Vec<(u64, u64, Vec<f32>)> = {
            let rows = rows_of(&model.engine);
            rows.into_iter().map(|(id, row)| (id, row.0, row.2)).collect()
        };
        for (id, version, vector) in stored.iter().filter(|row| row.0 % 4 == 1) {
            let row = Row { id: *id, version: *version, code: id * 7, shard: 9, vector };
            model.engine.restore_row(&row).expect("a row as it is stored");
        }
        states.push(upload(&model.capture(), &path.join("second")));
        let shards = |shards: RangeInclusive<u16>, state: &Path| {
            let copy = path.join(format!("copy-{}-{}", shards.start(), shards.end()));
            copy_folder(state, &copy);
            let dir = copy.with_extension("engine");
            let engine = Engine::assemble(settings.clone(), &dir, shards, &[copy]);
            let rows = engine.expect("an engine").shard_rows().expect("rows in memory");
            rows.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(shards(0..=14, &states[0]), [(0, 50), (1, 50), (2, 50), (3, 50)]);
        assert_eq!(shards(0..=15, &states[1]), [(0, 50), (2, 50), (3, 50), (9, 50)]);
        assert_eq!(shards(0..=3, &states[1]), [(0, 50), (2, 50), (3, 50)]);
        assert_eq!(shards(4..=15, &states[1]), [(9, 50)]);
    }
}

#[test]
fn what_is_new_follows_the_change_and_the_size_follows_the_rows() {
    let (_dir, path) = dirs();
    let mut model = Model::new(&path.join("engine"), l2());
    for id in 0..20_000 {
        model.upsert(id, (id % u64::from(SHARDS)) as u16);
    }
    let mut known = BTreeSet::new();
    let mut new_bytes = |state: &CapturedState| -> (u64, u64) {
        let new = state.files().filter(|file| !known.contains(&file.name));
        let sums = (new.map(|file| file.bytes).sum(), state.files().map(|file| file.bytes).sum());
        known = state.files().map(|file| file.name.clone()).collect();
        sums
    };
    let (first, whole) = new_bytes(&model.capture());
    assert_eq!(first, whole);
    let (mut new, mut largest) = (0, 0);
    for _ in 0..100 {
        for _ in 0..200 {
            let id = model.random.below(20_000) as u64;
            model.upsert(id, (id % u64::from(SHARDS)) as u16);
        }
        let (added, size) = new_bytes(&model.capture());
        new += added;
        largest = largest.max(size);
    }
    // One per cent each: a record in the changes is a little longer than a row.
    let part = new as f64 / 100.0 / whole as f64;
    assert!((0.025..0.04).contains(&part), "{part}");
    assert!(largest < whole * 18 / 10, "{largest} of {whole}");
    let (nothing, _) = new_bytes(&model.capture());
    assert_eq!(nothing, 0, "nothing changed");
}

#[test]
fn files_stay_while_a_state_names_them_and_go_when_nothing_does() {
    let (_dir, path) = dirs();
    let dir = path.join("engine");
    let mut model = Model::new(&dir, l2());
    model.churn(500, 300);
    let first = model.capture();
    let mut dropped = Vec::new();
    for _ in 0..80 {
        model.churn(100, 300);
        // A capture that is never written, as that of a checkpoint that was given up.
        dropped.push(model.engine.capture().expect("a capture"));
        model.churn(10, 300);
        drop(model.capture());
    }
    let at_first = upload(&first, &path.join("first"));
    assert!(at_first.join(CAPTURED_MANIFEST).is_file());
    drop((first, dropped));
    let last = model.capture();
    let named: BTreeSet<String> = last.files().map(|file| file.name.clone()).collect();
    let there: BTreeSet<String> = fs::read_dir(&dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    assert_eq!(there, named);
    let state = upload(&last, &path.join("last"));
    let engine = assemble(&path.join("assembled"), 0..=SHARDS - 1, &[state]);
    assert_eq!(rows_of(&engine), model.rows);
}

#[test]
fn captures_may_be_written_in_any_order() {
    let (_dir, path) = dirs();
    let mut model = Model::new(&path.join("engine"), l2());
    model.churn(400, 300);
    let first = model.engine.capture().expect("a capture");
    let rows = model.rows.clone();
    model.churn(400, 300);
    let second = upload(&model.capture(), &path.join("second"));
    let first = upload(&first.write().expect("a state"), &path.join("first"));
    model.churn(40, 300);
    let third = upload(&model.capture(), &path.join("third"));
    let all = 0..=SHARDS - 1;
    assert_eq!(rows_of(&assemble(&path.join("a"), all.clone(), &[first])), rows);
    let expected =
        [second, third].map(|s| rows_of(&assemble(&s.with_extension("e"), all.clone(), &[s])));
    assert_ne!(expected[0], expected[1]);
    assert_eq!(expected[1], model.rows);
}

#[test]
fn every_changed_byte_and_every_missing_file_is_noticed() {
    let (_dir, path) = dirs();
    let mut model = Model::new(&path.join("engine"), settings(Metric::Cosine, Element::I8));
    model.churn(60, 40);
    drop(model.capture());
    model.churn(4, 40);
    let state = upload(&model.capture(), &path.join("state"));
    let settings = model.engine.settings().clone();
    let open = |at: &Path| {
        let dir = path.join("assembled");
        let _ = fs::remove_dir_all(&dir);
        let copy = path.join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_folder(at, &copy);
        Engine::assemble(settings.clone(), &dir, 0..=SHARDS - 1, &[copy])
    };
    let restored = open(&state).expect("an engine");
    assert_eq!(restored.shard_rows().ok(), model.engine.shard_rows().ok());
    for entry in fs::read_dir(&state).expect("a folder") {
        let file = entry.expect("an entry").path();
        let whole = fs::read(&file).expect("bytes");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, &damaged).expect("damage");
            let error = open(&state).err().unwrap_or_else(|| panic!("{} at {at}", file.display()));
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{} at {at}: {error}", file.display());
        }
        fs::remove_file(&file).expect("a removed file");
        assert!(open(&state).is_err(), "{} is missing", file.display());
        fs::write(&file, &whole).expect("as it was");
    }
}

#[test]
fn rows_of_foreign_shards_and_other_settings_are_refused() {
    let (_dir, path) = dirs();
    let mut engine = Engine::create_capturing(l2(), &path.join("a"), 2..=3).expect("an engine");
    let row = Row { id: 1, version: 1, code: 0, shard: 4, vector: &[0.0; 4] };
    let error = engine.upsert(&row).expect_err("a foreign shard");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("shard 4 is not among the engine's, 2 to 3"), "{error}");
    engine.upsert(&Row { shard: 3, ..row }).expect("a row of its own");
    let shared = engine.capture().expect("a capture").write().expect("a state");
    let state = upload(&shared, &path.join("state"));
    let other = settings(Metric::Cosine, Element::F32);
    let error = Engine::assemble(other, &path.join("b"), 2..=3, &[state]).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let mut plain = Engine::create(l2()).expect("an engine");
    assert_eq!(plain.capture().err().expect("refused").kind(), ErrorKind::Invalid);
}
