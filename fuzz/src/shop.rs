//! A schema with every kind of attribute, and rows by which filters are compared.

use std::sync::OnceLock;

use vstream_attribute::{
    AttributeKind, Attributes, AttributesBuilder, Filter, IdKind, NameHash, Names, Schema, Value,
};
use vstream_vector::SplitMix;

/// Rows of each kind of id.
const ROWS: usize = 96;
/// Texts of which some begin with others, and some need care in quotes.
const WORDS: [&str; 10] = ["", "a", "ab", "abc", "b", "bä", "it's", "\"q\"", "100%", "red"];

/// A collection: its schema and its rows.
pub(crate) struct Shop {
    pub(crate) schema: Schema,
    pub(crate) hash: NameHash,
    pub(crate) rows: Vec<Row>,
}

/// A row, as its writer knows it and as it is stored.
pub(crate) struct Row {
    /// Hash of `name` in a collection of string ids.
    pub(crate) id: u64,
    pub(crate) name: String,
    /// By column.
    pub(crate) values: Vec<Option<Value>>,
    bytes: Vec<u8>,
}

impl Row {
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes::decode(&self.bytes).expect("bytes of a builder")
    }

    /// The stored row's answer to a filter.
    pub(crate) fn holds(&self, filter: &Filter) -> bool {
        filter.holds(self.id, self.attributes())
    }
}

impl Shop {
    /// Of number ids or string ids.
    pub(crate) fn of(has_names: bool) -> &'static Shop {
        static SHOPS: [OnceLock<Shop>; 2] = [OnceLock::new(), OnceLock::new()];
        SHOPS[usize::from(has_names)].get_or_init(|| Shop::new(has_names))
    }

    fn new(has_names: bool) -> Shop {
        let id = if has_names { IdKind::String } else { IdKind::U64 };
        let schema = Schema { id, id_key: [7; 16], ..schema() };
        let hash = schema.name_hash();
        let mut random = SplitMix(11);
        let row = |number: usize| {
            let name = format!("row {number}");
            let id = if has_names { hash.hash(&name).expect("a name").id } else { number as u64 };
            let values: Vec<Option<Value>> =
                schema.attributes.iter().map(|one| value(one.kind, &mut random)).collect();
            Row { id, name, bytes: encoded(&schema, &values), values }
        };
        let rows = (0..ROWS).map(row).collect();
        Shop { schema, hash, rows }
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names::new(&self.schema, &self.hash)
    }
}

/// One attribute of every kind.
pub(crate) fn schema() -> Schema {
    let attributes = [
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("stock", AttributeKind::I64),
        ("price", AttributeKind::F64),
        ("sold", AttributeKind::Bool),
        ("born", AttributeKind::Timestamp),
        ("note", AttributeKind::Text),
    ];
    Schema::new(attributes).expect("a schema")
}

pub(crate) fn encoded(schema: &Schema, values: &[Option<Value>]) -> Vec<u8> {
    let mut builder = AttributesBuilder::default();
    for (column, value) in values.iter().enumerate() {
        if let Some(value) = value {
            builder.set(schema, column as u16, &value.as_ref()).expect("a value of its kind");
        }
    }
    builder.build().bytes().to_vec()
}

/// Few different values, so that conditions often hold; now and then an extreme one, or none.
pub(crate) fn value(kind: AttributeKind, random: &mut SplitMix) -> Option<Value> {
    if random.below(4) == 0 {
        return None;
    }
    let word = |random: &mut SplitMix| WORDS[random.below(WORDS.len())].to_owned();
    Some(match kind {
        AttributeKind::Keyword => Value::Keyword(word(random)),
        AttributeKind::Keywords => {
            let count = random.below(4);
            Value::Keywords((0..count).map(|_| word(random)).collect())
        }
        AttributeKind::I64 => Value::I64(whole(random)),
        AttributeKind::F64 => match random.below(8) {
            0 => Value::F64(0.1 + 0.2),
            1 => Value::F64(f64::MAX),
            2 => Value::F64(-0.0),
            _ => Value::F64((random.below(17) as f64 - 8.0) / 4.0),
        },
        AttributeKind::Bool => Value::Bool(random.below(2) == 0),
        AttributeKind::Timestamp => match random.below(3) {
            0 => Value::Timestamp(whole(random)),
            _ => Value::Timestamp(1_714_521_600_000 + random.below(3) as i64 * 43_200_000),
        },
        AttributeKind::Text => Value::Text(format!("{} {}", word(random), word(random))),
    })
}

fn whole(random: &mut SplitMix) -> i64 {
    match random.below(10) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.below(9) as i64 - 4,
    }
}
