//! Mailboxes for the benches: rows of text-like vectors in groups, and the stream that writes them.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vstream_attribute::{AttributesBuilder, Fields, ValueRef};
use vstream_group::{Compacted, Error, GroupStore, RowRef};

pub use self::data::{Data, COMMIT, DIMENSION};

mod data;

/// Runs above which the writer waits for a merge.
const RUNS_MAX: u64 = 24;
impl Data {
    /// Queries to groups that are drawn from `of`.
    pub fn queries(&mut self, of: &[usize], n: usize) -> Vec<(usize, Vec<f32>)> {
        let query = |_| {
            let group = of[self.random.below(of.len())];
            (group, self.vector(group))
        };
        (0..n).map(query).collect()
    }
}

pub fn name(group: usize) -> String {
    format!("user-{group:08}")
}

/// Merges on a thread of its own.
#[derive(Default)]
struct Merges {
    running: Option<JoinHandle<Result<Compacted, Error>>>,
}

impl Merges {
    /// Publishes a merge that is done, or waits for it, and begins the next.
    fn turn(&mut self, store: &mut GroupStore, wait: bool) {
        if self.running.as_ref().is_some_and(|merge| wait || merge.is_finished()) {
            let merged = self.running.take().expect("a merge").join().expect("no panic");
            store.finish_compaction(merged.expect("a merge")).expect("published");
        }
        if self.running.is_none() {
            let next = store.begin_compaction();
            self.running = next.map(|merge| std::thread::spawn(move || merge.run()));
        }
    }
}

/// Writes all rows in random order, with merges on a second thread. Returns how many, and the time
/// without and with the merges that are left.
pub fn fill(store: &mut GroupStore, data: &mut Data, groups: &[usize]) -> (usize, [Duration; 2]) {
    let mut merges = Merges::default();
    let order = data::shuffled(groups, &mut data.random);
    let schema = store.settings().schema.clone();
    let mut builder = AttributesBuilder::default();
    let mut took = Duration::ZERO;
    for rows in order.chunks(COMMIT) {
        let made: Vec<(String, Vec<f32>)> = rows
            .iter()
            .map(|(group, _)| (name(*group as usize), data.vector(*group as usize)))
            .collect();
        let began = Instant::now();
        for ((_, id), (group, vector)) in rows.iter().zip(&made) {
            builder.clear();
            builder.set(&schema, 0, &ValueRef::I64(i64::from(id % 10))).expect("an i64");
            let fields = Fields { attributes: builder.build(), ..Fields::NONE };
            let row = RowRef { id: u64::from(*id), version: 1, vector, fields };
            store.upsert(group, &row).expect("a row");
        }
        store.commit().expect("a commit");
        let is_behind = store.stats().runs > RUNS_MAX;
        merges.turn(store, is_behind);
        took += began.elapsed();
    }
    let began = Instant::now();
    store.flush().expect("a flush");
    let written = took + began.elapsed();
    while merges.running.is_some() {
        merges.turn(store, true);
    }
    (order.len(), [written, took + began.elapsed()])
}
