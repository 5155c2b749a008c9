//! The leaves that segments share are counted from their files.

use std::path::Path;

use vstream_engine::{inspect_collection, Element, IndexKind, LeafCounts, Metric, Settings};
use vstream_segment::{Codes, OpenOptions, Segment};
use vstream_store::{Access, FileStore, Store, Syncing};

use super::{filled, tiny};

const ROWS: u64 = 12_000;
const BATCH: u64 = 1_000;

/// The leaves of a collection, and the rows of its segments.
pub(super) fn counts(dir: &Path) -> (LeafCounts, u64) {
    let summary = inspect_collection(dir).expect("a manifest").expect("a collection");
    let store = FileStore::open_dir(dir, Syncing::Off).expect("a directory");
    let open = |name: &str| {
        let file = store.open(name, Access::Cached).expect("a file");
        let options = OpenOptions { cache: None, codes: Codes::OnDemand };
        Some(Segment::open(file, options).expect("a segment"))
    };
    let opened: Vec<_> = summary.segments.iter().map(|of| open(&of.name)).collect();
    let rows = summary.segments.iter().map(|of| of.rows).sum();
    (summary.count_leaves(&opened), rows)
}

#[test]
fn leaves_and_runs_of_a_collection_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let made =
        Settings { memory: Some(1 << 20), ..tiny(IndexKind::Cluster, Metric::L2, Element::F32) };
    let engine = filled(dir.path(), made, ROWS, BATCH);
    let (many, rows) = counts(dir.path());
    assert_eq!(many.segments.len() as u64, engine.stats().tree.segments);
    let own: Vec<_> = many.segments.iter().flatten().collect();
    assert_eq!(own.iter().map(|of| of.runs).sum::<u64>(), many.runs);
    assert_eq!(own.iter().map(|of| of.defined).sum::<u64>(), many.defined);
    assert!(many.defined > 0 && many.runs_per_leaf.most <= many.segments.len() as u64, "{many:?}");
    let in_defined = many.rows_per_leaf.mean * many.defined as f64;
    assert_eq!(in_defined.round() as u64 + many.left_over.rows, rows, "{many:?}");
    assert!(many.rows_per_leaf.p99 <= many.rows_per_leaf.most, "{many:?}");
    let first = own[0];
    assert!(
        first.runs == first.defined && first.runs > 0,
        "the oldest defines its leaves: {many:?}"
    );
    let shared = own[1..].iter().any(|of| of.runs > of.defined);
    assert!(shared && many.runs_per_leaf.most > 1, "later ones have runs of them: {many:?}");
}
