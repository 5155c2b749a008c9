//! Merges by ranges of leaves: many small bases, and deltas that are used up leaf by leaf.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vstream_engine::{
    inspect_collection, verify, Ablation, Effort, Element, Engine, Journaling, Metric, Query,
    Scratch, Settings,
};
use vstream_vector::SplitMix;

use super::{journaling, put, rows, Model};
use crate::{ask, row};

const DIMENSION: usize = 64;

/// Rows of many clusters whose centres move with the row number.
fn drifting(id: u64, random: &mut SplitMix) -> Vec<f32> {
    let centre = random.below(400) as u64;
    let (mut at, mut towards) = (SplitMix(centre), SplitMix(centre ^ 0xdead));
    let moved = id as f32 / 60_000.0;
    let number = |_| at.normal() + moved * towards.normal() + 0.7 * random.normal();
    (0..DIMENSION).map(number).collect()
}

fn settings(metric: Metric, segment_bytes: u64) -> Settings {
    Settings {
        memory: Some(1 << 20),
        recall_guard: false,
        segment_bytes,
        ..Settings::new(DIMENSION, metric, Element::F32)
    }
}

/// Upserts, updates and deletes of a model, so many.
struct Stream {
    random: SplitMix,
    model: Model,
    next: u64,
}

impl Stream {
    fn new(seed: u64) -> Stream {
        Stream { random: SplitMix(seed), model: Model::new(), next: 0 }
    }

    fn step(&mut self, engine: &mut Engine, version: u64) {
        let known = self.next.max(1) as usize;
        let id = match self.random.below(10) {
            0 | 1 => self.random.below(known) as u64,
            2 => {
                let id = self.random.below(known) as u64;
                if self.model.remove(&id).is_some() {
                    engine.delete(id, version).expect("a delete");
                }
                return;
            }
            _ => {
                self.next += 1;
                self.next - 1
            }
        };
        let vector = drifting(id, &mut self.random);
        put(engine, id, version, &vector);
        self.model.insert(id, (version, vector));
    }
}

/// Leaves that some segment does not serve any more.
fn is_served_in_part(dir: &std::path::Path) -> bool {
    let summary = inspect_collection(dir).expect("a manifest").expect("a collection");
    summary.segments.iter().any(|segment| !segment.served.is_empty())
}

