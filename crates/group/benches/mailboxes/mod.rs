//! Mailboxes for the benches: rows of text-like vectors in groups, and the stream that writes them.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vstream_attribute::{AttributesBuilder, Fields, ValueRef};
use vstream_group::{Compacted, Error, GroupStore, RowRef};
use vstream_vector::SplitMix;

pub const DIMENSION: usize = 384;
const TOPICS: usize = 200;
const TOPICS_OF_GROUP: usize = 8;
/// Runs above which the writer waits for a merge.
const RUNS_MAX: u64 = 24;
/// Rows between two commits.
pub const COMMIT: usize = 1000;

/// Vectors with the spectrum of text embeddings: 200 topics, eight of them in each group.
pub struct Data {
    topics: Vec<Vec<f32>>,
    spread: Vec<f32>,
    pub random: SplitMix,
    /// Normal numbers, drawn once: a vector takes a stretch of them at a random place.
    normals: Vec<f32>,
}

impl Data {
    pub fn new() -> Data {
        let mut random = SplitMix(1);
        let normals: Vec<f32> = (0..1 << 22).map(|_| random.normal()).collect();
        let spread = (0..DIMENSION).map(|at| (8.0 / (at + 8) as f32).sqrt()).collect();
        let topic = |random: &mut SplitMix| (0..DIMENSION).map(|_| random.normal()).collect();
        let topics = (0..TOPICS).map(|_| topic(&mut random)).collect();
        Data { topics, spread, random, normals }
    }

    pub fn vector(&mut self, group: usize) -> Vec<f32> {
        let topic = group * 31 + self.random.below(TOPICS_OF_GROUP);
        let topic = &self.topics[topic % TOPICS];
        let from = self.random.below(self.normals.len() - DIMENSION);
        let noise = &self.normals[from..from + DIMENSION];
        let sign = if self.random.below(2) == 0 { 1.0 } else { -1.0 };
        let numbers = topic.iter().zip(noise).zip(&self.spread);
        numbers.map(|((topic, noise), spread)| spread * (topic + sign * noise)).collect()
    }
}

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
    let numbered = groups.iter().enumerate();
    let mut order: Vec<(u32, u32)> = numbered
        .flat_map(|(group, &size)| (0..size as u32).map(move |id| (group as u32, id)))
        .collect();
    for at in (1..order.len()).rev() {
        order.swap(at, data.random.below(at + 1));
    }
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
