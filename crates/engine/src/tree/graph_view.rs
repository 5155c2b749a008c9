//! A graph segment as seen by a reader that pinned a sequence.
//!
//! How far a search goes is one number, the length of the list of candidates. It follows from the
//! number of rows to refine, which the recall guard chooses for all places together: both say how many
//! exact distances a search takes. So an audit notes for a row of a graph how many rows must be refined
//! until the list finds it, and the guard needs to know nothing else of graphs.

use vstream_attribute::{Attributes, Filter};
use vstream_graph::{GraphProbe, GraphScratch, GraphSegment, Walk};
use vstream_index::{IndexRow, RowKey, SearchStats};
use vstream_segment::Tombstones;
use vstream_store::Error;
use vstream_vector::{Neighbor, TopK};

/// Rows to refine per candidate of the list. The least that the guard lets a search refine, 80 rows for
/// ten neighbours, is then a list of 20.
const REFINE_PER_CANDIDATE: usize = 4;
/// Most blocks read together.
const BEAM: usize = 4;
/// Share of the other rows of a block that are expanded at once (σ).
const RATIO: f32 = 0.3;
/// Candidates in the navigation graph (Γ).
const ENTRIES: usize = 16;
/// The list of the first search of an audit, and its longest.
const LIST_MIN: usize = 8;
const LIST_MAX: usize = 4096;

/// A graph at one moment.
#[derive(Clone, Copy)]
pub(crate) struct GraphView<'a> {
    graph: &'a GraphSegment,
    tombstones: &'a Tombstones,
    pin: u64,
}

impl<'a> GraphView<'a> {
    pub(super) fn new(
        graph: &'a GraphSegment,
        tombstones: &'a Tombstones,
        pin: u64,
    ) -> GraphView<'a> {
        GraphView { graph, tombstones, pin }
    }

    #[inline]
    fn is_visible(&self, row: u32) -> bool {
        self.tombstones.is_visible(row, self.pin)
    }

    /// Offers the nearest visible rows that a list for `refine` rows finds. Errors: `Corrupt`, those of
    /// the store.
    pub(super) fn search(
        &self,
        vector: &[f32],
        refine: usize,
        scratch: &mut GraphScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        self.search_list(vector, refine / REFINE_PER_CANDIDATE, scratch, out)
    }

    fn search_list(
        &self,
        vector: &[f32],
        list: usize,
        scratch: &mut GraphScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let is_visible = |row| self.is_visible(row);
        let hides = self.tombstones.count() > 0;
        let visible: Option<&dyn Fn(u32) -> bool> = hides.then_some(&is_visible);
        let walk = Walk::Blocks { ratio: RATIO, entries: ENTRIES };
        let probe = GraphProbe { vector, list, beam: BEAM, walk, visible };
        let done = self.graph.search(&probe, scratch, out)?;
        Ok(SearchStats { leaves: 0, rows: done.estimates, exact: done.exact })
    }

    /// Offers the nearest visible rows so surely that hardly one is missed; returns the depth that this
    /// took. Errors: as [`GraphView::search`].
    pub(super) fn thorough(
        &self,
        vector: &[f32],
        depth: usize,
        scratch: &mut GraphScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        self.graph.search_thoroughly(vector, depth, &|row| self.is_visible(row), scratch, out)
    }

    /// For each of some rows, given by id, the most rows to refine with which a search still misses it;
    /// `u32::MAX` halved if the longest list does. Cost: a search per length of the list, until all are
    /// found. Errors: as [`GraphView::search`].
    pub(super) fn ranks(
        &self,
        (vector, k): (&[f32], usize),
        ids: &[u64],
        scratch: &mut GraphScratch,
    ) -> Result<Vec<u32>, Error> {
        let mut ranks = vec![u32::MAX / 2; ids.len()];
        let mut top = TopK::new(k);
        let mut list = LIST_MIN;
        let mut left = ids.len();
        while left > 0 && list <= LIST_MAX {
            top.reset(k);
            self.search_list(vector, list, scratch, &mut top)?;
            let mut found: Vec<u64> = top.rows().iter().map(|row| row.id).collect();
            found.sort_unstable();
            let missed = ids.iter().zip(&mut ranks).filter(|(_, rank)| **rank == u32::MAX / 2);
            for (id, rank) in missed {
                if found.binary_search(id).is_ok() {
                    *rank = (list * REFINE_PER_CANDIDATE - 1) as u32;
                    left -= 1;
                }
            }
            list += list / 2;
        }
        Ok(ranks)
    }

    /// Offers the exact distance of every visible row that matches. Cost: reads all blocks, or those of
    /// the rows that match. Errors: `Corrupt`, those of the store.
    pub(super) fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let Some(filter) = filter else {
            self.graph.search_exactly(vector, Some(&|row| self.is_visible(row)), out)?;
            let rows = self.graph.rows() as usize;
            return Ok(SearchStats { leaves: 0, rows, exact: rows });
        };
        let rows = self.matches(filter);
        self.graph.search_rows(&rows, vector, out)?;
        Ok(SearchStats { leaves: 0, rows: self.graph.rows() as usize, exact: rows.len() })
    }

    /// Adds every visible row within `radius` that matches. Cost and errors: as [`GraphView::exact`]
    /// without a filter.
    pub(super) fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        let matches = filter.map(|filter| self.matches(filter));
        let is_wanted = |row: u32| match &matches {
            Some(rows) => rows.binary_search(&row).is_ok(),
            None => self.is_visible(row),
        };
        self.graph.rows_within(vector, radius, &is_wanted, out)?;
        let rows = self.graph.rows() as usize;
        Ok(SearchStats { leaves: 0, rows, exact: rows })
    }

    /// The visible rows that match, ascending. They have no attributes, so that their ids decide. Cost:
    /// a pass over the ids, in memory.
    fn matches(&self, filter: &Filter) -> Vec<u32> {
        let mut rows = Vec::new();
        self.graph.for_each_id(&mut |id, _, row| {
            if self.is_visible(row) && filter.holds(id, Attributes::NONE) {
                rows.push(row);
            }
        });
        rows
    }

    /// Calls `visit` with the key of every visible row that matches. Errors: `Corrupt`, those of the
    /// store.
    pub(super) fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Error> {
        let holds = |id| filter.is_none_or(|filter| filter.holds(id, Attributes::NONE));
        self.graph.for_each_key(&mut |row, key| {
            if self.is_visible(row) && holds(key.id) {
                visit(key);
            }
        })
    }

    /// Calls `visit` with every visible row. Errors: `Corrupt`, those of the store.
    pub(super) fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        self.graph.for_each_row(&mut |row, stored| {
            if self.is_visible(row) {
                visit(stored);
            }
        })
    }

    /// Copies the vector of a live row to `out` and returns its id; `None` if the row that `pick`
    /// chooses is deleted. Errors: `Corrupt`, those of the store.
    pub(super) fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Result<Option<u64>, Error> {
        let row = (pick % self.graph.rows().max(1)) as u32;
        if self.graph.rows() == 0 || !self.is_visible(row) {
            return Ok(None);
        }
        let mut found = None;
        self.graph.for_each_of(&[row], &mut |_, stored| {
            out.resize(self.graph.dimension(), 0.0);
            stored.vector.read(out);
            found = Some(stored.key.id);
        })?;
        Ok(found)
    }
}
