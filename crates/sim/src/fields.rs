//! What the rows of half of the seeds carry beside their vectors, as a function of the write.

use std::sync::Arc;

use vstream_engine::{
    AttributeKind, Attributes, AttributesBuilder, Fields, FieldsBuffer, Filter, IdKind,
    PayloadChange, Range, Schema, Test, Update, ValueRef,
};
use vstream_vector::SplitMix;

/// Columns of [`schema`].
const NUMBER: u16 = 0;
const COLOUR: u16 = 1;
const TAGS: u16 = 2;
const RATIO: u16 = 3;
const COLOURS: [&str; 5] = ["red", "green", "blue", "black", "größer"];
/// Bytes of a payload at most; now and then one is longer than a block of a segment.
const PAYLOAD_BYTES: usize = 600;
const PAYLOAD_BYTES_LONG: usize = 80_000;
const LONG_ONE_IN: usize = 500;

/// Ids are texts; the number is that of the write.
pub fn schema() -> Arc<Schema> {
    let attributes = [
        ("number", AttributeKind::I64),
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("ratio", AttributeKind::F64),
    ];
    let schema = Schema::new(attributes).expect("a schema");
    Arc::new(Schema { id: IdKind::String, ..schema })
}

/// The rows whose number is that of a write: the one that it added, if it is still there.
pub fn added_by(lsn: u64) -> Filter {
    Filter::Attribute(NUMBER, Test::I64In(vec![lsn as i64]))
}

/// The rows that have one of two colours and were added in the first half of `lsn` writes.
pub fn some_of(lsn: u64) -> Filter {
    let mut colours = vec![COLOURS[0].to_owned(), COLOURS[3].to_owned()];
    colours.sort();
    let early = Range {
        from: std::ops::Bound::Unbounded,
        to: std::ops::Bound::Included(lsn as i64 / 2 + 1),
    };
    let colour = Filter::Attribute(COLOUR, Test::KeywordIn(colours));
    Filter::Or(vec![colour, Filter::Attribute(NUMBER, Test::I64Range(early))])
}

/// The fields of a row that write `lsn` adds.
pub fn of_upsert(schema: &Schema, id: u64, lsn: u64) -> FieldsBuffer {
    let (name, mut random) = (format!("row-{id}"), SplitMix(lsn ^ 0xf1e1d5));
    let mut builder = AttributesBuilder::default();
    builder.set(schema, NUMBER, &ValueRef::I64(lsn as i64)).expect("a value");
    if random.below(4) > 0 {
        let colour = ValueRef::Keyword(COLOURS[random.below(COLOURS.len())]);
        builder.set(schema, COLOUR, &colour).expect("a value");
    }
    if random.below(3) == 0 {
        let tags = ValueRef::Keywords(COLOURS[..random.below(4)].to_vec());
        builder.set(schema, TAGS, &tags).expect("a value");
    }
    let payload = payload(&mut random);
    let attributes = builder.build();
    let check = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    FieldsBuffer::from(&Fields { name: &name, check, attributes, payload: payload.as_deref() })
}

fn payload(random: &mut SplitMix) -> Option<Vec<u8>> {
    if random.below(3) == 0 {
        return None;
    }
    let most = if random.below(LONG_ONE_IN) == 0 { PAYLOAD_BYTES_LONG } else { PAYLOAD_BYTES };
    let byte = random.next() as u8;
    Some((0..random.below(most)).map(|at| byte ^ (at as u8).wrapping_mul(31)).collect())
}

/// What an update changes: always the number, so that a row says which write made it.
pub struct Change {
    set: AttributesBuilder,
    unset: Vec<u16>,
    payload: Option<Option<Vec<u8>>>,
}

impl Change {
    /// The change of the update `lsn`.
    pub fn of(schema: &Schema, lsn: u64) -> Change {
        let (mut random, mut set) = (SplitMix(lsn ^ 0xc4a9e), AttributesBuilder::default());
        set.set(schema, NUMBER, &ValueRef::I64(lsn as i64)).expect("a value");
        if random.below(2) == 0 {
            let ratio = ValueRef::F64(f64::from(random.normal()));
            set.set(schema, RATIO, &ratio).expect("a value");
        }
        let unset = if random.below(3) == 0 { vec![COLOUR] } else { Vec::new() };
        let payload = (random.below(2) == 0).then(|| payload(&mut random));
        Change { set, unset, payload }
    }

    /// Calls `apply` with the update.
    pub fn give<T>(&mut self, apply: impl FnOnce(&Update<'_>) -> T) -> T {
        let payload = match &self.payload {
            None => PayloadChange::Keep,
            Some(None) => PayloadChange::Remove,
            Some(Some(payload)) => PayloadChange::Set(payload),
        };
        apply(&Update { set: self.set.build(), unset: &self.unset, payload })
    }

    /// The fields after the change. The oracle's own merge: by column, without the engine's.
    pub fn over(&mut self, schema: &Schema, before: &FieldsBuffer) -> FieldsBuffer {
        let before = before.fields();
        let set = self.set.build();
        let mut after = AttributesBuilder::default();
        for column in 0..schema.attributes.len() as u16 {
            let kept = before.attributes.get(column).filter(|_| !self.unset.contains(&column));
            if let Some(value) = set.get(column).or(kept) {
                after.set(schema, column, &value).expect("a value");
            }
        }
        let attributes: Attributes<'_> = after.build();
        let payload = match &self.payload {
            None => before.payload,
            Some(payload) => payload.as_deref(),
        };
        FieldsBuffer::from(&Fields { attributes, payload, ..before })
    }
}
