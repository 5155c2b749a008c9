//! Rows whose fields change. Such a row stays in its leaf: it moves to another lane there, with its
//! vector and its code, and is neither routed nor coded again.

use vstream_attribute::{Fields, Update};
use vstream_vector::kernels;

use super::leaf::{self, CodeBlock, Leaf};
use super::place::{open_chunk, Buffers};
use super::{Cluster, RowAddress, TAIL};
use crate::append::Pen;
use crate::rows::{by_write, RowChunk, RowKey, Values};

/// What becomes of the fields of a row.
#[derive(Clone, Copy)]
pub(super) enum Renewal<'a> {
    All(Fields<'a>),
    Change(&'a Update<'a>),
}

impl Cluster {
    /// Gives the row of `id` other fields; false, and nothing changes, if there is no such row or its
    /// version is above `version`.
    pub(super) fn renew(&mut self, id: u64, version: u64, renewal: Renewal<'_>) -> bool {
        let Some(old) = self.address_of(id) else { return false };
        self.prefetch_renewal(old);
        let (rows, lane) = self.row_at(old);
        let before = rows.key(lane);
        if before.version > version {
            return false;
        }
        let rows = rows.clone();
        let mut values = self.carrier.take_values();
        self.gather((&rows, lane), renewal, &mut values);
        self.sequence += 1;
        let row = (&*rows, lane, RowKey { version, ..before });
        if old.leaf == TAIL {
            self.kill(old, self.sequence);
            let vector = rows.vector(lane);
            let lane = self.tail.push_values(
                &mut self.carrier,
                (row.2, vector),
                &mut values,
                self.sequence,
            );
            self.ids.insert(id, (TAIL, lane as u32));
            self.carrier.give_back(values);
            self.publish();
            return true;
        }
        self.kill(old, self.sequence);
        self.append_renewed(old, row, &mut values);
        self.carrier.give_back(values);
        self.renewed_since_maintenance += 1;
        let is_idle =
            self.queue.is_empty() && self.overfull.is_empty() && self.reassignments.is_empty();
        if self.renewed_since_maintenance >= self.settings.batch_rows && !is_idle {
            self.place_tail();
        } else {
            self.shared.published.publish(self.sequence);
        }
        true
    }

    /// Prefetches what the update of a row in a leaf copies, all at once: most of it is in no cache, and
    /// each part alone would be waited for.
    pub(super) fn prefetch_renewal(&self, old: RowAddress) {
        if old.leaf == TAIL {
            return;
        }
        let state = self.state(old.leaf);
        let (chunk, lane) = leaf::split_position(old.position);
        let rows = &state.leaf.chunk(chunk).rows;
        rows.prefetch(lane);
        state.leaf.with_codes(chunk, kernels::prefetch);
        if let Some(open) = &state.open {
            open.chunk().prefetch_head();
            state.leaf.chunk(state.chunks - 1).prefetch_filling();
        }
        rows.prefetch_values(lane);
    }

    /// Gathers what a row carries from now on, and counts its codes among those of living rows.
    fn gather(&self, (rows, lane): (&RowChunk, usize), renewal: Renewal<'_>, out: &mut Values) {
        let (dictionary, living) = (&self.shared.dictionary, &self.shared.living);
        match renewal {
            Renewal::All(fields) => {
                out.intern(dictionary, fields);
                out.codes().for_each(|code| living.raise(code));
                rows.for_each_code(lane, |code| {
                    living.lower(code);
                });
            }
            Renewal::Change(update) => {
                let on_code = &mut |gained: bool, code: u32| {
                    if gained {
                        living.raise(code);
                    } else {
                        living.lower(code);
                    }
                };
                rows.change_values((lane, dictionary), update, out, on_code);
            }
        }
    }

    /// Appends the row of another lane to its leaf, with new values. The caller has marked that lane.
    fn append_renewed(
        &mut self,
        old: RowAddress,
        (rows, lane, key): (&RowChunk, usize, RowKey),
        values: &mut Values,
    ) {
        let shared = self.shared.clone();
        let padded = shared.rotation.padded();
        let state = self.leaves[old.leaf as usize].as_mut().expect("a leaf that is in use");
        if state.open.is_none() {
            open_chunk(&shared, state);
        }
        let chunk = state.chunks - 1;
        let open = state.open.as_mut().expect("just opened");
        let Buffers { posted, spare, .. } = &mut self.buffers;
        let mut block = state.leaf.chunk(chunk).filling(padded, spare);
        // The leaf knows the other values: it has another lane of the row.
        state.leaf.summaries.widen(values.gained());
        posted.extend(values.codes().map(|code| (code, chunk as u32)));
        let row = (key, rows.vector(lane));
        let lane = open.push_values(&mut self.carrier, row, values, by_write(self.sequence));
        if let Some(carried) = open.carried() {
            state.leaf.share(chunk, carried);
        }
        copy_code(padded, (&state.leaf, &mut state.fine_pen), (chunk, &mut block), old.position);
        self.ids.insert(key.id, (old.leaf, leaf::position(chunk, lane)));
        state.rows += 1;
        state.renewed += 1;
        if open.is_full() {
            let pen = state.pen.as_mut().expect("the pen of the newest run");
            state.leaf.seal(chunk, &block, pen);
            spare.give(block);
            state.load = state.open.take().expect("the open chunk").into_load();
        } else {
            state.leaf.chunk(chunk).publish(block, spare);
        }
        shared.postings.add(&state.leaf, posted);
        self.queue_if_due(old.leaf);
    }
}

/// Adds the code that a leaf has at a position once more, to the block of its open chunk.
fn copy_code(
    padded: usize,
    (leaf, fine_pen): (&Leaf, &mut Option<Pen>),
    (chunk, codes): (usize, &mut CodeBlock),
    position: u32,
) {
    let (from, lane) = leaf::split_position(position);
    if let Some(pen) = fine_pen {
        leaf.chunk(chunk).push_fine(pen, leaf.chunk(from).fine_row(padded, lane));
    }
    // The row is published, so its code is too, also if it is in the open chunk.
    leaf.with_codes(from, |block| codes.push_copy(padded, block, lane));
}
