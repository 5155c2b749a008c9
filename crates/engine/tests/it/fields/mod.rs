//! Rows with attributes, payloads and text ids, against a map.

mod filtered;
mod kept;
mod model;
mod remembered;
mod schema;
mod spread;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Durability, Element, Engine, Fields, FieldsBuffer, Filter,
    IdKind, IndexKind, Journaling, Metric, Neighbor, PayloadChange, Range, Schema, Settings, Test,
    Update, ValueRef,
};
use vstream_vector::{kernels, SplitMix};

pub(crate) const DIMENSION: usize = 96;
const COLOURS: [&str; 6] = ["black", "blue", "gelb", "green", "größer", "red"];
const PRICE: u16 = 0;
const COLOUR: u16 = 1;
const TAGS: u16 = 2;
const COUNT: u16 = 3;
const SOLD: u16 = 4;
const SEEN: u16 = 5;

pub(crate) fn schema(id: IdKind) -> Arc<Schema> {
    let attributes = [
        ("price", AttributeKind::F64),
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("count", AttributeKind::I64),
        ("sold", AttributeKind::Bool),
        ("seen", AttributeKind::Timestamp),
    ];
    Arc::new(Schema { id, ..Schema::new(attributes).expect("a schema") })
}

pub(crate) fn settings(metric: Metric, element: Element, index: IndexKind, id: IdKind) -> Settings {
    let mut settings = Settings::new(DIMENSION, metric, element);
    (settings.index, settings.recall_guard) = (index, false);
    settings.schema = schema(id);
    settings.cluster.leaf_rows_max = 96;
    settings.cluster.leaf_rows_min = 24;
    settings
}

pub(crate) fn journaling(background: bool) -> Journaling {
    Journaling { durability: Durability::None, log_bytes_max: 4 << 20, background }
}

/// Whole numbers, so that every element holds them and sums are exact.
pub(crate) fn vector_of(random: &mut SplitMix) -> Vec<f32> {
    let centre = random.below(12) as f32 * 8.0;
    (0..DIMENSION).map(|_| centre + random.below(12) as f32).collect()
}

