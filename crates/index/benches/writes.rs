//! The cost of single writes: the table of docs/benchmarks.md.
//!
//! `cargo bench -p vstream-index --bench writes -- --rows 100000,1000000`, with
//! `--cases stream,duplicates`, `--dimension 1536` or `--data data/sift128` if wanted.
//!
//! 1. Rows come before, untimed, as the case says.
//! 2. Each further write is timed by the CPU time of the thread, so that other load does not count.
//! 3. Recall@10 at a fixed effort says whether the leaves are as good as before.

use std::path::Path;

use rustix::time::{clock_gettime, ClockId};
use vstream_index::contract::ask;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const SEED: u64 = 17;
const CASES: [&str; 6] = ["stream", "duplicates", "hot", "drift", "regions", "deletes"];
/// Directions in which synthetic rows differ: text and pictures have some dozens.
const LATENT: usize = 24;
const CENTRES: usize = 1_000;
/// Writes of one call, as a client that gathers them makes it.
const GROUP: usize = 20;
const QUERIES: usize = 200;
const EFFORT: Effort = Effort::Approximate { probes: 24, refine: 160 };

/// Where vectors come from: a file, or a mixture of flat normal clouds that is never held whole.
struct Source {
    dimension: usize,
    file: Vec<f32>,
    centres: Vec<f32>,
    directions: Vec<f32>,
}

/// The next operation.
#[derive(Clone, Copy)]
enum Write {
    Upsert { id: u64, row: Row },
    Delete { id: u64 },
}

/// A vector, by the number it is made from.
#[derive(Clone, Copy)]
enum Row {
    Plain(u64),
    /// The number, and how far its centre has wandered.
    Drifted(u64, f32),
    /// Next to one place.
    Hot(u64),
}

impl Source {
    fn new(dimension: usize) -> Source {
        let mut random = SplitMix(SEED);
        let mut normals = |n: usize| (0..n).map(|_| random.normal()).collect::<Vec<f32>>();
        let (centres, directions) = (normals(CENTRES * dimension), normals(LATENT * dimension));
        Source { dimension, file: Vec::new(), centres, directions }
    }

    /// The rows of `base.fbin`: rows and dimension as u32, then the values, little-endian.
    fn read(folder: &Path) -> std::io::Result<Source> {
        let bytes = std::fs::read(folder.join("base.fbin"))?;
        let (words, _) = bytes.as_chunks::<4>();
        let dimension = u32::from_le_bytes(words[1]) as usize;
        let file = words[2..].iter().map(|word| f32::from_le_bytes(*word)).collect();
        Ok(Source { file, ..Source::new(dimension) })
    }

    fn rows_max(&self) -> usize {
        if self.file.is_empty() {
            usize::MAX
        } else {
            self.file.len() / self.dimension
        }
    }

    fn fill(&self, row: Row, out: &mut [f32]) {
        let number = match row {
            Row::Plain(number) | Row::Drifted(number, _) => number,
            Row::Hot(_) => 0,
        };
        if self.file.is_empty() {
            self.draw(number, out);
        } else {
            let at = number as usize % self.rows_max() * self.dimension;
            out.copy_from_slice(&self.file[at..][..self.dimension]);
        }
        match row {
            Row::Plain(_) => {}
            Row::Drifted(number, by) => {
                let to = &self.directions[number as usize % 4 * self.dimension..];
                out.iter_mut().zip(to).for_each(|(x, direction)| *x += by * direction);
            }
            Row::Hot(number) => {
                let mut random = SplitMix(SEED ^ number << 8);
                out.iter_mut().for_each(|x| *x += 0.01 * random.normal());
            }
        }
    }

    fn draw(&self, number: u64, out: &mut [f32]) {
        let mut random = SplitMix(SEED ^ number << 8);
        let centre = number as usize % CENTRES * self.dimension;
        out.copy_from_slice(&self.centres[centre..][..self.dimension]);
        for direction in self.directions.chunks_exact(self.dimension) {
            let along = 0.35 * random.normal();
            out.iter_mut().zip(direction).for_each(|(x, d)| *x += along * d);
        }
    }
}

