//! From the tail to the leaves: route a batch of rows, code them, append them.

use std::sync::Arc;

use vstream_quantize::rabitq::{encode, extended, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::kernels;

use super::leaf::{fine_bytes, CodeBlock, Leaf, LeafChunk, LeafId};
use super::tree::{Node, Tree};
use super::{Cluster, LeafState, Shared, TAIL};
use crate::rows::{RowKey, RowWriter, Sequence, VectorRef};

/// Nodes whose leaves are compared when a row is routed.
const ROUTED_NODES: usize = 8;

/// Leaves whose distance is taken exactly when a row is routed.
const ROUTED_EXACTLY: usize = 6;

/// Estimates of which the least is taken first.
const LOOKED_AT_TOGETHER: usize = 16;

/// Buffers of the writer, reused.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) vector: Vec<f32>,
    pub(super) bits: Vec<u8>,
    fine: Vec<u8>,
    pub(super) route: RouteScratch,
    routed: Vec<(LeafId, u32)>,
}

/// A row on its way into a leaf.
pub(super) struct Incoming<'a> {
    pub(super) key: RowKey,
    pub(super) vector: VectorRef<'a>,
    pub(super) inserted: Sequence,
    pub(super) code: Code<'a>,
}

/// Where a row's code comes from.
pub(super) enum Code<'a> {
    /// The rotated vector, `padded` long.
    Of(&'a [f32]),
    /// A block of a leaf with the same centroid, the lane there, and its fine code if there is one.
    Copied { block: &'a [u8], lane: usize, fine: Option<&'a [u8]> },
}

