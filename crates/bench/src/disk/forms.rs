//! Sealed segments of the same rows in several forms, searched past the page cache at equal memory.
//!
//! 1. Graphs in Starling's layout (BNS), the layout of DiskANN as their control, each with codes of one
//!    and of four bits; clusters with codes in memory and on the disk.
//! 2. A budget is what the graph with codes of that width holds in memory. The control's hottest nodes
//!    take the memory of the navigation graph; the cache of clusters takes what their codes and directory
//!    leave of the budget. Ids are in no form's budget.
//! 3. Each form is asked with growing effort. What it costs at a recall lies between two of these points.

use std::time::Instant;

use serde::Serialize;
use vstream_engine::{Element, Metric};
use vstream_graph::{
    CodeBits, GraphProbe, GraphScratch, GraphSegment, GraphSettings, GraphWriter, HotNodes, Layout,
    Walk,
};
use vstream_index::{IndexRow, RowKey, VectorBuffer};
use vstream_segment::Codes;
use vstream_store::codec::Policy;
use vstream_store::{Access, Error, Store};
use vstream_vector::{SplitMix, TopK};

use super::K;
use crate::runbook::Matrix;
use crate::storage::{seal, search, Larger};

/// Lists of candidates of graphs, shortest first.
const LISTS: [usize; 11] = [10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320];
/// Leaves that clusters visit, fewest first.
const PROBES: [usize; 11] = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Exact distances that clusters take.
const REFINES: [usize; 5] = [20, 40, 80, 150, 300];
/// Nothing above this recall is asked for.
const RECALL_MAX: f64 = 0.985;
/// Bytes of the smallest cache.
const CACHE_MIN: usize = 64 << 10;

/// What a pass over the queries found and cost, per query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Mean share of the true ten.
    pub recall: f64,
    /// Reads of the file.
    pub reads: f64,
    /// Times that the query waited for reads.
    pub rounds: f64,
    /// Bytes read, in KiB.
    pub kib: f64,
    /// Milliseconds.
    pub ms: f64,
}

/// One form at one budget.
#[derive(Clone, Debug, Serialize)]
pub struct Form {
    /// As the table names it.
    pub name: String,
    /// Bytes of memory per row that all forms of this budget may have.
    pub budget: f64,
    /// Codes, directory, navigation graph or hot nodes, per row.
    pub fixed: f64,
    /// Block cache, per row.
    pub cache: f64,
    /// Bytes of the file per row.
    pub disk: f64,
    /// In the order of growing effort.
    pub points: Vec<Point>,
}

impl Form {
    /// What the form costs at a recall: see [`at_recall`].
    pub fn at(&self, recall: f64) -> Option<Point> {
        at_recall(&self.points, recall)
    }
}

/// What is compared.
pub struct FormsRun<'a> {
    /// The rows.
    pub rows: &'a Matrix,
    /// Queries: the first half fills caches, the second is measured.
    pub queries: &'a Matrix,
    /// Ids of the true ten of each query.
    pub truth: &'a [Vec<u64>],
    /// Type of the stored numbers.
    pub element: Element,
    /// A folder on the disk to be measured.
    pub store: &'a dyn Store,
}

/// The cost at a recall, on the straight line between the last point below it and the first one that
/// reaches it; the first point if that reaches it already; `None` if none does.
pub fn at_recall(points: &[Point], recall: f64) -> Option<Point> {
    let above = points.iter().position(|point| point.recall >= recall)?;
    let high = points[above];
    let Some(low) = above.checked_sub(1).map(|below| points[below]) else { return Some(high) };
    let part = (recall - low.recall) / (high.recall - low.recall);
    let between = |low: f64, high: f64| low + part * (high - low);
    Some(Point {
        recall,
        reads: between(low.reads, high.reads),
        rounds: between(low.rounds, high.rounds),
        kib: between(low.kib, high.kib),
        ms: between(low.ms, high.ms),
    })
}

/// Measures all forms; `seen` is shown each as it is done. Errors: those of segments. Cost: four graphs
/// are built, some 25 s of CPU per 100,000 rows each.
pub fn run(of: &FormsRun<'_>, seen: &mut dyn FnMut(Form)) -> Result<(), Error> {
    let sealed =
        seal(of.rows, of.element, Policy::Best(vstream_store::codec::Tier::Hot), of.store, "c")?;
    for (bits, codes) in [(1, CodeBits::One), (4, CodeBits::Four)] {
        let budget = graphs(of, (bits, codes), seen)?;
        for (name, codes) in [
            ("clusters, codes in memory", Codes::Resident),
            ("clusters, codes on the disk", Codes::OnDemand),
        ] {
            let clusters = Clusters { of, codes, budget };
            seen(clusters.measured(name, sealed.bytes as f64 / of.rows.rows() as f64)?);
        }
    }
    of.store.delete("c")
}