/// The rows that come first, and the writes that are timed.
fn plan(case: &str, rows: u64) -> (Vec<Write>, Vec<Write>) {
    let mut random = SplitMix(SEED);
    let plain = |id: u64| Write::Upsert { id, row: Row::Plain(id) };
    let all = || (0..rows).map(plain).collect::<Vec<Write>>();
    let timed = (rows / 2).min(200_000);
    match case {
        // Three inserts and one delete, over and over.
        "stream" => {
            let mut live: Vec<u64> = (0..rows / 2).collect();
            let mut writes = Vec::new();
            for id in rows / 2..rows {
                writes.push(plain(id));
                live.push(id);
                if id.is_multiple_of(3) {
                    let at = random.below(live.len());
                    writes.push(Write::Delete { id: live.swap_remove(at) });
                }
            }
            ((0..rows / 2).map(plain).collect(), writes)
        }
        // Every other row is one of 100.
        "duplicates" => {
            let row = |id: u64| Row::Plain(if id.is_multiple_of(2) { id / 2 % 100 } else { id });
            (Vec::new(), (0..rows).map(|id| Write::Upsert { id, row: row(id) }).collect())
        }
        "hot" => {
            let hot = (0..timed).map(|i| Write::Upsert { id: rows + i, row: Row::Hot(i) });
            (all(), hot.collect())
        }
        // Rows are replaced in any order while the centres wander.
        "drift" => {
            let drifted = |i: u64| {
                let id = random.below(rows as usize) as u64;
                Write::Upsert { id, row: Row::Drifted(id, i as f32 / timed as f32) }
            };
            (all(), (0..timed).map(drifted).collect())
        }
        // Nine of ten rows go, centre by centre.
        "regions" => {
            let centres = CENTRES as u64;
            let of = |centre: u64| (0..rows / centres).map(move |i| i * centres + centre);
            let gone = (0..centres * 9 / 10).flat_map(of);
            (all(), gone.map(|id| Write::Delete { id }).collect())
        }
        // Nine of ten rows go, in any order.
        "deletes" => {
            let mut ids: Vec<u64> = (0..rows).collect();
            (1..ids.len()).rev().for_each(|last| ids.swap(last, random.below(last + 1)));
            ids.truncate(ids.len() / 10 * 9);
            (all(), ids.into_iter().map(|id| Write::Delete { id }).collect())
        }
        _ => panic!("no case {case}: use {CASES:?}"),
    }
}

fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The cost of reading the clock, so that writes of less than a microsecond show.
fn clock_ns() -> u64 {
    let once = || {
        let before = thread_ns();
        thread_ns() - before
    };
    (0..10_000).map(|_| once()).min().expect("times")
}

/// Applies the writes, with versions from `first` on; returns what each took, upserts and deletes
/// apart, in order.
fn apply(index: &mut Cluster, source: &Source, writes: &[Write], first: u64) -> [Vec<u64>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    let clock = clock_ns();
    let mut vector = vec![0.0; source.dimension];
    for (write, version) in writes.iter().zip(first..) {
        if let Write::Upsert { row, .. } = write {
            source.fill(*row, &mut vector);
        }
        let before = thread_ns();
        match *write {
            Write::Upsert { id, .. } => {
                let key = RowKey { id, version, code: 0, shard: 0 };
                index.upsert(key, VectorRef::F32(&vector));
                times[0].push((thread_ns() - before).saturating_sub(clock));
            }
            Write::Delete { id } => {
                index.delete(id, u64::MAX);
                times[1].push((thread_ns() - before).saturating_sub(clock));
            }
        }
    }
    times
}

