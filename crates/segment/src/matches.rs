//! Rows of a segment that a reader sees and that match: exact answers, samples, walks.

use vstream_attribute::{Fields, Filter};
use vstream_index::{distance, IndexRow, RowKey, SearchStats, VectorRef};
use vstream_store::blocks::BlockReader;
use vstream_store::codec::BLOCK_ROWS;
use vstream_store::Error;
use vstream_vector::{kernels, Metric, Neighbor, SplitMix, TopK};

use crate::fields::Compiled;
use crate::read::BLOCKS_AHEAD;
use crate::scan::{FieldWalk, Visited, WantedBlock};
use crate::search::SegmentView;
use crate::select::WantedColumnBlocks;

/// Most rows that may match for their blocks to go through the cache.
const CACHED_ROWS: u64 = 4096;

/// Rows that the first round of an exact search looks at for each answer that is wanted: some leaves
/// that give a bound.
const FIRST_ROWS_PER_ANSWER: usize = 2;

/// Each round of an exact search takes so many times the leaves of the one before.
const ROUND_GROWTH: usize = 4;

/// Takes row blocks in which rows match, and a reader of them.
type Walk<'a> = dyn FnMut(&BlockReader, &[WantedBlock]) -> Result<(), Error> + 'a;

/// How far the leaves of a segment are from a query.
struct Gaps {
    /// Norm of the query.
    length: f32,
    leaves: Vec<Gap>,
}

struct Gap {
    leaf: u32,
    /// Distance of the query to the centroid, not squared.
    gap: f32,
}

/// What a walk looked at.
#[derive(Clone, Copy, Default)]
struct Walked {
    rows: usize,
    leaves: usize,
}

