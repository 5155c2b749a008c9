//! Rows by id: the writer's map says where a row is now, and the row says whether it is the one of the
//! reader's moment.
//!
//! # Why may a reader trust a row in a leaf that its root does not reach?
//!
//! Let `(R, p)` be the pin, and `x` a copy of a row in a leaf `L` that the reader finds by its id, with
//! `x` visible by the rule of leaves: `inserted ≤ P(R)`, or for a renewed row `inserted ≤ p`, and
//! `p < deleted`.
//!
//! 1. The row came at or before `p`: a copy is marked with the sequence of the row or of a later batch.
//! 2. The row lives at `p`. Suppose it went at `d ≤ p`. The mark is on the copy that was the writer's
//!    place of the row at that time. If `x` was made later, the row was dead, and batches copy living
//!    rows. If `x` was left earlier, `x` was marked then, or `L` left the tree at some `P' < d`. The
//!    writer takes a leaf from the table before it publishes `P'`; the reader has pinned `p ≥ d > P'`,
//!    so it does not find `L` there. So the mark is on `x`, and the reader sees it.
//! 3. All copies of a row have the same version, vector and fields.
//!
//! A copy that is not visible proves nothing: the row may have moved, or changed, after the moment. Then
//! the reader walks the leaves of its root.

use super::leaf::split_position;
use super::pinned::Pinned;
use super::TAIL;
use crate::id_map::Hint;
use crate::rows::IndexRow;
use crate::wanted::Wanted;

impl Pinned {
    /// Shows wanted rows that the map of ids leads to, and forgets ids that had no row at the moment.
    ///
    /// Cost: a look-up for each. What is left in `wanted` changed after the moment.
    pub(super) fn look_up(&self, wanted: &mut Wanted, visit: &mut dyn FnMut(usize, IndexRow<'_>)) {
        let view = self.view();
        // From the last to the first, since the list closes each gap.
        for at in (0..wanted.len()).rev() {
            let id = wanted.id(at);
            match view.shared.ids.find(id) {
                Hint::Absent(removed) if removed <= view.pin => wanted.forget(at),
                Hint::At((leaf, position)) if leaf != TAIL => {
                    let leaf = view.shared.leaves.get(leaf);
                    let (chunk, lane) = split_position(position);
                    if let Some(chunk) = leaf.as_ref().and_then(|leaf| leaf.chunk_if(chunk)) {
                        if lane < chunk.rows.len() {
                            wanted.look_at(&chunk.rows, lane, view.placed(), visit);
                        }
                    }
                }
                // The rows of the pinned tail were shown, and those of a later one came later.
                Hint::At(_) | Hint::Absent(_) | Hint::Unknown => {}
            }
        }
    }
}
