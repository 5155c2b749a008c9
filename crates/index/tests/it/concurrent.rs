//! Readers on other threads while the writer goes on: every answer is that of one moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vstream_index::contract::ask;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, RowKey, Scratch, Search, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 4;
const IDS: u64 = 600;

/// Every version of a row carries its version in the vector, and every write raises one counter.
/// A reader therefore knows from an answer which moment it shows: all rows that lived then must be
/// there, each once, and none that died before.
#[test]
fn readers_see_one_moment_under_splits_merges_and_rewrites() {
    run(0);
}

#[test]
fn readers_see_one_moment_when_rows_are_announced() {
    run(100);
}

/// * `announced`: rows that are announced together.
fn run(announced: u64) {
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 11 };
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        batch_rows: 8,
        node_leaves_max: 4,
        second_look: true,
        ..ClusterSettings::default()
    };
    let mut index = Cluster::new(settings, sizes);
    for id in 0..IDS {
        index.upsert(key(id, 0), VectorRef::F32(&vector(id, 0)));
    }
    let begun = AtomicU64::new(0);
    let ended = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let searches = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let reader = index.reader();
            let (begun, ended, stop, searches) = (&begun, &ended, &stop, &searches);
            scope.spawn(move || {
                let mut scratch = Scratch::new();
                while !stop.load(Ordering::SeqCst) {
                    let before = ended.load(Ordering::SeqCst);
                    let effort = if thread == 0 {
                        Effort::Exact
                    } else {
                        Effort::Approximate { probes: 1 << 20, refine: 1 << 20 }
                    };
                    let answer = ask(&*reader, &mut scratch, &[0.0; DIMENSION], 2_000, effort);
                    let after = begun.load(Ordering::SeqCst);
                    check_moment(&answer, before, after);
                    searches.fetch_add(1, Ordering::SeqCst);
                    count_rows(&*reader);
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        // Write w replaces row w mod IDS: after write w, each id has the version of its last write.
        let mut random = SplitMix(5);
        for write in 1..=120_000u64 {
            begun.store(write, Ordering::SeqCst);
            if announced > 0 && write % announced == 0 {
                index.expect(announced as usize);
            } else if announced > 0 && write % announced == announced * 3 / 4 {
                // Now and then they do not all come, which places those that are there.
                index.expect(0);
            }
            let id = write % IDS;
            // The whole set wanders, so that leaves fill, split, empty and merge all the time.
            let mut row = vector(id, random.next() % 64);
            row[3] += (write / 100) as f32 * 3.0;
            index.upsert(key(id, write), VectorRef::F32(&row));
            ended.store(write, Ordering::SeqCst);
        }
    });
    assert!(searches.load(Ordering::SeqCst) >= 200, "the readers hardly ran");
    let stats = index.stats();
    assert!(
        stats.splits > 500 && stats.rewrites > 200 && stats.merges > 500,
        "too calm: {stats:?}"
    );
}

/// Ends the readers when the writer is done, or has failed.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn key(id: u64, version: u64) -> RowKey {
    RowKey { id, version, code: 0, shard: 0 }
}

fn vector(id: u64, jitter: u64) -> [f32; DIMENSION] {
    let jitter = jitter as f32 / 64.0;
    [(id % 25) as f32 + jitter, (id / 25) as f32 - jitter, 1.0 + jitter, (id % 3) as f32]
}

/// The answer holds each id once; its newest version is the moment it shows, between the writes
/// that had ended before and those begun after; every other id has the last version before it.
fn check_moment(answer: &[vstream_vector::Neighbor], before: u64, after: u64) {
    assert_eq!(answer.len() as u64, IDS, "a row is missing or twice");
    let moment = answer.iter().map(|row| row.version).max().expect("rows");
    assert!((before..=after).contains(&moment), "moment {moment} outside {before}..={after}");
    for row in answer {
        let last = if row.id <= moment % IDS {
            moment - moment % IDS + row.id
        } else {
            (moment - moment % IDS + row.id).saturating_sub(IDS)
        };
        // Rows that were never replaced keep version 0.
        let last = if last % IDS == row.id { last } else { 0 };
        assert_eq!(row.version, last, "id {} at moment {moment}", row.id);
    }
}

fn count_rows(reader: &dyn Search) {
    let mut rows = 0;
    reader.for_each_row(&mut |_| rows += 1);
    assert_eq!(rows, IDS);
}