/// The graph and its control; returns the budget that they set, in bytes.
fn graphs(
    of: &FormsRun<'_>,
    (bits, codes): (usize, CodeBits),
    seen: &mut dyn FnMut(Form),
) -> Result<usize, Error> {
    let mut budget = 0;
    for layout in [Layout::Bns { passes: 16, swaps: 8 }, Layout::IdOrder] {
        let settings = GraphSettings::new(of.rows.dimension, Metric::L2, of.element);
        write(of, GraphSettings { layout, codes, identity: 7, ..settings })?;
        let segment = GraphSegment::open(of.store.open("g", Access::Direct)?, None)?;
        let numbers = segment.inspect();
        let rows = of.rows.rows() as f64;
        let is_control = layout == Layout::IdOrder;
        if !is_control {
            budget = (numbers.code_bytes + numbers.sample_bytes) as usize;
        }
        let hot = match is_control {
            true => Some(hottest(of, &segment, numbers.sample_bytes as usize)?),
            false => None,
        };
        let walk = match &hot {
            Some(hot) => Walk::Nodes { hot: Some(hot) },
            None => Walk::Blocks { ratio: 0.3, entries: 16 },
        };
        let name = match is_control {
            true => format!("DiskANN's layout, hot nodes, codes of {bits} bit"),
            false => format!("graph, BNS, codes of {bits} bit"),
        };
        let mut points = Vec::new();
        for list in LISTS {
            points.push(pass(of, &segment, list, walk)?);
            if points.last().is_some_and(|point: &Point| point.recall > RECALL_MAX) {
                break;
            }
        }
        seen(Form {
            name,
            budget: budget as f64 / rows,
            fixed: (numbers.code_bytes + numbers.sample_bytes) as f64 / rows,
            cache: 0.0,
            disk: numbers.file_bytes as f64 / rows,
            points,
        });
        drop(segment);
        of.store.delete("g")?;
    }
    Ok(budget)
}

fn write(of: &FormsRun<'_>, settings: GraphSettings) -> Result<(), Error> {
    let mut writer = GraphWriter::create(of.store, "g", settings)?;
    let mut buffer = VectorBuffer::new(of.element);
    for id in 0..of.rows.rows() {
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        writer.push(IndexRow::plain(key, buffer.narrow(of.rows.row(id))))?;
    }
    writer.finish().map(|_| ())
}

/// The nodes that queries near to random rows visit most, in `bytes` of memory.
fn hottest(of: &FormsRun<'_>, segment: &GraphSegment, bytes: usize) -> Result<HotNodes, Error> {
    let mut random = SplitMix(5);
    let near = |_| {
        let row = of.rows.row(random.below(of.rows.rows()));
        row.iter().map(|&x| (x + random.normal() * 4.0).max(0.0)).collect()
    };
    let queries: Vec<Vec<f32>> = (0..2000).map(near).collect();
    segment.hottest(&queries, 40, bytes)
}

fn pass(
    of: &FormsRun<'_>,
    segment: &GraphSegment,
    list: usize,
    walk: Walk<'_>,
) -> Result<Point, Error> {
    let mut scratch = GraphScratch::default();
    let half = of.queries.rows() / 2;
    let (mut found, mut sum) = (0, Point::default());
    let mut io = segment.io();
    let mut begun = Instant::now();
    for (query, truth) in of.truth.iter().enumerate().take(2 * half) {
        if query == half {
            (io, begun) = (segment.io(), Instant::now());
        }
        let mut out = TopK::new(K);
        let vector = of.queries.row(query);
        let probe = GraphProbe { vector, list, beam: 4, walk, visible: None };
        let stats = segment.search(&probe, &mut scratch, &mut out)?;
        if query >= half {
            found += out.rows().iter().filter(|row| truth.contains(&row.id)).count();
            sum.reads += stats.blocks as f64;
            sum.rounds += stats.rounds as f64;
        }
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), segment.io());
    let each = |sum: f64| sum / half as f64;
    Ok(Point {
        recall: each(found as f64) / K as f64,
        reads: each(sum.reads),
        rounds: each(sum.rounds),
        kib: each((after.bytes - io.bytes) as f64 / 1024.0),
        ms: each(seconds * 1e3),
    })
}

struct Clusters<'a> {
    of: &'a FormsRun<'a>,
    codes: Codes,
    budget: usize,
}

impl Clusters<'_> {
    fn measured(&self, name: &str, disk: f64) -> Result<Form, Error> {
        let rows = self.of.rows.rows() as f64;
        let (fixed, _) = self.searched(CACHE_MIN, &[(1, K)])?;
        let cache = self.budget.saturating_sub(fixed as usize).max(CACHE_MIN);
        // The number of exact distances with which the recall is reached by the fewest reads.
        let mut best: Option<(f64, Vec<Point>)> = None;
        let mut last = Vec::new();
        for refine in REFINES {
            let efforts: Vec<(usize, usize)> =
                PROBES.iter().map(|&probes| (probes, refine)).collect();
            let (_, points) = self.searched(cache, &efforts)?;
            if let Some(at) = at_recall(&points, 0.95) {
                if best.as_ref().is_none_or(|best| at.reads < best.0) {
                    best = Some((at.reads, points));
                }
            } else {
                last = points;
            }
        }
        Ok(Form {
            name: name.to_owned(),
            budget: self.budget as f64 / rows,
            fixed: fixed / rows,
            cache: cache as f64 / rows,
            disk,
            points: best.map_or(last, |(_, points)| points),
        })
    }

    /// Bytes that the open segment holds beside its cache, and a point per effort.
    fn searched(
        &self,
        cache_bytes: usize,
        efforts: &[(usize, usize)],
    ) -> Result<(f64, Vec<Point>), Error> {
        let FormsRun { store, queries, truth, rows, .. } = *self.of;
        let larger = Larger { store, name: "c", codes: self.codes, cache_bytes, queries, truth };
        let (memory, table) = search(&larger, efforts)?;
        let point = |row: &crate::storage::LargerRow| Point {
            recall: row.recall,
            reads: row.reads,
            rounds: row.rounds,
            kib: row.bytes / 1024.0,
            ms: row.mean_ms,
        };
        let fixed = (memory.directory + memory.codes) * rows.rows() as f64;
        Ok((fixed, table.iter().map(point).collect()))
    }
}
