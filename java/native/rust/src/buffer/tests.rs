use vstream_attribute::Fields;
use vstream_vector::Neighbor;

use super::*;
use crate::failure::Kind;

const DIMENSION: usize = 3;

/// The bytes of a golden file: hexadecimal, `#` begins a comment. In words, so that they are
/// aligned as a direct buffer is.
fn golden(text: &str) -> Vec<u64> {
    let digits: String = text
        .lines()
        .flat_map(|line| line.split('#').next())
        .flat_map(|line| line.chars().filter(char::is_ascii_hexdigit))
        .collect();
    assert_eq!(digits.len() % 16, 0, "whole words");
    digits
        .as_bytes()
        .chunks(16)
        .map(|word| {
            let word = std::str::from_utf8(word).unwrap();
            u64::from_str_radix(word, 16).unwrap().swap_bytes()
        })
        .collect()
}

fn records_golden() -> Vec<u64> {
    golden(include_str!("../../../src/test/resources/golden/records.hex"))
}

fn queries_golden() -> Vec<u64> {
    golden(include_str!("../../../src/test/resources/golden/queries.hex"))
}

fn bytes(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn refused<T>(result: Result<T, Failure>, sentence: &str) {
    let failure = result.err().expect("must be refused");
    assert_eq!(failure.kind, Kind::Invalid);
    assert!(failure.message.contains(sentence), "{}", failure.message);
}

fn first(words: &[u64], count: i32) -> Result<Record<'_>, Failure> {
    Records::new(bytes(words), count, DIMENSION)?.next().expect("one item")
}

#[test]
fn a_partial_answer_says_so_beside_its_leaves() {
    for (leaves, is_partial, expected) in
        [(0, false, 0), (4, false, 4), (0, true, -1), (4, true, -5)]
    {
        let mut out = Vec::new();
        push_answer(&mut out, Scanned { leaves, is_partial }, &[], &[], &[]);
        assert_eq!(out[4..8], i32::to_le_bytes(expected));
    }
}

#[test]
fn records_are_read_as_the_golden_file_says() {
    let words = records_golden();
    let read: Vec<Record> =
        Records::new(bytes(&words), 3, DIMENSION).unwrap().map(Result::unwrap).collect();
    let upsert = Record {
        id: 1,
        version: 2,
        code: 0x8000_0000_0000_0000,
        shard: 127,
        op: Op::Upsert(&[1.0, -2.5, 0.125]),
        fields: None,
    };
    let delete =
        Record { id: u64::MAX, version: 3, code: 0, shard: 0, op: Op::Delete, fields: None };
    let op = Op::Upsert(&[0.0; 3]);
    let last = Record { id: 7, version: 1 << 40, code: 5, shard: 64, op, fields: None };
    assert_eq!(read, [upsert, delete, last]);
}

#[test]
fn queries_are_read_as_the_golden_file_says() {
    let words = queries_golden();
    let queries = Queries::new(bytes(&words), DIMENSION).unwrap();
    assert_eq!(queries.answer_bytes(), 3 * 8 + (10 + 1 + 1000) * 24);
    assert!(!queries.wants_fields());
    let read: Vec<Query> = queries.iter().collect();
    let asked = Asked::default();
    assert_eq!(
        read,
        [
            Query { k: 10, effort: Effort::Auto, vector: &[1.0, 2.0, 3.0], asked },
            Query { k: 1, effort: Effort::Exact, vector: &[-1.0, 0.5, 0.0], asked },
            Query { k: 1000, effort: Effort::Probes(16), vector: &[0.25, 0.25, 0.25], asked },
        ]
    );
}

fn fields_golden() -> Vec<u64> {
    golden(include_str!("../../../src/test/resources/golden/records-fields.hex"))
}

fn asked_golden() -> Vec<u64> {
    golden(include_str!("../../../src/test/resources/golden/queries-asked.hex"))
}

