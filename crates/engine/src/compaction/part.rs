//! What a merge takes of a segment: all that it serves, or some of its leaves.

use std::ops::Range;
use std::sync::Arc;

use crate::tree::{LiveSegment, SealedSegment};
use vstream_segment::Segment;

/// Successive rows that are taken, and the position of the first among all rows of the part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    rows: Range<u32>,
    at: usize,
}

/// Rows of a segment that a merge takes. They have positions from 0 on, in the order of the rows.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) live: Arc<LiveSegment>,
    /// The leaves that are taken, ascending; none of a graph.
    leaves: Vec<u32>,
    /// True if the segment serves nothing else.
    is_whole: bool,
    rows: Vec<Rows>,
}

impl Part {
    /// All that the segment serves.
    pub(super) fn whole(live: Arc<LiveSegment>) -> Part {
        let leaves: Vec<u32> = live.served_leaves().collect();
        let rows = match &live.segment.leaves() {
            Some(segment) => rows_of(segment, &leaves),
            None => vec![Rows { rows: 0..live.segment.rows() as u32, at: 0 }],
        };
        Part { live, leaves, is_whole: true, rows }
    }

    /// Some leaves of a segment that serves them, ascending.
    pub(super) fn of(live: Arc<LiveSegment>, leaves: Vec<u32>) -> Part {
        let is_whole = live.served_leaves().count() == leaves.len();
        let segment = live.segment.leaves().expect("a segment with leaves");
        let rows = rows_of(segment, &leaves);
        Part { live, leaves, is_whole, rows }
    }

    /// The segment, if it has leaves.
    pub(super) fn segment(&self) -> Option<&Segment> {
        self.live.segment.leaves()
    }

    /// The segment, of either kind.
    pub(super) fn sealed(&self) -> &SealedSegment {
        &self.live.segment
    }

    /// The leaves that are taken, ascending.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        self.leaves.iter().map(|&leaf| leaf as usize)
    }

    /// Number of its segment, and the leaves that are taken if the segment serves others.
    pub(super) fn taken(&self) -> (u64, Option<Vec<u32>>) {
        (self.live.number, (!self.is_whole).then(|| self.leaves.clone()))
    }

    /// Rows that are taken, deleted ones too.
    pub(super) fn len(&self) -> usize {
        self.rows.last().map_or(0, |last| last.at + last.rows.len())
    }

    /// The position of a row that is taken.
    pub(super) fn position(&self, row: u32) -> usize {
        let at = self.rows.partition_point(|of| of.rows.end <= row);
        let of = &self.rows[at];
        of.at + (row - of.rows.start) as usize
    }

    /// Calls `visit` with each row and its position.
    pub(super) fn for_each_row(&self, visit: &mut dyn FnMut(u32, usize)) {
        for Rows { rows, at } in &self.rows {
            rows.clone().zip(*at..).for_each(|(row, at)| visit(row, at));
        }
    }

    /// Calls `visit` with position and sequence of every tombstone of a row that is taken.
    pub(super) fn for_each_tombstone(&self, visit: &mut dyn FnMut(usize, u64)) {
        for Rows { rows, at } in &self.rows {
            self.live.tombstones.for_each_in(rows.clone(), &mut |row, sequence| {
                visit(at + (row - rows.start) as usize, sequence);
            });
        }
    }
}

/// The rows of some leaves, ascending; those of successive leaves together.
fn rows_of(segment: &Segment, leaves: &[u32]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for &leaf in leaves {
        let rows = segment.rows_of_leaves(leaf..leaf + 1);
        match all.last_mut() {
            Some(last) if last.rows.end == rows.start => last.rows.end = rows.end,
            last => {
                let at = last.map_or(0, |last| last.at + last.rows.len());
                all.push(Rows { rows, at });
            }
        }
    }
    all
}
