//! Random writes, flushes, compactions and restarts against a map and brute force.

use std::time::Duration;

use vstream_engine::ErrorKind::Unavailable;
use vstream_engine::{
    verify, Applied, Effort, Element, Engine, IndexKind, Metric, Row, SegmentIndex, Settings,
};
use vstream_vector::SplitMix;

use super::{journaling, rows, tiny, truth, vector_of, Model};
use crate::ask;

/// Writes of a run.
const WRITES: u64 = 60_000;
const IDS: usize = 6_000;

struct Run {
    dir: tempfile::TempDir,
    engine: Engine,
    model: Model,
    random: SplitMix,
    background: bool,
    /// Of the codes of segments.
    code_memory: Option<u64>,
}

impl Run {
    fn write(&mut self, step: u64) {
        // Mostly anywhere, now and then the same few ids again and again.
        let few = if self.random.below(5) == 0 { 50 } else { IDS };
        let id = self.random.below(few) as u64;
        // Now and then an old version comes late and must change nothing.
        let version = if self.random.below(40) == 0 { step / 2 } else { step };
        let before = self.model.get(&id).map(|(version, _)| *version);
        let is_late = before.is_some_and(|before| before > version);
        if self.random.below(4) == 0 {
            let died = self.engine.delete(id, version).expect("a delete");
            assert_eq!(died, before.is_some() && !is_late, "delete of {id} at {step}");
            if died {
                self.model.remove(&id);
            }
            return;
        }
        let vector = vector_of(self.random.next());
        let row = Row {
            id,
            version,
            code: id,
            shard: (id % 128) as u16,
            vector: &vector,
            fields: Default::default(),
        };
        let mut applied = self.engine.upsert(&row);
        // Threads that get no time to flush are told of by an error that changes nothing.
        while self.background && applied.as_ref().is_err_and(|e| e.kind() == Unavailable) {
            std::thread::sleep(Duration::from_millis(5));
            applied = self.engine.upsert(&row);
        }
        let applied = applied.expect("a good row");
        let expected = match before {
            None => Applied::Inserted,
            Some(_) if is_late => Applied::Stale,
            Some(_) => Applied::Replaced,
        };
        assert_eq!(applied, expected, "upsert of {id} at {step}");
        if !is_late {
            self.model.insert(id, (version, vector));
        }
    }

    fn check(&mut self) {
        let query = vector_of(self.random.next());
        let expected = truth(&self.model, &query, 10);
        let reader = self.engine.reader();
        assert_eq!(ask(&reader, &query, 10, Effort::Exact), expected);
        assert_eq!(reader.count(None).expect("rows that can be read"), self.model.len() as u64);
        let radius = expected.last().map_or(1.0, |row| row.distance);
        let (mut near, mut scratch) = (Vec::new(), vstream_engine::Scratch::new());
        reader
            .search_radius(&query, radius, None, &mut scratch, &mut near)
            .expect("rows that can be read");
        let within = truth(&self.model, &query, usize::MAX);
        let within: Vec<_> = within.into_iter().filter(|row| row.distance <= radius).collect();
        assert_eq!(near, within);
        // Through every code, with as many exact distances as there are rows.
        let effort = Effort::Chosen { probes: 10_000, refine: Some(IDS) };
        assert_eq!(ask(&reader, &query, 10, effort), expected);
    }

    fn restart(&mut self) {
        self.engine.detach().expect("closed");
        let (background, code_memory) = (self.background, self.code_memory);
        let opened = Engine::builder()
            .dir(self.dir.path())
            .adjust(&mut |settings, journaling| {
                settings.recall_guard = false;
                settings.code_memory = code_memory;
                journaling.background = background;
            })
            .open();
        self.engine = opened.expect("it opens");
    }
}

fn run(index: IndexKind, element: Element, background: bool, seed: u64) {
    run_with(tiny(index, Metric::L2, element), background, seed);
}

fn run_with(settings: Settings, background: bool, seed: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let code_memory = settings.code_memory;
    let engine =
        Engine::builder().dir(dir.path()).journaling(journaling(background)).create(settings);
    let engine = engine.expect("an engine");
    let (model, random) = (Model::new(), SplitMix(seed));
    let mut run = Run { dir, engine, model, random, background, code_memory };
    let (mut checkpoints, mut compactions) = (0, 0);
    for step in 1..=WRITES {
        run.write(step);
        match run.random.below(4_000) {
            0..8 => run.engine.commit().expect("a commit"),
            8 => run.engine.checkpoint().expect("a checkpoint"),
            9 => run.engine.compact().expect("a compaction"),
            40..44 => {
                run.engine.place_codes().expect("codes that can be read");
            }
            10 => {
                let journal = run.engine.stats().journal.expect("a journal");
                checkpoints += journal.checkpoints;
                compactions += journal.compactions;
                run.restart();
                assert_eq!(rows(&run.engine), run.model);
            }
            11..30 => run.check(),
            _ => {}
        }
    }
    run.check();
    let stats = run.engine.stats();
    assert_eq!(stats.index.live, run.model.len() as u64);
    let journal = stats.journal.expect("a journal");
    assert_eq!((journal.checkpoint_failure, journal.compaction_failure), (None, None));
    assert!(checkpoints + journal.checkpoints > 20, "{checkpoints} checkpoints");
    assert!(compactions + journal.compactions > 3, "{compactions} compactions");
    assert_eq!(rows(&run.engine), run.model);
    run.engine.detach().expect("closed");
    let verified = verify(run.dir.path()).expect("a collection");
    assert_eq!((verified.findings, verified.rows), (vec![], run.model.len() as u64));
    run.restart();
    assert_eq!(rows(&run.engine), run.model);
}

#[test]
fn a_tiered_cluster_is_a_map() {
    run(IndexKind::Cluster, Element::F32, false, 1);
    run(IndexKind::Cluster, Element::U8, false, 2);
}

#[test]
fn a_tiered_cluster_with_threads_is_a_map() {
    run(IndexKind::Cluster, Element::F32, true, 3);
    run(IndexKind::Cluster, Element::F16, true, 4);
}

#[test]
fn a_tiered_cluster_with_little_memory_for_codes_is_a_map() {
    let limited = Settings {
        code_memory: Some(20_000),
        ..tiny(IndexKind::Cluster, Metric::L2, Element::F32)
    };
    run_with(limited.clone(), true, 7);
    run_with(Settings { code_memory: Some(0), ..limited }, false, 8);
}

#[test]
fn a_tiered_cluster_with_graphs_is_a_map() {
    let segments = SegmentIndex::Graph;
    let graphs = Settings { segments, ..tiny(IndexKind::Cluster, Metric::L2, Element::U8) };
    run_with(graphs, true, 9);
}

#[test]
fn a_tiered_scan_is_a_map() {
    run(IndexKind::Flat, Element::F32, false, 5);
    run(IndexKind::Flat, Element::F32, true, 6);
}
