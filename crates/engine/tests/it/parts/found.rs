//! Damage to an image of several parts is found, and its leaves are those that there were.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vstream_engine::{
    inspect_collection, verify, Effort, Element, Engine, ErrorKind, Metric, Settings,
};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::{copied, create, files, open, parts};
use crate::ask;

fn put(engine: &mut Engine, id: u64, version: u64, shard: u16, vector: &[f32]) {
    let row = vstream_engine::Row {
        id,
        version,
        code: id << 9,
        shard,
        vector,
        fields: Default::default(),
    };
    engine.upsert(&row).expect("a good row");
}

/// An image of several parts, of rows that move between three shards, and logs.
fn several(dir: &Path) -> Settings {
    let settings = small();
    let mut engine = create(dir, settings.clone());
    write(&mut engine);
    assert_eq!(parts(&engine), 3);
    engine.close().expect("closed");
    settings
}

fn small() -> Settings {
    let settings = Settings::new(4, Metric::L2, Element::U8);
    Settings { recall_guard: false, image_part_bytes: 500, ..settings }
}

fn write(engine: &mut Engine) {
    let mut random = SplitMix(8);
    for write in 0..1_500u64 {
        let (id, vector) = (random.below(90) as u64, [0; 4].map(|_: u8| random.below(256) as f32));
        match write % 9 {
            8 => engine.delete(id, u64::MAX).map(|_| ()).expect("a delete"),
            _ => put(engine, id, write, random.below(3) as u16, &vector),
        }
        if write % 5 == 0 {
            engine.commit().expect("a commit");
        }
    }
}

/// Id to version, code, shard and vector.
type Rows = BTreeMap<u64, (u64, u64, u16, Vec<f32>)>;

fn rows(engine: &Engine) -> Rows {
    let mut rows = Rows::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        rows.insert(row.id, (row.version, row.code, row.shard, row.vector.to_vec()));
    });
    walked.expect("rows in memory");
    rows
}

/// A directory that the first version with parts wrote.
#[test]
fn an_image_of_several_parts_opens_for_ever() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/image-parts");
    let copy = copied(&fixture);
    let manifest = fs::read(copy.path().join("COLLECTION")).expect("a manifest");
    assert_eq!(manifest[8], 8, "the format");
    assert_eq!(verify(copy.path()).expect("a collection").findings, vec![]);
    let mut same = Engine::create(small()).expect("an engine");
    write(&mut same);
    assert!(rows(&open(copy.path(), &small())) == rows(&same));
}

#[test]
#[ignore = "writes the fixture of the present format to the folder that PARTS_FIXTURE names"]
fn write_the_fixture() {
    several(Path::new(&std::env::var("PARTS_FIXTURE").expect("a folder")));
}

#[test]
fn damage_to_an_image_of_several_parts_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = several(dir.path());
    let verified = verify(dir.path()).expect("a collection");
    assert_eq!(verified.findings, vec![]);
    let summary = inspect_collection(dir.path()).expect("a collection").expect("a manifest");
    let bytes = |part: &str| -> u64 {
        files(dir.path(), part).iter().map(|path| fs::metadata(path).expect("a file").len()).sum()
    };
    assert_eq!((summary.image_parts, summary.image_bytes), (3, bytes("base-")));
    let live = open(dir.path(), &settings).stats().index.live;
    assert_eq!(live, verified.rows);
    for path in files(dir.path(), "base-") {
        let whole = fs::read(&path).expect("a file");
        for at in (0..whole.len()).step_by(37) {
            let mut changed = whole.clone();
            changed[at] ^= 4;
            fs::write(&path, &changed).expect("written");
            let error = Engine::open(dir.path()).err().expect("damage");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{} byte {at}: {error}", path.display());
            assert!(verify(dir.path()).expect("a collection").findings[0].is_damage);
        }
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        assert!(Engine::open(dir.path()).is_err(), "a byte less");
        fs::write(&path, &whole).expect("written");
    }
    for path in files(dir.path(), "").iter().filter(|path| !path.ends_with("LOCK")) {
        let away = path.with_extension("away");
        fs::rename(path, &away).expect("renamed");
        assert!(Engine::open(dir.path()).is_err(), "without {}", path.display());
        fs::rename(&away, path).expect("renamed");
    }
    assert_eq!(open(dir.path(), &settings).stats().index.live, live);
}

/// Files of shards that a newer part serves are left by a crash before they were removed.
#[test]
fn files_that_no_part_serves_are_swept() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = several(dir.path());
    let copy = copied(dir.path());
    let served = files(dir.path(), ".shard-");
    let manifests = files(dir.path(), ".MANIFEST");
    assert_eq!((served.len(), manifests.len()), (3, 3));
    // The oldest part had all shards, or some that it serves no more.
    let shard = |path: &Path| path.to_string_lossy().rsplit('.').nth(1).map(str::to_owned);
    let oldest = served[0].file_name().expect("a name").to_string_lossy().into_owned();
    let left =
        oldest.replace(&shard(&served[0]).expect("a shard"), &shard(&served[1]).expect("a shard"));
    fs::write(copy.path().join(&left), b"x").expect("a file");
    let findings = verify(copy.path()).expect("a collection").findings;
    assert!(findings.len() == 1 && !findings[0].is_damage, "{findings:?}");
    let live = open(copy.path(), &settings).stats().index.live;
    assert!(live > 0 && !copy.path().join(&left).exists());
    assert_eq!(verify(copy.path()).expect("a collection").findings, vec![]);
}

const DIMENSION: usize = 64;
const IDS: usize = 16_000;
const QUERIES: usize = 150;
const CLOSE: Effort = Effort::Chosen { probes: 3, refine: Some(60) };

/// How many of the ten nearest rows are found, over all queries.
fn found(engine: &Engine, queries: &[f32]) -> usize {
    let reader = engine.reader();
    let hits = queries.chunks_exact(DIMENSION).map(|query| {
        let truth = ask(&reader, query, 10, Effort::Exact);
        let last = truth[truth.len() - 1].distance;
        ask(&reader, query, 10, CLOSE).iter().filter(|row| row.distance <= last).count().min(10)
    });
    hits.sum()
}

#[test]
fn an_engine_that_opens_from_many_parts_finds_as_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let settings = Settings { recall_guard: false, image_part_bytes: 64 << 10, ..settings };
    let mut engine = create(dir.path(), settings.clone());
    let mut random = SplitMix(5);
    let vectors = clustered(&mut random, IDS + QUERIES, DIMENSION, 300);
    let (vectors, queries) = vectors.split_at(IDS * DIMENSION);
    let vector = |at: usize| &vectors[at * DIMENSION..][..DIMENSION];
    for version in 0..40_000 {
        let id = if version < IDS { version } else { random.below(IDS) };
        let at = if version < IDS { id } else { random.below(IDS) };
        put(&mut engine, id as u64, version as u64, (id % 64) as u16, vector(at));
        if version % 100 == 0 {
            engine.commit().expect("a commit");
        }
    }
    assert!(parts(&engine) > 20, "{} parts", parts(&engine));
    let (before, found_before) = (engine.stats().index, found(&engine, queries));
    engine.close().expect("closed");
    let engine = open(dir.path(), &settings);
    let (after, found_after) = (engine.stats().index, found(&engine, queries));
    println!("{found_before} and {found_after} of {}: {before:?} {after:?}", QUERIES * 10);
    assert_eq!(after.live, before.live);
    assert!(after.leaves * 3 <= before.leaves * 4, "{before:?} then {after:?}");
    assert!(found_after + QUERIES / 4 >= found_before, "{found_before} then {found_after}");
}
