//! A search through every code, with as many exact distances as it needs: what audits take for the
//! truth.

use vstream_index::{depth_from, depth_needed};
use vstream_store::Error;
use vstream_vector::{with_number, Neighbor, TopK};

use crate::format::Malformed;
use crate::read::GraphSegment;
use crate::search::{exact, GraphScratch};

/// A visible row that was measured, and the rank of its node by estimate.
type Measured = (Neighbor, usize);

impl GraphSegment {
    /// Offers to `out` the `out.k()` nearest visible rows, so surely that hardly one is missed. Returns
    /// the depth that this took: how many nodes, by estimate, were measured.
    ///
    /// * `depth`: to begin with; at least that of [`depth_from`] is used.
    ///
    /// Cost: an estimate for every node, and reads of the blocks of `depth` nodes, past the cache.
    /// Errors: `Corrupt`, those of the store. Panics if the query is of another dimension.
    pub fn search_thoroughly(
        &self,
        query: &[f32],
        depth: usize,
        is_visible: &dyn Fn(u32) -> bool,
        scratch: &mut GraphScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        assert_eq!(query.len(), self.dimension(), "a query of another dimension");
        if self.meta.nodes == 0 {
            return Ok(0);
        }
        let codes = scratch.codes_for(self, query);
        let rows_of = |node: u32| std::iter::once(node).chain(self.further(node));
        let mut nodes: Vec<(f32, u32)> = (0..self.meta.nodes as u32)
            .filter(|&node| rows_of(node).any(is_visible))
            .map(|node| (codes.estimate(&self.codes, node), node))
            .collect();
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let k = out.k();
        let mut depth = depth_from(depth, k);
        loop {
            let mut measured = self.measure(query, &nodes[..depth.min(nodes.len())], is_visible)?;
            measured.sort_unstable_by(|a, b| a.0.order(&b.0));
            measured.truncate(k);
            let needed = depth_needed(measured.iter().map(|&(_, rank)| rank));
            if needed <= depth || depth >= nodes.len() {
                measured.into_iter().for_each(|(row, _)| {
                    out.offer(row);
                });
                return Ok(depth);
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// The visible rows of some nodes, given by estimate, with their exact distances.
    fn measure(
        &self,
        query: &[f32],
        nodes: &[(f32, u32)],
        is_visible: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<Measured>, Error> {
        let mut ranks: Vec<(u32, usize)> =
            nodes.iter().enumerate().map(|(rank, &(_, node))| (node, rank)).collect();
        ranks.sort_unstable();
        let mut blocks: Vec<u32> = ranks.iter().map(|&(node, _)| self.block_of(node)).collect();
        blocks.dedup();
        let mut measured = Vec::with_capacity(nodes.len());
        with_number!(self.header.element, N => self.for_each_node::<N>(&blocks, &mut |node, _, row| {
            let Ok(at) = ranks.binary_search_by_key(&node, |&(node, _)| node) else {
                return Ok(());
            };
            let distance = exact(self.metric(), query, row);
            if distance.is_nan() {
                return Err(Malformed("a vector is not finite"));
            }
            for row in std::iter::once(node).chain(self.further(node)).filter(|&row| is_visible(row)) {
                let (id, version) = (self.ids.get(row), self.versions.get(row));
                measured.push((Neighbor { distance, id, version }, ranks[at].1));
            }
            Ok(())
        }))?;
        Ok(measured)
    }
}
