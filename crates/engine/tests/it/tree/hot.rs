//! What is hot is in memory, what is not is read: in whatever way, the answers are the same.

use vstream_engine::{
    Ablation, Effort, Element, Engine, ErrorKind, IndexKind, Metric, Neighbor, Query, Reader,
    Scratch, Settings, TreeStats,
};
use vstream_vector::SplitMix;

use super::{filled, journaling, rows, tiny, truth, vector_of, DIMENSION};
use crate::ask;

/// Rows, and after how many of them memory is flushed.
const ROWS: u64 = 12_000;
const BATCH: u64 = 1_000;

fn settings(code_memory: Option<u64>) -> Settings {
    Settings {
        code_memory,
        memory: Some(1 << 20),
        ..tiny(IndexKind::Cluster, Metric::L2, Element::F32)
    }
}

fn reopen(engine: Engine, dir: &std::path::Path, adjust: &dyn Fn(&mut Settings)) -> Engine {
    engine.close().expect("closed");
    let opened = Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, kept| {
            settings.recall_guard = false;
            kept.background = false;
            adjust(settings);
        })
        .open();
    opened.expect("it opens")
}

fn code_bytes(engine: &Engine) -> (u64, u64) {
    let TreeStats { code_bytes, code_bytes_away, .. } = engine.stats().tree;
    (code_bytes, code_bytes_away)
}

/// Efforts with which each query is asked, the exact one first.
const EFFORTS: [Effort; 4] = [
    Effort::Exact,
    Effort::Chosen { probes: 6, refine: Some(30) },
    Effort::Chosen { probes: 40, refine: Some(200) },
    Effort::Chosen { probes: 10_000, refine: Some(ROWS as usize) },
];

fn queries(seed: u64) -> Vec<Vec<f32>> {
    let mut random = SplitMix(seed);
    (0..60).map(|_| vector_of(random.next())).collect()
}

fn answers(reader: &Reader, seed: u64) -> Vec<Vec<Neighbor>> {
    let of = |query: &Vec<f32>| EFFORTS.map(|effort| ask(reader, query, 10, effort));
    queries(seed).iter().flat_map(of).collect()
}

#[test]
fn the_limit_holds_and_the_answers_are_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = filled(dir.path(), settings(None), ROWS, BATCH);
    let (all, away) = code_bytes(&engine);
    assert!(all > 100_000 && away == 0, "{all} bytes of codes, {away} on the disk");
    let expected = answers(&engine.reader(), 1);
    let mut engine = engine;
    for limit in [0, all / 10, all / 2, all, u64::MAX] {
        engine = reopen(engine, dir.path(), &|settings| settings.code_memory = Some(limit));
        for round in 0..3 {
            let read = engine.place_codes().expect("codes that can be read");
            let (held, away) = code_bytes(&engine);
            assert!(held <= limit && held + away == all, "{held} of {limit}, {away} away");
            assert!(round == 0 || read <= held);
            // No part is so large that more would be left over.
            assert!(held + 30_000 > limit.min(all), "{held} of {limit}");
            assert_eq!(answers(&engine.reader(), 1), expected);
        }
    }
}

#[test]
fn nothing_that_is_left_out_changes_an_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = filled(dir.path(), settings(Some(40_000)), ROWS, BATCH);
    for id in (0..ROWS).step_by(7) {
        engine.delete(id, 1).expect("a delete");
    }
    let expected = answers(&engine.reader(), 2);
    let model = rows(&engine);
    for (query, answers) in queries(2).iter().zip(expected.chunks(EFFORTS.len())) {
        let truth = truth(&model, query, 10);
        assert_eq!((&answers[0], &answers[3]), (&truth, &truth));
    }
    for names in [vec!["hot-cold"], vec!["threshold-stop"], vec!["hot-cold", "threshold-stop"]] {
        let without = names.iter().try_fold(Ablation::default(), |all, name| all.and(name));
        let without = without.expect("names that there are");
        engine = reopen(engine, dir.path(), &|settings| {
            settings.ablation = without;
            settings.code_memory = Some(40_000);
        });
        engine.place_codes().expect("codes that can be read");
        assert_eq!(answers(&engine.reader(), 2), expected, "without {names:?}");
    }
}

#[test]
fn without_compression_segments_are_larger_and_the_same() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let without = Ablation::default().and("compression").expect("a name that there is");
    let plain = filled(dirs[0].path(), settings(None), ROWS, BATCH);
    let raw = filled(dirs[1].path(), Settings { ablation: without, ..settings(None) }, ROWS, BATCH);
    let bytes = |engine: &Engine| engine.stats().tree.segment_bytes;
    let vectors = ROWS * DIMENSION as u64 * 4;
    assert!(bytes(&raw) > vectors && 2 * bytes(&plain) < bytes(&raw) + vectors);
    assert_eq!(rows(&raw), rows(&plain));
    assert_eq!(answers(&raw.reader(), 3), answers(&plain.reader(), 3));
}

#[test]
fn only_what_there_is_can_be_left_out() {
    let error = Ablation::default().and("hot").expect_err("no such part");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("hot-cold"), "{error}");
}

