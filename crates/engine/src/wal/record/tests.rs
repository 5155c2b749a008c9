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
        for unset in [&[][..], &[0, 9, 63]] {
            bytes.clear();
            put_update(3, 7, &Update { set, unset, payload }, &mut bytes);
            let columns: Vec<u8> = unset.iter().flat_map(|column| column.to_le_bytes()).collect();
            let expected = Record::Update { id: 3, version: 7, set, unset: &columns, payload };
            assert_eq!(taken(&bytes), Some((expected, 0)));
        }
    }
    for is_there in [true, false] {
        bytes.clear();
        put_delete(3, 7, is_there, &mut bytes);
        assert_eq!(bytes.len(), RECORD_BYTES_MIN);
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
    let mut bytes = Vec::new();
    put_update(1, 2, &Update { set: builder.build(), ..Update::default() }, &mut bytes);
    let change = size_of::<u64>() * 2 + builder.build().bytes().len();
    assert_eq!((bytes.len(), change), (35, 27));
    let mut text = AttributesBuilder::default();
    let words = Schema::new([("words", AttributeKind::Keyword)]).expect("a schema");
    let value = "a keyword of forty bytes, as names are  ";
    text.set(&words, 0, &ValueRef::Keyword(value)).expect("a value");
    bytes.clear();
    put_update(1, 2, &Update { set: text.build(), ..Update::default() }, &mut bytes);
    assert!(bytes.len() * 5 <= (16 + text.build().bytes().len()) * 6, "{} bytes", bytes.len());
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
