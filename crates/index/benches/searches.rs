//! The cost of searches without a filter, over rows without attributes, and their recall.
//!
//! `cargo bench -p vstream-index --bench searches -- --rows 100000 --dimension 128`
//!
//! Each round asks all queries; the CPU time of the thread counts, and the least round is printed
//! beside the median, so that other load hardly shows.

mod workload;

use vstream_index::contract::ask;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, Probe, RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix, TopK};

use workload::{draw, thread_us};

const QUERIES: usize = 500;
const ROUNDS: usize = 21;
const EFFORT: Effort = Effort::Approximate { probes: 24, refine: 160 };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, otherwise: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(otherwise, |at| arguments[at + 1].parse().expect("a number"))
    };
    let (rows, dimension) = (value("--rows", 100_000), value("--dimension", 128));
    let mut random = SplitMix(17);
    let base: Vec<f32> = (0..1_024 * dimension).map(|_| random.normal()).collect();
    for second_look in [false, true] {
        let settings =
            IndexSettings { dimension, metric: Metric::L2, element: Element::F32, seed: 17 };
        let sizes = ClusterSettings { second_look, ..ClusterSettings::default() };
        let mut index = Cluster::new(settings, sizes);
        let before = thread_us();
        for id in 0..rows {
            let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
            index.upsert(key, VectorRef::F32(&draw(id, dimension, &base)));
        }
        let insert = (thread_us() - before) / rows as f64;
        let bytes = index.stats().memory_bytes as f64 / rows as f64;
        let (reader, mut scratch) = (index.reader(), Scratch::new());
        let queries: Vec<Vec<f32>> =
            (0..QUERIES).map(|i| draw(rows + i * 7, dimension, &base)).collect();
        let mut times = Vec::new();
        let mut top = TopK::new(10);
        for _ in 0..ROUNDS {
            let before = thread_us();
            for vector in &queries {
                top.reset(10);
                let probe = Probe { vector, k: 10, effort: EFFORT, filter: None };
                reader.search(&probe, &mut scratch, &mut top);
            }
            times.push((thread_us() - before) / QUERIES as f64);
        }
        times.sort_unstable_by(f64::total_cmp);
        let mut found = 0;
        for query in queries.iter().take(100) {
            let truth = ask(&*reader, &mut scratch, query, 10, Effort::Exact);
            let answer = ask(&*reader, &mut scratch, query, 10, EFFORT);
            found += answer.iter().filter(|row| truth.iter().any(|t| t.id == row.id)).count();
        }
        println!(
            "second look {second_look}: insert with drawing {insert:.2} us, {bytes:.0} bytes per row; \
             search least {:.1} us, median {:.1} us, recall {:.3}",
            times[0],
            times[ROUNDS / 2],
            found as f64 / 1_000.0
        );
    }
}