/// Rows around `centers`, those of a center one after the other: so segments hold few of them each.
fn by_center(center: u64, random: &mut SplitMix) -> Vec<f32> {
    let mut at = SplitMix(center);
    (0..DIMENSION).map(|_| (20.0 * at.normal()).round() + random.below(5) as f32).collect()
}

/// Reads per query of the second half of some queries around a center.
fn reads(engine: &Engine, center: u64, count: u64) -> f64 {
    let reader = engine.reader();
    let (mut random, mut scratch, mut out) = (SplitMix(7), Scratch::new(), Vec::new());
    let mut before = TreeStats::default();
    for at in 0..count {
        if at == count / 2 {
            engine.place_codes().expect("codes that can be read");
            before = engine.stats().tree;
        }
        let vector = &by_center(center, &mut random);
        let effort = Effort::Chosen { probes: 8, refine: Some(20) };
        reader
            .search(
                &Query { vector, k: 10, effort, filter: None, radius: None },
                &mut scratch,
                &mut out,
            )
            .expect("answers");
    }
    (engine.stats().tree.reads - before.reads) as f64 / (count / 2) as f64
}

/// Queries around one center bring its codes to memory, those around another theirs in their
/// place. The block cache is too small for either.
#[test]
fn what_is_asked_for_comes_to_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Settings { code_memory: Some(1 << 20), memory: Some(64 << 10), ..settings(None) };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(made)
        .expect("an engine");
    let mut random = SplitMix(5);
    for center in 0..60 {
        for row in 0..1_000 {
            let vector = by_center(center, &mut random);
            super::put(&mut engine, center * 1_000 + row, 1, &vector);
        }
        engine.checkpoint().expect("a segment");
    }
    engine.place_codes().expect("codes that can be read");
    let (all, away) = code_bytes(&engine);
    assert_eq!(away, 0);
    let share = |settings: &mut Settings| settings.code_memory = Some(all / 4);
    engine = reopen(engine, dir.path(), &share);
    let centers: [u64; 20] = std::array::from_fn(|at| 3 * at as u64);
    let hot = centers.map(|center| reads(&engine, center, 400));
    engine = reopen(engine, dir.path(), &|settings| {
        share(settings);
        settings.ablation = Ablation::default().and("hot-cold").expect("a name");
    });
    // A quarter of the codes is in memory whatever is asked for.
    let cold = centers.map(|center| reads(&engine, center, 400));
    let (with, without) = (hot.iter().sum::<f64>(), cold.iter().sum::<f64>());
    assert!(with < 0.9 * without, "reads per query {hot:?}, without heat {cold:?}");
}

/// Memory holds as many near rows as are asked for: of segments only leaves are visited that may
/// hold nearer ones, and every row that is nearer is found.
#[test]
fn leaves_that_cannot_hold_a_better_row_are_passed_over() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let dir = tempfile::tempdir().expect("a directory");
        let made =
            Settings { memory: Some(1 << 20), ..tiny(IndexKind::Cluster, metric, Element::F32) };
        let mut engine = Engine::builder()
            .dir(dir.path())
            .journaling(journaling(false))
            .create(made)
            .expect("an engine");
        let mut random = SplitMix(11);
        for row in 0..6_000 {
            super::put(&mut engine, row, 1, &by_center(row % 30, &mut random));
            if row % 2_000 == 1_999 {
                engine.checkpoint().expect("a segment");
            }
        }
        // Closing ends a merge that has begun.
        engine.compact().expect("merged");
        for row in 6_000..6_600 {
            super::put(&mut engine, row, 1, &by_center(row % 30, &mut random));
        }
        // A log puts rows in memory in larger batches than single writes do, and so in other leaves: both
        // halves have them from the log.
        engine = reopen(engine, dir.path(), &|_| {});
        let mut leaves = [0, 0];
        let mut found = Vec::new();
        for (at, leaves) in leaves.iter_mut().enumerate() {
            let reader = engine.reader();
            let mut random = SplitMix(12);
            for asked in 0..60 {
                let vector = &by_center(asked % 30, &mut random);
                let effort = Effort::Chosen { probes: 10_000, refine: Some(6_600) };
                let (mut scratch, mut out) = (Scratch::new(), Vec::new());
                let query = Query { vector, k: 10, effort, filter: None, radius: None };
                *leaves += reader.search(&query, &mut scratch, &mut out).expect("answers").leaves;
                assert_eq!(out, ask(&reader, vector, 10, Effort::Exact), "{metric}: {asked}");
                found.push(out);
            }
            if at == 0 {
                // Rows that are in the log alone go to memory again.
                engine = reopen(engine, dir.path(), &|settings| {
                    settings.ablation = Ablation::default().and("threshold-stop").expect("a name");
                });
            }
        }
        assert_eq!(found[..60], found[60..]);
        let [with, without] = leaves;
        match metric {
            Metric::InnerProduct => assert_eq!(with, without, "there is no bound"),
            _ => assert!(2 * with < without, "{metric}: {with} leaves of {without}"),
        }
    }
}
