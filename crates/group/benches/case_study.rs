//! Vespa's case study again: queries of groups of 1,000 to 100,000 rows from 1 to 64 clients, in a
//! store of many small groups. Prints one table, and the bandwidth of this machine beside it.
//!
//! ```sh
//! cargo bench -p vstream-group --bench case_study -- --rows 10000000 --bound 7
//! ```
//!
//! The other rows are in groups of 10 to 10,000 rows, 100 in the mean, as a power law draws them.
//! Vectors have 384 dimensions of bf16 under cosine; all rows arrive in random order.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vstream_attribute::{AttributeKind, Schema};
use vstream_group::{Bound, GroupQuery, GroupReader, GroupSettings, GroupStats, GroupStore};
use vstream_vector::{Element, Metric, SplitMix};

use crate::mailboxes::{fill, name, Data, COMMIT, DIMENSION};

mod mailboxes;

/// Rows of a group that is asked, and how many groups of that size there are.
const ASKED: [(usize, usize); 4] = [(1_000, 100), (10_000, 30), (50_000, 8), (100_000, 4)];
const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Smallest and largest of the other groups, and the exponent that makes their mean 100 rows.
const SMALL: (f64, f64) = (10.0, 10_000.0);
const EXPONENT: f64 = 0.875;
/// Ticks of the clock in which the system counts CPU time, per second.
const TICKS: f64 = 100.0;
/// Bytes that the measurement of the memory's bandwidth reads per thread.
const SWEPT: usize = 512 << 20;

struct Options {
    rows: usize,
    seconds: f64,
    bound: Bound,
    folder: Option<PathBuf>,
}

fn options() -> Options {
    let mut options =
        Options { rows: 10_000_000, seconds: 4.0, bound: Bound::Proven, folder: None };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--rows" => options.rows = value.parse().expect("a whole number"),
            "--seconds" => options.seconds = value.parse().expect("a number"),
            "--folder" => options.folder = Some(value.into()),
            "--bound" if value == "proven" => options.bound = Bound::Proven,
            "--bound" => {
                let deviations = value.parse().expect("proven, or a number of deviations");
                options.bound = Bound::Deviations(deviations);
            }
            _ => panic!("unknown option {word}"),
        }
    }
    options
}

/// Sizes of groups: those that are asked, and small ones until there are `rows`.
fn groups(rows: usize, random: &mut SplitMix) -> Vec<usize> {
    let mut sizes: Vec<usize> =
        ASKED.iter().flat_map(|&(size, groups)| vec![size; groups]).collect();
    let mut left = rows.saturating_sub(sizes.iter().sum());
    let (least, most) = SMALL;
    let tail = (least / most).powf(EXPONENT);
    while left > 0 {
        let drawn = random.below(1 << 24) as f64 / (1 << 24) as f64;
        // The inverse of the distribution of a bounded power law.
        let size = least / (1.0 - drawn * (1.0 - tail)).powf(1.0 / EXPONENT);
        sizes.push((size as usize).min(left));
        left -= sizes[sizes.len() - 1];
    }
    sizes
}

/// Seconds of CPU time of this process.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("the times of a process");
    let after_name = text.rsplit(") ").next().expect("fields");
    let ticks = |at: usize| {
        let field = after_name.split(' ').nth(at).expect("a field");
        field.parse::<f64>().expect("a number")
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// Bytes per second that all cores together read from memory, one after the other.
fn memory_bandwidth() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let swept: Vec<Vec<u64>> = (0..threads).map(|n| vec![n as u64; SWEPT / 8]).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for numbers in &swept {
            scope.spawn(move || {
                for _ in 0..4 {
                    black_box(numbers.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x)));
                }
            });
        }
    });
    (4 * threads * SWEPT) as f64 / began.elapsed().as_secs_f64()
}

struct Row {
    mean: f64,
    p99: f64,
    rate: f64,
    bytes: f64,
    cores: f64,
}

