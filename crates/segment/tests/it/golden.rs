//! Segments that were committed with version 1 of the format: still read, still written the same.

use vstream_index::{IndexRow, VectorRef};
use vstream_segment::{SegmentKind, SegmentSettings, Tombstones};
use vstream_store::codec::Tier;
use vstream_store::{Access, Range, Store};
use vstream_vector::Element;

use super::{key, memory, open, resident, settings, write};

const CLUSTER: &[u8] = include_bytes!("../fixtures/cluster-v1.seg");
const FLAT: &[u8] = include_bytes!("../fixtures/flat-v1.seg");

/// Whole numbers, decimals, and one number that is neither.
fn row(id: u64) -> Vec<f32> {
    let whole = (0..10).map(|d| ((id * 31 + d * 17) % 97) as f32);
    let decimals = (10..19).map(|d| ((id * 13 + d * 7) % 50) as f32 / 16.0 - 1.0);
    whole.chain(decimals).chain([if id == 3 { 1.0e-30 } else { 0.5 }]).collect()
}

fn cluster() -> SegmentSettings {
    settings(20, SegmentKind::Cluster, Tier::Hot)
}

fn flat() -> SegmentSettings {
    SegmentSettings { element: Element::U8, ..settings(20, SegmentKind::Flat, Tier::Hot) }
}

fn byte_row(id: u64) -> Vec<f32> {
    row(id).iter().map(|x| x.abs().trunc()).collect()
}

fn written(settings: SegmentSettings, row: &dyn Fn(u64) -> Vec<f32>) -> Vec<u8> {
    let store = memory();
    write(&store, "golden.seg", settings, &[0..33, 33..60], row);
    let file = store.open("golden.seg", Access::Cached).unwrap();
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).unwrap().to_vec()
}

/// `UPDATE_FIXTURES=1 cargo test -p vstream-engine golden` writes them after a change of version.
#[test]
fn golden_segments_are_written_the_same() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let files = [
        ("cluster-v1.seg", written(cluster(), &row), CLUSTER),
        ("flat-v1.seg", written(flat(), &byte_row), FLAT),
    ];
    for (name, bytes, golden) in files {
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(format!("{folder}/{name}"), &bytes).unwrap();
        } else {
            assert!(bytes == golden, "{name} is written with other bytes than in version 1");
        }
    }
}

#[test]
fn golden_segments_are_read() {
    let store = memory();
    for (name, bytes, row) in
        [("cluster.seg", CLUSTER, &row as &dyn Fn(u64) -> Vec<f32>), ("flat.seg", FLAT, &byte_row)]
    {
        store.put(name, bytes).unwrap();
        let segment = open(&store, name, resident());
        segment.verify().unwrap();
        assert_eq!((segment.rows(), segment.leaves()), (60, 2));
        assert_eq!(segment.code_range(), (0, 59 << 20));
        let mut ids = Vec::new();
        let deletes = Tombstones::none(60);
        segment
            .at(&deletes, 0)
            .for_each_row(&mut |IndexRow { key: held, vector, .. }| {
                assert_eq!(held, key(held.id));
                let mut back = vec![0.0; 20];
                vector.read(&mut back);
                assert_eq!(back, row(held.id), "{name}");
                let is_bytes = matches!(vector, VectorRef::U8(_));
                assert_eq!(is_bytes, segment.element() == Element::U8);
                ids.push(held.id);
            })
            .unwrap();
        assert_eq!(ids, (0..60).collect::<Vec<_>>());
    }
}
