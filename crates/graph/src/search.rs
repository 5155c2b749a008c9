//! Searches a graph segment block by block.
//!
//! 1. The navigation graph gives entries; codes estimate their distances.
//! 2. A round takes the nearest candidates that are not expanded. One whose block is held is
//!    expanded at once. The blocks of the others, up to the beam, are read together.
//! 3. Every row of a block that was read is scored exactly. The requested ones and the best `ratio`
//!    of the others are expanded: codes estimate their neighbours, which become candidates.
//! 4. It ends when no candidate among the first `list` is left.
//!
//! [`Walk::Nodes`] is the control: only the requested record of a block is used, as DiskANN does.

use std::collections::HashMap;
use std::sync::Arc;

use vstream_store::blocks::{Block, BlockHandle};
use vstream_store::Error;
use vstream_vector::{kernels, with_number, Metric, Neighbor, Number, TopK};

use crate::build::Greedy;
use crate::codes::CodeQuery;
use crate::format::Malformed;
use crate::list::{ByNumber, List};
use crate::read::GraphSegment;
use crate::vectors::Wide;

/// Most times that hidden rows may lengthen the list.
const HIDDEN_MAX: usize = 16;

/// What a search makes of a block.
#[derive(Clone, Copy)]
pub enum Walk<'a> {
    /// Scores all its rows and expands the best of them.
    Blocks {
        /// Share of the rows beside the requested one that are expanded at once (σ), 0..=1.
        ratio: f32,
        /// Candidates of the search in the navigation graph (Γ), ≥ 1.
        entries: usize,
    },
    /// Uses the requested record alone, from the entry of the whole graph; no read is needed for hot
    /// nodes.
    Nodes {
        /// Nodes in memory.
        hot: Option<&'a HotNodes>,
    },
}

/// A query to a segment.
#[derive(Clone, Copy)]
pub struct GraphProbe<'a> {
    /// `dimension` finite values, normalised under cosine.
    pub vector: &'a [f32],
    /// Candidates that are explored; at least the `k` of the collector is used.
    pub list: usize,
    /// Most blocks read in a round (W), ≥ 1.
    pub beam: usize,
    /// What is made of a block.
    pub walk: Walk<'a>,
    /// Row numbers that may be in the answer: not deleted, and matching. `None` for all. Other rows
    /// still lead the way, and each lengthens the list by one, up to 16 times its length.
    pub visible: Option<&'a dyn Fn(u32) -> bool>,
}

/// Work that a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphStats {
    /// Blocks read, from the file or a cache.
    pub blocks: usize,
    /// Rounds of reads.
    pub rounds: usize,
    /// Exact distances.
    pub exact: usize,
    /// Distances estimated by codes.
    pub estimates: usize,
}

/// Records of nodes that many queries visit, kept in memory.
pub struct HotNodes {
    records: HashMap<u32, Box<[u8]>>,
}