#[test]
fn ranges_are_merged_beside_readers_and_no_row_is_lost_or_doubled() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = Journaling { log_bytes_max: 8 << 20, ..journaling(true) };
    let builder = || Engine::builder().dir(dir.path());
    let mut engine =
        builder().journaling(kept).create(settings(Metric::L2, 1 << 20)).expect("an engine");
    let mut stream = Stream::new(5);
    let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut was_served_in_part = false;
    let mut version = 0;
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (asking, stop, looks) = (engine.reader(), &stop, &looks);
            scope.spawn(move || {
                let mut random = SplitMix(reader);
                while !stop.load(Ordering::Relaxed) {
                    let query = drifting(0, &mut random);
                    for effort in [Effort::Exact, Effort::probes(8), Effort::probes(100_000)] {
                        let found = ask(&asking, &query, 40, effort);
                        let ids: HashSet<u64> = found.iter().map(|row| row.id).collect();
                        assert_eq!(ids.len(), found.len(), "a row is there twice");
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut held = None;
        // A busy machine merges later than the writer writes: it goes on until merges were seen.
        while version < 50_000 || (!was_served_in_part && version < 300_000) {
            version += 1;
            stream.step(&mut engine, version);
            if version % 100 == 0 {
                engine.commit().expect("a commit");
                was_served_in_part |= is_served_in_part(dir.path());
            }
            if version % 5_000 == 2_500 {
                held = Some((engine.pin(), stream.model.clone()));
            }
            if version % 5_000 == 0 {
                let (pinned, then) = held.take().expect("a moment");
                let mut seen = Model::new();
                let walked = pinned.for_each_row(&mut |row| {
                    let twice = seen.insert(row.id, (row.version, row.vector.to_vec()));
                    assert!(twice.is_none(), "row {} was there twice", row.id);
                });
                walked.expect("rows that can be read");
                assert!(seen == then, "version {version}: a held moment shows what lived then");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(looks.load(Ordering::Relaxed) > 0, "nobody asked");
    assert!(was_served_in_part, "no segment was used up in part");
    assert!(rows(&engine) == stream.model, "rows of the engine and of the model");
    let tree = engine.stats().tree;
    assert!((6..40).contains(&tree.segments), "{tree:?}");
    assert!(tree.segment_dead < tree.segment_rows, "{tree:?}");
    engine.close().expect("closed");
    verify(dir.path()).expect("a sound collection");
    let mut again = builder()
        .adjust(&mut |settings, _| settings.segment_bytes = 1 << 20)
        .open()
        .expect("it opens again");
    assert!(rows(&again) == stream.model, "rows after a restart");
    for version in version + 1..version + 10_000 {
        stream.step(&mut again, version);
    }
    again.compact().expect("merged");
    assert!(rows(&again) == stream.model, "rows after more writes");
}

/// Codes of leaves that a merge took leave memory, and runs of few rows take no more than their rows.
#[test]
fn memory_holds_codes_of_rows_that_are_served_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(settings(Metric::L2, 1 << 20))
        .expect("an engine");
    let (mut random, mut was_served_in_part) = (SplitMix(3), false);
    let mut scratch = Scratch::new();
    // A code takes 12 bytes; an eighth may be gaps, and a twentieth are blocks that are not full.
    let fits = |engine: &Engine, when: &str| {
        let tree = engine.stats().tree;
        let most = tree.segment_rows * 12 * 6 / 5 + 64 * 12 * 32;
        assert!(tree.code_bytes <= most, "{when}: {} bytes of codes for {tree:?}", tree.code_bytes);
        assert_eq!(tree.code_bytes_away, 0, "{when}: without a limit");
    };
    for id in 0..60_000 {
        put(&mut engine, id, 1, &drifting(id, &mut random));
        if id % 1_000 == 999 {
            // Who reads an older view finds the codes that left memory in the file.
            let (older, query) = (engine.reader().read_snapshot(), drifting(id, &mut random));
            let mut ask = |effort| {
                let mut found = Vec::new();
                let query = Query { effort, ..Query::new(&query, 10) };
                older.search(&query, &mut scratch, &mut found).expect("an answer");
                found
            };
            let (all, near) = (ask(Effort::probes(100_000)), ask(Effort::probes(20)));
            engine.checkpoint().expect("a segment");
            was_served_in_part |= is_served_in_part(dir.path());
            assert_eq!((ask(Effort::probes(100_000)), ask(Effort::probes(20))), (all, near));
            fits(&engine, "beside merges");
        }
    }
    assert!(was_served_in_part, "no segment was used up in part");
    engine.close().expect("closed");
    let mut engine = Engine::builder().dir(dir.path()).open().expect("it opens again");
    fits(&engine, "after a restart");
    engine.compact().expect("merged");
    fits(&engine, "after merges");
}

/// A third of the rows are one vector, and a few vectors get most of the others: leaves that cannot be
/// divided by distance are divided all the same, and nothing is lost.
#[test]
fn rows_that_are_alike_neither_stall_nor_are_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(Journaling { log_bytes_max: 8 << 20, ..journaling(true) })
        .create(settings(Metric::L2, 1 << 20))
        .expect("an engine");
    let (mut random, mut model) = (SplitMix(8), Model::new());
    for id in 0..30_000 {
        let vector = match random.below(6) {
            0 | 1 => vec![0.5; DIMENSION],
            2..=4 => {
                let hot = (random.below(64) * random.below(64) / 64) as u64;
                drifting(0, &mut SplitMix(hot))
            }
            _ => drifting(id, &mut random),
        };
        put(&mut engine, id, 1, &vector);
        model.insert(id, (1, vector));
        if id % 1_000 == 0 {
            engine.commit().expect("a commit");
        }
    }
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("merged");
    assert!(rows(&engine) == model, "rows of the engine and of the model");
    let alike = ask(&engine.reader(), &[0.5; DIMENSION], 100, Effort::probes(64));
    assert!(alike.len() == 100 && alike.iter().all(|row| row.distance == 0.0), "{alike:?}");
    let tree = engine.stats();
    assert!(tree.index.leaves > 60, "{tree:?}");
}

/// What a merge can leave out changes neither rows nor exact answers, and shows in the leaves and in the counts,
/// which go on where a memtable went to a segment.
#[test]
fn parts_of_a_merge_that_are_left_out_show_in_the_leaves() {
    let leaves = |names: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut made = settings(Metric::L2, 2 << 20);
        let without = names.iter().try_fold(Ablation::default(), |all, name| all.and(name));
        made.ablation = without.expect("names that there are");
        let mut engine = Engine::builder()
            .dir(dir.path())
            .journaling(journaling(false))
            .create(made)
            .expect("an engine");
        let (mut stream, mut before) = (Stream::new(21), engine.stats().index);
        for version in 1..20_000 {
            stream.step(&mut engine, version);
            if version % 1_500 == 0 {
                engine.checkpoint().expect("a segment");
                let now = engine.stats().index;
                assert!(now.splits > before.splits, "{version}: {now:?}, before {before:?}");
                assert!(now.merges >= before.merges && now.moved >= before.moved, "{now:?}");
                before = now;
            }
        }
        engine.checkpoint().expect("a segment");
        engine.compact().expect("merged");
        assert!(rows(&engine) == stream.model, "rows without {names:?}");
        (engine.stats().index, answers(&engine))
    };
    let (whole, expected) = leaves(&[]);
    assert!(whole.merges > 0, "{whole:?}");
    for names in [vec!["split"], vec!["reassign"], vec!["join"], vec!["split", "reassign", "join"]]
    {
        let (made, found) = leaves(&names);
        assert!(found == expected, "exact answers without {names:?}");
        let has = |name: &str| !names.contains(&name);
        let (count, all) = (made.leaves, whole.leaves);
        assert_eq!(count > all / 2, has("split"), "{count} leaves without {names:?}, else {all}");
        // About half of what is counted is of memtables, where nothing is left out.
        let is_as_many = |made: u64, whole: u64| 4 * made > 3 * whole;
        println!("without {names:?}: {made:?}, with all {whole:?}");
        let splits = is_as_many(made.splits, whole.splits);
        assert_eq!(splits, has("split"), "without {names:?} {made:?}, else {whole:?}");
        let moved = is_as_many(made.moved, whole.moved);
        assert_eq!(moved, has("split") && has("reassign"), "{names:?} {made:?}, else {whole:?}");
    }
}

/// Exact answers of some queries.
fn answers(engine: &Engine) -> Vec<Vec<(u64, u64)>> {
    let mut random = SplitMix(77);
    let mut ask = || ask(&engine.reader(), &drifting(9_000, &mut random), 10, Effort::Exact);
    (0..10).map(|_| ask().iter().map(|row| (row.id, row.version)).collect()).collect()
}

/// Queries find as much among some ranges of 50 to 100 leaves and their deltas as in one segment that was
/// written at once.
#[test]
fn many_ranges_answer_as_well_as_one_segment() {
    const ROWS: u64 = 60_000;
    for metric in [Metric::L2, Metric::Cosine] {
        let make = |memory: u64, segment_bytes: u64| {
            let dir = tempfile::tempdir().expect("a directory");
            let made = Settings { memory: Some(memory), ..settings(metric, segment_bytes) };
            let mut engine = Engine::builder()
                .dir(dir.path())
                .journaling(Journaling { log_bytes_max: 1 << 30, ..journaling(false) })
                .create(made)
                .expect("an engine");
            let mut random = SplitMix(3);
            for id in 0..ROWS {
                let vector = drifting(id, &mut random);
                engine.upsert(&row(id, &vector)).expect("a good row");
                if memory < 100 << 20 && id % 2_400 == 2_399 {
                    engine.checkpoint().expect("a segment");
                }
            }
            engine.checkpoint().expect("a segment");
            (engine, dir)
        };
        let (many, _many_dir) = make(64 << 20, 6 << 20);
        let (one, _one_dir) = make(256 << 20, u64::MAX);
        let mut random = SplitMix(99);
        let mut query = || drifting(random.below(ROWS as usize) as u64, &mut random);
        let queries: Vec<Vec<f32>> = (0..200).map(|_| query()).collect();
        let truths: Vec<HashSet<u64>> = queries
            .iter()
            .map(|query| ask(&one.reader(), query, 10, Effort::Exact))
            .map(|truth| truth.iter().map(|row| row.id).collect())
            .collect();
        let recall = |engine: &Engine, effort: Effort| {
            let found = queries.iter().zip(&truths).map(|(query, truth)| {
                let answer = ask(&engine.reader(), query, 10, effort);
                answer.iter().filter(|row| truth.contains(&row.id)).count()
            });
            found.sum::<usize>() as f64 / (10 * queries.len()) as f64
        };
        let segments = (many.stats().tree.segments, one.stats().tree.segments);
        assert!(segments.0 >= 6 && segments.1 == 1, "{segments:?}");
        let leaves = (many.stats().index.leaves, one.stats().index.leaves);
        for probes in [16, 32] {
            let effort = Effort::Chosen { probes, refine: Some(400) };
            let (among, alone) = (recall(&many, effort), recall(&one, effort));
            println!("{metric:?} {probes} of {leaves:?} in {segments:?}: {among} {alone}");
            assert!(among >= alone - 0.01, "{metric:?}, {probes} probes: {among}, in one {alone}");
        }
    }
}

/// Where the segment that defined all leaves is gone, the largest other one stands for a base though it defines none.
#[test]
fn rows_are_merged_though_no_segment_defines_all_its_leaves() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let settings = Settings { memory: Some(8 << 20), ..settings(Metric::L2, 1 << 20) };
    let mut engine = builder.create(settings).expect("an engine");
    let mut random = SplitMix(12);
    let first: Vec<Vec<f32>> = (0..3_000).map(|_| drifting(0, &mut random)).collect();
    let flush = |engine: &mut Engine, ids: std::ops::Range<u64>, version, far: f32| {
        for id in ids {
            let vector: Vec<f32> = first[id as usize % 3_000].iter().map(|x| x + far).collect();
            put(engine, id, version, &vector);
        }
        engine.checkpoint().expect("a checkpoint");
    };
    flush(&mut engine, 0..3_000, 1, 0.0);
    // Few rows far from all others, which get leaves of their own.
    flush(&mut engine, 3_000..3_300, 2, 40.0);
    // All rows of the base are written again, as runs of its leaves.
    flush(&mut engine, 0..3_000, 3, 0.0);
    engine.compact().expect("a compaction");
    let summary = inspect_collection(dir.path()).expect("a manifest").expect("a collection");
    let by_segment: Vec<u64> = summary.segments.iter().map(|segment| segment.rows).collect();
    assert_eq!(by_segment, [3_300], "all rows are in one base");
    assert_eq!(rows(&engine).len(), 3_300);
}
