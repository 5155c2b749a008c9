//! Swaps the list of segments: for what was flushed, merged or taken over.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ImmutableMemtable, Retired, Writing};
use crate::defect::{self, Defect};
use crate::tree::known_ids::KnownIds;
use crate::tree::{Leaves, LiveSegment, Tree, View};

/// Ids that the filter takes with one lock of the writer.
const IDS_TOGETHER: usize = 1 << 14;
/// Time between two such locks.
const BETWEEN_IDS: Duration = Duration::from_micros(50);

impl Tree {
    /// Replaces the immutable memtable by its segment; `live` is `None` if no row of it lives.
    pub(crate) fn install_segment(
        &self,
        immutable: &Arc<ImmutableMemtable>,
        live: Option<LiveSegment>,
    ) -> Retired {
        let live = live.map(Arc::new);
        let mut expected = self.view().segments.clone();
        expected.extend(live.clone());
        let leaves = Arc::new(Leaves::of(&expected, self.settings.index_settings()));
        // It is made before the lock is taken: nobody else adds segments meanwhile.
        let more = live.as_ref().map_or(0, |live| live.segment.rows());
        let is_full = self.lock().known.is_full(more);
        let anew = is_full.then(|| KnownIds::of(&expected, 1));
        if let Some(live) = live.as_ref().filter(|_| !is_full) {
            self.know_ids(live);
        }
        let mut writing = self.lock();
        if let Some(anew) = anew {
            writing.known = anew;
        }
        let was = writing.immutable.take().expect("an immutable memtable");
        assert!(Arc::ptr_eq(&was.immutable, immutable), "the segment is of another memtable");
        self.left_memory.add(was.arrivals.until(Instant::now()));
        if let Some(live) = live {
            if !defect::active(Defect::FrozenDeathsForgotten) {
                for &(id, sequence) in &was.deaths {
                    let row = live.ids.find(id).expect("a row that was written to the segment");
                    live.tombstones.add(row, sequence);
                }
            }
            writing.segments.push(live);
        }
        writing.set_segments(leaves, self.settings.index_settings());
        let view = self.view.swap(Arc::new(writing.view()));
        drop(writing);
        self.settled.notify_all();
        Retired { view, _index: Some(was.index) }
    }

    /// Adds the ids of a segment that is not shown yet to the filter of all ids, some at a time, so that
    /// no commit waits for all of them. An id of a row that is gone by then does no harm.
    fn know_ids(&self, live: &LiveSegment) {
        let mut ids = live.live_ids();
        loop {
            let some: Vec<u64> = ids.by_ref().take(IDS_TOGETHER).collect();
            if some.is_empty() {
                return;
            }
            self.lock().known.add(&mut some.into_iter());
            // A lock that is taken again at once leaves no time for who waits to wake up.
            std::thread::sleep(BETWEEN_IDS);
        }
    }

    /// Adds opened segments whose ids have no other living row, each at its position in the new list.
    ///
    /// * `threads`: that may work on it.
    pub(crate) fn adopt(&self, adopted: Vec<(usize, LiveSegment)>, threads: usize) {
        let adopted: Vec<_> = adopted.into_iter().map(|(at, live)| (at, Arc::new(live))).collect();
        let insert = |segments: &mut Vec<Arc<LiveSegment>>| {
            adopted.iter().for_each(|(at, live)| segments.insert(*at, live.clone()));
        };
        let mut writing = self.lock();
        insert(&mut writing.segments);
        let more = adopted.iter().map(|(_, live)| live.live_rows()).sum();
        match writing.known.is_full(more) {
            _ if writing.knows_later => {}
            true => writing.known = KnownIds::of(&writing.segments, threads),
            false => adopted.iter().for_each(|(_, live)| writing.known.add(&mut live.live_ids())),
        }
        let leaves = Leaves::of(&writing.segments, self.settings.index_settings());
        writing.leaves = Arc::new(leaves);
        self.view.store(Arc::new(writing.view()));
    }

    /// Replaces what a merge took by its new segments. Only who holds the manifest may call this.
    ///
    /// * `taken`: segments that it took some leaves of, and those leaves, ascending; or all leaves.
    /// * `hand_on`: called while nobody writes, to copy tombstones and heat of the sources to the new
    ///   segments.
    pub(crate) fn replace_segments(
        &self,
        taken: &[(u64, Option<Vec<u32>>)],
        new: Vec<LiveSegment>,
        hand_on: &dyn Fn(&[Arc<LiveSegment>]),
    ) -> Retired {
        let new: Vec<Arc<LiveSegment>> = new.into_iter().map(Arc::new).collect();
        let (mut next, mut shrunk, mut partly) = (Vec::new(), Vec::new(), Vec::new());
        let mut coming = Some(&new);
        for live in &self.view().segments {
            let Some((_, leaves)) = taken.iter().find(|(number, _)| *number == live.number) else {
                next.push(live.clone());
                continue;
            };
            let kept = leaves.as_ref().and_then(|leaves| Some((live.without(leaves)?, leaves)));
            match kept {
                Some((kept, leaves)) => {
                    let kept = Arc::new(kept);
                    partly.push(kept.clone());
                    next.push(kept);
                    shrunk.push((live.clone(), leaves));
                }
                None => next.extend(coming.take().into_iter().flatten().cloned()),
            }
        }
        next.extend(coming.take().into_iter().flatten().cloned());
        let leaves = Arc::new(Leaves::of(&next, self.settings.index_settings()));
        let mut writing = self.lock();
        hand_on(&new);
        let stays = |number: u64| next.iter().any(|live| live.number == number);
        for source in writing.segments.iter().filter(|live| !stays(live.number)) {
            let io = source.segment.io();
            self.retired_reads.fetch_add(io.reads, Ordering::Relaxed);
            self.retired_read_bytes.fetch_add(io.bytes, Ordering::Relaxed);
        }
        writing.segments = next;
        writing.leaves = leaves;
        let view = match shrunk.is_empty() {
            true => self.view.swap(Arc::new(writing.view())),
            false => self.swap_and_mark(&mut writing, &shrunk),
        };
        drop(writing);
        partly.iter().for_each(|live| live.release_unserved_codes());
        Retired { view, _index: None }
    }

    /// Shows the new view, in which some segments serve fewer leaves, and adds tombstones to the rows of
    /// the others. Nobody sees both a row there and its copy: these tombstones have a new sequence, which
    /// who reads an older view cannot have pinned, and who reads the new one has.
    fn swap_and_mark(
        &self,
        writing: &mut Writing,
        shrunk: &[(Arc<LiveSegment>, &Vec<u32>)],
    ) -> Arc<View> {
        let mut view = writing.view();
        let mut swapped = None;
        writing.memory.sequence_foreign_delete(&mut |sequence| {
            for (live, leaves) in shrunk {
                let segment = live.segment.leaves().expect("a segment with leaves");
                if defect::active(Defect::TakenRowsStay) {
                    continue;
                }
                for &leaf in *leaves {
                    live.tombstones.add_rows(segment.rows_of_leaves(leaf..leaf + 1), sequence);
                }
            }
            view.since = sequence;
            swapped = Some(self.view.swap(Arc::new(view.clone())));
        });
        writing.since = view.since;
        swapped.expect("a sequence was given out")
    }
}
