//! A leaf: a few hundred near rows, in chunks of 32 with their codes.
//!
//! Chunks come in runs. The codes and factors of a run's full chunks follow one another in memory,
//! so that a scan reads them as one stream; those of the chunk that still fills are a block of
//! their own, replaced whole for every batch of rows and copied to the run when it is full.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use vstream_quantize::rabitq::{block_bytes, pack_lane, BlockView, Factors, BLOCK};
use vstream_vector::kernels;

use crate::append::{append_buffer, Cells, Pen};
use crate::rows::RowChunk;

/// Each run is twice as long as the one before: a leaf is small as a rule, and when many rows
/// arrive before it can be split it still has room for 130,000.
const RUNS: usize = 10;
const FIRST_RUN: usize = 12;
/// Factors of a block: `add` of all lanes, then `scale` of all lanes.
const BLOCK_FACTORS: usize = 2 * BLOCK;
/// Bytes of codes that are asked for ahead; the rest follows in order and comes by itself.
const PREFETCH_BYTES: usize = 1024;

/// Index of a leaf in the writer's table.
pub(crate) type LeafId = u32;

/// A few hundred near rows.
pub(crate) struct Leaf {
    pub(crate) id: LeafId,
    /// Mean of the rows when the leaf was made; fixed for its life.
    pub(crate) center: Box<[f32]>,
    /// `center` in rotated space: what the codes refer to.
    pub(crate) centroid: Box<[f32]>,
    /// Largest distance (not squared) of a row to the centroid so far, as the bits of an `f32`:
    /// the bits of numbers that are not negative are in the order of the numbers.
    reach: AtomicU32,
    runs: [OnceLock<Run>; RUNS],
}

/// Chunks, and the codes of the full ones among them, which are the first.
struct Run {
    chunks: Box<[OnceLock<LeafChunk>]>,
    /// Published after `factors`: its length says how many chunks are full.
    codes: Cells<u8>,
    factors: Cells<f32>,
}

/// The right to add full chunks to a leaf's newest run.
pub(crate) struct RunPens {
    codes: Pen,
    factors: Pen,
}

/// 32 rows; the codes as long as the chunk is not full.
pub(crate) struct LeafChunk {
    pub(crate) rows: Arc<RowChunk>,
    filling: ArcSwapOption<CodeBlock>,
}

/// Codes of up to 32 rows in FastScan order, with their factors.
#[derive(Clone)]
pub(crate) struct CodeBlock {
    pub(crate) len: usize,
    codes: Box<[u8]>,
    add: [f32; BLOCK],
    scale: [f32; BLOCK],
}

impl CodeBlock {
    /// No rows; the factors of empty lanes make their estimate infinite.
    pub(crate) fn empty(padded: usize) -> CodeBlock {
        CodeBlock {
            len: 0,
            codes: vec![0; block_bytes(padded)].into_boxed_slice(),
            add: [f32::INFINITY; BLOCK],
            scale: [0.0; BLOCK],
        }
    }

    /// Adds one row's code in the next lane.
    pub(crate) fn push(&mut self, padded: usize, bits: &[u8], factors: Factors) {
        pack_lane(&mut self.codes, padded, self.len, bits);
        self.add[self.len] = factors.add;
        self.scale[self.len] = factors.scale;
        self.len += 1;
    }

    fn view(&self) -> BlockView<'_> {
        BlockView { codes: &self.codes, add: &self.add, scale: &self.scale }
    }
}

impl LeafChunk {
    pub(crate) fn new(rows: Arc<RowChunk>) -> LeafChunk {
        LeafChunk { rows, filling: ArcSwapOption::empty() }
    }

    /// The codes of a chunk that is not full, to be extended; only the writer asks.
    pub(crate) fn filling(&self, padded: usize) -> CodeBlock {
        let current = self.filling.load();
        current.as_deref().cloned().unwrap_or_else(|| CodeBlock::empty(padded))
    }

    /// Publishes the codes of a chunk that is not full. Only the writer calls it.
    pub(crate) fn publish(&self, block: CodeBlock) {
        self.filling.store(Some(Arc::new(block)));
    }
}

impl Run {
    fn new(chunks: usize, block_bytes: usize) -> (Run, RunPens) {
        let (codes_pen, codes) = append_buffer(chunks * block_bytes);
        let (factors_pen, factors) = append_buffer(chunks * BLOCK_FACTORS);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        (Run { chunks, codes, factors }, RunPens { codes: codes_pen, factors: factors_pen })
    }

    fn full_chunks(&self, block_bytes: usize) -> usize {
        self.codes.len() / block_bytes
    }

    /// The codes of a full chunk.
    fn view(&self, at: usize, block_bytes: usize) -> BlockView<'_> {
        let factors = self.factors.slice(at * BLOCK_FACTORS, BLOCK_FACTORS);
        let (add, scale) = factors.split_at(BLOCK);
        BlockView {
            codes: self.codes.slice(at * block_bytes, block_bytes),
            add: add.try_into().expect("one factor per lane"),
            scale: scale.try_into().expect("one factor per lane"),
        }
    }

    /// Shows the codes of every chunk that has any; false if there may be more in the next run.
    fn for_each_block(
        &self,
        first: usize,
        block_bytes: usize,
        visit: &mut impl FnMut(usize, &LeafChunk, &BlockView<'_>, usize),
    ) -> bool {
        let mut full = self.full_chunks(block_bytes);
        for (at, slot) in self.chunks.iter().enumerate() {
            let Some(chunk) = slot.get() else { return true };
            if at >= full {
                let filling = chunk.filling.load();
                if let Some(block) = filling.as_deref() {
                    visit(first + at, chunk, &block.view(), block.len);
                    continue;
                }
                // Empty still, or filled up since the run was looked at.
                full = self.full_chunks(block_bytes);
                if at >= full {
                    return true;
                }
            }
            visit(first + at, chunk, &self.view(at, block_bytes), BLOCK);
        }
        false
    }
}

