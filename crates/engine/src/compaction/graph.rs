//! Writes several segments as one graph, without the deleted rows.
//!
//! Memory: all rows of the merge and the graph over them, some 250 bytes a row beside the vectors at 31
//! neighbours. The limit to memory does not count it; `plan.rs` bounds the rows.

use std::sync::atomic::{AtomicBool, Ordering};

use vstream_graph::GraphWriter;
use vstream_index::IndexRow;

use super::merge::{given_up, Merged, GONE};
use super::plan::Plan;
use crate::error::Error;
use crate::layout::segment_name;
use crate::tree::SealedSegment;
use crate::version::VersionSet;

impl Merged {
    /// Writes what `plan` takes, whole segments, as a graph. None of their rows has fields. Errors:
    /// as [`Merged::write`].
    pub(super) fn write_graph(
        plan: &Plan,
        versions: &VersionSet,
        stop: &AtomicBool,
    ) -> Result<Merged, Error> {
        let (mut entry, collection) = versions.new_entry();
        let settings = versions.tree().graph_settings(entry.identity(collection));
        let (store, name) = (&versions.directory().store, segment_name(entry.number));
        let mut writer = GraphWriter::create(store, &name, settings)?;
        let mut moved: Vec<Vec<u32>> =
            plan.parts.iter().map(|part| vec![GONE; part.len()]).collect();
        let mut taken = 0;
        for (part, moved) in plan.parts.iter().zip(&mut moved) {
            let live = &part.live;
            let mut failed = None;
            let mut take = |at: u32, row: IndexRow<'_>| {
                if failed.is_some() || !live.tombstones.is_visible(at, plan.since) {
                    return;
                }
                match writer.push(row) {
                    Ok(()) => {
                        moved[part.position(at)] = taken;
                        taken += 1;
                    }
                    Err(error) => failed = Some(error),
                }
            };
            match part.sealed() {
                SealedSegment::Leaves(segment) => {
                    for leaf in part.leaves() {
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
        (entry.bytes, entry.rows, entry.digest) = (summary.bytes, summary.rows, summary.digest);
        let new = if entry.rows > 0 { vec![entry] } else { Vec::new() };
        if new.is_empty() {
            versions.directory().remove(&name);
        }
        Ok(Merged::of(plan, moved, new))
    }
}
