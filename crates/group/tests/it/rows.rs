//! Rows come back as they were written, and bad ones are refused.

use vstream_attribute::{AttributesBuilder, Fields, IdKind, RefusedKind, Schema, ValueRef};
use vstream_group::{Error, GroupQuery, GroupSettings, RowRef, With};
use vstream_vector::{Element, Metric};

use crate::model::{open, schema, Pair};

const ALL: With = With::ALL;

fn pair(seed: u64) -> Pair {
    Pair::new(GroupSettings::new(100, Metric::Cosine, Element::F16), seed)
}

/// Compares every row of a group, by id and page by page.
fn check(pair: &Pair, group: &str, page: usize) {
    let reader = pair.store.reader();
    let wanted: Vec<_> = pair.model.rows(group).collect();
    let (mut after, mut at) = (None, 0);
    loop {
        let rows = reader.scroll(group, None, after, page, ALL).unwrap();
        for row in &rows {
            let (id, version, model) = wanted[at];
            assert_eq!((row.id, row.version), (id, version));
            assert_eq!(row.vector, model.vector);
            assert_eq!(row.attributes().bytes(), model.attributes);
            assert_eq!(row.payload, model.payload);
            assert_eq!(reader.get(group, &[id], ALL).unwrap()[0].as_ref(), Some(row));
            at += 1;
        }
        let Some(last) = rows.last() else { break };
        after = Some(last.id);
    }
    assert_eq!(at, wanted.len());
}

#[test]
fn rows_come_back_from_every_place() {
    let mut pair = pair(3);
    for id in 0..600 {
        pair.upsert("box", id * 3);
    }
    check(&pair, "box", 100);
    pair.store.flush().unwrap();
    check(&pair, "box", 250);
    for id in (0..600).step_by(5) {
        pair.upsert("box", id);
    }
    (0..60).for_each(|id| pair.delete("box", id * 9));
    check(&pair, "box", 7);
    pair.store.flush().unwrap();
    check(&pair, "box", 1000);
    pair.store.compact_all().unwrap();
    check(&pair, "box", 333);
}

#[test]
fn unknown_ids_and_groups_are_not_there() {
    let mut pair = pair(4);
    (0..300).for_each(|id| pair.upsert("box", id * 2));
    pair.delete("box", 10);
    pair.store.flush().unwrap();
    pair.delete("box", 20);
    let reader = pair.store.reader();
    let found = reader.get("box", &[10, 4, 20, 5, u64::MAX, 4], ALL).unwrap();
    let there: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, false, false, false, true]);
    assert_eq!(reader.get("other", &[4], ALL).unwrap(), [None]);
    assert!(reader.scroll("other", None, None, 10, ALL).unwrap().is_empty());
    assert!(reader.scroll("box", None, Some(u64::MAX), 10, ALL).unwrap().is_empty());
}

/// Payloads of a mebibyte, next to rows without any, over several parts.
#[test]
fn large_payloads_come_back() {
    let mut pair = pair(5);
    let vector = pair.draw.vector();
    let payload = |id: u64| -> Vec<u8> {
        let mut random = vstream_vector::SplitMix(id);
        (0..(1 << 20) - id as usize).map(|_| random.next() as u8).collect()
    };
    for id in 0..40 {
        let bytes = payload(id);
        let payload = (id % 2 == 0).then_some(bytes.as_slice());
        let fields = Fields { payload, ..Fields::NONE };
        pair.store.upsert("big", &RowRef { id, version: 1, vector: &vector, fields }).unwrap();
    }
    for _ in 0..2 {
        let rows = pair.store.reader().scroll("big", None, None, 100, ALL).unwrap();
        assert_eq!(rows.len(), 40);
        for row in rows {
            assert!(row.payload == (row.id % 2 == 0).then(|| payload(row.id)), "row {}", row.id);
        }
        pair.store.compact_all().unwrap();
    }
}

#[test]
fn string_ids_come_back() {
    let schema = Schema { id: IdKind::String, ..schema() };
    let settings = GroupSettings::new(64, Metric::L2, Element::F32);
    let settings = GroupSettings { schema, seed: Some(1), ..settings };
    let files = vstream_store::Memory::new();
    let mut store = open(&files, &settings);
    for n in 0..300u64 {
        let name = format!("letter-{n}");
        let fields = Fields { name: &name, check: n * n, ..Fields::NONE };
        let vector = vec![n as f32; 64];
        store.upsert("box", &RowRef { id: n, version: 1, vector: &vector, fields }).unwrap();
    }
    store.flush().unwrap();
    let row = store.reader().get("box", &[17], ALL).unwrap().remove(0).unwrap();
    assert_eq!((row.name.as_str(), row.check), ("letter-17", 289));
    let nameless = RowRef { id: 1, version: 2, vector: &[0.0; 64], fields: Fields::NONE };
    let Err(Error::Refused(refused)) = store.upsert("box", &nameless) else { panic!("accepted") };
    assert_eq!(refused.kind, RefusedKind::BadId);
}

#[test]
fn bad_rows_change_nothing() {
    let mut pair = pair(6);
    pair.upsert("box", 1);
    let good = pair.draw.vector();
    let mut infinite = good.clone();
    infinite[5] = f32::INFINITY;
    let wide = Schema::new([("a", vstream_attribute::AttributeKind::F64)]).unwrap();
    let mut builder = AttributesBuilder::default();
    builder.set(&wide, 0, &ValueRef::F64(1.0)).unwrap();
    let wrong = Fields { attributes: builder.build(), ..Fields::NONE };
    let large = vec![0; (1 << 20) + 1];
    let too_large = Fields { payload: Some(&large), ..Fields::NONE };
    let named = Fields { name: "x", ..Fields::NONE };
    let zeros = [0.0; 100];
    let rows: [(&[f32], Fields<'_>); 6] = [
        (&good[1..], Fields::NONE),
        (&infinite, Fields::NONE),
        (&zeros, Fields::NONE),
        (&good, wrong),
        (&good, too_large),
        (&good, named),
    ];
    for (vector, fields) in rows {
        let row = RowRef { id: 1, version: 99, vector, fields };
        assert!(pair.store.upsert("box", &row).is_err());
    }
    let row = RowRef { id: 1, version: 99, vector: &good, fields: Fields::NONE };
    assert!(pair.store.upsert("", &row).is_err());
    assert!(pair.store.upsert(&"g".repeat(513), &row).is_err());
    check(&pair, "box", 10);
    let reader = pair.store.reader();
    for (vector, k) in [(&good[..], 0), (&good[..], 1001), (&infinite[..], 5), (&zeros[..], 5)] {
        assert!(reader.search("box", &GroupQuery::nearest(vector, k)).is_err());
    }
}

#[test]
fn bad_settings_are_refused() {
    let good = GroupSettings::new(64, Metric::L2, Element::F32);
    let bad = [
        GroupSettings { dimension: 0, ..good.clone() },
        GroupSettings { dimension: 4097, ..good.clone() },
        GroupSettings { metric: Metric::Cosine, element: Element::U8, ..good.clone() },
        GroupSettings { bound: vstream_group::Bound::Deviations(1.0), ..good.clone() },
        GroupSettings { fanout: 1, ..good.clone() },
    ];
    for settings in bad {
        assert!(settings.validate().is_err(), "{settings:?}");
    }
}