impl Cluster {
    /// Moves every living row of the tail to its leaf, maintains, and commits.
    pub(super) fn place_tail(&mut self) {
        self.sequence += 1;
        self.placed = self.sequence;
        let placed = self.placed;
        let tail = self.tail.chunk().clone();
        let padded = self.shared.rotation.padded();
        let lanes: Vec<usize> = (0..self.tail.len()).filter(|&l| tail.is_alive(l)).collect();
        let mut rotated = vec![0.0f32; lanes.len() * padded];
        self.buffers.vector.resize(self.shared.index.dimension, 0.0);
        if self.tree.nodes.is_empty() && !lanes.is_empty() {
            self.plant(&lanes);
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        for (row, &lane) in rotated.chunks_exact_mut(padded).zip(&lanes) {
            tail.vector(lane).read(&mut buffers.vector);
            self.shared.rotation.apply(&buffers.vector, row);
        }
        buffers.routed.clear();
        for (i, row) in rotated.chunks_exact(padded).enumerate() {
            let leaf = nearest_leaf(&self.tree, row, &mut buffers.route);
            buffers.routed.push((leaf, i as u32));
        }
        buffers.routed.sort_unstable();
        let routed = std::mem::take(&mut buffers.routed);
        self.buffers = buffers;
        for group in routed.chunk_by(|a, b| a.0 == b.0) {
            let rows = group.iter().map(|&(_, i)| {
                let lane = lanes[i as usize];
                Incoming {
                    key: tail.key(lane),
                    vector: tail.vector(lane),
                    // The batch's sequence hides the row here from readers of every root before it,
                    // who see it in the tail.
                    inserted: placed,
                    code: Code::Of(&rotated[i as usize * padded..][..padded]),
                }
            });
            self.append(group[0].0, rows);
        }
        self.buffers.routed = routed;
        self.tail = RowWriter::new(
            self.shared.index.element,
            self.shared.index.dimension,
            self.settings.batch_rows,
        );
        self.tail_dead = 0;
        self.maintain(lanes.len());
        self.commit();
    }

    /// The first leaf, centred on the first batch.
    fn plant(&mut self, lanes: &[usize]) {
        let mut center = vec![0.0f32; self.shared.index.dimension];
        for &lane in lanes {
            self.tail.chunk().vector(lane).read(&mut self.buffers.vector);
            center.iter_mut().zip(&self.buffers.vector).for_each(|(c, &x)| *c += x);
        }
        center.iter_mut().for_each(|c| *c /= lanes.len() as f32);
        let id = self.new_leaf(center, 0);
        let leaf = self.state(id).leaf.clone();
        let centroids = Arc::new(leaf.centroid.to_vec());
        let node = Node::of(vec![leaf]);
        self.tree = Arc::new(Tree { nodes: vec![Arc::new(node)], centroids, leaves: 1 });
    }

    /// An empty leaf in the writer's table; the caller puts it in the tree.
    pub(super) fn new_leaf(&mut self, center: Vec<f32>, node: u32) -> LeafId {
        let mut centroid = vec![0.0; self.shared.rotation.padded()];
        self.shared.rotation.apply(&center, &mut centroid);
        self.add_leaf(center.into(), centroid.into(), node)
    }

    /// As [`Cluster::new_leaf`], with a center whose rotation is known.
    pub(super) fn add_leaf(
        &mut self,
        center: Box<[f32]>,
        centroid: Box<[f32]>,
        node: u32,
    ) -> LeafId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.leaves.push(None);
            (self.leaves.len() - 1) as LeafId
        });
        debug_assert!(id != TAIL);
        let leaf = Leaf::new(id, center, centroid);
        self.leaves[id as usize] = Some(LeafState {
            leaf: Arc::new(leaf),
            node,
            open: None,
            pen: None,
            fine_pen: None,
            chunks: 0,
            rows: 0,
            dead: 0,
            looked: 0,
            lost: 0,
            queued: false,
            overfull: false,
        });
        id
    }

    /// Appends rows to a leaf in place and records where they are.
    ///
    /// Readers of an older root do not see them, because their `inserted` is above that root's
    /// `placed`; the caller guarantees it for rows of a leaf that such readers can reach.
    pub(super) fn append<'a>(&mut self, leaf: LeafId, rows: impl Iterator<Item = Incoming<'a>>) {
        let shared = self.shared.clone();
        let mut bits = std::mem::take(&mut self.buffers.bits);
        let mut fine = std::mem::take(&mut self.buffers.fine);
        let padded = shared.rotation.padded();
        bits.resize(padded / 8, 0);
        let places = &mut self.places;
        let state = self.leaves[leaf as usize].as_mut().expect("a leaf that is in use");
        let mut block: Option<CodeBlock> = None;
        for row in rows {
            if state.open.is_none() {
                open_chunk(&shared, state);
            }
            let chunk = state.chunks - 1;
            let open = state.open.as_mut().expect("just opened");
            let codes = block.get_or_insert_with(|| state.leaf.chunk(chunk).filling(padded));
            let centroid = &state.leaf.centroid;
            let lane = open.push(row.key, row.vector, row.inserted);
            match row.code {
                Code::Of(rotated) => {
                    state.leaf.widen(kernels::l2_squared(rotated, centroid).sqrt());
                    if let Some(pen) = &mut state.fine_pen {
                        fine.resize(extended::code_bytes(padded), 0);
                        let factors = extended::encode(shared.form, rotated, centroid, &mut fine);
                        fine.extend_from_slice(&factors.to_bytes());
                        state.leaf.chunk(chunk).push_fine(pen, &fine);
                    }
                    let factors = encode(shared.form, rotated, centroid, &mut bits);
                    codes.push(padded, &bits, factors);
                }
                Code::Copied { block, lane, fine } => {
                    if let (Some(pen), Some(fine)) = (&mut state.fine_pen, fine) {
                        state.leaf.chunk(chunk).push_fine(pen, fine);
                    }
                    codes.push_copy(padded, block, lane);
                }
            }
            let position = super::leaf::position(chunk, lane);
            places.insert(row.key.id, (leaf, position));
            state.rows += 1;
            if open.is_full() {
                let full = block.take().expect("the block of the open chunk");
                let pen = state.pen.as_mut().expect("the pen of the newest run");
                state.leaf.seal(chunk, &full, pen);
                state.open = None;
            }
        }
        if let Some(block) = block {
            state.leaf.chunk(state.chunks - 1).publish(block);
        }
        self.buffers.bits = bits;
        self.buffers.fine = fine;
        self.queue_if_due(leaf);
    }
}

