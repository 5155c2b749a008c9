//! Segments change owner as files: a state is divided over more engines, and joined again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vstream_engine::{
    verify, Effort, Element, Engine, ErrorKind, Journaling, LeafCounts, Metric, Row, SegmentIndex,
    Settings,
};
use vstream_vector::SplitMix;

use super::counted::counts;
use super::{journaling, rows, truth, Model};
use crate::ask;

pub(super) const DIMENSION: usize = 64;
const ROWS: u64 = 20_000;
const SHARDS: u64 = 128;

fn settings(metric: Metric, segments: SegmentIndex) -> Settings {
    Settings {
        memory: Some(4 << 20),
        recall_guard: false,
        segments,
        ..Settings::new(DIMENSION, metric, Element::F32)
    }
}

pub(super) fn vector(random: &mut SplitMix) -> Vec<f32> {
    let mut at = SplitMix(random.below(300) as u64);
    (0..DIMENSION).map(|_| 1.5 * at.normal() + random.normal()).collect()
}

pub(super) fn put(engine: &mut Engine, model: &mut Model, id: u64, version: u64, vector: Vec<f32>) {
    let (code, shard) = (id, (id % SHARDS) as u16);
    let row = Row { id, version, code, shard, vector: &vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
    model.insert(id, (version, vector));
}

fn create(dir: &Path, settings: Settings) -> Engine {
    let kept = Journaling { log_bytes_max: 8 << 20, ..journaling(false) };
    Engine::builder().dir(dir).scratch().journaling(kept).create(settings).expect("an engine")
}

/// A copy of the present state, as a checkpoint brings it.
fn copy_of(engine: &mut Engine, dir: PathBuf) -> PathBuf {
    let state = engine.share().expect("a state");
    std::fs::create_dir(&dir).expect("a directory");
    for file in state.files().expect("files") {
        std::fs::copy(&file.path, dir.join(&file.name)).expect("a copy");
    }
    std::fs::write(dir.join("COLLECTION"), state.manifest()).expect("a manifest");
    dir
}

fn of_shards(model: &Model, keep: &dyn Fn(u16) -> bool) -> Model {
    let kept = model.iter().filter(|(id, _)| keep((*id % SHARDS) as u16));
    kept.map(|(id, row)| (*id, row.clone())).collect()
}

/// Compares rows, exact answers and approximate answers with brute force; returns the recall.
pub(super) fn check(engine: &Engine, model: &Model) -> f64 {
    assert_eq!(rows(engine), *model);
    assert_eq!(engine.stats().index.live, model.len() as u64);
    assert_eq!(engine.reader().count(None).expect("rows"), model.len() as u64);
    let (mut random, mut hits) = (SplitMix(77), 0);
    for _ in 0..40 {
        let query = vector(&mut random);
        let expected = truth(model, &query, 10);
        let ids: Vec<u64> = expected.iter().map(|row| row.id).collect();
        let exact = ask(&engine.reader(), &query, 10, Effort::Exact);
        assert_eq!(exact.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
        let effort = Effort::Chosen { probes: 24, refine: Some(300) };
        let near = ask(&engine.reader(), &query, 10, effort);
        assert!(near.iter().all(|row| model.contains_key(&row.id)), "a row that is not there");
        hits += near.iter().filter(|row| ids.contains(&row.id)).count();
    }
    hits as f64 / 400.0
}

fn divided_and_joined(segments: SegmentIndex) {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let settings = settings(Metric::L2, segments);
    let (mut engine, mut model, mut random) =
        (create(&at("one"), settings.clone()), Model::new(), SplitMix(5));
    for id in 0..ROWS {
        put(&mut engine, &mut model, id, 1, vector(&mut random));
        if id % 4 == 3 {
            let gone = random.below(id as usize) as u64;
            engine.delete(gone, 9).expect("a delete");
            model.remove(&gone);
        }
    }
    // Some rows are in the log alone, and some of the segments' rows died in it.
    let before = check(&engine, &model);
    let whole = copy_of(&mut engine, at("whole"));
    let of_source = engine.stats();
    drop(engine);
    let of_whole = match segments {
        SegmentIndex::Clusters => counts(&whole).0,
        SegmentIndex::Graph => LeafCounts::default(),
    };
    let mut parts = Vec::new();
    for part in 0..3u16 {
        let keep = |shard: u16| shard % 3 == part;
        let mut engine = create(&at(&format!("part-{part}")), settings.clone());
        let taken = engine.take_shared(&whole, &keep).expect("rows");
        let mut expected = of_shards(&model, &keep);
        assert_eq!(taken, expected.len() as u64);
        let tree = engine.stats().tree;
        assert_eq!(tree.segments, of_source.tree.segments, "segments are taken, not written");
        assert_eq!(engine.stats().journal.expect("a journal").base_bytes_written, 0);
        if segments == SegmentIndex::Clusters {
            let (counts, _) = counts(&at(&format!("part-{part}")));
            // The memtable may have leaves too.
            assert!(counts.defined > 0 && counts.defined <= engine.stats().index.leaves);
            assert_eq!(counts.left_over, of_whole.left_over, "leaves keep their definers");
            assert_eq!((counts.defined, counts.runs), (of_whole.defined, of_whole.runs));
        }
        let recall = check(&engine, &expected);
        assert!(recall >= before - 0.02, "part {part}: {recall}, {before} before");
        // The new owner goes on: rows change, end and come.
        for id in (0..ROWS).filter(|id| keep((id % SHARDS) as u16)).step_by(7) {
            put(&mut engine, &mut expected, id, 20, vector(&mut random));
            engine.delete(id + 3 * SHARDS, 30).expect("a delete");
            if keep(((id + 3 * SHARDS) % SHARDS) as u16) {
                expected.remove(&(id + 3 * SHARDS));
            }
        }
        engine.commit().expect("a commit");
        let copy = copy_of(&mut engine, at(&format!("copy-{part}")));
        engine.checkpoint().expect("a checkpoint");
        check(&engine, &expected);
        drop(engine);
        let opened = Engine::builder().dir(&at(&format!("part-{part}"))).scratch().open();
        check(&opened.expect("it opens"), &expected);
        let verified = verify(&at(&format!("part-{part}"))).expect("a collection");
        assert_eq!((verified.findings, verified.rows), (vec![], expected.len() as u64));
        parts.push((copy, expected));
    }
    // Back to one, from states whose segments were taken over themselves.
    let mut engine = create(&at("joined"), settings);
    let mut expected = Model::new();
    for (copy, rows) in &parts {
        engine.take_shared(copy, &|_| true).expect("rows");
        expected.extend(rows.clone());
    }
    check(&engine, &expected);
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("merged");
    let recall = check(&engine, &expected);
    assert!(recall >= before - 0.02, "{recall} after merges, {before} before");
    engine.close().expect("closed");
    let verified = verify(&at("joined")).expect("a collection");
    assert_eq!((verified.findings, verified.rows), (vec![], expected.len() as u64));
}

#[test]
fn segments_are_divided_and_joined_without_writing_a_row() {
    divided_and_joined(SegmentIndex::Clusters);
}

#[test]
fn graphs_are_divided_and_joined_too() {
    divided_and_joined(SegmentIndex::Graph);
}

/// Both owners of a range may have its rows while it changes hands: the newest version wins, whatever
/// the order.
#[test]
fn an_id_of_two_states_keeps_its_newest_version() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let settings = settings(Metric::Cosine, SegmentIndex::Clusters);
    let (mut copies, mut models, mut random) = (Vec::new(), Vec::new(), SplitMix(8));
    for part in 0..2u64 {
        let (mut engine, mut model) =
            (create(&at(&format!("part-{part}")), settings.clone()), Model::new());
        for id in 0..6_000u64 {
            // A third of the ids is in both; either may have the newer version.
            if id % 3 == 2 || id % 3 == part {
                let version = 1 + random.below(1_000) as u64;
                put(&mut engine, &mut model, id, version, vector(&mut random));
            }
        }
        models.push(rows(&engine));
        copies.push(copy_of(&mut engine, at(&format!("copy-{part}"))));
    }
    let mut expected: Model = BTreeMap::new();
    for (id, row) in models.iter().flatten() {
        if expected.get(id).is_none_or(|there| there.0 < row.0) {
            expected.insert(*id, row.clone());
        }
    }
    for order in [[0, 1], [1, 0]] {
        let name = format!("joined-{}", order[0]);
        let mut engine = create(&at(&name), settings.clone());
        for part in order {
            engine.take_shared(&copies[part], &|_| true).expect("rows");
        }
        let found = rows(&engine);
        let versions = |model: &Model| -> Vec<(u64, u64)> {
            model.iter().map(|(id, row)| (*id, row.0)).collect()
        };
        assert_eq!(versions(&found), versions(&expected));
        engine.close().expect("closed");
        let verified = verify(&at(&name)).expect("a collection");
        assert_eq!((verified.findings, verified.rows), (vec![], expected.len() as u64));
    }
}

/// A file that is not the one that was taken over is refused, and nothing is left behind.
#[test]
fn a_damaged_segment_is_not_taken() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let settings = settings(Metric::L2, SegmentIndex::Clusters);
    let (mut engine, mut model, mut random) =
        (create(&at("one"), settings.clone()), Model::new(), SplitMix(6));
    for id in 0..6_000 {
        put(&mut engine, &mut model, id, 1, vector(&mut random));
    }
    engine.checkpoint().expect("a checkpoint");
    let whole = copy_of(&mut engine, at("whole"));
    let segments = || {
        let files = std::fs::read_dir(&whole).expect("a directory").map(|file| file.expect("one"));
        let mut paths: Vec<_> = files.map(|file| file.path()).collect();
        paths.retain(|path| path.to_string_lossy().contains("segment"));
        paths.sort();
        paths
    };
    let last = segments().pop().expect("a segment");
    let good = std::fs::read(&last).expect("bytes");
    for at_byte in [good.len() / 3, good.len() - 9] {
        let mut bad = good.clone();
        bad[at_byte] ^= 4;
        std::fs::write(&last, &bad).expect("written");
        let mut other = create(&at(&format!("other-{at_byte}")), settings.clone());
        let error = other.take_shared(&whole, &|_| true).expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(other.stats().index.live, 0, "nothing was taken");
        std::fs::write(&last, &good).expect("written");
        assert_eq!(other.take_shared(&whole, &|_| true), Ok(model.len() as u64));
        check(&other, &model);
    }
}

