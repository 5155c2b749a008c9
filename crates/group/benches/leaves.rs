//! Measures when leaves by cluster pay, and what bounds cost, on real vectors.
//!
//! ```sh
//! cargo bench -p vstream-group --bench leaves -- --vectors data/glove100 --sizes 2000,10000
//! ```
//!
//! One group of each size, of the first rows of `base.fbin`, merged into one run: in leaves by
//! cluster and in leaves by id, under each bound. Queries are the first of `query.fbin`; *lost* are the
//! neighbours that the answers of the proven bound have and these have not.

use std::path::{Path, PathBuf};
use std::time::Instant;

use vstream_attribute::Fields;
use vstream_group::{Bound, GroupQuery, GroupSettings, GroupStore, RowRef};
use vstream_vector::{Element, Metric};

/// Vectors of a file: u32 rows | u32 dimension | numbers of 32 bits.
struct Matrix {
    dimension: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    fn read(path: &Path) -> Matrix {
        let bytes = std::fs::read(path).expect("a file of vectors");
        let dimension = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")) as usize;
        let (numbers, _) = bytes[8..].as_chunks::<4>();
        let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Matrix { dimension, numbers }
    }

    fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.numbers.chunks_exact(self.dimension)
    }
}

/// The ids of an answer, in order.
type Ids = Vec<u64>;

/// Measures one group, and returns the answers. `truth`: those of the proven bound, if known.
fn measure(
    base: &Matrix,
    queries: &[&[f32]],
    size: usize,
    (bound, clustered): (Bound, usize),
    truth: &[Ids],
) -> Vec<Ids> {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = GroupSettings {
        bound,
        clustered_rows: clustered,
        seed: Some(1),
        ..GroupSettings::new(base.dimension, Metric::Cosine, Element::Bf16)
    };
    let mut store = GroupStore::open_dir(folder.path(), settings).expect("a store");
    for (id, vector) in (0..).zip(base.rows().take(size)) {
        let row = RowRef { id, version: 1, vector, fields: Fields::NONE };
        store.upsert("all", &row).expect("a row");
    }
    store.flush().expect("a flush");
    let began = Instant::now();
    store.compact_all().expect("a merge");
    let merge = began.elapsed().as_secs_f64();
    let reader = store.reader();
    let raw = (size * base.dimension * 2) as f64;
    let mut answers = Vec::new();
    for pass in 0..2 {
        answers.clear();
        let (mut times, mut bytes, mut exact, mut coded) = (Vec::new(), 0, 0, 0);
        for vector in queries {
            let began = Instant::now();
            let answer = reader.search("all", &GroupQuery::nearest(vector, 10)).expect("an answer");
            times.push(began.elapsed().as_secs_f64() * 1e3);
            answers.push(answer.rows.iter().map(|hit| hit.row.id).collect::<Ids>());
            bytes += answer.stats.bytes;
            exact += answer.stats.exact_rows;
            coded += answer.stats.coded_rows;
        }
        if pass == 0 {
            continue;
        }
        times.sort_by(f64::total_cmp);
        let n = times.len() as f64;
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let (bytes, exact) = (bytes as f64 / n / raw, exact as f64 / n);
        let coded = coded as f64 / n / size as f64;
        let leaves = if clustered == 0 { "cluster" } else { "id" };
        let missing =
            |(wanted, found): (&Ids, &Ids)| wanted.iter().filter(|id| !found.contains(id)).count();
        let lost: usize = truth.iter().zip(&answers).map(missing).sum();
        println!(
            "| {size} | {bound:?} | {leaves} | {p50:.2} | {p99:.2} | {bytes:.3} | {coded:.2} | \
             {exact:.0} | {lost} | {merge:.1} |"
        );
    }
    answers
}

fn main() {
    let (mut folder, mut sizes) = (PathBuf::from("data/text384"), vec![2000, 10_000]);
    let (mut asked, mut deviations) = (300, vec![7.0]);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--vectors" => folder = value.into(),
            "--queries" => asked = value.parse().expect("a whole number"),
            "--deviations" => {
                deviations = value.split(',').map(|n| n.parse().expect("a number")).collect();
            }
            "--sizes" => {
                sizes = value.split(',').map(|n| n.parse().expect("a whole number")).collect();
            }
            _ => panic!("unknown option {word}"),
        }
    }
    let base = Matrix::read(&folder.join("base.fbin"));
    let queries = Matrix::read(&folder.join("query.fbin"));
    println!("{}: {} dimensions\n", folder.display(), base.dimension);
    let queries: Vec<&[f32]> = queries.rows().take(asked).collect();
    println!(
        "| rows | bound | leaves by | p50 ms | p99 ms | bytes / raw | codes | exact | lost of {} | \
         merge s |",
        10 * queries.len()
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for size in sizes {
        assert!(size <= base.rows().len(), "{size} rows of {}", base.rows().len());
        let bounds = deviations.iter().map(|&deviations| Bound::Deviations(deviations));
        let mut truth = Vec::new();
        for bound in std::iter::once(Bound::Proven).chain(bounds) {
            for clustered in [usize::MAX, 0] {
                let found = measure(&base, &queries, size, (bound, clustered), &truth);
                if truth.is_empty() {
                    truth = found;
                }
            }
        }
    }
}