impl SegmentView<'_> {
    /// Offers the exact distance of every visible row that matches, unless the triangle inequality
    /// proves that a whole leaf is farther than the rows that `out` has.
    ///
    /// It begins with the nearest leaves, and each further round takes four times as many, in the
    /// order of the file. With a filter it looks at all leaves in one round: too few rows match to
    /// know early how near the answer is.
    pub(crate) fn search_exactly(
        &self,
        query: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let segment = self.segment;
        let gaps = if filter.is_none() { self.gaps(query) } else { None };
        let Some(mut far) = gaps else {
            return self.offer_leaves(query, filter, segment.all_leaves().collect(), out);
        };
        far.leaves.sort_unstable_by(|a, b| a.gap.total_cmp(&b.gap));
        let mut stats = SearchStats::default();
        let mut left = &far.leaves[..];
        let mut rows = 0;
        let first = left
            .iter()
            .take_while(|of| {
                let before = rows;
                rows += segment.leaves[of.leaf as usize].rows as usize;
                before < FIRST_ROWS_PER_ANSWER * out.k()
            })
            .count();
        let mut n = first.max(1);
        while !left.is_empty() {
            let (round, rest) = left.split_at(n.min(left.len()));
            let bound = segment.radius_bound(far.length, out.bound());
            let near = round.iter().filter(|of| segment.may_hold(of.leaf, of.gap, &bound));
            let mut near: Vec<u32> = near.map(|of| of.leaf).collect();
            near.sort_unstable();
            let more = self.offer_leaves(query, None, near, out)?;
            stats.leaves += more.leaves;
            stats.rows += more.rows;
            stats.exact += more.exact;
            (left, n) = (rest, n * ROUND_GROWTH);
        }
        Ok(stats)
    }

    /// Offers the exact distance of every visible row of some leaves, ascending, that matches.
    fn offer_leaves(
        &self,
        query: &[f32],
        filter: Option<&Filter>,
        leaves: Vec<u32>,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let metric = self.segment.metric();
        let walked = self.for_each_vector(leaves, filter, &mut |key, vector| {
            let distance = distance(metric, query, vector);
            if distance <= out.bound() {
                out.offer(Neighbor { distance, id: key().id, version: key().version });
            }
        })?;
        Ok(SearchStats { leaves: walked.leaves, rows: walked.rows, exact: walked.rows })
    }

    /// Adds every visible row that matches, at a distance of at most `radius`, to `out`, in no order.
    ///
    /// Exact: it skips a leaf only if the triangle inequality, or a summary, proves that no row of it
    /// is near enough and matches. Errors: `Corrupt`, those of the store; `out` is incomplete then.
    pub(crate) fn rows_within(
        &self,
        query: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        let segment = self.segment;
        let near = self.near_leaves(query, radius);
        let walked = self.for_each_vector(near, filter, &mut |key, vector| {
            let distance = distance(segment.metric(), query, vector);
            if distance <= radius {
                out.push(Neighbor { distance, id: key().id, version: key().version });
            }
        })?;
        Ok(SearchStats { leaves: walked.leaves, rows: walked.rows, exact: walked.rows })
    }

    /// Leaves that may hold a row within `radius`, ascending.
    fn near_leaves(&self, query: &[f32], radius: f32) -> Vec<u32> {
        let segment = self.segment;
        let Some(far) = self.gaps(query) else { return segment.all_leaves().collect() };
        let bound = segment.radius_bound(far.length, radius);
        let near = far.leaves.iter().filter(|of| segment.may_hold(of.leaf, of.gap, &bound));
        near.map(|of| of.leaf).collect()
    }

    /// How far all leaves are, ascending; `None` if that says nothing of their rows.
    fn gaps(&self, query: &[f32]) -> Option<Gaps> {
        let segment = self.segment;
        if !segment.is_cluster() || segment.metric() == Metric::InnerProduct {
            return None;
        }
        let padded = segment.rotation.padded();
        let (mut rotated, mut centroid) = (vec![0.0; padded], vec![0.0; padded]);
        segment.rotation.apply(query, &mut rotated);
        let length = kernels::norm_squared(&rotated).sqrt();
        let gap = |leaf| {
            segment.centroid(leaf, &mut centroid);
            Gap { leaf, gap: kernels::l2_squared(&rotated, &centroid).sqrt() }
        };
        Some(Gaps { length, leaves: segment.all_leaves().map(gap).collect() })
    }

    /// Copies the vector of a live row of a leaf to `out` and returns its id; `pick` chooses the
    /// row. `None` if no row lives. Errors: `Corrupt`, those of the store.
    pub fn sample(&self, leaf: u32, pick: u64, out: &mut Vec<f32>) -> Result<Option<u64>, Error> {
        let mut living = 0;
        let mut random = SplitMix(pick);
        let mut found = None;
        self.for_each_vector(vec![leaf], None, &mut |key, vector| {
            // The number of live rows is known only at the end, so the n-th row replaces the choice
            // with a probability of 1/n.
            living += 1;
            if random.below(living) == 0 {
                out.resize(self.segment.dimension(), 0.0);
                vector.read(out);
                found = Some(key().id);
            }
        })?;
        Ok(found)
    }

    /// Calls `visit` with every visible row and its fields, leaf by leaf. Errors: `Corrupt`, those of
    /// the store.
    pub fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        let segment = self.segment;
        let dimension = segment.dimension();
        let passing = &segment.passing;
        let mut walk = FieldWalk::new(segment, passing, segment.rows() as u32);
        let blocks = segment.blocks_in(segment.all_leaves());
        segment.for_each_decoded(passing, blocks, &mut |visited, _, numbers| {
            let range = visited.first_row..visited.first_row + visited.rows as u32;
            let rows = range.clone().filter(|&row| self.is_visible(row));
            walk.for_each(range, rows, &mut |row, fields| {
                let at = (row - visited.first_row) as usize;
                let (key, vector) = (visited.block.key(at), numbers.row(at, dimension));
                visit(IndexRow { key, vector, fields });
            })
        })
    }

    /// Calls `visit` with the number and the key of every visible row that matches. Decodes no
    /// vectors. Errors: `Corrupt`, those of the store.
    pub fn for_each_key(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(u32, RowKey),
    ) -> Result<(), Error> {
        let all = self.segment.all_leaves().collect();
        self.for_each_matching(all, filter, &mut |reader, blocks| {
            self.segment.for_each_block(reader, blocks.iter().copied(), &mut |visited| {
                self.visible(&visited).for_each(|row| {
                    visit(visited.first_row + row as u32, visited.block.key(row));
                });
                Ok(())
            })
        })?;
        Ok(())
    }

    /// Calls `visit` with number, key and fields of every visible row that matches. Decodes no
    /// vectors. Errors: `Corrupt`, those of the store.
    pub fn for_each_with_fields(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(u32, RowKey, Fields<'_>),
    ) -> Result<(), Error> {
        let segment = self.segment;
        let all = segment.all_leaves().collect();
        self.for_each_matching(all, filter, &mut |reader, blocks| {
            let mut walk = FieldWalk::new(segment, reader, 0);
            segment.for_each_block(reader, blocks.iter().copied(), &mut |visited| {
                let rows: Vec<u32> =
                    self.visible(&visited).map(|row| visited.first_row + row as u32).collect();
                let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else {
                    return Ok(());
                };
                walk.for_each(first..last + 1, rows.into_iter(), &mut |row, fields| {
                    visit(row, visited.block.key((row - visited.first_row) as usize), fields);
                })
            })
        })?;
        Ok(())
    }

    /// The wanted rows of a block that are visible.
    fn visible<'v>(&'v self, visited: &Visited<'v>) -> impl Iterator<Item = usize> + 'v {
        let first_row = visited.first_row;
        visited.wanted().filter(move |&row| self.is_visible(first_row + row as u32))
    }

    /// Calls `visit` with key and vector of every visible row of some leaves that matches.
    fn for_each_vector(
        &self,
        leaves: Vec<u32>,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(&dyn Fn() -> RowKey, VectorRef<'_>),
    ) -> Result<Walked, Error> {
        let dimension = self.segment.dimension();
        let mut rows = 0;
        let leaves = self.for_each_matching(leaves, filter, &mut |reader, blocks| {
            let blocks = blocks.iter().copied();
            self.segment.for_each_decoded(reader, blocks, &mut |visited, first, numbers| {
                for row in self.visible(visited) {
                    rows += 1;
                    let vector = numbers.row(row - first, dimension);
                    visit(&|| visited.block.key(row), vector);
                }
                Ok(())
            })
        })?;
        Ok(Walked { rows, leaves })
    }

    /// Calls `walk` with the row blocks of some leaves, ascending, in which rows match, and a reader
    /// of them. Returns the number of leaves that were looked at.
    fn for_each_matching(
        &self,
        leaves: Vec<u32>,
        filter: Option<&Filter>,
        walk: &mut Walk<'_>,
    ) -> Result<usize, Error> {
        let segment = self.segment;
        let Some(filter) = filter else {
            let count = leaves.len();
            for leaves in leaves.chunks(BLOCKS_AHEAD) {
                let blocks: Vec<WantedBlock> = segment.blocks_in(leaves.iter().copied()).collect();
                walk(&segment.passing, &blocks)?;
            }
            return Ok(count);
        };
        let compiled = segment.compile(filter)?;
        let may_match: Vec<u32> =
            leaves.into_iter().filter(|&leaf| segment.leaf_matches(&compiled, leaf) > 0).collect();
        let is_small = segment.matches_at_most(&compiled) <= CACHED_ROWS;
        let reader = if is_small { &segment.blocks } else { &segment.passing };
        let mut columns = WantedColumnBlocks::default();
        let mut blocks = Vec::new();
        for part in may_match.chunks(BLOCKS_AHEAD) {
            blocks.clear();
            self.matching_blocks(&compiled, part, reader, &mut columns, &mut blocks)?;
            walk(reader, &blocks)?;
        }
        Ok(may_match.len())
    }

    /// Adds the row blocks of some leaves in which visible rows match.
    fn matching_blocks(
        &self,
        compiled: &Compiled,
        leaves: &[u32],
        reader: &BlockReader,
        columns: &mut WantedColumnBlocks,
        out: &mut Vec<WantedBlock>,
    ) -> Result<(), Error> {
        let segment = self.segment;
        segment.wanted_columns(compiled, leaves.iter().copied(), columns);
        let read = reader.read_many(&columns.addresses)?;
        let columns = segment.column_blocks(columns, &read)?;
        let mut masks = Vec::new();
        for &leaf in leaves {
            segment.leaf_masks(compiled, leaf, &columns, &mut masks);
            self.clear_deleted(leaf, &mut masks);
            let words = (0..).zip(&masks).filter(|(_, &mask)| mask != 0);
            out.extend(words.map(|(block, &mask)| WantedBlock { leaf, block, mask }));
        }
        Ok(())
    }
}

/// A word of a mask is a row block.
const _: () = assert!(BLOCK_ROWS == 32);
