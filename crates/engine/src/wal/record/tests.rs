use vstream_attribute::{AttributeKind, AttributesBuilder, Schema, ValueRef};
use vstream_index::VectorRef;
use vstream_vector::SplitMix;

use super::*;

const VECTOR: [f32; 3] = [1.0, -2.0, 0.5];

fn schema() -> Schema {
    let names: Vec<String> = (0..64).map(|at| format!("attribute-{at}")).collect();
    let attributes = names.iter().map(|name| (name.as_str(), AttributeKind::F64));
    Schema::new(attributes).expect("a schema")
}

fn row(fields: Fields<'_>) -> IndexRow<'_> {
    let key = RowKey { id: 3, version: 7, code: 9, shard: 5 };
    IndexRow { key, vector: VectorRef::F32(&VECTOR), fields }
}

fn taken(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let mut input = ByteReader::new(bytes);
    Record::take(&mut input, 12).map(|record| (record, input.left()))
}

#[test]
fn a_plain_upsert_has_the_bytes_that_it_had() {
    let mut bytes = Vec::new();
    put_upsert(&row(Fields::NONE), &mut bytes);
    let mut expected = vec![1, 0, 5, 0, 0, 0, 0, 0];
    for word in [3u64, 7, 9] {
        expected.extend_from_slice(&word.to_le_bytes());
    }
    VECTOR.iter().for_each(|x| expected.extend_from_slice(&x.to_le_bytes()));
    assert_eq!(bytes, expected);
}

#[test]
fn every_kind_is_read_again() {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    builder.set(&schema, 3, &ValueRef::F64(1.5)).expect("a value");
    builder.set(&schema, 60, &ValueRef::F64(-2.0)).expect("a value");
    let set = builder.build();
    let fields = Fields { name: "n", check: 8, attributes: set, payload: Some(b"bytes") };
    let mut bytes = Vec::new();
    put_upsert(&row(fields), &mut bytes);
    match taken(&bytes) {
        Some((Record::Upsert { key, vector, fields: read }, 0)) => {
            assert_eq!((key, vector.len(), read), (row(fields).key, 12, fields));
        }
        other => panic!("{other:?}"),
    }
    let changes = [PayloadChange::Keep, PayloadChange::Set(b""), PayloadChange::Remove];
    for payload in changes.into_iter().chain([PayloadChange::Set(&[4; 5_000])]) {
        for unset in [&[][..], &[0u16, 9, 63]] {
            bytes.clear();
            let columns: Vec<u8> = unset.iter().flat_map(|column| column.to_le_bytes()).collect();
            for (id, version) in [(3, 7), (0, 0), (255, 256), (u64::MAX, 1 << 40), (1 << 63, 9)] {
                bytes.clear();
                put_update(id, version, &Update { set, unset, payload }, &mut bytes);
                let expected = Record::Update { id, version, set, unset: &columns, payload };
                assert_eq!(taken(&bytes), Some((expected, 0)));
            }
        }
    }
    for is_there in [true, false] {
        bytes.clear();
        put_delete(3, 7, is_there, &mut bytes);
        assert_eq!(bytes.len(), 24);
        let expected = match is_there {
            true => Record::Delete { id: 3, version: 7 },
            false => Record::Remember { id: 3, version: 7 },
        };
        assert_eq!(taken(&bytes), Some((expected, 0)));
    }
}

/// Of 64 attributes one changes: the record has id, version, the change, and a fifth more at most.
#[test]
fn an_update_is_as_long_as_its_change() {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    builder.set(&schema, 63, &ValueRef::F64(0.25)).expect("a value");
    let set = builder.build();
    let change = size_of::<u64>() * 2 + set.bytes().len();
    let mut bytes = Vec::new();
    // The longest ids and versions, and those of a collection with a clock as version.
    for (id, version, expected) in [(u64::MAX, u64::MAX, 31), (90_000, 1_790_000_000_000, 24)] {
        bytes.clear();
        put_update(id, version, &Update { set, ..Update::default() }, &mut bytes);
        assert_eq!((bytes.len(), change), (expected, 27));
        assert!(bytes.len() * 5 <= change * 6, "{} bytes", bytes.len());
    }
}

/// Logs of before have updates of the kind 4.
#[test]
fn an_update_of_an_older_log_is_read() {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    builder.set(&schema, 63, &ValueRef::F64(0.25)).expect("a value");
    let set = builder.build();
    let mut bytes = vec![4, 1, 2, 0, 11, 0, 0, 0];
    [5u64, 8].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.extend_from_slice(set.bytes());
    bytes.extend_from_slice(&[7, 0, 9, 0, 3, 0, 0, 0, 1, 2, 3]);
    let payload = PayloadChange::Set(&[1, 2, 3]);
    let expected = Record::Update { id: 5, version: 8, set, unset: &[7, 0, 9, 0], payload };
    assert_eq!(taken(&bytes), Some((expected, 0)));
}

/// A number has one form, so that equal logs have equal bytes.
#[test]
fn numbers_with_bytes_to_spare_are_refused() {
    let mut bytes = Vec::new();
    put_update(1, 2, &Update::default(), &mut bytes);
    assert_eq!(bytes, [SHORT_UPDATE, 0, 0, 0, 1, 2]);
    assert_eq!(bytes.len(), RECORD_BYTES_MIN);
    let spare = [
        &[SHORT_UPDATE, 1, 0, 0, 1, 0, 2][..],
        &[SHORT_UPDATE, 8, 0, 0, 1, 2, 0],
        &[SHORT_UPDATE, 0, 0x80, 0, 0, 1, 2],
        &[SHORT_UPDATE, 0, 0, 0x80, 0x80, 0x80, 0x80, 0, 1, 2],
        &[SHORT_UPDATE, 0xc0, 0, 0, 1, 2],
    ];
    spare.iter().for_each(|bytes| assert_eq!(taken(bytes), None, "{bytes:?}"));
    for count in [0, 1, 127, 128, 16_383, 16_384, PAYLOAD_BYTES_MAX, (1 << 28) - 1] {
        bytes.clear();
        put_count(count, &mut bytes);
        assert_eq!(take_count(&mut ByteReader::new(&bytes)), Some(count));
    }
}

#[test]
fn changed_bytes_are_no_panic() {
    let (schema, mut builder, mut random) = (schema(), AttributesBuilder::default(), SplitMix(8));
    builder.set(&schema, 3, &ValueRef::F64(1.5)).expect("a value");
    let set = builder.build();
    let (mut bytes, mut refused) = (Vec::new(), 0);
    for turn in 0..4_000 {
        bytes.clear();
        match turn % 3 {
            0 => put_upsert(&row(Fields { payload: Some(b"p"), ..Fields::NONE }), &mut bytes),
            1 => {
                let payload = PayloadChange::Set(b"payload");
                put_update(1, 2, &Update { set, unset: &[1, 2], payload }, &mut bytes);
            }
            _ => put_delete(1, 2, false, &mut bytes),
        }
        assert_eq!(taken(&bytes[..random.below(bytes.len())]), None, "a part of a record");
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        refused += usize::from(taken(&bytes).is_none());
    }
    assert!(refused > 500, "{refused}");
}