/// What the first row of the golden files carries, and its schema.
fn carried(builder: &mut vstream_attribute::AttributesBuilder) -> Fields<'_> {
    use vstream_attribute::{AttributeKind, Schema, ValueRef};
    let schema = Schema::new([
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("price", AttributeKind::F64),
        ("stock", AttributeKind::I64),
        ("new", AttributeKind::Bool),
        ("since", AttributeKind::Timestamp),
    ]);
    let schema = schema.unwrap();
    let values = [
        (0, ValueRef::Keyword("red")),
        (1, ValueRef::Keywords(vec!["a", "bc"])),
        (2, ValueRef::F64(9.5)),
        (4, ValueRef::Bool(true)),
        (5, ValueRef::Timestamp(-1)),
    ];
    for (column, value) in values {
        builder.set(&schema, column, &value).unwrap();
    }
    Fields {
        name: "größe",
        check: 0x1122_3344_5566_7788,
        attributes: builder.build(),
        payload: Some(br#"{"a":1}"#),
    }
}

#[test]
fn fields_are_read_as_the_golden_file_says() {
    let words = fields_golden();
    let read: Vec<Record> =
        Records::new(bytes(&words), 3, DIMENSION).unwrap().map(Result::unwrap).collect();
    let mut builder = Default::default();
    let first = read[0].fields.unwrap();
    assert_eq!(first.fields, carried(&mut builder));
    assert_eq!(first.unset().count(), 0);
    assert!(!first.removes_payload);
    assert_eq!((read[1].op, read[1].id), (Op::Update, 9));
    let update = read[1].fields.unwrap();
    assert_eq!(update.unset().collect::<Vec<_>>(), [0, 3]);
    assert!(update.removes_payload);
    assert_eq!(update.fields.attributes.get(2), Some(vstream_attribute::ValueRef::F64(-0.5)));
    let named = read[2].fields.unwrap().fields;
    assert_eq!(named, Fields { name: "x", check: u64::MAX, ..Fields::NONE });
}

