//! Places the tail: routes its rows to leaves, codes them and appends them.

use std::sync::Arc;

use vstream_quantize::rabitq::{encode_measured, extended, BLOCK};

use super::leaf::{
    fine_bytes, run_rows, CodeBlock, Leaf, LeafChunk, LeafId, LeafSerial, SpareBlock, LAST_SERIAL,
};
use super::route::{nearest_leaves, RouteScratch};
use super::tree::{Node, Tree};
use super::{Cluster, LeafState, Shared, TAIL};
use crate::rows::{Load, RowChunk, RowWriter, Sequence};
use crate::settings::IndexSettings;
use crate::turns::work_done;

/// Units of [`work_done`] that coding and appending a row takes.
const APPEND_UNITS: usize = 256;

/// Buffers of the writer, reused from batch to batch.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) vector: Vec<f32>,
    pub(super) bits: Vec<u8>,
    fine: Vec<u8>,
    pub(super) route: RouteScratch,
    /// The nearest leaf of each row.
    nearest: Vec<LeafId>,
    /// Leaf and row.
    routed: Vec<(LeafId, u32)>,
    /// Codes of appended rows, and the chunks that these entered.
    pub(super) posted: Vec<(u32, u32)>,
    pub(super) spare: SpareBlock,
}

/// A row that is appended to a leaf.
pub(super) struct Incoming<'a> {
    /// The chunk that has the row, and its lane there.
    pub(super) rows: &'a RowChunk,
    pub(super) lane: usize,
    pub(super) inserted: Sequence,
    pub(super) code: Code<'a>,
}

/// The source of a row's code.
pub(super) enum Code<'a> {
    /// Encode the rotated vector, `padded` long.
    Rotated(&'a [f32]),
    /// Copy the code of a lane of a block of a leaf with the same centroid, and its fine code if it has
    /// one.
    Copied { block: &'a [u8], lane: usize, fine: Option<&'a [u8]> },
}

