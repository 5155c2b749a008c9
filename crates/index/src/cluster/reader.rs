//! Queries from any thread. Each pins the rows of one moment and searches them (`view.rs`).

use vstream_attribute::Filter;
use vstream_vector::{Neighbor, TopK};

use super::pinned::Pinned;
use super::view::View;
use super::ClusterReader;
use crate::probe::{Effort, Probe, SearchStats};
use crate::reach::Reach;
use crate::scratch::Scratch;
use crate::traits::{IndexSnapshot, PinnedRows, Search};

impl ClusterReader {
    /// Calls `search` with the rows that are visible now.
    fn now<T>(&self, search: impl FnOnce(View<'_>) -> T) -> T {
        let (root, pin) = self.0.published.pin();
        search(View { shared: &self.0, root: &root, pin })
    }
}

impl Search for ClusterReader {
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        self.now(|view| view.search(probe, scratch.buffers(), out))
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        self.now(|view| view.search_radius(vector, radius, filter, out))
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        let depth = match probe.effort {
            Effort::Thorough { depth } => depth,
            _ => 0,
        };
        self.now(|view| view.audit(probe, depth, scratch.buffers(), out, reach))
    }

    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        self.now(|view| view.sample(pick, out))
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        Box::new(Pinned::new(&self.0, None))
    }

    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot> {
        Box::new(Pinned::new(&self.0, as_of))
    }

    fn leaves(&self) -> usize {
        self.0.published.root().tree.leaves
    }

    fn writes(&self) -> u64 {
        self.0.published.sequence()
    }
}