/// Asks from so many threads, each one query after the other.
fn ask(reader: &GroupReader, queries: &[(usize, Vec<f32>)], clients: usize, seconds: f64) -> Row {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let client = |client: usize| {
        move || {
            let (mut times, mut bytes, mut at) = (Vec::new(), 0, client * 13);
            while began.elapsed() < Duration::from_secs_f64(seconds) {
                let (group, vector) = &queries[at % queries.len()];
                let started = Instant::now();
                let query = GroupQuery::nearest(vector, 10);
                let answer = reader.search(&name(*group), &query).expect("an answer");
                times.push(started.elapsed().as_secs_f64() * 1e3);
                bytes += answer.stats.bytes;
                at += 1;
            }
            (times, bytes)
        }
    };
    let (mut times, mut bytes) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients).map(|n| scope.spawn(client(n))).collect();
        for thread in running {
            let (of, read) = thread.join().expect("a client");
            times.extend(of);
            bytes += read;
        }
    });
    let took = began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Row {
        mean: times.iter().sum::<f64>() / times.len() as f64,
        p99: times[(times.len() - 1) * 99 / 100],
        rate: times.len() as f64 / took,
        bytes: bytes as f64 / took,
        cores: (cpu_seconds() - cpu) / took,
    }
}

fn table(reader: &GroupReader, data: &mut Data, groups: &[usize], seconds: f64) {
    println!("\n| rows of the group | clients | mean ms | p99 ms | queries/s | rows/s | bytes read/s | bytes / raw | cores busy |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (size, _) in ASKED {
        let of: Vec<usize> = (0..groups.len()).filter(|&group| groups[group] == size).collect();
        let queries = data.queries(&of, 200);
        // Once to warm the caches.
        ask(reader, &queries, 1, 1.0);
        for clients in CLIENTS {
            let Row { mean, p99, rate, bytes, cores } = ask(reader, &queries, clients, seconds);
            let part = bytes / rate / (size * DIMENSION * 2) as f64;
            println!(
                "| {size} | {clients} | {mean:.2} | {p99:.2} | {rate:.0} | {:.1} M | {:.2} GB | \
                 {part:.3} | {cores:.2} |",
                rate * size as f64 / 1e6,
                bytes / 1e9
            );
        }
    }
}

fn describe(rows: usize, groups: &[usize], stats: &GroupStats, took: [Duration; 2]) {
    let raw = (rows * DIMENSION * 2) as f64;
    let mean = rows as f64 / groups.len() as f64;
    println!(
        "\n{rows} rows in {} groups of {mean:.0} rows in the mean, {} runs",
        groups.len(),
        stats.runs
    );
    let [written, merged] = took.map(|took| rows as f64 / took.as_secs_f64());
    println!("ingest, durable every {COMMIT} rows, merges on a second thread: {written:.0} rows/s");
    println!("the same until all merges are done: {merged:.0} rows/s");
    let written = (stats.flushed_bytes + stats.merged_bytes) as f64;
    println!("bytes written to runs over raw: {:.2}", written / raw);
    println!("bytes of runs over raw: {:.3}", stats.run_bytes as f64 / raw);
    println!("memory of runs per row: {:.3} B", stats.run_memory as f64 / rows as f64);
}

fn main() {
    let options = options();
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = options.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    let settings = GroupSettings {
        schema: Schema::new([("kind", AttributeKind::I64)]).expect("a schema"),
        bound: options.bound,
        seed: Some(1),
        ..GroupSettings::new(DIMENSION, Metric::Cosine, Element::Bf16)
    };
    println!("{settings:?}");
    let mut store = GroupStore::open_dir(&folder, settings).expect("a store");
    let mut data = Data::new();
    let groups = groups(options.rows, &mut data.random);
    let (rows, took) = fill(&mut store, &mut data, &groups);
    describe(rows, &groups, &store.stats(), took);
    println!("memory bandwidth of all cores: {:.1} GB/s", memory_bandwidth() / 1e9);
    table(&store.reader(), &mut data, &groups, options.seconds);
    println!("memory bandwidth of all cores, again: {:.1} GB/s", memory_bandwidth() / 1e9);
}
