//! OR(G) of all layouts, and reads, rounds and time of block search and of DiskANN's layout.
//!
//! `DATA=$PWD/data/sift128 cargo bench -p vstream-graph --bench graph`; `ROWS=100000`, `QUERIES=500`,
//! `DEGREE=31`. `ONLY=overlap` or `ONLY=search` for one part. Without `DATA` the rows are drawn
//! around random centres, which says little about real ones.

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use vstream_graph::{
    CodeBits, GraphProbe, GraphScratch, GraphSegment, GraphSettings, GraphWriter, HotNodes, Layout,
    Walk,
};
use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::{Access, FileStore, Memory, Store, Syncing};
use vstream_vector::{Element, Metric, Number, SplitMix, TopK};

const K: usize = 10;
const DIMENSION: usize = 128;

struct Data {
    rows: Vec<u8>,
    queries: Vec<Vec<f32>>,
    /// The nearest rows of each query, by brute force.
    truth: Vec<Vec<u64>>,
}

fn number(name: &str, default: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The first rows of a matrix of `f32` numbers.
fn matrix(path: &Path, rows: usize) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let words: Vec<[u8; 4]> = bytes.as_chunks::<4>().0.to_vec();
    let (held, dimension) = (u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]));
    assert_eq!(dimension as usize, DIMENSION, "rows of SIFT");
    let rows = rows.min(held as usize);
    Ok(words[2..2 + rows * DIMENSION].iter().map(|word| f32::from_le_bytes(*word)).collect())
}

fn drawn(rows: usize, seed: u64) -> Vec<f32> {
    let mut centres = SplitMix(1);
    let centres: Vec<f32> = (0..200 * DIMENSION).map(|_| centres.unit() * 120.0).collect();
    let mut random = SplitMix(seed);
    let row = |_| {
        let centre = random.below(200) * DIMENSION;
        let x = |d: usize| (centres[centre + d] + random.normal() * 20.0).round().clamp(0.0, 255.0);
        (0..DIMENSION).map(x).collect::<Vec<f32>>()
    };
    (0..rows).flat_map(row).collect()
}

fn data() -> Result<Data, Box<dyn Error>> {
    let (count, asked) = (number("ROWS", 100_000), number("QUERIES", 500));
    let (rows, queries) = match env::var("DATA") {
        Ok(folder) => {
            let folder = Path::new(&folder);
            (matrix(&folder.join("base.fbin"), count)?, matrix(&folder.join("query.fbin"), asked)?)
        }
        Err(_) => (drawn(count, 2), drawn(asked, 3)),
    };
    let rows: Vec<u8> = rows.into_iter().map(u8::narrow).collect();
    let queries: Vec<Vec<f32>> = queries.chunks_exact(DIMENSION).map(<[f32]>::to_vec).collect();
    let mut truth = Vec::new();
    for query in &queries {
        let mut best = TopK::new(K);
        for (id, row) in (0..).zip(rows.chunks_exact(DIMENSION)) {
            let distance = vstream_vector::kernels::l2_squared(query, row);
            best.offer(vstream_vector::Neighbor { distance, id, version: 1 });
        }
        truth.push(best.rows().iter().map(|row| row.id).collect());
    }
    Ok(Data { rows, queries, truth })
}

fn write(
    store: &dyn Store,
    name: &str,
    data: &Data,
    settings: GraphSettings,
) -> Result<vstream_graph::GraphSummary, Box<dyn Error>> {
    let mut writer = GraphWriter::create(store, name, settings)?;
    for (id, row) in (0..).zip(data.rows.chunks_exact(DIMENSION)) {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        writer.push(IndexRow::plain(key, VectorRef::U8(row)))?;
    }
    Ok(writer.finish()?)
}

fn settings(layout: Layout, codes: CodeBits) -> GraphSettings {
    let new = GraphSettings::new(DIMENSION, Metric::L2, Element::U8);
    GraphSettings { degree: number("DEGREE", 31), layout, codes, identity: 7, ..new }
}

fn overlaps(data: &Data) -> Result<(), Box<dyn Error>> {
    println!("| layout | ε | OR(G) | s to write |\n|---|---|---|---|");
    let layouts = [
        Layout::IdOrder,
        Layout::Bnp,
        Layout::Bnf { passes: 16 },
        Layout::Bns { passes: 16, swaps: 8 },
    ];
    for layout in layouts {
        let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
        let begun = Instant::now();
        let settings = GraphSettings { sample: 0.0, ..settings(layout, CodeBits::One) };
        let summary = write(&store, "a", data, settings)?;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "| {} | {} | {:.4} | {seconds:.1} |",
            layout.name(),
            summary.capacity,
            summary.overlap
        );
    }
    Ok(())
}

