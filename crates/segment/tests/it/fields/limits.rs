//! The largest fields, and what is refused.

use vstream_attribute::{FieldsBuffer, ValueRef, PAYLOAD_BYTES_MAX};
use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_segment::{
    LeafRows, Segment, SegmentKind, SegmentSettings, SegmentWriter, WantedFields,
};
use vstream_store::codec::Tier;
use vstream_store::{Error, ErrorKind, Store};
use vstream_vector::{Element, SplitMix};

use crate::{memory, open, resident, settings};

const DIMENSION: usize = 8;

fn flat() -> SegmentSettings {
    settings(DIMENSION, SegmentKind::Flat, Tier::Hot)
}

fn leaf_of(rows: &[FieldsBuffer]) -> LeafRows {
    let mut leaf = LeafRows::new(Element::F32, DIMENSION);
    for (id, fields) in (0..).zip(rows) {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        let vector = VectorRef::F32(&[0.5; DIMENSION]);
        leaf.push(IndexRow { key, vector, fields: fields.fields() });
    }
    leaf
}

fn written(rows: &[FieldsBuffer]) -> Result<Segment, Error> {
    let store = memory();
    let mut writer = SegmentWriter::create_with_fields(&store, "a.seg", flat())?;
    writer.leaf(&leaf_of(rows))?;
    writer.finish()?;
    Ok(open(&store, "a.seg", resident()))
}

fn with(build: impl FnOnce(&mut FieldsBuffer)) -> FieldsBuffer {
    let mut out = FieldsBuffer::default();
    build(&mut out);
    out
}

#[test]
fn the_largest_fields_come_back() {
    let mut random = SplitMix(5);
    let payload: Vec<u8> = (0..PAYLOAD_BYTES_MAX).map(|_| random.next() as u8).collect();
    let long = "é".repeat(2000);
    let words: Vec<String> = (0..1024).map(|at| format!("{at:x}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rows = [
        with(|row| row.set_payload(Some(&payload))),
        with(|row| row.set_name(&"n".repeat(512), u64::MAX)),
        with(|row| row.push(0, &ValueRef::Keyword(&long))),
        with(|row| row.push(3, &ValueRef::Keywords(words))),
        with(|row| row.push(255, &ValueRef::Text(&"wide text ".repeat(5000)))),
        with(|row| {
            row.push(1, &ValueRef::Keyword(""));
            row.set_payload(Some(&vec![7; PAYLOAD_BYTES_MAX]));
        }),
        with(|row| {
            row.push(2, &ValueRef::F64(f64::MIN_POSITIVE));
            row.push(3, &ValueRef::Keywords(vec![]));
            row.push(4, &ValueRef::I64(i64::MIN));
        }),
        with(|row| row.push(4, &ValueRef::I64(i64::MAX))),
    ];
    let segment = written(&rows).unwrap();
    segment.verify().unwrap();
    let numbers: Vec<u32> = (0..rows.len() as u32).rev().collect();
    let fields = segment.fields(&numbers, &WantedFields::ALL).unwrap();
    for (row, back) in rows.iter().zip(fields.iter().rev()) {
        assert!(row.fields() == back.fields(), "{:?}", row.fields().name);
    }
}

#[test]
fn a_leaf_beyond_a_chunk_is_whole() {
    let rows: Vec<FieldsBuffer> = (0..9001i64)
        .map(|at| {
            with(|row| {
                let list = vec!["a long word of a list"; (at % 40) as usize];
                row.push(0, &ValueRef::Keywords(list));
                row.push(1, &ValueRef::I64(at));
            })
        })
        .collect();
    let segment = written(&rows).unwrap();
    segment.verify().unwrap();
    assert_eq!(segment.leaves(), 1);
    let numbers: Vec<u32> = (0..9001).collect();
    let fields = segment.fields(&numbers, &WantedFields::ALL).unwrap();
    assert!(rows.iter().zip(&fields).all(|(row, back)| row.fields() == back.fields()));
}

#[test]
fn what_a_segment_cannot_hold_is_refused() {
    let refused = |rows: &[FieldsBuffer], part: &str| {
        let error = written(rows).err().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    };
    let large = vec![0; PAYLOAD_BYTES_MAX + 1];
    refused(&[with(|row| row.set_payload(Some(&large)))], "a payload has 1048577 bytes");
    refused(&[with(|row| row.set_name(&"n".repeat(513), 0))], "a string id has 513 bytes");
    refused(&[with(|row| row.push(256, &ValueRef::Bool(true)))], "column 256");
    let number = with(|row| row.push(4, &ValueRef::I64(1)));
    let word = with(|row| row.push(4, &ValueRef::Keyword("one")));
    refused(&[number.clone(), word], "column 4 is of type i64, a row has one of type keyword");

    let store = memory();
    let mut writer = SegmentWriter::create(&store, "plain.seg", flat()).unwrap();
    let error = writer.leaf(&leaf_of(&[number])).unwrap_err();
    assert!(error.to_string().contains("a row has fields"), "{error}");
    drop(writer);
    assert!(store.list("").unwrap().is_empty());
}
