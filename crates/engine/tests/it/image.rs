//! A collection in memory opens with the leaves that it had, from the base image of its last checkpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use vstream_engine::{
    verify, Durability, Effort, Element, Engine, ErrorKind, Journaling, Metric, Settings,
};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::{ask, row};

const IDS: usize = 24_000;
const QUERIES: usize = 200;
const CLOSE: Effort = Effort::Chosen { probes: 3, refine: Some(60) };

/// Id to version, code, shard and vector.
type Rows = BTreeMap<u64, (u64, u64, u16, Vec<f32>)>;

fn rows(engine: &Engine) -> Rows {
    let mut rows = Rows::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        let value = (row.version, row.code, row.shard, row.vector.to_vec());
        assert!(rows.insert(row.id, value).is_none(), "row {} is there twice", row.id);
    });
    walked.expect("rows in memory");
    rows
}

fn create(dir: &Path, settings: Settings) -> Engine {
    let (durability, log_bytes_max) = (Durability::None, 1 << 30);
    let journaling = Journaling { durability, log_bytes_max, background: false };
    Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine")
}

fn upsert(engine: &mut Engine, id: u64, version: u64, vector: &[f32]) {
    let row = vstream_engine::Row { version, shard: (id % 7) as u16, ..row(id, vector) };
    engine.upsert(&row).expect("a good row");
}

/// Rows that come, are replaced and go.
fn fill(engine: &mut Engine, vectors: &[f32], dimension: usize) {
    let vector = |at: usize| &vectors[at * dimension..][..dimension];
    let mut random = SplitMix(5);
    (0..IDS).for_each(|id| upsert(engine, id as u64, 1, vector(id)));
    for version in 2..6_000 {
        let id = random.below(IDS) as u64;
        match version % 3 {
            0 => engine.delete(id, u64::MAX).map(|_| ()).expect("a delete"),
            _ => upsert(engine, id, version, vector(random.below(IDS))),
        }
    }
}

/// How many of the ten nearest rows are found, over all queries.
fn found(engine: &Engine, queries: &[f32], dimension: usize) -> usize {
    let reader = engine.reader();
    let hits = queries.chunks_exact(dimension).map(|query| {
        let truth = ask(&reader, query, 10, Effort::Exact);
        let last = truth[truth.len() - 1].distance;
        let answer = ask(&reader, query, 10, CLOSE);
        answer.iter().filter(|row| row.distance <= last).count().min(truth.len())
    });
    hits.sum()
}

#[test]
fn an_opened_collection_has_the_rows_and_the_leaves_that_it_had() {
    for (metric, element, dimension) in [
        (Metric::L2, Element::F32, 64),
        (Metric::Cosine, Element::F16, 96),
        (Metric::InnerProduct, Element::F32, 128),
    ] {
        println!("{metric} of {element}, seed 5");
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings::new(dimension, metric, element);
        let settings = Settings { recall_guard: false, ..settings };
        let vectors = clustered(&mut SplitMix(3), IDS + QUERIES, dimension, 500);
        let (vectors, queries) = vectors.split_at(IDS * dimension);
        let mut engine = create(dir.path(), settings);
        fill(&mut engine, vectors, dimension);
        let (expected, before) = (rows(&engine), engine.stats().index);
        let found_before = found(&engine, queries, dimension);
        engine.checkpoint().expect("an image");
        engine.close().expect("closed");
        assert_eq!(verify(dir.path()).expect("a collection").findings, []);

        let mut engine = Engine::open(dir.path()).expect("it opens");
        let after = engine.stats().index;
        assert_eq!((after.splits, after.dead), (0, 0), "{before:?} then {after:?}");
        assert!(after.leaves * 10 >= before.leaves * 9, "{before:?} then {after:?}");
        assert!(rows(&engine) == expected, "other rows");
        let found_after = found(&engine, queries, dimension);
        println!("{found_before} and {found_after} of {}", QUERIES * 10);
        assert!(found_after + QUERIES / 10 >= found_before, "{found_before} then {found_after}");

        // Goes on as any engine, and opens again from image and log.
        fill(&mut engine, vectors, dimension);
        let expected = rows(&engine);
        let splits = engine.stats().index.splits;
        engine.commit().expect("a commit");
        engine.close().expect("closed");
        let engine = Engine::open(dir.path()).expect("it opens");
        assert!(rows(&engine) == expected, "other rows after {splits} splits");
        assert!(found(&engine, queries, dimension) + QUERIES / 10 >= found_before);
    }
}

