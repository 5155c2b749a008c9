//! The centroid tree as readers see it: root, nodes, leaves, chunks of coded rows.
//!
//! A leaf grows in place: a chunk holds 32 rows, its codes are replaced whole while it fills and
//! sealed when it is full. Everything above a leaf is immutable and replaced by copy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use vstream_quantize::rabitq::{block_bytes, pack_lane, Factors, BLOCK};
use vstream_quantize::scalar8::Centroids;
use vstream_vector::kernels;

use crate::rows::{RowChunk, Sequence};

/// What readers see: swapped whole, never changed.
pub(crate) struct Root {
    pub(crate) tree: Arc<Tree>,
    /// Newest rows, not yet in leaves: scanned exactly.
    pub(crate) tail: Arc<RowChunk>,
    /// Rows in leaves are visible up to this sequence; later ones are still served by the tail.
    pub(crate) placed: Sequence,
}

/// Inner nodes and their centroids, in rotated space.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Arc<Node>>,
    /// `nodes × padded`: the mean of each node's leaf centroids.
    pub(crate) centroids: Vec<f32>,
    pub(crate) leaves: usize,
}

/// A group of near leaves. Immutable: a change makes a new node.
pub(crate) struct Node {
    pub(crate) leaves: Vec<Arc<Leaf>>,
    /// The leaves' centroids as bytes, for a first look.
    pub(crate) coded: Centroids,
    /// Length of each centroid, for ranking by inner product.
    pub(crate) lengths: Vec<f32>,
    /// Mean of the centroids.
    pub(crate) mean: Vec<f32>,
}

/// Chunk slots come in runs, each twice as long as the one before: a leaf is small as a rule, and
/// when many rows arrive before it can be split it still has room for 130,000.
const RUNS: usize = 10;
const FIRST_RUN: usize = 4;

type ChunkSlots = Box<[OnceLock<LeafChunk>]>;

/// Run of a chunk, and its place there.
#[inline]
fn run_of(at: usize) -> (usize, usize) {
    let run = (at / FIRST_RUN + 1).ilog2() as usize;
    (run, at - FIRST_RUN * ((1 << run) - 1))
}

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
    chunks: [OnceLock<ChunkSlots>; RUNS],
}

/// Index of a leaf in the writer's table.
pub(crate) type LeafId = u32;

/// 32 rows and their codes.
pub(crate) struct LeafChunk {
    pub(crate) rows: Arc<RowChunk>,
    sealed: OnceLock<CodeBlock>,
    open: ArcSwapOption<CodeBlock>,
}

/// Codes of up to 32 rows in FastScan order, with their factors.
#[derive(Clone)]
pub(crate) struct CodeBlock {
    pub(crate) len: usize,
    pub(crate) codes: Box<[u8]>,
    pub(crate) add: [f32; BLOCK],
    pub(crate) scale: [f32; BLOCK],
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
}

impl LeafChunk {
    pub(crate) fn new(rows: Arc<RowChunk>) -> LeafChunk {
        LeafChunk { rows, sealed: OnceLock::new(), open: ArcSwapOption::empty() }
    }

    /// Publishes the codes of a chunk: for good once all lanes are used. Only the writer calls it.
    pub(crate) fn publish(&self, block: CodeBlock) {
        if block.len == BLOCK {
            let sealed = self.sealed.set(block).is_ok();
            assert!(sealed, "a chunk is sealed once");
            self.open.store(None);
        } else {
            self.open.store(Some(Arc::new(block)));
        }
    }

    /// Starts loading the chunk itself, factors included.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        kernels::prefetch(std::slice::from_ref(self));
    }

    /// Starts loading the codes of a full chunk; its head should be there.
    #[inline]
    pub(crate) fn prefetch_codes(&self) {
        if let Some(block) = self.sealed.get() {
            kernels::prefetch(&block.codes);
        }
    }

    /// Calls `visit` with the codes, if any row was published.
    #[inline]
    pub(crate) fn with_codes<T>(&self, visit: impl FnOnce(&CodeBlock) -> T) -> Option<T> {
        if let Some(block) = self.sealed.get() {
            return Some(visit(block));
        }
        let open = self.open.load();
        if let Some(block) = open.as_deref() {
            return Some(visit(block));
        }
        // Sealed between the two looks, or still empty.
        self.sealed.get().map(visit)
    }
}