#[test]
fn what_queries_ask_is_read_as_the_golden_file_says() {
    let words = asked_golden();
    let queries = Queries::new(bytes(&words), DIMENSION).unwrap();
    assert!(queries.wants_fields());
    let read: Vec<Query> = queries.iter().collect();
    let asked = read[0].asked;
    assert_eq!(asked.filter, Some(&[1, 2, 3][..]));
    assert_eq!((asked.radius, asked.payload, asked.names), (Some(0.5), true, true));
    assert_eq!(asked.columns().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(read[1].asked, Asked::default());
    assert_eq!((read[1].k, read[1].effort), (1, Effort::Exact));
}

#[test]
fn groups_are_read_as_the_golden_files_say() {
    let words = golden(include_str!("../../../src/test/resources/golden/records-groups.hex"));
    let read: Vec<Record> =
        Records::new(bytes(&words), 3, DIMENSION).unwrap().map(Result::unwrap).collect();
    let ops: Vec<Op> = read.iter().map(|record| record.op).collect();
    assert_eq!(ops, [Op::Upsert(&[1.0, -2.5, 0.125]), Op::Drop, Op::Delete]);
    assert!(read.iter().all(|record| record.fields.unwrap().group == "ann" && record.shard == 5));
    assert_eq!(read.iter().map(|record| record.version).collect::<Vec<_>>(), [2, 3, 4]);
    let words = golden(include_str!("../../../src/test/resources/golden/queries-groups.hex"));
    let queries = Queries::new(bytes(&words), DIMENSION).unwrap();
    let asked = queries.iter().next().unwrap().asked;
    assert_eq!((asked.group, asked.filter, asked.radius), ("ann", None, None));
    assert_eq!(asked.ranked, Some("{}"));
    assert_eq!(asked.columns().collect::<Vec<_>>(), [2]);
}

#[test]
fn lengths_of_groups_that_do_not_fit_are_refused() {
    let words = golden(include_str!("../../../src/test/resources/golden/queries-groups.hex"));
    // Length and flags, then column and length of the group.
    for (word, value) in [(4, 0x0001_0030_0000_0018), (4, 8), (6, 513 << 16), (7, 0xffff << 24)] {
        let mut changed = words.clone();
        changed[word] = value;
        assert_eq!(Queries::new(bytes(&changed), DIMENSION).err().unwrap().kind, Kind::Invalid);
    }
    let mut no_text = words;
    no_text[6] |= 0xff << 48;
    refused(Queries::new(bytes(&no_text), DIMENSION), "no UTF-8");
}

#[test]
fn fields_of_answers_are_written_as_the_golden_file_says() {
    let words = golden(include_str!("../../../src/test/resources/golden/answers-fields.hex"));
    let (mut builder, mut fields, mut out) = (Default::default(), Vec::new(), Vec::new());
    push_fields(&mut fields, &carried(&mut builder), false);
    push_fields(&mut fields, &Fields::NONE, true);
    let near = Neighbor { distance: 0.5, id: 1, version: 2 };
    let far = Neighbor { distance: 1.5, id: u64::MAX, version: 3 };
    push_answer(&mut out, 4, &[near, far], &[], &fields);
    push_answer(&mut out, 0, &[Neighbor { distance: 2.0, id: 5, version: 6 }], &[], &[]);
    assert_eq!(out, bytes(&words));
}

/// Scores of 64 bits that are one number in 32.
#[test]
fn the_order_of_answers_is_written_as_the_golden_file_says() {
    let words = golden(include_str!("../../../src/test/resources/golden/answers-order.hex"));
    let (mut fields, mut out) = (Vec::new(), Vec::new());
    push_fields(&mut fields, &Fields::NONE, true);
    push_fields(&mut fields, &Fields::NONE, true);
    let row = |id| Neighbor { distance: 1.7e12, id, version: id + 1 };
    let order = [1.7e12, 1.7e12 + 1.0];
    push_answer(&mut out, 4, &[row(2), row(1)], &order, &fields);
    let whole = out.len();
    push_answer(&mut out, 0, &[row(2), row(1)], &order, &[]);
    assert_eq!(out, bytes(&words));
    // Without fields, into a buffer that is there.
    let mut room = vec![0xff; out.len() - whole];
    let mut writer = Writer::new(&mut room, 0).unwrap();
    writer.answer(0, &[row(2), row(1)], &order);
    assert_eq!(room, out[whole..]);
}

#[test]
fn an_answer_in_an_order_has_room_for_it() {
    let words = golden(include_str!("../../../src/test/resources/golden/queries-groups.hex"));
    let queries = Queries::new(bytes(&words), DIMENSION).unwrap();
    assert_eq!(queries.answer_bytes(), 8 + 10 * (24 + 8));
}

#[test]
fn lengths_of_fields_that_do_not_fit_are_refused() {
    let words = fields_golden();
    // The block of the first record begins behind header and vector, at word 6.
    for (word, value) in
        [(6, 1), (6, u64::from(u32::MAX)), (8, 1 << 63), (9, 1 << 20), (6, 3 << 40)]
    {
        let mut changed = words.clone();
        changed[word] = value;
        assert_eq!(first(&changed, 1).unwrap_err().kind, Kind::Invalid, "word {word}");
    }
    let mut no_update = words;
    no_update[3] = 2 << 16;
    refused(first(&no_update, 1), "Op 2");
}

#[test]
fn answers_are_written_as_the_golden_file_says() {
    let words = golden(include_str!("../../../src/test/resources/golden/answers.hex"));
    let mut out = vec![0xff; words.len() * 8 + 8];
    let mut writer = Writer::new(&mut out, words.len() * 8).unwrap();
    let near = Neighbor { distance: 0.5, id: 1, version: 2 };
    let far = Neighbor { distance: 1.5, id: u64::MAX, version: 3 };
    writer.answer(4, &[near, far], &[]);
    writer.answer(0, &[], &[]);
    let written = writer.written();
    assert_eq!(out[..written], *bytes(&words));
    assert!(out[written..].iter().all(|&byte| byte == 0xff), "nothing beyond");
}

#[test]
fn placements_and_partitions_are_written_as_the_golden_file_says() {
    let words = golden(include_str!("../../../src/test/resources/golden/placements.hex"));
    let mut out = vec![0xff; words.len() * 8];
    let mut writer = Writer::new(&mut out, placement_bytes(2) + partition_bytes(2)).unwrap();
    writer.placement(0x8000_0000_0000_0000, 127);
    writer.placement(5, 0);
    writer.partition(0);
    writer.partition(3);
    assert_eq!(out, bytes(&words));
}

#[test]
fn a_record_that_runs_over_the_end_is_refused() {
    let words = records_golden();
    for cut in 0..words.len() {
        let items: Vec<_> = Records::new(bytes(&words[..cut]), 3, DIMENSION).unwrap().collect();
        assert!(items.len() <= 3);
        refused(items.into_iter().collect::<Result<Vec<_>, _>>(), "ends too early");
    }
}

#[test]
fn a_record_of_another_dimension_never_reads_past_the_end() {
    let words = records_golden();
    for dimension in [1, 2, 4, 100, 4096] {
        for item in Records::new(bytes(&words), i32::MAX, dimension).unwrap() {
            if let Err(failure) = item {
                assert_eq!(failure.kind, Kind::Invalid);
            }
        }
    }
}

#[test]
fn no_changed_byte_makes_a_reader_panic() {
    for words in [records_golden(), queries_golden(), fields_golden(), asked_golden()] {
        for at in 0..words.len() * 8 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = words.clone();
                bytemuck::cast_slice_mut::<u64, u8>(&mut changed)[at] = value;
                for dimension in [1, DIMENSION, 4096] {
                    let records = Records::new(bytes(&changed), 5, dimension).unwrap().count();
                    assert!(records <= 5);
                    if let Ok(queries) = Queries::new(bytes(&changed), dimension) {
                        assert!(queries.iter().all(|query| query.vector.len() == dimension));
                    }
                }
            }
        }
    }
}

