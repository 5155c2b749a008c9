//! Readers beside the writer beside flushes and compactions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vstream_engine::{Effort, Element, Engine, IndexKind, Journaling, Metric, Query, Scratch};

use super::far_states::copy_tree;
use super::{journaling, put, remote, rows, tiny, Model, DIMENSION};

const IDS: u64 = 40;

/// The writer goes round the ids and gives each a higher version in turn, after it deleted and
/// wrote another id that is never there at the end of a step: so at any moment every id is there
/// once, versions differ by one round at most, and no reader goes back.
#[test]
fn readers_see_moments_that_only_move_on() {
    for index in [IndexKind::Cluster, IndexKind::Flat] {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = tiny(index, Metric::L2, Element::F32);
        let journaling = Journaling { log_bytes_max: 50_000, ..journaling(true) };
        let mut engine = Engine::builder()
            .dir(dir.path())
            .journaling(journaling)
            .create(settings)
            .expect("an engine");
        for id in 0..IDS {
            put(&mut engine, id, 1, &[id as f32; DIMENSION]);
        }
        let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let reader = engine.reader();
                let (stop, looks) = (&stop, &looks);
                scope.spawn(move || {
                    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
                    let mut seen = [0u64; IDS as usize];
                    while !stop.load(Ordering::Relaxed) {
                        for effort in [Effort::Exact, Effort::probes(10_000)] {
                            let vector = &[0.0; DIMENSION];
                            let query = Query {
                                vector,
                                k: 3 * IDS as usize,
                                effort,
                                filter: None,
                                radius: None,
                            };
                            reader.search(&query, &mut scratch, &mut out).expect("an answer");
                            let moment = check_moment(&out, index, effort);
                            for (now, before) in moment.iter().zip(&mut seen) {
                                assert!(now >= before, "a version went back");
                                *before = *now;
                            }
                        }
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let end = Instant::now() + Duration::from_secs(300);
            for round in 2.. {
                for id in 0..IDS {
                    put(&mut engine, 1_000_000 + round * IDS + id, 1, &[1e6; DIMENSION]);
                    put(&mut engine, id, round, &[id as f32; DIMENSION]);
                    engine.delete(1_000_000 + round * IDS + id, 1).expect("a delete");
                }
                engine.commit().expect("a commit");
                let journal = engine.stats().journal.expect("a journal");
                // Most segments have no living row when they are looked at.
                let moved = journal.compactions + journal.segments_dropped;
                let is_enough = journal.checkpoints > 20 && moved > 3;
                if round > 500 && is_enough && looks.load(Ordering::Relaxed) > 200 {
                    break;
                }
                if Instant::now() > end {
                    stop.store(true, Ordering::Relaxed);
                    panic!("round {round}: {journal:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(rows(&engine).len(), IDS as usize);
    }
}

/// Versions by id. An approximate search refines candidates of dead rows too, and may fall short.
fn check_moment(
    out: &[vstream_engine::Neighbor],
    index: IndexKind,
    effort: Effort,
) -> [u64; IDS as usize] {
    let mut versions = [0u64; IDS as usize];
    let mut passers_by = 0;
    for row in out {
        if row.id >= 1_000_000 {
            passers_by += 1;
            continue;
        }
        let version = &mut versions[row.id as usize];
        assert_eq!(*version, 0, "row {} is there twice", row.id);
        assert_eq!(row.distance, (row.id * row.id) as f32 * DIMENSION as f32);
        *version = row.version;
    }
    assert!(passers_by <= 1, "{passers_by} rows that live one at a time");
    let missing = versions.iter().filter(|&&version| version == 0).count();
    assert_eq!(missing, 0, "{index:?} {effort:?}: rows are missing");
    let (least, most) = (versions.iter().min().unwrap(), versions.iter().max().unwrap());
    assert!(most - least <= 1, "rounds {least} and {most} at one moment");
    versions
}

/// A process that ends soon after each start would else never merge.
#[test]
fn merges_that_a_close_left_go_on_with_the_next_write() {
    let (dir, mut model) = (tempfile::tempdir().expect("a directory"), Model::new());
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(remote::settings()).expect("an engine");
    let merged = |engine: &Engine| engine.stats().journal.expect("a journal").compactions;
    // Without threads each flush begins one merge, so some flushes leave more that are due.
    for flush in 0.. {
        assert!(flush < 100, "no flush left a merge");
        for id in flush * remote::BATCH..(flush + 1) * remote::BATCH {
            remote::put(&mut engine, &mut model, id, 1);
        }
        engine.checkpoint().expect("a checkpoint");
        engine.close().expect("closed");
        let place = tempfile::tempdir().expect("a directory");
        let copy = place.path().join("copy");
        copy_tree(dir.path(), &copy);
        let mut tried = Engine::open(&copy).expect("it opens");
        tried.compact().expect("merged");
        if merged(&tried) > 0 {
            break;
        }
        engine = Engine::open(dir.path()).expect("it opens");
    }
    let mut engine = Engine::builder()
        .dir(dir.path())
        .adjust(&mut |_, journaling| journaling.background = true)
        .open()
        .expect("it opens");
    remote::put(&mut engine, &mut model, 0, 2);
    let end = Instant::now() + Duration::from_secs(300);
    while merged(&engine) == 0 {
        assert!(Instant::now() < end, "{:?}", engine.stats().journal);
        std::thread::sleep(Duration::from_millis(10));
        engine.commit().expect("a commit");
    }
    assert_eq!(rows(&engine), model);
}

/// Without a commit the only steps were those of a full group of the log, 1 MiB: memory was far above
/// its limit by then, and the writer got an error though the disk was well.
#[test]
fn a_writer_that_never_commits_waits_for_the_flush_and_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let mut engine = Engine::builder()
        .dir(dir.path())
        .scratch()
        .journaling(journaling(true))
        .create(settings)
        .expect("an engine");
    for id in 0..20_000 {
        put(&mut engine, id, 1, &[(id % 97) as f32; DIMENSION]);
    }
    let stats = engine.stats();
    assert!(stats.tree.segments > 0, "{stats:?}");
    assert_eq!(rows(&engine).len(), 20_000);
}
