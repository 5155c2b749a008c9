//! Search of a sealed segment that is larger than the memory it may use.

use std::sync::Arc;
use std::time::Instant;

use vstream_engine::{Element, Metric, Neighbor};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, Probe, RowKey, VectorBuffer,
};
use vstream_segment::{
    write_pinned, Codes, OpenOptions, Segment, SegmentKind, SegmentScratch, SegmentSettings,
    SegmentSummary, Tombstones,
};
use vstream_store::codec::Policy;
use vstream_store::{Access, Cache, Error, Store};
use vstream_vector::{kernels, TopK};

use crate::runbook::Matrix;

/// Neighbours asked for.
pub(super) const K: usize = 10;

/// What a pass over the queries found and cost.
#[derive(Clone, Copy, Debug)]
pub struct LargerRow {
    /// Leaves visited.
    pub probes: usize,
    /// Exact distances.
    pub refine: usize,
    /// Mean share of the true ten.
    pub recall: f64,
    /// Milliseconds of one query at a time.
    pub p50_ms: f64,
    /// See `p50_ms`.
    pub p99_ms: f64,
    /// See `p50_ms`.
    pub mean_ms: f64,
    /// Reads of the file per query, after the cache.
    pub reads: f64,
    /// Bytes of them.
    pub bytes: f64,
    /// Times that a query waited for reads.
    pub rounds: f64,
    /// Blocks asked for that the cache held.
    pub hits: f64,
}

/// What an open segment holds in memory, bytes per row.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRow {
    /// Leaf directory and offsets of blocks.
    pub directory: f64,
    /// Codes, if resident.
    pub codes: f64,
    /// The cache, when full.
    pub cache: f64,
}

/// Writes the rows, in the order of a cluster index, to a segment of `store`.
///
/// Errors: those of the writer. Panics if a number does not fit `element`.
pub fn seal(
    matrix: &Matrix,
    element: Element,
    policy: Policy,
    store: &dyn Store,
    name: &str,
) -> Result<SegmentSummary, Error> {
    let dimension = matrix.dimension;
    let index = IndexSettings { dimension, metric: Metric::L2, element, seed: 1 };
    let mut cluster = Cluster::new(index, ClusterSettings::default());
    let mut buffer = VectorBuffer::new(element);
    for id in 0..matrix.rows() {
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        let row = matrix.row(id);
        assert!(row.iter().all(|&x| element.accepts(x)), "a number that is no {element}");
        cluster.upsert(key, buffer.narrow(row));
    }
    let settings = SegmentSettings {
        dimension,
        metric: Metric::L2,
        element,
        kind: SegmentKind::Cluster,
        seed: 1,
        identity: 1,
        first_leaf: 0,
        policy,
    };
    write_pinned(store, name, settings, &*cluster.reader().pin())
}

/// Ids of the true ten of each query.
pub fn truth(matrix: &Matrix, queries: &Matrix) -> Vec<Vec<u64>> {
    // Rows that stay in the cache while all queries pass over them.
    const TOGETHER: usize = 1024;
    let mut tops: Vec<TopK> = (0..queries.rows()).map(|_| TopK::new(K)).collect();
    for first in (0..matrix.rows()).step_by(TOGETHER) {
        for (query, top) in tops.iter_mut().enumerate() {
            for id in first..matrix.rows().min(first + TOGETHER) {
                let distance = kernels::l2_squared(queries.row(query), matrix.row(id));
                if distance <= top.bound() {
                    top.offer(Neighbor { distance, id: id as u64, version: 1 });
                }
            }
        }
    }
    tops.iter().map(|top| top.rows().iter().map(|row| row.id).collect()).collect()
}

/// What is searched, and how.
pub struct Larger<'a> {
    /// Where the segment is.
    pub store: &'a dyn Store,
    /// Its name.
    pub name: &'a str,
    /// Where its codes are.
    pub codes: Codes,
    /// Bytes of the block cache.
    pub cache_bytes: usize,
    /// The first half fills the cache, the second half is measured.
    pub queries: &'a Matrix,
    /// Ids of the true ten of each query.
    pub truth: &'a [Vec<u64>],
}

/// Opens the segment past the page cache and asks all queries at each effort (leaves visited,
/// exact distances), one at a time. Errors: those of the segment.
pub fn search(
    larger: &Larger<'_>,
    efforts: &[(usize, usize)],
) -> Result<(MemoryRow, Vec<LargerRow>), Error> {
    let Larger { store, name, codes, cache_bytes, queries, truth } = *larger;
    let file = store.open(name, Access::Direct)?;
    let cache = Arc::new(Cache::new(cache_bytes));
    let options = OpenOptions { cache: Some(cache.clone()), codes };
    let segment = Segment::open(file, options)?;
    let deletes = Tombstones::none(segment.rows() as u32);
    let view = segment.at(&deletes, 0);
    let mut scratch = SegmentScratch::new();
    let half = queries.rows() / 2;
    let mut table = Vec::new();
    for &(probes, refine) in efforts {
        let effort = Effort::Approximate { probes, refine };
        let mut found = 0;
        let mut times = Vec::with_capacity(half);
        let (mut io, mut held) = (segment.io(), cache.stats());
        for (query, truth) in truth.iter().enumerate().take(2 * half) {
            if query == half {
                (io, held) = (segment.io(), cache.stats());
            }
            let mut top = TopK::new(K);
            let begin = Instant::now();
            let probe = Probe { vector: queries.row(query), k: K, effort, filter: None };
            view.search(&probe, &mut scratch, &mut top)?;
            if query >= half {
                times.push(begin.elapsed().as_secs_f64() * 1e3);
                found += top.rows().iter().filter(|row| truth.contains(&row.id)).count();
            }
        }
        times.sort_by(f64::total_cmp);
        let after = segment.io();
        let per_query = |from: u64, to: u64| (to - from) as f64 / half as f64;
        let (hits, misses) = (cache.stats().hits - held.hits, cache.stats().misses - held.misses);
        table.push(LargerRow {
            probes,
            refine,
            recall: found as f64 / (K * half) as f64,
            p50_ms: times[half / 2],
            p99_ms: times[half * 99 / 100],
            mean_ms: times.iter().sum::<f64>() / half as f64,
            reads: per_query(io.reads, after.reads),
            bytes: per_query(io.bytes, after.bytes),
            rounds: per_query(io.rounds, after.rounds),
            hits: hits as f64 / (hits + misses).max(1) as f64,
        });
    }
    let rows = segment.rows() as f64;
    let memory = segment.memory();
    let memory = MemoryRow {
        directory: memory.directory as f64 / rows,
        codes: memory.codes as f64 / rows,
        cache: cache_bytes as f64 / rows,
    };
    Ok((memory, table))
}