/// The text of an id and its check.
pub(crate) fn name_of(settings: &Settings, id: u64) -> (String, u64) {
    match settings.schema.id {
        IdKind::U64 => (String::new(), 0),
        IdKind::String => (format!("row/{id}"), id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
    }
}

fn payload(random: &mut SplitMix) -> Option<Vec<u8>> {
    match random.below(40) {
        0..15 => None,
        15..38 => Some(vec![random.next() as u8; random.below(300)]),
        38 => Some(Vec::new()),
        _ => Some((0..40_000).map(|_| random.next() as u8).collect()),
    }
}

fn set_some(random: &mut SplitMix, schema: &Schema, out: &mut AttributesBuilder) {
    for column in 0..schema.attributes.len() as u16 {
        if random.below(3) == 0 {
            continue;
        }
        let value = match column {
            PRICE => ValueRef::F64(random.below(1_000) as f64 / 8.0),
            // The first colour is rare.
            COLOUR => ValueRef::Keyword(COLOURS[random.below(36).isqrt()]),
            TAGS => ValueRef::Keywords(COLOURS[..random.below(4)].to_vec()),
            COUNT => ValueRef::I64(random.below(200) as i64 - 100),
            SOLD => ValueRef::Bool(random.below(4) == 0),
            _ => ValueRef::Timestamp(1_700_000_000_000 + random.below(1_000_000) as i64),
        };
        out.set(schema, column, &value).expect("a value of its type");
    }
}

/// Fields of a new row.
pub(crate) fn draw(random: &mut SplitMix, settings: &Settings, id: u64) -> FieldsBuffer {
    let ((name, check), mut builder) = (name_of(settings, id), AttributesBuilder::default());
    set_some(random, &settings.schema, &mut builder);
    let payload = payload(random);
    let (attributes, payload) = (builder.build(), payload.as_deref());
    FieldsBuffer::from(&Fields { name: &name, check, attributes, payload })
}

/// A change of a row: attributes to set and to unset, and the payload.
pub(crate) struct Change {
    set: AttributesBuilder,
    unset: Vec<u16>,
    payload: Option<Option<Vec<u8>>>,
}

impl Change {
    pub(crate) fn draw(random: &mut SplitMix, schema: &Schema) -> Change {
        let mut set = AttributesBuilder::default();
        set_some(random, schema, &mut set);
        // Half of the updates change one attribute alone.
        if random.below(2) == 0 {
            set.clear();
            let count = ValueRef::I64(random.below(200) as i64 - 100);
            set.set(schema, COUNT, &count).expect("a value");
        }
        let unset = if random.below(3) == 0 { vec![COLOUR, SOLD] } else { Vec::new() };
        let payload = (random.below(3) == 0).then(|| payload(random));
        Change { set, unset, payload }
    }

    pub(crate) fn give<T>(&mut self, apply: impl FnOnce(&Update<'_>) -> T) -> T {
        let payload = match &self.payload {
            None => PayloadChange::Keep,
            Some(None) => PayloadChange::Remove,
            Some(Some(payload)) => PayloadChange::Set(payload),
        };
        apply(&Update { set: self.set.build(), unset: &self.unset, payload })
    }

    /// The fields after the change, by the oracle's own merge.
    pub(crate) fn over(&mut self, schema: &Schema, before: &FieldsBuffer) -> FieldsBuffer {
        let (before, set) = (before.fields(), self.set.build());
        let mut after = AttributesBuilder::default();
        for column in 0..schema.attributes.len() as u16 {
            let kept = before.attributes.get(column).filter(|_| !self.unset.contains(&column));
            if let Some(value) = set.get(column).or(kept) {
                after.set(schema, column, &value).expect("a value");
            }
        }
        let payload = match &self.payload {
            None => before.payload,
            Some(payload) => payload.as_deref(),
        };
        FieldsBuffer::from(&Fields { attributes: after.build(), payload, ..before })
    }
}

/// A filter of any kind, now and then of two conditions.
pub(crate) fn filter(random: &mut SplitMix, ids: u64) -> Filter {
    let one = |random: &mut SplitMix| match random.below(9) {
        0 => {
            let from = random.below(110) as f64;
            let range = Range { from: Bound::Included(from), to: Bound::Excluded(from + 12.5) };
            Filter::Attribute(PRICE, Test::F64Range(range))
        }
        1 => Filter::Attribute(COLOUR, Test::KeywordIn(vec![COLOURS[random.below(6)].into()])),
        2 => Filter::Attribute(COLOUR, Test::KeywordPrefix("g".into())),
        3 => Filter::Attribute(TAGS, Test::AnyOf(vec!["blue".into(), "gelb".into()])),
        4 => Filter::Attribute(TAGS, Test::IsEmpty),
        5 => {
            let range = Range { from: Bound::Unbounded, to: Bound::Included(-90) };
            Filter::Attribute(COUNT, Test::I64Range(range))
        }
        6 => Filter::Attribute(SOLD, Test::Bool(true)),
        7 => Filter::Attribute(SEEN, Test::Exists),
        _ => {
            let mut some: Vec<u64> = (0..20).map(|_| random.below(ids as usize) as u64).collect();
            some.sort_unstable();
            Filter::Ids(some)
        }
    };
    match random.below(4) {
        0 => Filter::And(vec![one(random), Filter::Not(Box::new(one(random)))]),
        1 => Filter::Or(vec![one(random), one(random)]),
        _ => one(random),
    }
}

/// A row of the oracle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) version: u64,
    pub(crate) vector: Vec<f32>,
    pub(crate) fields: FieldsBuffer,
}

pub(crate) type Model = BTreeMap<u64, Kept>;

/// The rows of the oracle that match, ascending by id.
pub(crate) fn matching<'a>(
    model: &'a Model,
    filter: Option<&'a Filter>,
) -> impl Iterator<Item = (u64, &'a Kept)> {
    let holds = move |id: u64, row: &Kept| {
        filter.is_none_or(|filter| filter.holds(id, row.fields.fields().attributes))
    };
    model.iter().map(|(&id, row)| (id, row)).filter(move |(id, row)| holds(*id, row))
}

/// The nearest rows of the oracle that match, under l2.
pub(crate) fn nearest(
    model: &Model,
    query: &[f32],
    filter: Option<&Filter>,
    k: usize,
) -> Vec<Neighbor> {
    let mut all: Vec<Neighbor> = matching(model, filter)
        .map(|(id, row)| Neighbor {
            id,
            version: row.version,
            distance: kernels::l2_squared(query, &row.vector),
        })
        .collect();
    all.sort_unstable_by(Neighbor::order);
    all.truncate(k);
    all
}

/// All rows of an engine.
pub(crate) fn rows(engine: &Engine) -> Model {
    let mut rows = Model::new();
    let visit = &mut |row: &vstream_engine::Row<'_>| {
        let kept = Kept {
            version: row.version,
            vector: row.vector.to_vec(),
            fields: FieldsBuffer::from(&row.fields),
        };
        assert!(rows.insert(row.id, kept).is_none(), "row {} is there twice", row.id);
    };
    engine.pin().for_each_row(visit).expect("rows that can be read");
    rows
}