impl HotNodes {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// Buffers of searches, which reuse them.
#[derive(Default)]
pub struct GraphScratch {
    codes: CodeQuery,
    greedy: Greedy,
    list: List,
    wide: Wide,
    entries: Vec<u32>,
    held: ByNumber<Arc<Block>>,
    /// Nodes expanded by the last search, in order.
    visited: Vec<u32>,
}

impl GraphScratch {
    /// Prepares for estimates of a query's distances.
    pub(crate) fn codes_for(&mut self, segment: &GraphSegment, query: &[f32]) -> &CodeQuery {
        self.codes.build(&segment.codes, &segment.rotation, query);
        &self.codes
    }
}

/// Where found rows go.
enum Sink<'a> {
    Nearest(&'a mut TopK),
    Within(f32, &'a mut Vec<Neighbor>),
}

impl GraphSegment {
    /// Offers the nearest visible rows that it finds to `out`, which the caller reset to `k`.
    ///
    /// Cost: rounds of up to `beam` reads, 4 to 10 of them in docs/design/graph.md. Errors:
    /// `Corrupt`, those of the store; `out` is incomplete then. Panics if the query is of another
    /// dimension.
    pub fn search(
        &self,
        probe: &GraphProbe<'_>,
        scratch: &mut GraphScratch,
        out: &mut TopK,
    ) -> Result<GraphStats, Error> {
        let list = probe.list.max(out.k()).max(1);
        with_number!(self.header.element, N => {
            self.run::<N>(probe, list, scratch, &mut Sink::Nearest(out))
        })
    }

    /// Adds visible rows at a distance of at most `radius` to `out`, in no order. Each row found
    /// lengthens the list by one, so the search goes on until the edge of the range is explored.
    ///
    /// Approximate: a row is missed if no explored path leads to it. Cost and errors: as
    /// [`GraphSegment::search`], by the number of rows found.
    pub fn search_radius(
        &self,
        probe: &GraphProbe<'_>,
        radius: f32,
        scratch: &mut GraphScratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<GraphStats, Error> {
        with_number!(self.header.element, N => {
            self.run::<N>(probe, probe.list.max(1), scratch, &mut Sink::Within(radius, out))
        })
    }

    /// The nodes that the sample queries expand most, as many as fit `bytes`, for [`Walk::Nodes`].
    /// Errors: as [`GraphSegment::search`].
    pub fn hottest(
        &self,
        queries: &[Vec<f32>],
        list: usize,
        bytes: usize,
    ) -> Result<HotNodes, Error> {
        let mut scratch = GraphScratch::default();
        let mut visits: HashMap<u32, u32> = HashMap::new();
        let walk = Walk::Nodes { hot: None };
        for vector in queries {
            let probe = GraphProbe { vector, list, beam: 4, walk, visible: None };
            self.search(&probe, &mut scratch, &mut TopK::new(1))?;
            scratch.visited.iter().for_each(|&node| *visits.entry(node).or_default() += 1);
        }
        let mut nodes: Vec<(u32, u32)> = visits.into_iter().map(|(node, n)| (n, node)).collect();
        nodes.sort_unstable_by(|a, b| b.cmp(a));
        nodes.truncate(bytes / (self.header.record_bytes() + 4));
        let mut records = HashMap::with_capacity(nodes.len());
        for (_, node) in nodes {
            let block = self.passing.read(self.places.block(self.block_of(node)))?;
            records.insert(node, self.record(&block, node).into());
        }
        Ok(HotNodes { records })
    }

    pub(crate) fn block_of(&self, node: u32) -> u32 {
        node / self.header.capacity() as u32
    }

    /// The record of a node in its block.
    #[inline]
    pub(crate) fn record<'b>(&self, block: &'b [u8], node: u32) -> &'b [u8] {
        let lane = node as usize % self.header.capacity();
        &block[lane * self.header.record_bytes()..][..self.header.record_bytes()]
    }

    /// The nodes of a block.
    pub(crate) fn nodes_of(&self, block: u32) -> std::ops::Range<u32> {
        let from = u64::from(block) * self.header.capacity() as u64;
        from as u32..(from + self.header.capacity() as u64).min(self.meta.nodes) as u32
    }

    fn run<N: Number>(
        &self,
        probe: &GraphProbe<'_>,
        list: usize,
        scratch: &mut GraphScratch,
        sink: &mut Sink<'_>,
    ) -> Result<GraphStats, Error> {
        assert_eq!(probe.vector.len(), self.dimension(), "a query of another dimension");
        if self.meta.nodes == 0 {
            return Ok(GraphStats::default());
        }
        scratch.codes.build(&self.codes, &self.rotation, probe.vector);
        let kept = match sink {
            Sink::Within(..) => usize::MAX,
            Sink::Nearest(_) if probe.visible.is_some() => list.saturating_mul(HIDDEN_MAX),
            Sink::Nearest(_) => list,
        };
        scratch.list.reset(list, kept);
        scratch.held.clear();
        scratch.visited.clear();
        self.enter(probe, scratch);
        let numbers = Vec::with_capacity(self.dimension());
        let mut run =
            Run::<N> { segment: self, probe, scratch, sink, stats: GraphStats::default(), numbers };
        while run.round()? {}
        Ok(run.stats)
    }

    /// Puts the entries into the list.
    fn enter(&self, probe: &GraphProbe<'_>, scratch: &mut GraphScratch) {
        let GraphScratch { codes, greedy, list, wide, entries, .. } = scratch;
        entries.clear();
        if let (Walk::Blocks { entries: width, .. }, Some(navigation)) =
            (probe.walk, &self.navigation)
        {
            wide.numbers.clear();
            wide.numbers.extend_from_slice(probe.vector);
            wide.lift = 0.0;
            navigation.nearest(wide, width.max(1), greedy, entries);
        } else {
            entries.push(self.meta.entry);
        }
        for &node in &*entries {
            list.add(codes.estimate(&self.codes, node), node);
        }
    }
}

/// A search under way.
struct Run<'a, 'b, N> {
    segment: &'a GraphSegment,
    probe: &'a GraphProbe<'a>,
    scratch: &'a mut GraphScratch,
    sink: &'a mut Sink<'b>,
    stats: GraphStats,
    numbers: Vec<N>,
}

impl<N: Number> Run<'_, '_, N> {
    /// Makes a round; false if nothing was left to read.
    fn round(&mut self) -> Result<bool, Error> {
        let segment = self.segment;
        let mut wanted: Vec<u32> = Vec::new();
        let mut nodes: Vec<u32> = Vec::new();
        let mut from = 0;
        while wanted.len() < self.probe.beam.max(1) {
            let Some((at, candidate)) = self.scratch.list.first(from) else { break };
            let block = segment.block_of(candidate.node);
            let offset = segment.places.block(block).offset;
            if let Walk::Nodes { hot } = self.probe.walk {
                let record = hot.and_then(|hot| hot.records.get(&candidate.node));
                if let Some(record) = record {
                    self.score(candidate.node, record, offset)?;
                    self.expand_requested(candidate.node, record, offset)?;
                    from = 0;
                    continue;
                }
            } else if let Some(held) = self.scratch.held.get(&block).cloned() {
                self.expand(candidate.node, segment.record(&held, candidate.node), offset)?;
                from = 0;
                continue;
            }
            if nodes.contains(&candidate.node) {
                from = at + 1;
                continue;
            }
            nodes.push(candidate.node);
            if !wanted.contains(&block) {
                wanted.push(block);
            }
            from = at + 1;
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        wanted.sort_unstable();
        let handles: Vec<BlockHandle> =
            wanted.iter().map(|&block| segment.places.block(block)).collect();
        let blocks = segment.blocks.read_many(&handles)?;
        self.stats.rounds += 1;
        self.stats.blocks += wanted.len();
        for ((&block, bytes), handle) in wanted.iter().zip(&blocks).zip(&handles) {
            let requested: Vec<u32> =
                nodes.iter().copied().filter(|&node| segment.block_of(node) == block).collect();
            match self.probe.walk {
                Walk::Blocks { ratio, .. } => {
                    self.scratch.held.insert(block, bytes.clone());
                    self.take_block((block, bytes, handle.offset), &requested, ratio)?;
                }
                Walk::Nodes { .. } => {
                    for node in requested {
                        let record = segment.record(bytes, node);
                        self.score(node, record, handle.offset)?;
                        self.expand_requested(node, record, handle.offset)?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Scores all rows of a block and expands the best.
    fn take_block(
        &mut self,
        (block, bytes, offset): (u32, &[u8], u64),
        requested: &[u32],
        ratio: f32,
    ) -> Result<(), Error> {
        let segment = self.segment;
        let mut others: Vec<(f32, u32)> = Vec::with_capacity(segment.header.capacity());
        for node in segment.nodes_of(block) {
            let key = self.score(node, segment.record(bytes, node), offset)?;
            if !requested.contains(&node) {
                others.push((key, node));
            }
        }
        others.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.truncate((ratio.clamp(0.0, 1.0) * others.len() as f32).ceil() as usize);
        for &node in requested {
            self.expand_requested(node, segment.record(bytes, node), offset)?;
        }
        for (_, node) in others {
            self.expand(node, segment.record(bytes, node), offset)?;
        }
        Ok(())
    }

    /// Takes the exact distance of a node and offers its visible rows; returns its key.
    fn score(&mut self, node: u32, record: &[u8], offset: u64) -> Result<f32, Error> {
        let segment = self.segment;
        let (vector, _) = record.split_at(segment.header.vector_bytes());
        self.numbers.clear();
        self.numbers.extend(vector.chunks_exact(N::ELEMENT.bytes()).map(N::take));
        let distance = exact(segment.metric(), self.probe.vector, &self.numbers);
        if distance.is_nan() {
            return Err(segment.corrupt(offset, Malformed("a vector is not finite")));
        }
        self.stats.exact += 1;
        let mut is_hidden = true;
        for row in std::iter::once(node).chain(segment.further(node)) {
            if self.probe.visible.is_some_and(|visible| !visible(row)) {
                continue;
            }
            is_hidden = false;
            let (id, version) = (segment.ids.get(row), segment.versions.get(row));
            let found = Neighbor { distance, id, version };
            match self.sink {
                Sink::Nearest(out) => {
                    out.offer(found);
                }
                Sink::Within(radius, out) if distance <= *radius => out.push(found),
                Sink::Within(..) => {}
            }
        }
        let list = &mut self.scratch.list;
        let lengthens = match self.sink {
            Sink::Nearest(_) => is_hidden,
            Sink::Within(radius, _) => distance <= *radius,
        };
        list.room += usize::from(lengthens);
        // Estimates under cosine are squared distances of unit vectors.
        let key = if segment.metric() == Metric::Cosine { 2.0 * distance } else { distance };
        list.correct(key, node);
        Ok(key)
    }

    /// Estimates the neighbours of a node that is among the explored candidates.
    fn expand(&mut self, node: u32, record: &[u8], offset: u64) -> Result<(), Error> {
        if self.scratch.list.expand(node) {
            self.expand_always(node, record, offset)?;
        }
        Ok(())
    }

    /// Estimates the neighbours of a node that was requested: the read is paid, also if its distance
    /// turned out to be large.
    fn expand_requested(&mut self, node: u32, record: &[u8], offset: u64) -> Result<(), Error> {
        self.scratch.list.expand(node);
        self.expand_always(node, record, offset)
    }

    fn expand_always(&mut self, node: u32, record: &[u8], offset: u64) -> Result<(), Error> {
        let segment = self.segment;
        self.scratch.visited.push(node);
        let GraphScratch { codes, list, .. } = &mut *self.scratch;
        let ends = neighbours(record, &segment.header, segment.meta.nodes);
        for end in ends.map_err(|what| segment.corrupt(offset, what))? {
            if !list.is_met(end) {
                self.stats.estimates += 1;
                list.add(codes.estimate(&segment.codes, end), end);
            }
        }
        Ok(())
    }
}

/// The neighbours in a record, checked.
pub(crate) fn neighbours<'a>(
    record: &'a [u8],
    header: &crate::format::Header,
    nodes: u64,
) -> Result<impl Iterator<Item = u32> + 'a, Malformed> {
    let rest = &record[header.vector_bytes()..];
    let (degree, places) = (usize::from(rest[0]), rest[1..].as_chunks::<4>().0);
    let ends = places.get(..degree).ok_or(Malformed("a node has too many neighbours"))?;
    if ends.iter().any(|end| u64::from(u32::from_le_bytes(*end)) >= nodes) {
        return Err(Malformed("a neighbour is out of range"));
    }
    Ok(ends.iter().map(|end| u32::from_le_bytes(*end)))
}

/// Distance of a query to a stored vector.
#[inline]
pub(crate) fn exact<N: Number>(metric: Metric, query: &[f32], row: &[N]) -> f32 {
    match metric {
        Metric::L2 => kernels::l2_squared(query, row),
        Metric::Cosine => 1.0 - kernels::inner_product(query, row),
        Metric::InnerProduct => -kernels::inner_product(query, row),
    }
}
