//! The rows of one moment, wherever they are.

use std::sync::Arc;

use vstream_index::{RowKey, Staged, VectorRef};

use super::{Places, Tiers, View};
use crate::error::Error;

/// A view, and the sequence as of which its places are searched.
pub(crate) struct Pinned {
    pub(super) view: Arc<View>,
    pub(super) memory: Box<dyn Staged>,
    pub(super) frozen: Option<Box<dyn Staged>>,
    pub(super) sequence: u64,
    pub(super) tiers: Arc<Tiers>,
}

impl Places {
    /// The rows of now. Never waits.
    ///
    /// The sequence was published while the view was current, so every mark up to it is on a row of
    /// the view: a swap in between would hand over marks that were made after the view was taken.
    pub(crate) fn pin(&self) -> Pinned {
        let mut view = self.view.load_full();
        loop {
            let memory = view.memory.stage(None);
            let again = self.view.load_full();
            if Arc::ptr_eq(&view, &again) {
                let sequence = memory.sequence();
                let frozen = view.frozen.as_ref().map(|of| of.rows().stage(Some(sequence)));
                let tiers = self.tiers.clone();
                return Pinned { view, memory, frozen, sequence, tiers };
            }
            view = again;
        }
    }
}

impl Pinned {
    /// Places in memory.
    pub(super) fn unsealed(&self) -> impl Iterator<Item = &dyn Staged> {
        [Some(&self.memory), self.frozen.as_ref()].into_iter().flatten().map(|staged| &**staged)
    }

    /// Shows every row to `visit`. Errors: `Corrupt`, `Io`.
    pub(crate) fn for_each_row(
        &self,
        visit: &mut dyn FnMut(RowKey, VectorRef<'_>),
    ) -> Result<(), Error> {
        self.unsealed().for_each(|staged| staged.for_each_row(visit));
        let sealed = self.view.sealed.iter();
        sealed.map(|sealed| sealed.at(self.sequence)).try_for_each(|at| at.for_each_row(visit))?;
        Ok(())
    }
}