/// Rows in memory are loaded leaf by leaf from the first state, and inserted from the second.
#[test]
fn an_image_is_divided_and_joined_without_routing_its_rows() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let settings = Settings { memory: None, ..settings(Metric::L2, SegmentIndex::Clusters) };
    let (mut engine, mut model, mut random) =
        (create(&at("one"), settings.clone()), Model::new(), SplitMix(15));
    for id in 0..ROWS {
        put(&mut engine, &mut model, id, 1, vector(&mut random));
    }
    engine.checkpoint().expect("an image");
    // The logs have rows of all shards, new and old, and rows that end.
    for id in (0..ROWS + 500).step_by(9) {
        put(&mut engine, &mut model, id, 2, vector(&mut random));
        engine.delete(id + 4, 3).expect("a delete");
        model.remove(&(id + 4));
    }
    let before = check(&engine, &model);
    let whole = copy_of(&mut engine, at("whole"));
    drop(engine);
    let mut parts = Vec::new();
    for part in 0..2u16 {
        let keep = |shard: u16| shard % 2 == part;
        let name = format!("part-{part}");
        let mut engine = create(&at(&name), settings.clone());
        let taken = engine.take_shared(&whole, &keep).expect("rows");
        let mut expected = of_shards(&model, &keep);
        assert_eq!(taken, expected.len() as u64);
        let logged = engine.stats().journal.expect("a journal").log_bytes_written;
        let raw = taken * DIMENSION as u64 * 4;
        assert!(logged < raw / 4, "{logged} bytes were logged, the rows have {raw}");
        let recall = check(&engine, &expected);
        assert!(recall >= before - 0.02, "part {part}: {recall}, {before} before");
        for id in (0..ROWS).filter(|id| keep((id % SHARDS) as u16)).step_by(5) {
            put(&mut engine, &mut expected, id, 20, vector(&mut random));
        }
        let copy = copy_of(&mut engine, at(&format!("copy-{part}")));
        assert_eq!(verify(&copy).expect("a state").findings, vec![]);
        engine.close().expect("closed");
        let verified = verify(&at(&name)).expect("a collection");
        assert_eq!((verified.findings, verified.rows), (vec![], expected.len() as u64));
        check(&Engine::builder().dir(&at(&name)).scratch().open().expect("it opens"), &expected);
        parts.push((copy, expected));
    }
    let (mut engine, mut expected) = (create(&at("joined"), settings), Model::new());
    for (copy, rows) in &parts {
        engine.take_shared(copy, &|_| true).expect("rows");
        expected.extend(rows.clone());
    }
    let recall = check(&engine, &expected);
    assert!(recall >= before - 0.02, "{recall} when joined, {before} before");
    engine.close().expect("closed");
    check(&Engine::builder().dir(&at("joined")).scratch().open().expect("it opens"), &expected);
}