/// Opens the next chunk of a leaf.
fn open_chunk(shared: &Shared, state: &mut LeafState) {
    let rows = RowWriter::new(shared.index.element, shared.index.dimension, BLOCK);
    let fine = if shared.second_look { fine_bytes(shared.rotation.padded()) } else { 0 };
    let (chunk, fine_pen) = LeafChunk::new(rows.chunk().clone(), fine);
    state.fine_pen = fine_pen;
    let pen = state.leaf.add_chunk(state.chunks, chunk);
    if pen.is_some() {
        state.pen = pen;
    }
    state.chunks += 1;
    state.open = Some(rows);
}

/// Buffers of routing.
#[derive(Default)]
pub(super) struct RouteScratch {
    nodes: Vec<(f32, u32)>,
    scan: ScanScratch,
    estimates: Vec<f32>,
    /// Estimate, node and child of the leaves that may be nearest.
    near: Vec<(f32, u32, u32)>,
}

/// The leaf whose centroid is nearest to a rotated row, among those of the nearest nodes.
///
/// Rows are grouped by Euclidean distance under every metric. A first look at byte centroids
/// leaves a few, whose distance is then taken exactly.
pub(super) fn nearest_leaf(tree: &Tree, rotated: &[f32], scratch: &mut RouteScratch) -> LeafId {
    let RouteScratch { nodes, scan, estimates, near } = scratch;
    nodes.clear();
    for (node, centroid) in tree.centroids.chunks_exact(rotated.len()).enumerate() {
        nodes.push((kernels::l2_squared(rotated, centroid), node as u32));
    }
    if nodes.len() > ROUTED_NODES {
        nodes.select_nth_unstable_by(ROUTED_NODES - 1, |a, b| a.0.total_cmp(&b.0));
        nodes.truncate(ROUTED_NODES);
    }
    // With the nearest node first, few leaves of the others pass those kept so far.
    nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    near.clear();
    for &(_, node) in nodes.iter() {
        tree.nodes[node as usize].coded.scan(Form::L2, rotated, scan, estimates);
        for (estimates, first) in estimates.chunks(LOOKED_AT_TOGETHER).zip(0..) {
            // Few of many pass, so most are dismissed together.
            let least = estimates.iter().fold(f32::INFINITY, |least, &x| least.min(x));
            if near.len() == ROUTED_EXACTLY && near[ROUTED_EXACTLY - 1].0 <= least {
                continue;
            }
            for (&estimate, child) in estimates.iter().zip(first * LOOKED_AT_TOGETHER as u32..) {
                keep_nearest(near, (estimate, node, child));
            }
        }
    }
    let leaf =
        |&(_, node, child): &(f32, u32, u32)| &tree.nodes[node as usize].leaves[child as usize];
    near.iter().for_each(|at| leaf(at).prefetch_head());
    near.iter().for_each(|at| kernels::prefetch(&leaf(at).centroid));
    let leaves =
        near.iter().map(leaf).map(|leaf| (kernels::l2_squared(rotated, &leaf.centroid), leaf.id));
    leaves.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a tree with a leaf").1
}

/// Keeps the [`ROUTED_EXACTLY`] least estimates, ascending.
fn keep_nearest(near: &mut Vec<(f32, u32, u32)>, leaf: (f32, u32, u32)) {
    if near.len() == ROUTED_EXACTLY {
        if near[ROUTED_EXACTLY - 1].0 <= leaf.0 {
            return;
        }
        near.pop();
    }
    let at = near.partition_point(|other| other.0 <= leaf.0);
    near.insert(at, leaf);
}
