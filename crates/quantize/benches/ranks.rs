//! Measures how well codes order the rows of real data sets, for the table of docs/design/index.md.
//!
//! `cargo bench -p vstream-quantize --bench ranks -- data/glove100 data/sift128`, with folders that
//! hold `base.fbin` and `query.fbin`.
//!
//! 1. K-means makes leaves of 256 rows on average. Each row is coded relative to its centroid.
//! 2. A query visits its 64 nearest leaves. The truth is the 10 nearest rows of these.
//! 3. For each kind of code, measure the share of the truth among the best R estimates, and the
//!    mean size of the error as a fraction of the mean distance of a row.

use std::path::{Path, PathBuf};
use vstream_quantize::rabitq::extended::{self, ExtendedFactors, ExtendedQuery};
use vstream_quantize::rabitq::{self, Form, QueryTable, Rotation, BLOCK};
use vstream_vector::{KMeans, KMeansSettings};

const SEED: u64 = 1;
const ROWS_PER_LEAF: usize = 256;
const PROBES: usize = 64;
const QUERIES: usize = 500;
const TRUTH: usize = 10;
const BEST: [usize; 9] = [10, 15, 20, 30, 40, 80, 160, 320, 640];

/// Number of best rows by 1 bit that a second look by 4 bits re-ranks.
const SECOND_LOOK: usize = 160;

/// The estimates that choose the best rows.
const KINDS: [&str; 4] =
    ["1", "4", "4, of the best 160 by 1 bit", "4, query rounded to 8 bits instead of 15"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders: Vec<PathBuf> =
        std::env::args().skip(1).filter(|x| !x.starts_with("--")).map(|x| root.join(x)).collect();
    if folders.is_empty() {
        eprintln!("no data: name folders with base.fbin and query.fbin");
    }
    for folder in folders {
        for form in [Form::L2, Form::InnerProduct] {
            if let Err(error) = measure(&folder, form) {
                eprintln!("{}: {error}", folder.display());
                std::process::exit(1);
            }
        }
    }
}

/// A matrix file: rows and dimension as u32, then the values, little-endian.
fn read(path: &Path) -> std::io::Result<(usize, Vec<f32>)> {
    let bytes = std::fs::read(path)?;
    let (words, _) = bytes.as_chunks::<4>();
    let values = words[2..].iter().map(|word| f32::from_le_bytes(*word)).collect();
    Ok((u32::from_le_bytes(words[1]) as usize, values))
}

/// Rows of one centroid with both codes.
struct Leaf {
    centroid: Vec<f32>,
    rows: Vec<usize>,
    blocks: Vec<Vec<u8>>,
    extended: Vec<(Vec<u8>, ExtendedFactors)>,
}

impl Leaf {
    fn new(form: Form, rotated: &[Vec<f32>], centroid: Vec<f32>, rows: Vec<usize>) -> Leaf {
        let padded = centroid.len();
        let mut bits = vec![0; padded / 8];
        let mut blocks = Vec::new();
        for rows in rows.chunks(BLOCK) {
            let mut block = vec![0; rabitq::block_bytes(padded)];
            rabitq::clear(&mut block);
            for (lane, &row) in rows.iter().enumerate() {
                let factors = rabitq::encode(form, &rotated[row], &centroid, &mut bits);
                rabitq::pack_lane(&mut block, padded, lane, &bits, factors);
            }
            blocks.push(block);
        }
        let code = |&row: &usize| {
            let mut code = vec![0; extended::code_bytes(padded)];
            let factors = extended::encode(form, &rotated[row], &centroid, &mut code);
            (code, factors)
        };
        let extended = rows.iter().map(code).collect();
        Leaf { centroid, rows, blocks, extended }
    }
}

/// One visited row: its distance and its estimates by 1 bit, 4 bits, and 4 bits with a coarse
/// query.
struct Visited {
    exact: f32,
    estimates: [f32; 3],
}

