use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, Schema, ValueRef, PAYLOAD_BYTES_MAX,
};
use vstream_vector::cursor::ByteReader;
use vstream_vector::SplitMix;

use super::{bytes_of, put, take};

fn schema() -> Schema {
    let kinds = AttributeKind::ALL.map(|kind| (kind.name(), kind));
    Schema::new(kinds).expect("a schema")
}

/// Sets about half of the attributes, to values of any size.
fn draw<'a>(
    random: &mut SplitMix,
    schema: &Schema,
    builder: &'a mut AttributesBuilder,
) -> Fields<'a> {
    let texts = ["", "a", "größer", "a much longer text, with spaces"];
    builder.clear();
    for (column, attribute) in schema.attributes.iter().enumerate() {
        if random.below(2) == 0 {
            continue;
        }
        let text = texts[random.below(texts.len())];
        let value = match attribute.kind {
            AttributeKind::Keyword => ValueRef::Keyword(text),
            AttributeKind::Keywords => ValueRef::Keywords(vec![text; random.below(4)]),
            AttributeKind::I64 => ValueRef::I64(random.next() as i64),
            AttributeKind::F64 => ValueRef::F64(f64::from(random.normal())),
            AttributeKind::Bool => ValueRef::Bool(random.below(2) == 0),
            AttributeKind::Timestamp => ValueRef::Timestamp(random.next() as i64),
            AttributeKind::Text => ValueRef::Text(text),
        };
        builder.set(schema, column as u16, &value).expect("a value of its type");
    }
    let name = ["", "x", "id with ümlaut"][random.below(3)];
    let check = if name.is_empty() { 0 } else { random.next() };
    let payload = [None, Some(&b""[..]), Some(&[7u8; 900][..])][random.below(3)];
    Fields { name, check, attributes: builder.build(), payload }
}

#[test]
fn what_is_written_is_read() {
    let (schema, mut builder, mut random) = (schema(), AttributesBuilder::default(), SplitMix(5));
    let mut bytes = Vec::new();
    for turn in 0..2_000 {
        let fields = draw(&mut random, &schema, &mut builder);
        bytes.clear();
        put(&fields, &mut bytes);
        assert_eq!(bytes.len(), bytes_of(&fields));
        bytes.push(9);
        let mut input = ByteReader::new(&bytes);
        assert_eq!(take(&mut input), Some(fields), "seed 5, turn {turn}");
        assert_eq!(input.left(), 1);
    }
}

/// Cut and changed bytes are refused or are other fields; none is read past their end.
#[test]
fn changed_bytes_are_no_panic() {
    let (schema, mut builder, mut random) = (schema(), AttributesBuilder::default(), SplitMix(6));
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut bytes = Vec::new();
        put(&draw(&mut random, &schema, &mut builder), &mut bytes);
        let cut = &bytes[..random.below(bytes.len())];
        assert_eq!(take(&mut ByteReader::new(cut)), None, "a part of the fields");
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        refused += usize::from(take(&mut ByteReader::new(&bytes)).is_none());
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut bytes = Vec::new();
    put(&Fields { payload: Some(b"p"), ..Fields::NONE }, &mut bytes);
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes.resize(2 << 20, 0);
        take(&mut ByteReader::new(&bytes)).is_some()
    };
    assert!(with(0, &[0]), "as it was");
    assert!(!with(0, &513u16.to_le_bytes()), "a name that is too long");
    assert!(!with(2, &[2]), "neither with a payload nor without");
    assert!(!with(2, &[0]), "a payload that is not there");
    assert!(!with(8, &(PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes()), "too large a payload");
    assert!(!with(12, &[1]), "a check without a name");
    assert!(!with(4, &70_000u32.to_le_bytes()), "too many attributes");
}