#[test]
fn bad_headers_are_refused_with_the_record_they_are_in() {
    let words = records_golden();
    refused(Records::new(bytes(&words), -1, DIMENSION).map(drop), "0 or more");
    let mut shard = words.clone();
    shard[3] = 4096;
    refused(first(&shard, 1), "record 1 of 1: Shard 4096");
    let mut op = words.clone();
    op[3] = 2 << 16;
    refused(first(&op, 1), "Op 2");
    let mut reserved = words;
    reserved[3] = 1 << 63;
    refused(first(&reserved, 1), "reserved");
}

#[test]
fn bad_queries_are_refused_before_any_is_answered() {
    let words = queries_golden();
    let with = |at: usize, word: u64| {
        let mut changed = words.clone();
        changed[at] = word;
        Queries::new(bytes(&changed), DIMENSION).map(drop)
    };
    refused(with(0, u64::from(u32::MAX)), "count must be 0 or more");
    refused(with(0, 4), "query 4 of 4: The buffer ends too early");
    refused(with(0, 3 | 2 << 32), "Flags");
    refused(with(0, 3 | 1 << 32), "query 1 of 3");
    refused(with(1, 0), "query 1 of 3: k is 0");
    refused(with(1, 1001), "k is 1001");
    refused(with(1, u64::from(u32::MAX)), "k is -1");
    refused(with(1, 10 | (-2i32 as u32 as u64) << 32), "Effort -2");
    refused(with(2, u64::from(f32::NAN.to_bits())), "Element 0 of the vector is NaN");
    refused(with(3, u64::from(f32::NEG_INFINITY.to_bits())), "Element 2 of the vector is -inf");
    refused(Queries::new(&[], DIMENSION).map(drop), "ends too early");
}

#[test]
fn large_finite_numbers_are_finite() {
    assert_eq!(check_finite(&[f32::MAX, f32::MAX, -f32::MAX, f32::MIN_POSITIVE]), Ok(()));
    assert_eq!(check_finite(&[]), Ok(()));
    assert!(check_finite(&[0.0, f32::INFINITY]).is_err());
}

#[test]
fn vectors_and_matrices_need_their_whole_length() {
    let words = [0u64; 6];
    assert_eq!(vector(bytes(&words), 12).unwrap().len(), 12);
    refused(vector(bytes(&words), 13), "52 bytes are needed and 48 are left");
    assert_eq!(matrix(bytes(&words), 4, 3).unwrap().len(), 12);
    assert_eq!(matrix(bytes(&words), 0, 3).unwrap().len(), 0);
    refused(matrix(bytes(&words), 5, 3), "60 bytes");
    refused(matrix(bytes(&words), -1, 3), "0 or more");
}

#[test]
fn a_writer_refuses_a_small_buffer_before_it_writes() {
    let mut out = [0xff; 15];
    refused(Writer::new(&mut out, placement_bytes(1)).map(drop), "16 bytes are needed");
    assert_eq!(out, [0xff; 15]);
}