fn measure(folder: &Path, form: Form) -> std::io::Result<()> {
    let (dimension, base) = read(&folder.join("base.fbin"))?;
    let (_, queries) = read(&folder.join("query.fbin"))?;
    let rotation = Rotation::new(dimension, SEED);
    let turn = |x: &[f32]| {
        let mut out = vec![0.0; rotation.padded()];
        rotation.apply(x, &mut out);
        out
    };
    let clusters = base.len() / dimension / ROWS_PER_LEAF;
    let settings = KMeansSettings { clusters, iterations: 6, seed: SEED, balance: 0.0 };
    let trained = KMeans::train(&base, dimension, settings);
    let rotated: Vec<Vec<f32>> = base.chunks_exact(dimension).map(turn).collect();
    let mut members = vec![Vec::new(); clusters];
    for (row, &cluster) in trained.assignment.iter().enumerate() {
        members[cluster as usize].push(row);
    }
    let leaves: Vec<Leaf> = trained
        .centroids
        .chunks_exact(dimension)
        .zip(members)
        .map(|(centroid, rows)| Leaf::new(form, &rotated, turn(centroid), rows))
        .collect();
    let mut found = [[0usize; BEST.len()]; KINDS.len()];
    let (mut errors, mut distances, mut visits) = ([0.0f64; 3], 0.0f64, 0.0f64);
    let queries: Vec<&[f32]> = queries.chunks_exact(dimension).take(QUERIES).collect();
    for query in &queries {
        let mut visited = visit(form, &turn(query), &rotated, &leaves);
        for row in &visited {
            for (error, estimate) in errors.iter_mut().zip(row.estimates) {
                *error += f64::from((estimate - row.exact).abs());
            }
            distances += f64::from(row.exact.abs());
        }
        visits += visited.len() as f64;
        count(&mut visited, &mut found);
    }
    report(folder, form, visits / queries.len() as f64, &found, queries.len());
    let parts = errors.map(|error| 100.0 * error / distances);
    println!(
        "mean |error|: {:.2} %, {:.3} %, query of 8 bits {:.3} %\n",
        parts[0], parts[1], parts[2]
    );
    Ok(())
}

/// All rows of the nearest leaves.
fn visit(form: Form, query: &[f32], rotated: &[Vec<f32>], leaves: &[Leaf]) -> Vec<Visited> {
    let reach = query.iter().fold(0.0f32, |reach, x| reach.max(x.abs()));
    let coarse: Vec<f32> =
        query.iter().map(|x| (x / reach * 127.0).round() * reach / 127.0).collect();
    let (mut table, mut fine) = (QueryTable::new(), ExtendedQuery::new());
    table.build(query);
    fine.build(query);
    let mut rough = ExtendedQuery::new();
    rough.build(&coarse);
    let mut nearest: Vec<(f32, &Leaf)> =
        leaves.iter().map(|leaf| (Form::L2.base(query, &leaf.centroid), leaf)).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut visited = Vec::new();
    for (_, leaf) in &nearest[..PROBES] {
        let base = form.base(query, &leaf.centroid);
        let blocks = leaf.rows.chunks(BLOCK).zip(leaf.extended.chunks(BLOCK)).zip(&leaf.blocks);
        for ((rows, codes), block) in blocks {
            let mut estimates = [0.0; BLOCK];
            table.scan_block(block, base, &mut estimates);
            for ((&row, (code, factors)), one) in rows.iter().zip(codes).zip(estimates) {
                let four = fine.estimate(code, *factors, base);
                let roughly = rough.estimate(code, *factors, base);
                let exact = form.base(query, &rotated[row]);
                visited.push(Visited { exact, estimates: [one, four, roughly] });
            }
        }
    }
    visited
}

/// Adds one query's hits.
fn count(visited: &mut [Visited], found: &mut [[usize; BEST.len()]; KINDS.len()]) {
    visited.sort_by(|a, b| a.exact.total_cmp(&b.exact));
    let worst = visited[TRUTH - 1].exact;
    let mut hits = |kind: usize, ranked: &[Visited]| {
        for (found, best) in found[kind].iter_mut().zip(BEST) {
            let hits =
                ranked[..best.min(ranked.len())].iter().filter(|row| row.exact <= worst).count();
            *found += hits.min(TRUTH);
        }
    };
    for (kind, by) in [(1, 1), (3, 2), (0, 0)] {
        visited.sort_by(|a, b| a.estimates[by].total_cmp(&b.estimates[by]));
        hits(kind, visited);
    }
    let (first, _) = visited.split_at_mut(SECOND_LOOK);
    first.sort_by(|a, b| a.estimates[1].total_cmp(&b.estimates[1]));
    hits(2, first);
}

fn report(
    folder: &Path,
    form: Form,
    visited: f64,
    found: &[[usize; BEST.len()]; KINDS.len()],
    queries: usize,
) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    println!("{name}, {form:?}, {queries} queries, {visited:.0} rows visited each\n");
    println!("| bits | {} |", BEST.map(|best| best.to_string()).join(" | "));
    println!("|{}", "---|".repeat(BEST.len() + 1));
    for (kind, found) in KINDS.iter().zip(found) {
        let shares = found.map(|hits| format!("{:.3}", hits as f64 / (TRUTH * queries) as f64));
        println!("| {kind} | {} |", shares.join(" | "));
    }
    println!();
}
