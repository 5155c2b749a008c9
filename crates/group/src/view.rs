//! What a query reads: the memtable and the runs of one moment.

use std::sync::Arc;

use vstream_vector::Element;

use crate::memtable::Memtable;
use crate::run::Run;

/// The places of all rows. A row of the memtable hides older versions in runs, and a row of a run
/// those in later runs of the list.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) memtable: Arc<Memtable>,
    /// Number type of stored vectors.
    pub(crate) element: Element,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
}
