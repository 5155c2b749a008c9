//! Segments that were committed with each version of the format: still read. The newest version is
//! still written the same.

use vstream_attribute::{FieldsBuffer, ValueRef};
use vstream_index::{IndexRow, VectorBuffer, VectorRef};
use vstream_segment::{LeafRows, SegmentKind, SegmentSettings, SegmentWriter, Tombstones};
use vstream_store::codec::Tier;
use vstream_store::{Access, Range, Store};
use vstream_vector::Element;

use super::{key, memory, open, resident, settings, write};

#[path = "../../../attribute/tests/golden/row.rs"]
mod row;

/// A cluster segment, a flat one and one with fields, of the versions before leaves had numbers.
const OLDER: [&[u8]; 3] = [
    include_bytes!("../fixtures/cluster-v1.seg"),
    include_bytes!("../fixtures/flat-v1.seg"),
    include_bytes!("../fixtures/fields-v2.seg"),
];
/// The same, of the present version.
const NEWEST: [&[u8]; 3] = [
    include_bytes!("../fixtures/cluster-v3.seg"),
    include_bytes!("../fixtures/flat-v3.seg"),
    include_bytes!("../fixtures/fields-v3.seg"),
];

/// The row of golden files, and a text in one.
fn fields(id: u64) -> FieldsBuffer {
    let mut out = row::row(id);
    if id == 40 {
        out.push(9, &ValueRef::Text("a text that is long enough to be worth a block of its own"));
    }
    out
}

fn written_with_fields() -> Vec<u8> {
    let store = memory();
    let settings = cluster();
    let mut writer = SegmentWriter::create_with_fields(&store, "golden.seg", settings).unwrap();
    for ids in [0..33, 33..60] {
        let mut leaf = LeafRows::new(settings.element, settings.dimension);
        for id in ids {
            let (fields, mut vector) = (fields(id), VectorBuffer::new(settings.element));
            let vector = vector.narrow(&row(id));
            leaf.push(IndexRow { key: key(id), vector, fields: fields.fields() });
        }
        writer.leaf(&leaf).unwrap();
    }
    writer.finish().unwrap();
    let file = store.open("golden.seg", Access::Cached).unwrap();
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).unwrap().to_vec()
}

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

/// `UPDATE_FIXTURES=1 cargo test -p vstream-segment golden` writes them after a change of version.
#[test]
fn golden_segments_are_written_the_same() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let files = [
        ("cluster-v3.seg", written(cluster(), &row), NEWEST[0]),
        ("flat-v3.seg", written(flat(), &byte_row), NEWEST[1]),
        ("fields-v3.seg", written_with_fields(), NEWEST[2]),
    ];
    for (name, bytes, golden) in files {
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(format!("{folder}/{name}"), &bytes).unwrap();
        } else {
            assert!(bytes == golden, "{name} is written with other bytes than it was");
        }
    }
}

#[test]
fn golden_segments_are_read() {
    let store = memory();
    let rows: [&dyn Fn(u64) -> Vec<f32>; 3] = [&row, &byte_row, &row];
    let older = OLDER.into_iter().zip(rows).map(|of| (of, 77));
    let newest = NEWEST.into_iter().zip(rows).map(|of| (of, 1 << 33));
    for (at, ((bytes, row), first_leaf)) in older.chain(newest).enumerate() {
        let name = &format!("{at}.seg");
        store.put(name, bytes).unwrap();
        let mut segment = open(&store, name, resident());
        segment.number_from(77);
        assert_eq!([0, 1].map(|leaf| segment.leaf_number(leaf)), [first_leaf, first_leaf + 1]);
        segment.verify().unwrap();
        assert_eq!((segment.rows(), segment.leaves()), (60, 2));
        assert_eq!(segment.code_range(), (0, 59 << 20));
        let mut ids = Vec::new();
        let deletes = Tombstones::none(60);
        segment
            .at(&deletes, 0)
            .for_each_row(&mut |IndexRow { key: held, vector, fields: carried }| {
                assert_eq!(held, key(held.id));
                let mut back = vec![0.0; 20];
                vector.read(&mut back);
                assert_eq!(back, row(held.id), "{name}");
                let is_bytes = matches!(vector, VectorRef::U8(_));
                assert_eq!(is_bytes, segment.element() == Element::U8);
                let expected =
                    if segment.has_fields() { fields(held.id) } else { Default::default() };
                assert_eq!(carried, expected.fields());
                ids.push(held.id);
            })
            .unwrap();
        assert_eq!(ids, (0..60).collect::<Vec<_>>());
    }
}