/// Mean, percentiles and maxima as cells of a table, in microseconds.
fn cells(times: &mut [u64]) -> String {
    let us = |ns: u64| ns as f64 / 1_000.0;
    let group = times.chunks(GROUP).map(|group| group.iter().sum()).max().unwrap_or(0);
    let mean = us(times.iter().sum::<u64>()) / times.len().max(1) as f64;
    times.sort_unstable();
    let at = |share: f64| us(times[((times.len() - 1) as f64 * share) as usize]);
    let (p50, p99, p999, max) = (at(0.5), at(0.99), at(0.999), at(1.0));
    format!("{mean:.1} | {p50:.1} | {p99:.0} | {p999:.0} | {max:.0} | {:.0}", us(group))
}

/// Recall@10 of the fixed effort, and the codes that a query looks at.
fn recall(index: &Cluster, source: &Source, rows: u64) -> (f64, u64) {
    let (reader, mut scratch) = (index.reader(), Scratch::new());
    let mut query = vec![0.0; source.dimension];
    let (mut found, mut wanted) = (0, 0);
    for i in 0..QUERIES as u64 {
        // Near a row, and none itself.
        source.fill(Row::Plain(i * 7_919 % rows), &mut query);
        let mut random = SplitMix(SEED + i);
        let spread = query.iter().map(|x| x.abs()).sum::<f32>() / query.len() as f32;
        query.iter_mut().for_each(|x| *x += 0.3 * spread * random.normal());
        let truth = ask(&*reader, &mut scratch, &query, 10, Effort::Exact);
        let answer = ask(&*reader, &mut scratch, &query, 10, EFFORT);
        let last = truth.last().map_or(f32::INFINITY, |row| row.distance);
        found += answer.iter().filter(|row| row.distance <= last).count();
        wanted += truth.len();
    }
    let stats = index.stats();
    (found as f64 / wanted.max(1) as f64, (stats.live + stats.dead) / stats.leaves.max(1))
}

fn measure(case: &str, rows: u64, source: &Source) {
    let (before, writes) = plan(case, rows);
    let index = IndexSettings {
        dimension: source.dimension,
        metric: Metric::L2,
        element: Element::F32,
        seed: SEED,
    };
    let settings =
        ClusterSettings { second_look: source.dimension > 128, ..ClusterSettings::default() };
    let mut index = Cluster::new(index, settings);
    apply(&mut index, source, &before, 1);
    let old = index.stats();
    let times = apply(&mut index, source, &writes, 1 + before.len() as u64);
    let new = index.stats();
    let (recall, leaf) = recall(&index, source, rows);
    for (mut times, kind) in times.into_iter().zip(["upsert", "delete"]) {
        if times.is_empty() {
            continue;
        }
        println!("| {case} | {kind} | {rows} | {} | {recall:.4} |", cells(&mut times));
    }
    let jobs = [
        new.splits - old.splits,
        new.rewrites - old.rewrites,
        new.merges - old.merges,
        new.moved - old.moved,
    ];
    let [splits, rewrites, merges, moved] = jobs;
    eprintln!(
        "{case}: {splits} splits, {rewrites} rewrites, {merges} merges, {moved} rows moved; \
         {} leaves of {leaf} rows",
        new.leaves
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|x| x != "--bench").collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let source = match value("--data") {
        Some(folder) => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            Source::read(&root.join(folder)).expect("a folder with base.fbin")
        }
        None => Source::new(value("--dimension").map_or(128, |x| x.parse().expect("a number"))),
    };
    let rows = value("--rows").unwrap_or("100000".to_owned());
    let cases = value("--cases").unwrap_or(CASES.join(","));
    println!("| case | write | rows | mean | p50 | p99 | p99.9 | max | max of {GROUP} | recall |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for rows in rows.split(',').map(|x| x.parse::<usize>().expect("a number of rows")) {
        for case in cases.split(',') {
            measure(case, rows.min(source.rows_max()) as u64, &source);
        }
    }
}