impl Cluster {
    /// Moves every living row of the tail to its leaf, does the jobs that are due, and commits.
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
        let Buffers { route, nearest, .. } = &mut buffers;
        nearest.clear();
        nearest_leaves(&self.tree, &rotated, padded, route, nearest);
        buffers.routed.clear();
        buffers.routed.extend(buffers.nearest.iter().copied().zip(0..));
        buffers.routed.sort_unstable();
        let routed = std::mem::take(&mut buffers.routed);
        self.buffers = buffers;
        for group in routed.chunk_by(|a, b| a.0 == b.0) {
            let rows = group.iter().map(|&(_, i)| {
                let lane = lanes[i as usize];
                let rotated = &rotated[i as usize * padded..][..padded];
                Incoming {
                    rows: &tail,
                    lane,
                    code: Code::Rotated(rotated),
                    // The batch's sequence hides this copy from readers of every earlier root: they
                    // see the row in the tail.
                    inserted: placed,
                }
            });
            self.append(group[0].0, rows);
            work_done(group.len() * APPEND_UNITS);
        }
        self.buffers.routed = routed;
        if self.tail.len() > 0 {
            let IndexSettings { element, dimension, .. } = self.shared.index;
            self.tail = RowWriter::new(element, dimension, self.tail_rows());
        }
        self.tail_dead = 0;
        let renewed = std::mem::take(&mut self.renewed_since_maintenance);
        self.maintain(lanes.len() + renewed);
        self.commit();
    }

    /// Makes the first leaf, centred on the first batch.
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
        let node = Node::with_leaves(vec![leaf]);
        self.tree = Arc::new(Tree { nodes: vec![Arc::new(node)], centroids, leaves: 1 });
    }

    /// Adds an empty leaf to the writer's table, under the next serial. The caller puts it in the tree.
    pub(super) fn new_leaf(&mut self, center: Vec<f32>, node: u32) -> LeafId {
        let serial = self.next_serial;
        self.next_serial = LAST_SERIAL.min(serial + 1);
        self.serial_leaf(center, serial, node)
    }

    /// Adds an empty leaf as [`Cluster::new_leaf`] does, under this serial.
    pub(super) fn serial_leaf(
        &mut self,
        center: Vec<f32>,
        serial: LeafSerial,
        node: u32,
    ) -> LeafId {
        let mut centroid = vec![0.0; self.shared.rotation.padded()];
        self.shared.rotation.apply(&center, &mut centroid);
        self.add_leaf(center.into(), centroid.into(), serial, node)
    }

    /// Adds an empty leaf, with the rotated center given as `centroid`: see [`Cluster::new_leaf`].
    pub(super) fn add_leaf(
        &mut self,
        center: Box<[f32]>,
        centroid: Box<[f32]>,
        serial: LeafSerial,
        node: u32,
    ) -> LeafId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.leaves.push(None);
            (self.leaves.len() - 1) as LeafId
        });
        debug_assert!(id != TAIL);
        let leaf = Arc::new(Leaf::new((id, serial), center, centroid));
        self.shared.leaves.set(id, Some(leaf.clone()));
        self.leaves[id as usize] = Some(LeafState {
            leaf,
            node,
            open: None,
            load: Load::default(),
            pen: None,
            fine_pen: None,
            chunks: 0,
            rows: 0,
            dead: 0,
            looked: 0,
            lost: 0,
            renewed: 0,
            queued: false,
            overfull: false,
        });
        id
    }

    /// Appends rows to a leaf in place and records their addresses.
    ///
    /// Readers of an older root do not see them, because their `inserted` is above that root's
    /// `placed`. The caller guarantees this for rows of a leaf that such readers can reach.
    pub(super) fn append<'a>(&mut self, leaf: LeafId, rows: impl Iterator<Item = Incoming<'a>>) {
        let shared = self.shared.clone();
        let mut bits = std::mem::take(&mut self.buffers.bits);
        let mut fine = std::mem::take(&mut self.buffers.fine);
        let padded = shared.rotation.padded();
        bits.resize(padded / 8, 0);
        let (ids, carrier) = (&mut self.ids, &mut self.carrier);
        let Buffers { posted, spare, .. } = &mut self.buffers;
        let mut values = carrier.take_values();
        let state = self.leaves[leaf as usize].as_mut().expect("a leaf that is in use");
        let mut block: Option<CodeBlock> = None;
        for row in rows {
            if state.open.is_none() {
                open_chunk(&shared, state);
            }
            let chunk = state.chunks - 1;
            let open = state.open.as_mut().expect("just opened");
            let codes = block.get_or_insert_with(|| state.leaf.chunk(chunk).filling(padded, spare));
            let centroid = &state.leaf.centroid;
            row.rows.copy_values(row.lane, &carrier.dictionary, &mut values);
            state.leaf.summaries.widen(values.gained());
            posted.extend(values.codes().map(|code| (code, chunk as u32)));
            let (key, vector) = (row.rows.key(row.lane), row.rows.vector(row.lane));
            let lane = open.push_values(carrier, (key, vector), &mut values, row.inserted);
            if let Some(carried) = open.carried() {
                state.leaf.share(chunk, carried);
            }
            match row.code {
                Code::Rotated(rotated) => {
                    if let Some(pen) = &mut state.fine_pen {
                        fine.resize(extended::code_bytes(padded), 0);
                        let factors = extended::encode(shared.form, rotated, centroid, &mut fine);
                        fine.extend_from_slice(&factors.to_bytes());
                        state.leaf.chunk(chunk).push_fine(pen, &fine);
                    }
                    // The sums of a code have the squared distance, which spares a pass for the reach.
                    let (factors, squared) =
                        encode_measured(shared.form, rotated, centroid, &mut bits);
                    state.leaf.widen(squared.sqrt());
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
            ids.insert(key.id, (leaf, position));
            state.rows += 1;
            if open.is_full() {
                let full = block.take().expect("the block of the open chunk");
                let pen = state.pen.as_mut().expect("the pen of the newest run");
                state.leaf.seal(chunk, &full, pen);
                spare.give(full);
                state.load = state.open.take().expect("the open chunk").into_load();
            }
        }
        if let Some(block) = block {
            state.leaf.chunk(state.chunks - 1).publish(block, spare);
        }
        carrier.give_back(values);
        shared.postings.add(&state.leaf, posted);
        self.buffers.bits = bits;
        self.buffers.fine = fine;
        self.queue_if_due(leaf);
    }
}

/// Opens the next chunk of a leaf.
pub(super) fn open_chunk(shared: &Shared, state: &mut LeafState) {
    let load = run_rows(state.chunks).map_or_else(|| std::mem::take(&mut state.load), Load::new);
    let rows = RowWriter::in_run(shared.index.element, shared.index.dimension, BLOCK, load);
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
