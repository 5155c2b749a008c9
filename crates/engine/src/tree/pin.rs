//! A read snapshot: the rows of one sequence, in all places.

use std::sync::Arc;

use vstream_index::{IndexRow, IndexSettings, IndexSnapshot};
use vstream_segment::SegmentView;

use super::graph_view::GraphView;
use super::{CodeResidency, Leaves, LiveSegment, Tree, View};
use crate::error::Error;

/// A view, and the sequence at which its places are searched.
pub(crate) struct Pinned {
    pub(super) view: Arc<View>,
    pub(super) memory: Box<dyn IndexSnapshot>,
    pub(super) immutable: Option<Box<dyn IndexSnapshot>>,
    pub(super) sequence: u64,
    pub(super) residency: Arc<CodeResidency>,
    pub(super) settings: IndexSettings,
}

/// A read snapshot without the segments in a store that cannot be reached, and how many rows these have.
pub(crate) struct Reachable {
    pub(crate) rows: Pinned,
    pub(crate) left_out: u64,
}

impl Tree {
    /// Pins the current rows. Never waits.
    ///
    /// The sequence was published while the view was current, so every tombstone up to it is on a
    /// row of the view. A swap of the view in between could hand over tombstones that were made
    /// after this view was loaded; then the loop starts over with the new view.
    pub(crate) fn pin(&self) -> Pinned {
        let mut view = self.view.load_full();
        loop {
            let memory = view.memory.snapshot(None);
            let again = self.view.load_full();
            if Arc::ptr_eq(&view, &again) {
                let sequence = memory.sequence().max(view.since);
                let immutable = view
                    .immutable
                    .as_ref()
                    .map(|immutable| immutable.rows().snapshot(Some(sequence)));
                let residency = self.residency.clone();
                let settings = self.settings.index_settings();
                return Pinned { view, memory, immutable, sequence, residency, settings };
            }
            view = again;
        }
    }
}

impl Pinned {
    /// This read snapshot without the segments that are in a far store alone.
    pub(crate) fn reachable(mut self) -> Reachable {
        let View { memory, immutable, segments, since, .. } = &*self.view;
        let (near, away): (Vec<_>, Vec<_>) =
            segments.iter().cloned().partition(|live| live.segment.is_near());
        let left_out = away.iter().map(|live| live.live_rows()).sum();
        if near.len() < segments.len() {
            let (memory, immutable) = (memory.clone(), immutable.clone());
            let leaves = Arc::new(Leaves::of(&near, self.settings));
            let since = *since;
            self.view = Arc::new(View { memory, immutable, segments: near, leaves, since });
        }
        Reachable { rows: self, left_out }
    }

    /// Places in memory: the memtable and, if there is one, the immutable memtable.
    pub(super) fn memory_places(&self) -> impl Iterator<Item = &dyn IndexSnapshot> {
        [Some(&self.memory), self.immutable.as_ref()].into_iter().flatten().map(|place| &**place)
    }

    /// The segments that have leaves, in the order of the view.
    pub(super) fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        self.view.segments.iter().filter_map(|live| live.leaves_at(self.sequence))
    }

    /// The same segments.
    pub(super) fn live_segments(&self) -> impl Iterator<Item = &Arc<LiveSegment>> {
        self.view.segments.iter().filter(|live| live.segment.leaves().is_some())
    }

    /// The graphs, in the order of the view.
    pub(super) fn graphs(&self) -> impl Iterator<Item = GraphView<'_>> {
        self.view.segments.iter().filter_map(|live| live.graph_at(self.sequence))
    }

    /// True if every search of some place reads every row.
    pub(super) fn is_flat(&self) -> bool {
        self.memory_places().any(|place| place.rotation().is_none())
            || self.view.segments.iter().any(|live| live.segment.is_flat())
    }

    /// Calls `visit` with every row that is in no segment.
    pub(crate) fn for_each_row_in_memory(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.memory_places().for_each(|place| place.for_each_row(visit));
    }

    /// Calls `visit` with every row. Errors: `Corrupt`, `Io`.
    pub(crate) fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        self.for_each_row_in_memory(visit);
        self.segments().try_for_each(|segment| segment.for_each_row(visit))?;
        self.graphs().try_for_each(|graph| graph.for_each_row(visit))?;
        Ok(())
    }

    /// Calls `visit` with every row of the chosen shards, and with the serial of its leaf in the memtable,
    /// ascending. All other rows come after those of the memtable's leaves. Errors: `Corrupt`, `Io`.
    pub(crate) fn for_each_serial_row(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>),
    ) -> Result<(), Error> {
        self.memory.for_each_serial_row(is_chosen, visit);
        let loose = &mut |row: IndexRow<'_>| {
            if is_chosen(row.key.shard) {
                visit(None, row);
            }
        };
        self.immutable.iter().for_each(|place| place.for_each_row(loose));
        self.segments().try_for_each(|segment| segment.for_each_row(loose))?;
        self.graphs().try_for_each(|graph| graph.for_each_row(loose))?;
        Ok(())
    }

    /// True if the memtable has leaves.
    pub(crate) fn has_leaves(&self) -> bool {
        self.memory.leaves() > 0
    }
}
