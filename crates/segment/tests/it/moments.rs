//! What a reader sees of a segment at its moment, and what reading it costs.

use vstream_index::stages::ExactSearch;
use vstream_index::{Effort, IndexRow, Probe, VectorRef};
use vstream_segment::{SegmentKind, SegmentScratch, SegmentWriter, Tombstones};
use vstream_store::codec::Tier;
use vstream_store::ErrorKind;
use vstream_store::{ErrorKind as StoreErrorKind, Store};
use vstream_vector::Element;
use vstream_vector::TopK;

use super::{key, memory, on_demand, open, resident, settings, write};

fn row(id: u64) -> Vec<f32> {
    (0..16).map(|d| ((id * 37 + d * 11) % 101) as f32).collect()
}

fn nearest(view: vstream_segment::SegmentView<'_>, query: &[f32], effort: Effort) -> Vec<u64> {
    let mut top = TopK::new(3);
    let probe = Probe { vector: query, k: 3, effort, filter: None };
    view.search(&probe, &mut SegmentScratch::new(), &mut top).unwrap();
    let mut out = Vec::new();
    top.drain_sorted(&mut out);
    out.iter().map(|row| row.id).collect()
}

#[test]
fn a_reader_sees_the_deletes_up_to_its_pin() {
    let store = memory();
    let settings = settings(16, SegmentKind::Cluster, Tier::Hot);
    write(&store, "a.seg", settings, &[0..40, 40..70], &row);
    let segment = open(&store, "a.seg", resident());
    let deletes = Tombstones::none(70);
    let (number, version) = segment.find(50).unwrap().unwrap();
    assert_eq!((number, version), (50, 57));
    assert_eq!(segment.find(70).unwrap(), None);
    assert!(deletes.add(number, 9));
    assert!(!deletes.add(number, 12), "a row dies once");
    assert_eq!(deletes.count(), 1);
    for effort in [Effort::Exact, Effort::Approximate { probes: 2, refine: 70 }] {
        let see = |pin| nearest(segment.at(&deletes, pin), &row(50), effort)[0];
        assert_eq!(see(8), 50, "{effort:?}");
        assert_ne!(see(9), 50, "{effort:?}");
    }
    let mut seen = Vec::new();
    segment
        .at(&deletes, 9)
        .for_each_row(&mut |IndexRow { key, vector, .. }| {
            assert_eq!(key, super::key(key.id));
            assert_eq!(vector, VectorRef::F32(&row(key.id)));
            seen.push(key.id);
        })
        .unwrap();
    assert_eq!(seen, (0..70).filter(|&id| id != 50).collect::<Vec<_>>());
}

#[test]
fn a_query_waits_for_two_rounds_of_reads() {
    let store = memory();
    let settings = settings(16, SegmentKind::Cluster, Tier::Cold);
    let leaves: Vec<_> = (0..20).map(|leaf| leaf * 100..leaf * 100 + 100).collect();
    write(&store, "a.seg", settings, &leaves, &row);
    let effort = Effort::Approximate { probes: 8, refine: 40 };
    for (options, rounds) in [(on_demand(), 2), (resident(), 1)] {
        let segment = open(&store, "a.seg", options.clone());
        let deletes = Tombstones::none(2000);
        let before = segment.io();
        nearest(segment.at(&deletes, 0), &row(3), effort);
        let after = segment.io();
        assert_eq!(after.rounds - before.rounds, rounds);
        assert!(after.reads - before.reads <= 8 + 40, "each block once: {after:?}");
        if options.cache.is_some() {
            nearest(segment.at(&deletes, 0), &row(3), effort);
            assert_eq!(segment.io(), after, "the second time nothing is read");
        }
    }
}

#[test]
fn an_empty_segment_answers_nothing() {
    let store = memory();
    for kind in [SegmentKind::Flat, SegmentKind::Cluster] {
        let name = format!("{kind:?}.seg");
        let summary = write(&store, &name, settings(8, kind, Tier::Hot), &[], &row);
        assert_eq!((summary.rows, summary.leaves), (0, 0));
        let segment = open(&store, &name, resident());
        segment.verify().unwrap();
        let deletes = Tombstones::none(0);
        for effort in [Effort::Exact, Effort::Approximate { probes: 4, refine: 9 }] {
            assert!(nearest(segment.at(&deletes, 0), &[0.0; 8], effort).is_empty());
        }
        assert_eq!(segment.find(1).unwrap(), None);
    }
}

#[test]
fn bad_rows_are_refused_and_leave_no_file() {
    let store = memory();
    let settings = settings(16, SegmentKind::Flat, Tier::Hot);
    let mut writer = SegmentWriter::create(&store, "a.seg", settings).unwrap();
    let mut leaf = vstream_segment::LeafRows::new(Element::U8, 16);
    leaf.push(IndexRow::plain(key(1), VectorRef::U8(&[0; 16])));
    assert_eq!(writer.leaf(&leaf).unwrap_err().kind(), ErrorKind::Invalid);
    drop(writer);
    let mut writer = SegmentWriter::create(&store, "b.seg", settings).unwrap();
    let mut leaf = vstream_segment::LeafRows::new(Element::F32, 16);
    leaf.push(IndexRow::plain(key(1), VectorRef::F32(&[0.0; 16])));
    leaf.push(IndexRow::plain(key(1), VectorRef::F32(&[1.0; 16])));
    writer.leaf(&leaf).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("id 1 came twice"), "{error}");
    assert!(store.list("").unwrap().is_empty());
    let error = store.open("a.seg", vstream_store::Access::Cached).err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::NotFound);
}

/// Numbers near the largest overflow in sums: the segment must still open and be exact.
#[test]
fn huge_numbers_are_kept() {
    let store = memory();
    let huge = |id: u64| -> Vec<f32> {
        (0..16).map(|d| if (id + d).is_multiple_of(2) { 3e38 } else { -3e38 }).collect()
    };
    let row = |id: u64| if id.is_multiple_of(3) { huge(id) } else { row(id) };
    write(&store, "a.seg", settings(16, SegmentKind::Cluster, Tier::Hot), &[0..40, 40..90], &row);
    let segment = open(&store, "a.seg", resident());
    segment.verify().unwrap();
    let deletes = Tombstones::none(90);
    let view = segment.at(&deletes, 0);
    assert_eq!(nearest(view, &row(50), Effort::Exact)[0], 50);
    let mut near = Vec::new();
    view.search_radius(&row(50), 0.0, None, &mut near).unwrap();
    assert!(near.iter().any(|row| row.id == 50));
    nearest(view, &huge(0), Effort::Approximate { probes: 2, refine: 90 });
}