/// The exact answers of the engine are those of its rows, one by one.
#[test]
fn an_opened_collection_answers_exactly() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(32, Metric::L2, Element::F32);
    let mut engine = create(dir.path(), Settings { recall_guard: false, ..settings });
    let vectors = clustered(&mut SplitMix(3), IDS, 32, 500);
    fill(&mut engine, &vectors, 32);
    engine.checkpoint().expect("an image");
    engine.close().expect("closed");
    let engine = Engine::open(dir.path()).expect("it opens");
    let rows = rows(&engine);
    for query in vectors.chunks_exact(32).step_by(IDS / 20) {
        let distance = |vector: &[f32]| -> f32 {
            vector.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let mut nearest: Vec<(f32, u64)> =
            rows.iter().map(|(&id, (.., vector))| (distance(vector), id)).collect();
        nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
        let answer = ask(&engine.reader(), query, 10, Effort::Exact);
        for (row, (distance, _)) in answer.iter().zip(&nearest) {
            assert!((row.distance - distance).abs() <= 1e-4 * distance.max(1.0));
        }
        assert_eq!(answer.len(), 10);
    }
}

fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(dir).expect("a listing").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.to_string_lossy().contains(part)).collect()
}

#[test]
fn a_damaged_image_is_an_error_wherever_it_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(16, Metric::L2, Element::F32);
    let mut engine = create(dir.path(), Settings { recall_guard: false, ..settings });
    let vectors = clustered(&mut SplitMix(3), 900, 16, 5);
    for (id, vector) in vectors.chunks_exact(16).enumerate() {
        upsert(&mut engine, id as u64, 1, vector);
    }
    engine.checkpoint().expect("an image");
    engine.close().expect("closed");
    let images = files(dir.path(), ".shard-");
    assert_eq!(images.len(), 7);
    for (path, step) in images.iter().zip([331, 997, 997, 997, 997, 997, 997]) {
        let whole = fs::read(path).expect("a file");
        assert_eq!(whole[8..12], 3u32.to_le_bytes(), "the format");
        for at in (0..whole.len()).step_by(step) {
            let mut changed = whole.clone();
            changed[at] ^= 4;
            fs::write(path, &changed).expect("written");
            let error = Engine::open(dir.path()).err().expect("damage");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
        }
        fs::write(path, &whole[..whole.len() - 1]).expect("written");
        assert!(Engine::open(dir.path()).is_err(), "a byte less");
        fs::write(path, &whole).expect("written");
    }
    fs::rename(&images[2], images[2].with_extension("away")).expect("renamed");
    assert!(Engine::open(dir.path()).is_err(), "a file less");
    fs::rename(images[2].with_extension("away"), &images[2]).expect("renamed");
    assert_eq!(Engine::open(dir.path()).expect("whole again").stats().index.live, 900);
}

/// Directories that older versions and this one wrote: an image of some 200 rows, and 30 writes in the log.
#[test]
fn images_of_every_format_open() {
    for (name, format) in [("image-1", 1), ("image-3", 3)] {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let dir = tempfile::tempdir().expect("a directory");
        for path in files(&fixtures, "fixtures") {
            let to = dir.path().join(path.file_name().expect("a name"));
            fs::copy(&path, to).expect("copied");
        }
        let image = fs::read(&files(dir.path(), ".shard-000")[0]).expect("a file");
        assert_eq!(image[8], format, "{name}");
        assert_eq!(verify(dir.path()).expect("a collection").findings, []);
        let engine = Engine::open(dir.path()).expect("it opens");
        assert!(rows(&engine) == rows(&fixture(None)), "{name}");
    }
}

/// The engine whose directory is a fixture.
fn fixture(dir: Option<&Path>) -> Engine {
    let settings = Settings::new(4, Metric::L2, Element::U8);
    let settings = Settings { recall_guard: false, ..settings };
    let mut engine = match dir {
        Some(dir) => create(dir, settings),
        None => Engine::create(settings).expect("an engine"),
    };
    let mut random = SplitMix(8);
    for write in 0..430u64 {
        if write == 400 && dir.is_some() {
            engine.checkpoint().expect("an image");
        }
        let (id, vector) = (random.below(300) as u64, [0; 4].map(|_: u8| random.below(256) as f32));
        let row =
            vstream_engine::Row { version: write, shard: (id % 2) as u16, ..row(id, &vector) };
        match write % 9 {
            8 => engine.delete(id, u64::MAX).map(|_| ()).expect("a delete"),
            _ => engine.upsert(&row).map(|_| ()).expect("a good row"),
        }
    }
    engine.commit().expect("a commit");
    engine
}

#[test]
#[ignore = "writes the fixture of the present format to the folder that IMAGE_FIXTURE names"]
fn write_the_fixture() {
    let dir = std::env::var("IMAGE_FIXTURE").expect("a folder");
    fs::create_dir_all(&dir).expect("a directory");
    fixture(Some(Path::new(&dir))).close().expect("closed");
}
