//! Writes several segments as one graph, without the deleted rows.
//!
//! Memory: all rows of the merge and the graph over them, some 250 bytes a row beside the vectors at 31
//! neighbours. The limit to memory does not count it; `plan.rs` bounds the rows.

use std::sync::atomic::{AtomicBool, Ordering};

use vstream_graph::{GraphSettings, GraphWriter};
use vstream_index::IndexRow;
use vstream_store::Store;

use super::merge::{given_up, Merged, Written, GONE};
use super::plan::Plan;
use crate::error::Error;
use crate::tree::SealedSegment;

impl Merged {
    /// Writes the sources of `plan` as segment `name`, a graph. None of their rows has fields. Errors:
    /// as [`Merged::write`].
    pub(super) fn write_graph(
        plan: &Plan,
        store: &dyn Store,
        name: &str,
        settings: GraphSettings,
        stop: &AtomicBool,
    ) -> Result<Merged, Error> {
        let mut writer = GraphWriter::create(store, name, settings)?;
        let mut moved: Vec<Vec<u32>> =
            plan.sources.iter().map(|of| vec![GONE; of.segment.rows() as usize]).collect();
        let mut taken = 0;
        for (live, moved) in plan.sources.iter().zip(&mut moved) {
            let mut failed = None;
            let mut take = |at: u32, row: IndexRow<'_>| {
                if failed.is_some() || !live.tombstones.is_visible(at, plan.since) {
                    return;
                }
                match writer.push(row) {
                    Ok(()) => {
                        moved[at as usize] = taken;
                        taken += 1;
                    }
                    Err(error) => failed = Some(error),
                }
            };
            match &live.segment {
                SealedSegment::Leaves(segment) => {
                    for leaf in 0..segment.leaves() {
                        if stop.load(Ordering::Relaxed) {
                            return Err(given_up());
                        }
                        segment.for_each_in_leaf(leaf, segment.uncached(), &mut take)?;
                    }
                }
                SealedSegment::Graph(graph) => graph.for_each_row(&mut take)?,
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        let Some((summary, numbers)) = writer.finish_unless(stop)? else { return Err(given_up()) };
        let rows = moved.iter_mut().flatten().filter(|row| **row != GONE);
        rows.for_each(|row| *row = numbers[*row as usize]);
        let written = Written { rows: summary.rows, bytes: summary.bytes, digest: summary.digest };
        Ok(Merged::of(plan, moved, written))
    }
}
