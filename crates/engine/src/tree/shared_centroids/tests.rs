use std::sync::Arc;

use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_segment::{
    Codes, LeafCentroid, LeafRows, OpenOptions, Segment, SegmentKind, SegmentSettings,
    SegmentWriter,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::{Access, FileStore, Memory, Store, Syncing};
use vstream_vector::{Element, Metric, SplitMix};

use super::SharedCentroids;

const DIMENSION: usize = 256;
const LEAVES: u64 = 40;

/// Writes random rows of each leaf that `of` defines, or of leaves of its own.
fn write(
    store: &FileStore,
    name: &str,
    (identity, seed): (u64, u64),
    of: Option<&Segment>,
) -> Segment {
    let settings = SegmentSettings {
        dimension: DIMENSION,
        metric: Metric::L2,
        element: Element::F32,
        kind: SegmentKind::Cluster,
        seed: 5,
        identity,
        first_leaf: identity << 26,
        policy: Policy::Best(Tier::Hot),
    };
    let mut writer = SegmentWriter::create(store, name, settings).expect("a writer");
    let mut random = SplitMix(seed);
    for leaf in 0..LEAVES {
        let mut rows = LeafRows::new(Element::F32, DIMENSION);
        for row in 0..10 {
            let vector: Vec<f32> = (0..DIMENSION).map(|_| random.normal()).collect();
            let key = RowKey { id: leaf * 10 + row, version: identity, code: 0, shard: 0 };
            rows.push(IndexRow::plain(key, VectorRef::F32(&vector)));
        }
        match of {
            Some(of) => writer.run(&rows, &of.leaf_definition(leaf as usize)).expect("a run"),
            None => writer.leaf(&rows).expect("a leaf"),
        }
    }
    writer.finish().expect("a segment");
    let file = store.open(name, Access::Cached).expect("a file");
    Segment::open(file, OpenOptions { cache: None, codes: Codes::OnDemand }).expect("a segment")
}

#[test]
fn runs_of_a_leaf_hold_its_centroid_once_and_keep_it_when_others_are_gone() {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let all = SharedCentroids::default();
    let mut base = write(&store, "base", (1, 1), None);
    all.share(&mut base);
    let mut runs: Vec<Segment> =
        (2..6).map(|at| write(&store, &format!("runs{at}"), (at, at), Some(&base))).collect();
    runs.iter_mut().for_each(|of| all.share(of));
    // Whoever holds the definition of a leaf holds the bytes that all its runs hold.
    let sharers = |of: &LeafCentroid| Arc::strong_count(of.stored());
    let definition = base.leaf_definition(7);
    assert_eq!(sharers(&definition), 6, "the base, four with runs, and the test");
    let once = all.memory_bytes(DIMENSION);
    assert!((LEAVES * DIMENSION as u64..LEAVES * 2 * DIMENSION as u64).contains(&once), "{once}");
    drop(definition);
    // Another collection's leaf may have the same number.
    let mut other = write(&store, "other", (1, 9), None);
    let expected: Vec<_> = (0..LEAVES as usize).map(|leaf| base.leaf_definition(leaf)).collect();
    let others: Vec<_> = (0..LEAVES as usize).map(|leaf| other.leaf_definition(leaf)).collect();
    all.share(&mut other);
    drop(base);
    for of in &runs {
        let found: Vec<_> = (0..LEAVES as usize).map(|leaf| of.leaf_definition(leaf)).collect();
        assert_eq!(found, expected, "centroids whose definer is gone");
    }
    assert!((0..LEAVES as usize).all(|leaf| other.leaf_definition(leaf) == others[leaf]));
    drop((runs, expected, other, others));
    let mut again = write(&store, "again", (8, 8), None);
    all.share(&mut again);
    assert!(all.memory_bytes(DIMENSION) <= once, "nothing is left of those that are gone");
}
