//! A small shop: its schema, and strategies for its rows and for filters that often hold.

use std::ops::Bound;

use proptest::prelude::*;
use vstream_attribute::{
    AttributeKind, Attributes, AttributesBuilder, Filter, Range, Schema, Test, Value,
};

pub const COLOUR: u16 = 0;
pub const TAGS: u16 = 1;
pub const STOCK: u16 = 2;
pub const PRICE: u16 = 3;
pub const SOLD: u16 = 4;
pub const BORN: u16 = 5;

/// The schema of the shop. The columns are the constants above.
pub fn shop() -> Schema {
    Schema::new([
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("stock", AttributeKind::I64),
        ("price", AttributeKind::F64),
        ("sold", AttributeKind::Bool),
        ("born", AttributeKind::Timestamp),
        ("note", AttributeKind::Text),
    ])
    .unwrap()
}

/// A row: its id and its values by column.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: u64,
    pub values: Vec<Option<Value>>,
}

impl Row {
    /// Calls `with` with the row's attributes.
    pub fn with<T>(&self, schema: &Schema, with: impl FnOnce(u64, Attributes<'_>) -> T) -> T {
        let mut builder = AttributesBuilder::default();
        for (column, value) in self.values.iter().enumerate() {
            if let Some(value) = value {
                builder.set(schema, column as u16, &value.as_ref()).unwrap();
            }
        }
        with(self.id, builder.build())
    }

    pub fn holds(&self, schema: &Schema, filter: &Filter) -> bool {
        self.with(schema, |id, attributes| filter.holds(id, attributes))
    }
}

/// Few words, some of which begin with others, and some that need care in texts.
pub fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "ab", "abc", "b", "bä", "it's", "\"q\"", "100%", "\u{0}x"])
        .prop_map(str::to_owned)
}

pub fn whole() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -4i64..5, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

pub fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-8i32..9).prop_map(|quarters| f64::from(quarters) / 4.0),
        1 => Just(0.1 + 0.2),
        1 => any::<f64>().prop_filter("finite", |number| number.is_finite()),
    ]
}

pub fn row() -> impl Strategy<Value = Row> {
    use prop::option::weighted;
    let tags = prop::collection::vec(word(), 0..4);
    (
        0u64..12,
        weighted(0.7, word().prop_map(Value::Keyword)),
        weighted(0.7, tags.prop_map(Value::Keywords)),
        weighted(0.7, whole().prop_map(Value::I64)),
        weighted(0.7, float().prop_map(Value::F64)),
        weighted(0.7, any::<bool>().prop_map(Value::Bool)),
        weighted(0.7, whole().prop_map(Value::Timestamp)),
        weighted(0.7, word().prop_map(Value::Text)),
    )
        .prop_map(|(id, a, b, c, d, e, f, g)| Row { id, values: vec![a, b, c, d, e, f, g] })
}

pub fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 60..90)
}

fn sorted<T: PartialOrd>(mut list: Vec<T>) -> Vec<T> {
    list.sort_by(|a, b| a.partial_cmp(b).unwrap());
    list.dedup_by(|a, b| a == b);
    list
}

fn list<T: PartialOrd + std::fmt::Debug>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(one, 0..5).prop_map(sorted)
}

fn bound<T: Clone + std::fmt::Debug + 'static>(
    one: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Bound<T>> {
    let kind = prop::sample::select(vec![0, 1, 2]);
    (kind, one).prop_map(|(kind, value)| match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(value),
        _ => Bound::Excluded(value),
    })
}

/// A condition that fits its attribute.
pub fn condition() -> impl Strategy<Value = Filter> {
    let whole_column = || prop::sample::select(vec![STOCK, BORN]);
    let test = prop_oneof![
        (0u16..7).prop_map(|column| (column, Test::Exists)),
        list(word()).prop_map(|texts| (COLOUR, Test::KeywordIn(texts))),
        word().prop_map(|prefix| (COLOUR, Test::KeywordPrefix(prefix))),
        list(word()).prop_map(|texts| (TAGS, Test::AnyOf(texts))),
        list(word()).prop_map(|texts| (TAGS, Test::AllOf(texts))),
        Just((TAGS, Test::IsEmpty)),
        (whole_column(), list(whole())).prop_map(|(column, list)| (column, Test::I64In(list))),
        (whole_column(), bound(whole()), bound(whole()))
            .prop_map(|(column, from, to)| (column, Test::I64Range(Range { from, to }))),
        list(float()).prop_map(|list| (PRICE, Test::F64In(list))),
        (bound(float()), bound(float()))
            .prop_map(|(from, to)| (PRICE, Test::F64Range(Range { from, to }))),
        any::<bool>().prop_map(|is_true| (SOLD, Test::Bool(is_true))),
    ];
    prop_oneof![
        12 => test.prop_map(|(column, test)| Filter::Attribute(column, test)),
        1 => list(0u64..12).prop_map(Filter::Ids),
    ]
}

/// A filter within the limits.
pub fn filter() -> impl Strategy<Value = Filter> {
    condition().prop_recursive(5, 40, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            parts().prop_map(Filter::And),
            parts().prop_map(Filter::Or),
            (0usize..5, parts()).prop_map(|(least, parts)| Filter::AtLeast(least, parts)),
            inner.clone().prop_map(|part| Filter::Not(Box::new(part))),
        ]
    })
}