impl Leaf {
    /// An empty leaf.
    pub(crate) fn new(id: LeafId, center: Box<[f32]>, centroid: Box<[f32]>) -> Leaf {
        Leaf { id, center, centroid, reach: AtomicU32::new(0), runs: Default::default() }
    }

    /// Widens the reach to a row at this distance from the centroid; before the row is published.
    pub(crate) fn widen(&self, distance: f32) {
        self.reach.fetch_max(distance.to_bits(), Ordering::Relaxed);
    }

    /// No published row is farther from the centroid than this.
    pub(crate) fn reach(&self) -> f32 {
        f32::from_bits(self.reach.load(Ordering::Relaxed))
    }

    /// Opens the next chunk; returns the pens of a run that begins with it. Only the writer calls.
    pub(crate) fn add_chunk(&self, at: usize, chunk: LeafChunk) -> Option<RunPens> {
        let (run, offset) = run_of(at);
        let mut pens = None;
        let run = self.runs[run].get_or_init(|| {
            let (run, new) = Run::new(FIRST_RUN << run, self.block_bytes());
            pens = Some(new);
            run
        });
        let added = run.chunks[offset].set(chunk).is_ok();
        assert!(added, "a chunk is opened once");
        pens
    }

    /// Publishes the codes of a chunk that is now full, after those before it.
    pub(crate) fn seal(&self, at: usize, block: &CodeBlock, pens: &mut RunPens) {
        let (run, offset) = run_of(at);
        let run = self.runs[run].get().expect("the run of an open chunk");
        assert_eq!(run.full_chunks(self.block_bytes()), offset, "chunks fill in order");
        run.factors.push(&mut pens.factors, &block.add);
        run.factors.push(&mut pens.factors, &block.scale);
        run.codes.push(&mut pens.codes, &block.codes);
        self.chunk(at).filling.store(None);
    }

    /// The chunk at `at`, which exists.
    pub(crate) fn chunk(&self, at: usize) -> &LeafChunk {
        let (run, offset) = run_of(at);
        let slot = self.runs[run].get().and_then(|run| run.chunks[offset].get());
        slot.expect("a chunk that a row was placed in")
    }

    /// The chunks opened so far.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &LeafChunk> {
        let runs = self.runs.iter().map_while(OnceLock::get);
        runs.flat_map(|run| run.chunks.iter()).map_while(OnceLock::get)
    }

    /// Shows each chunk that has codes: position, chunk, codes, rows.
    #[inline]
    pub(crate) fn for_each_block(
        &self,
        mut visit: impl FnMut(usize, &LeafChunk, &BlockView<'_>, usize),
    ) {
        let mut first = 0;
        for run in self.runs.iter().map_while(OnceLock::get) {
            if run.for_each_block(first, self.block_bytes(), &mut visit) {
                return;
            }
            first += run.chunks.len();
        }
    }

    /// Starts loading the leaf itself.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        kernels::prefetch(std::slice::from_ref(self));
    }

    /// Starts loading its chunks and the begin of its codes; its head should be there.
    #[inline]
    pub(crate) fn prefetch_codes(&self) {
        for run in self.runs.iter().map_while(OnceLock::get) {
            let bytes = run.codes.len().min(PREFETCH_BYTES);
            kernels::prefetch(run.codes.slice(0, bytes));
            let factors = run.factors.len().min(BLOCK_FACTORS);
            kernels::prefetch(run.factors.slice(0, factors));
            kernels::prefetch(&run.chunks);
        }
    }

    /// Bytes held by codes, rows and the leaf itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let runs = self.runs.iter().map_while(OnceLock::get);
        let runs: usize = runs
            .map(|run| {
                run.codes.capacity()
                    + run.factors.capacity() * size_of::<f32>()
                    + run.chunks.len() * size_of::<OnceLock<LeafChunk>>()
            })
            .sum();
        let own = (self.center.len() + self.centroid.len()) * size_of::<f32>() + size_of::<Leaf>();
        let rows: u64 = self.chunks().map(|chunk| chunk.rows.memory_bytes()).sum();
        // At most one chunk has a block of its own.
        (own + runs + self.block_bytes() + size_of::<CodeBlock>()) as u64 + rows
    }

    fn block_bytes(&self) -> usize {
        block_bytes(self.centroid.len())
    }
}

/// Run of a chunk, and its place there.
#[inline]
fn run_of(at: usize) -> (usize, usize) {
    let run = (at / FIRST_RUN + 1).ilog2() as usize;
    (run, at - FIRST_RUN * ((1 << run) - 1))
}

/// Chunk and lane of a position in a leaf.
#[inline]
pub(crate) fn split_position(position: u32) -> (usize, usize) {
    (position as usize / BLOCK, position as usize % BLOCK)
}

/// Position of a chunk and lane in a leaf.
#[inline]
pub(crate) fn position(chunk: usize, lane: usize) -> u32 {
    (chunk * BLOCK + lane) as u32
}
