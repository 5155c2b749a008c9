//! Measures a store of groups: ingest, memory and files per row, queries by size of group, clients.
//!
//! ```sh
//! cargo bench -p vstream-group --bench groups -- --rows 1000000 --bound proven
//! ```
//!
//! A quarter of the rows is in groups of 10, 100, 1,000 and 10,000 each, and they arrive in random
//! order. Vectors have 384 dimensions of bf16 under cosine: the spectrum of text embeddings, 200
//! topics, eight of them in each group.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vstream_attribute::{AttributeKind, AttributesBuilder, Fields, Filter, Schema, Test, ValueRef};
use vstream_group::{
    Bound, Compacted, Error, GroupQuery, GroupReader, GroupSettings, GroupStore, RowRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 384;
const TOPICS: usize = 200;
const TOPICS_OF_GROUP: usize = 8;
/// Runs above which the writer waits for a merge.
const RUNS_MAX: u64 = 24;
/// Rows between two commits.
const COMMIT: usize = 1000;

struct Options {
    rows: usize,
    sizes: Vec<usize>,
    bound: Bound,
    folder: Option<PathBuf>,
    coded: usize,
    clustered: usize,
}

fn options() -> Options {
    let mut options = Options {
        rows: 1_000_000,
        sizes: vec![10, 100, 1000, 10_000],
        bound: Bound::Proven,
        folder: None,
        coded: 128,
        clustered: 2048,
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        let number = |text: String| text.parse().expect("a whole number");
        match word.as_str() {
            "--rows" => options.rows = number(value()),
            "--sizes" => options.sizes = value().split(',').map(|n| number(n.into())).collect(),
            "--coded" => options.coded = number(value()),
            "--clustered" => options.clustered = number(value()),
            "--folder" => options.folder = Some(value().into()),
            "--bound" => {
                let text = value();
                if text != "proven" {
                    let deviations = text.parse().expect("proven, or a number of deviations");
                    options.bound = Bound::Deviations(deviations);
                }
            }
            _ => panic!("unknown option {word}"),
        }
    }
    options
}

struct Data {
    topics: Vec<Vec<f32>>,
    spread: Vec<f32>,
    random: SplitMix,
    /// Normal numbers, drawn once: a vector takes a stretch of them at a random place.
    normals: Vec<f32>,
}

impl Data {
    fn new() -> Data {
        let mut random = SplitMix(1);
        let normals: Vec<f32> = (0..1 << 22).map(|_| random.normal()).collect();
        let spread = (0..DIMENSION).map(|at| (8.0 / (at + 8) as f32).sqrt()).collect();
        let topic = |random: &mut SplitMix| (0..DIMENSION).map(|_| random.normal()).collect();
        let topics = (0..TOPICS).map(|_| topic(&mut random)).collect();
        Data { topics, spread, random, normals }
    }

    fn vector(&mut self, group: usize) -> Vec<f32> {
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
    fn queries(&mut self, of: &[usize], n: usize) -> Vec<(usize, Vec<f32>)> {
        let query = |_| {
            let group = of[self.random.below(of.len())];
            (group, self.vector(group))
        };
        (0..n).map(query).collect()
    }
}

/// Groups with their sizes; equal parts of the rows in each size.
fn groups(options: &Options) -> Vec<usize> {
    let part = options.rows / options.sizes.len();
    options.sizes.iter().flat_map(|&size| vec![size; (part / size).max(1)]).collect()
}

fn name(group: usize) -> String {
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

/// Writes all rows. Returns how many, and the time without and with the merges that are left.
fn fill(store: &mut GroupStore, data: &mut Data, groups: &[usize]) -> (usize, [Duration; 2]) {
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

struct Measured {
    p50: f64,
    p99: f64,
    bytes: f64,
    exact: f64,
    runs: f64,
}

fn query(reader: &GroupReader, of: &[(usize, Vec<f32>)], filter: Option<&Filter>) -> Measured {
    let mut times: Vec<f64> = Vec::with_capacity(of.len());
    let (mut bytes, mut exact, mut runs) = (0, 0, 0);
    for (group, vector) in of {
        let (name, query) =
            (name(*group), GroupQuery { filter, ..GroupQuery::nearest(vector, 10) });
        let began = Instant::now();
        let answer = reader.search(&name, &query).expect("an answer");
        times.push(began.elapsed().as_secs_f64() * 1e3);
        bytes += answer.stats.bytes;
        exact += answer.stats.exact_rows;
        runs += answer.stats.runs;
    }
    times.sort_by(f64::total_cmp);
    let n = of.len() as f64;
    let at = |part: f64| times[((n - 1.0) * part) as usize];
    let (bytes, exact, runs) = (bytes as f64 / n, exact as f64 / n, runs as f64 / n);
    Measured { p50: at(0.5), p99: at(0.99), bytes, exact, runs }
}

fn by_size(reader: &GroupReader, data: &mut Data, groups: &[usize], sizes: &[usize], title: &str) {
    println!("\n{title}\n");
    println!("| rows of the group | filter | p50 ms | p99 ms | bytes / raw | exact rows | runs |");
    println!("|---|---|---|---|---|---|---|");
    let filter = Filter::Attribute(0, Test::I64In(vec![3]));
    for &size in sizes {
        let of_size: Vec<usize> =
            (0..groups.len()).filter(|&group| groups[group] == size).collect();
        let queries = data.queries(&of_size, 400);
        // Once to warm the caches.
        query(reader, &queries, None);
        for (label, filter) in [("none", None), ("10 %", Some(&filter))] {
            let Measured { p50, p99, bytes, exact, runs } = query(reader, &queries, filter);
            let raw = (size * DIMENSION * 2) as f64;
            let part = bytes / raw;
            println!(
                "| {size} | {label} | {p50:.3} | {p99:.3} | {part:.3} | {exact:.0} | {runs:.1} |"
            );
        }
    }
}

fn clients(reader: &GroupReader, data: &mut Data, groups: &[usize], size: usize) {
    println!("\n| clients, groups of {size} | queries/s | rows/s | p99 ms | bytes/s |");
    println!("|---|---|---|---|---|");
    let of_size: Vec<usize> = (0..groups.len()).filter(|&group| groups[group] == size).collect();
    for clients in [1, 2, 4, 8, 16] {
        let queries = data.queries(&of_size, 200);
        let (done, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let began = Instant::now();
        let mut times: Vec<f64> = std::thread::scope(|scope| {
            let client = |client: usize| {
                let (queries, done, bytes) = (&queries, &done, &bytes);
                move || {
                    let (mut times, mut at) = (Vec::new(), client * 13);
                    while began.elapsed() < Duration::from_secs(3) {
                        let (group, vector) = &queries[at % queries.len()];
                        let query = GroupQuery::nearest(vector, 10);
                        let started = Instant::now();
                        let answer = reader.search(&name(*group), &query).expect("an answer");
                        times.push(started.elapsed().as_secs_f64() * 1e3);
                        done.fetch_add(1, Ordering::Relaxed);
                        bytes.fetch_add(answer.stats.bytes, Ordering::Relaxed);
                        at += 1;
                    }
                    times
                }
            };
            let running: Vec<_> = (0..clients).map(|n| scope.spawn(client(n))).collect();
            running.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
        });
        times.sort_by(f64::total_cmp);
        let seconds = began.elapsed().as_secs_f64();
        let rate = done.load(Ordering::Relaxed) as f64 / seconds;
        let p99 = times[(times.len() - 1) * 99 / 100];
        let megabytes = bytes.load(Ordering::Relaxed) as f64 / seconds / 1e6;
        println!(
            "| {clients} | {rate:.0} | {:.3e} | {p99:.2} | {megabytes:.0} MB |",
            rate * size as f64
        );
    }
}

fn main() {
    let options = options();
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = options.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    let settings = GroupSettings {
        schema: Schema::new([("kind", AttributeKind::I64)]).expect("a schema"),
        bound: options.bound,
        coded_rows: options.coded,
        clustered_rows: options.clustered,
        seed: Some(1),
        ..GroupSettings::new(DIMENSION, Metric::Cosine, Element::Bf16)
    };
    println!("{settings:?}");
    let mut store = GroupStore::open_dir(&folder, settings).expect("a store");
    let (mut data, groups) = (Data::new(), groups(&options));
    let (rows, took) = fill(&mut store, &mut data, &groups);
    let stats = store.stats();
    let raw = (rows * DIMENSION * 2) as f64;
    println!("\n{rows} rows in {} groups, {} runs", groups.len(), stats.runs);
    let [written, merged] = took.map(|took| rows as f64 / took.as_secs_f64());
    println!("ingest, durable every {COMMIT} rows, merges on a second thread: {written:.0} rows/s");
    println!("the same until all merges are done: {merged:.0} rows/s");
    let written = (stats.flushed_bytes + stats.merged_bytes) as f64;
    println!("bytes written to runs over raw: {:.2}", written / raw);
    println!("bytes of runs over raw: {:.3}", stats.run_bytes as f64 / raw);
    println!("memory of runs per row: {:.3} B", stats.run_memory as f64 / rows as f64);
    let reader = store.reader();
    by_size(&reader, &mut data, &groups, &options.sizes, "As the stream left it");
    let began = Instant::now();
    store.compact_all().expect("a merge of all");
    let rate = rows as f64 / began.elapsed().as_secs_f64();
    println!("\nmerge of all: {rate:.0} rows/s");
    by_size(&reader, &mut data, &groups, &options.sizes, "One run");
    let largest = options.sizes.iter().copied().max().expect("a size");
    clients(&reader, &mut data, &groups, largest);
}