impl Leaf {
    /// An empty leaf.
    pub(crate) fn new(id: LeafId, center: Box<[f32]>, centroid: Box<[f32]>) -> Leaf {
        Leaf { id, center, centroid, reach: AtomicU32::new(0), chunks: Default::default() }
    }

    /// Widens the reach to a row at this distance from the centroid; before the row is published.
    pub(crate) fn widen(&self, distance: f32) {
        self.reach.fetch_max(distance.to_bits(), Ordering::Relaxed);
    }

    /// No published row is farther from the centroid than this.
    pub(crate) fn reach(&self) -> f32 {
        f32::from_bits(self.reach.load(Ordering::Relaxed))
    }

    /// Opens the next chunk. Only the writer calls it.
    pub(crate) fn add_chunk(&self, at: usize, chunk: LeafChunk) {
        let (run, offset) = run_of(at);
        let slots = self.chunks[run]
            .get_or_init(|| (0..FIRST_RUN << run).map(|_| OnceLock::new()).collect());
        let added = slots[offset].set(chunk).is_ok();
        assert!(added, "a chunk is opened once");
    }

    /// The chunk at `at`, which exists.
    pub(crate) fn chunk(&self, at: usize) -> &LeafChunk {
        let (run, offset) = run_of(at);
        let slot = self.chunks[run].get().and_then(|slots| slots[offset].get());
        slot.expect("a chunk that a row was placed in")
    }

    /// The chunks opened so far.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &LeafChunk> {
        let slots = self.chunks.iter().map_while(OnceLock::get).flat_map(|run| run.iter());
        slots.map_while(OnceLock::get)
    }

    /// Bytes held by codes, rows and the leaf itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let slots: usize = self.chunks.iter().flat_map(OnceLock::get).map(|run| run.len()).sum();
        let own = slots * size_of::<OnceLock<LeafChunk>>()
            + (self.center.len() + self.centroid.len()) * 4
            + size_of::<Leaf>();
        let chunks: u64 = self
            .chunks()
            .map(|chunk| {
                let codes = chunk.with_codes(|block| block.codes.len()).unwrap_or(0);
                chunk.rows.memory_bytes() + codes as u64
            })
            .sum();
        own as u64 + chunks
    }
}

impl Tree {
    pub(crate) fn empty() -> Tree {
        Tree { nodes: Vec::new(), centroids: Vec::new(), leaves: 0 }
    }

    /// Every leaf, node by node.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.nodes.iter().flat_map(|node| node.leaves.iter())
    }
}

impl Node {
    /// A node of these leaves, at least one.
    pub(crate) fn of(leaves: Vec<Arc<Leaf>>) -> Node {
        let padded = leaves[0].centroid.len();
        let mut rows = Vec::with_capacity(leaves.len() * padded);
        let mut mean = vec![0.0f32; padded];
        for leaf in &leaves {
            rows.extend_from_slice(&leaf.centroid);
            mean.iter_mut().zip(&leaf.centroid).for_each(|(m, &x)| *m += x);
        }
        mean.iter_mut().for_each(|m| *m /= leaves.len() as f32);
        let lengths = leaves.iter().map(|leaf| kernels::norm_squared(&leaf.centroid).sqrt());
        let lengths = lengths.collect();
        Node { coded: Centroids::build(&rows, padded), lengths, mean, leaves }
    }

    /// Bytes held beside the leaves.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let padded = self.mean.len();
        let leaf = padded + size_of::<f32>() + size_of::<Arc<Leaf>>();
        (self.leaves.len() * leaf + padded * size_of::<f32>() + size_of::<Node>()) as u64
    }
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
