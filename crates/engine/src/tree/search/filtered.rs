//! A query with a filter, over all places.

use vstream_index::{Probe, SearchStats};
use vstream_vector::TopK;

use super::TreeScratch;
use crate::error::Error;
use crate::tree::Pinned;

impl Pinned {
    /// Offers the nearest rows that match. Exact over the matches, whatever the effort: the answer is
    /// right at any selectivity. Errors: as `Pinned::search`.
    pub(super) fn filtered(
        &self,
        probe: &Probe<'_>,
        _scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        self.exact(probe.vector, probe.filter, out)
    }
}