/// Recall, reads, rounds and milliseconds per query.
fn measure(
    segment: &GraphSegment,
    data: &Data,
    list: usize,
    walk: Walk<'_>,
) -> Result<[f64; 4], Box<dyn Error>> {
    let mut scratch = GraphScratch::default();
    let mut found = Vec::new();
    let mut sums = [0.0; 4];
    let begun = Instant::now();
    for (query, truth) in data.queries.iter().zip(&data.truth) {
        let mut out = TopK::new(K);
        let probe = GraphProbe { vector: query, list, beam: 4, walk, visible: None };
        let stats = segment.search(&probe, &mut scratch, &mut out)?;
        out.drain_sorted(&mut found);
        let right = found.iter().filter(|row| truth.contains(&row.id)).count();
        sums[0] += right as f64 / K as f64;
        sums[1] += stats.blocks as f64;
        sums[2] += stats.rounds as f64;
    }
    sums[3] = begun.elapsed().as_secs_f64() * 1e3;
    Ok(sums.map(|sum| sum / data.queries.len() as f64))
}

/// Prints a line with reads, rounds and time at three recalls, between the measured lists.
fn line(
    name: &str,
    segment: &GraphSegment,
    data: &Data,
    walk: Walk<'_>,
) -> Result<(), Box<dyn Error>> {
    let mut points = Vec::new();
    for list in [10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320] {
        points.push(measure(segment, data, list, walk)?);
        if points[points.len() - 1][0] > 0.985 {
            break;
        }
    }
    let mut cells = String::new();
    for recall in [0.90, 0.95, 0.98] {
        let above = points.iter().position(|point| point[0] >= recall);
        let cell = match above {
            None => "not reached".to_owned(),
            Some(0) => {
                let [at, blocks, rounds, ms] = points[0];
                format!("{blocks:.1} / {rounds:.1} / {ms:.2} (at {at:.3})")
            }
            Some(above) => {
                let (low, high) = (points[above - 1], points[above]);
                let part = (recall - low[0]) / (high[0] - low[0]);
                let between = |i: usize| low[i] + part * (high[i] - low[i]);
                format!("{:.1} / {:.1} / {:.2}", between(1), between(2), between(3))
            }
        };
        cells += &format!(" {cell} |");
    }
    println!("| {name} |{cells}");
    Ok(())
}

fn searches(data: &Data) -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("vstream-graph-{}", std::process::id()));
    let store = FileStore::create_dir(&folder, Syncing::Off)?;
    println!(
        "\n| reads / rounds / ms per query at recall | 0.90 | 0.95 | 0.98 |\n|---|---|---|---|"
    );
    for codes in [CodeBits::One, CodeBits::Four] {
        let layouts = [
            ("DiskANN", Layout::IdOrder),
            ("BNF", Layout::Bnf { passes: 16 }),
            ("BNS", Layout::Bns { passes: 16, swaps: 8 }),
        ];
        for (name, layout) in layouts {
            let file = format!("{name}-{codes:?}");
            write(&store, &file, data, settings(layout, codes))?;
            let segment = GraphSegment::open(store.open(&file, Access::Direct)?, None)?;
            let numbers = segment.inspect();
            if layout == Layout::IdOrder {
                line(&format!("{name}, {codes:?}"), &segment, data, Walk::Nodes { hot: None })?;
                let hot = hot(&segment, data, numbers.sample_bytes as usize)?;
                let walk = Walk::Nodes { hot: Some(&hot) };
                line(&format!("{name}, {codes:?}, {} hot", hot.len()), &segment, data, walk)?;
                continue;
            }
            for ratio in [0.0, 0.3, 1.0] {
                let walk = Walk::Blocks { ratio, entries: 16 };
                line(&format!("{name}, {codes:?}, σ = {ratio}"), &segment, data, walk)?;
            }
            println!("<!-- {numbers:?} -->");
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Nodes that queries near to random rows visit most.
fn hot(segment: &GraphSegment, data: &Data, bytes: usize) -> Result<HotNodes, Box<dyn Error>> {
    let mut random = SplitMix(5);
    let rows = data.rows.len() / DIMENSION;
    let near = |_| {
        let row = &data.rows[random.below(rows) * DIMENSION..][..DIMENSION];
        row.iter().map(|&x| (f32::from(x) + random.normal() * 4.0).max(0.0)).collect()
    };
    let queries: Vec<Vec<f32>> = (0..2000).map(near).collect();
    Ok(segment.hottest(&queries, 40, bytes)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let data = data()?;
    let only = env::var("ONLY").unwrap_or_default();
    if only != "search" {
        overlaps(&data)?;
    }
    if only != "overlap" {
        searches(&data)?;
    }
    Ok(())
}
