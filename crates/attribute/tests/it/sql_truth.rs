//! SQL's three truth values, by an evaluator that knows nothing of filters.

use proptest::prelude::*;
use vstream_attribute::{Filter, Value};

use crate::model::{float, rows, shop, whole, word, Row, BORN, COLOUR, PRICE, SOLD, STOCK, TAGS};

/// An expression over the shop.
#[derive(Clone, Debug)]
enum Sql {
    Compare(u16, &'static str, Option<Value>, bool),
    In(u16, Vec<Option<Value>>, bool),
    Between(u16, Option<Value>, Option<Value>, bool),
    Like(Option<String>, bool, bool),
    IsNull(u16, bool),
    Sold,
    Constant(Option<bool>),
    Has(&'static str, Vec<String>),
    IdIs(Vec<Option<u64>>, bool),
    And(Vec<Sql>),
    Or(Vec<Sql>),
    Not(Box<Sql>),
    Is(Box<Sql>, bool, bool),
}

const NAMES: [&str; 7] = ["colour", "tags", "stock", "price", "sold", "born", "note"];
const ORDERS: [&str; 4] = ["<", "<=", ">", ">="];

/// Writes the expression; every second value becomes a parameter.
struct Writer {
    text: String,
    parameters: Vec<Value>,
    values: usize,
}

impl Writer {
    fn value(&mut self, value: &Option<Value>) {
        self.values += 1;
        match value {
            Some(value)
                if self.values.is_multiple_of(2) || matches!(value, Value::Timestamp(_)) =>
            {
                self.text.push('?');
                self.parameters.push(value.clone());
            }
            Some(Value::Keyword(text)) => self.quote(text),
            Some(Value::I64(number)) => self.text += &number.to_string(),
            Some(Value::F64(number)) => self.text += &format!("{number}"),
            Some(Value::Bool(is_true)) => self.text += if *is_true { "TRUE" } else { "false" },
            Some(other) => panic!("{other:?}"),
            None => self.text += "NULL",
        }
    }

    fn quote(&mut self, text: &str) {
        self.text += &format!("'{}'", text.replace('\'', "''"));
    }

    fn list<T>(&mut self, parts: &[T], joint: &str, mut write: impl FnMut(&mut Writer, &T)) {
        self.text.push('(');
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.text += joint;
            }
            write(self, part);
        }
        self.text.push(')');
    }

    fn sql(&mut self, sql: &Sql) {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match sql {
            Sql::Compare(column, op, value, true) => {
                self.value(value);
                self.text += &format!(" {op} {}", NAMES[usize::from(*column)]);
            }
            Sql::Compare(column, op, value, false) => {
                self.text += &format!("\"{}\" {op} ", NAMES[usize::from(*column)]);
                self.value(value);
            }
            Sql::In(column, values, negated) => {
                self.text += &format!("{} {}IN ", NAMES[usize::from(*column)], not(*negated));
                self.list(values, ", ", |writer, value| writer.value(value));
            }
            Sql::Between(column, low, high, negated) => {
                self.text += &format!("{} {}BETWEEN ", NAMES[usize::from(*column)], not(*negated));
                self.value(low);
                self.text += " AND ";
                self.value(high);
            }
            Sql::Like(None, _, negated) => {
                self.text += &format!("colour {}LIKE NULL", not(*negated));
            }
            Sql::Like(Some(prefix), open, negated) => {
                self.text += &format!("colour {}like ", not(*negated));
                self.quote(&format!("{prefix}{}", if *open { "%" } else { "" }));
            }
            Sql::IsNull(column, negated) => {
                self.text += &format!("{} IS {}NULL", NAMES[usize::from(*column)], not(*negated));
            }
            Sql::Sold => self.text += "sold",
            Sql::Constant(None) => self.text += "NULL",
            Sql::Constant(Some(is_true)) => self.text += if *is_true { "true" } else { "FALSE" },
            Sql::Has(function, texts) => {
                self.text += &format!("{function}(tags");
                for text in texts {
                    self.text += ", ";
                    self.quote(text);
                }
                self.text.push(')');
            }
            Sql::IdIs(ids, negated) if ids.len() == 1 => {
                self.text += if *negated { "id <> " } else { "id = " };
                self.text += &ids[0].map_or("NULL".to_owned(), |id| id.to_string());
            }
            Sql::IdIs(ids, negated) => {
                self.text += &format!("id {}IN ", not(*negated));
                self.list(ids, ",", |writer, id| {
                    writer.text += &id.map_or("NULL".to_owned(), |id| id.to_string());
                });
            }
            Sql::And(parts) => self.list(parts, " AND ", Writer::sql),
            Sql::Or(parts) => self.list(parts, " OR ", Writer::sql),
            Sql::Not(part) => {
                self.text += "NOT ";
                self.list(&[part], "", |writer, part| writer.sql(part));
            }
            Sql::Is(part, is_true, negated) => {
                self.list(&[part], "", |writer, part| writer.sql(part));
                let truth = if *is_true { "TRUE" } else { "FALSE" };
                self.text += &format!(" IS {}{truth}", not(*negated));
            }
        }
    }
}

fn equal(a: &Option<Value>, b: &Option<Value>) -> Option<bool> {
    Some(a.as_ref()? == b.as_ref()?)
}

fn less(a: &Option<Value>, b: &Option<Value>) -> Option<bool> {
    match (a.as_ref()?, b.as_ref()?) {
        (Value::I64(a), Value::I64(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => Some(a < b),
        (Value::F64(a), Value::F64(b)) => Some(a < b),
        other => panic!("{other:?}"),
    }
}

fn not(truth: Option<bool>) -> Option<bool> {
    truth.map(|truth| !truth)
}

fn and(truths: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let truths: Vec<Option<bool>> = truths.into_iter().collect();
    if truths.contains(&Some(false)) {
        return Some(false);
    }
    if truths.contains(&None) {
        return None;
    }
    Some(true)
}

fn or(truths: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    not(and(truths.into_iter().map(not)))
}

fn truth(sql: &Sql, row: &Row) -> Option<bool> {
    let value = |column: &u16| &row.values[usize::from(*column)];
    let negated_if = |negated: bool, truth| if negated { not(truth) } else { truth };
    match sql {
        Sql::Compare(column, op, literal, mirrored) => {
            let (a, b) = (value(column), literal);
            let (a, b) = if *mirrored { (b, a) } else { (a, b) };
            match *op {
                "=" => equal(a, b),
                "<>" | "!=" => not(equal(a, b)),
                "<" => less(a, b),
                ">" => less(b, a),
                "<=" => or([less(a, b), equal(a, b)]),
                _ => or([less(b, a), equal(a, b)]),
            }
        }
        Sql::In(column, literals, negated) => {
            negated_if(*negated, or(literals.iter().map(|one| equal(value(column), one))))
        }
        Sql::Between(column, low, high, negated) => {
            let is_in = [not(less(value(column), low)), not(less(high, value(column)))];
            negated_if(*negated, and(is_in))
        }
        Sql::Like(prefix, open, negated) => {
            let like = match (&row.values[usize::from(COLOUR)], prefix) {
                (Some(Value::Keyword(text)), Some(prefix)) if *open => {
                    Some(text.starts_with(prefix))
                }
                (Some(Value::Keyword(text)), Some(prefix)) => Some(text == prefix),
                _ => None,
            };
            negated_if(*negated, like)
        }
        Sql::IsNull(column, negated) => Some(value(column).is_none() != *negated),
        Sql::Sold => match value(&SOLD) {
            Some(Value::Bool(is_true)) => Some(*is_true),
            _ => None,
        },
        Sql::Constant(constant) => *constant,
        Sql::Has(function, texts) => match value(&TAGS) {
            Some(Value::Keywords(list)) if *function == "has_any" => {
                Some(texts.iter().any(|text| list.contains(text)))
            }
            Some(Value::Keywords(list)) => Some(texts.iter().all(|text| list.contains(text))),
            _ => None,
        },
        Sql::IdIs(ids, negated) => {
            negated_if(*negated, or(ids.iter().map(|id| id.map(|id| id == row.id))))
        }
        Sql::And(parts) => and(parts.iter().map(|part| truth(part, row))),
        Sql::Or(parts) => or(parts.iter().map(|part| truth(part, row))),
        Sql::Not(part) => not(truth(part, row)),
        Sql::Is(part, is_true, negated) => Some((truth(part, row) == Some(*is_true)) != *negated),
    }
}

/// A value that fits the column, or null.
fn value(column: u16) -> BoxedStrategy<Option<Value>> {
    let some = match column {
        COLOUR => word().prop_map(Value::Keyword).boxed(),
        STOCK => whole().prop_map(Value::I64).boxed(),
        BORN => whole().prop_map(Value::Timestamp).boxed(),
        PRICE => float().prop_map(Value::F64).boxed(),
        SOLD => any::<bool>().prop_map(Value::Bool).boxed(),
        other => panic!("{other}"),
    };
    prop_oneof![6 => some.prop_map(Some), 1 => Just(None)].boxed()
}

fn leaf() -> impl Strategy<Value = Sql> {
    let ordered = || prop::sample::select(vec![STOCK, BORN, PRICE]);
    let equatable = || prop::sample::select(vec![COLOUR, STOCK, BORN, PRICE, SOLD]);
    let same = || prop::sample::select(vec!["=", "<>", "!="]);
    prop_oneof![
        (ordered(), prop::sample::select(&ORDERS[..]), any::<bool>()).prop_flat_map(
            |(column, op, mirrored)| {
                value(column).prop_map(move |value| Sql::Compare(column, op, value, mirrored))
            }
        ),
        (equatable(), same(), any::<bool>()).prop_flat_map(|(column, op, mirrored)| {
            value(column).prop_map(move |value| Sql::Compare(column, op, value, mirrored))
        }),
        (equatable(), any::<bool>()).prop_flat_map(|(column, negated)| {
            prop::collection::vec(value(column), 1..4)
                .prop_map(move |values| Sql::In(column, values, negated))
        }),
        (ordered(), any::<bool>()).prop_flat_map(|(column, negated)| {
            (value(column), value(column))
                .prop_map(move |(low, high)| Sql::Between(column, low, high, negated))
        }),
        (
            prop::option::weighted(0.9, prop::sample::select(vec!["", "a", "ab", "it's", "b"])),
            any::<bool>(),
            any::<bool>()
        )
            .prop_map(|(prefix, open, negated)| Sql::Like(
                prefix.map(str::to_owned),
                open,
                negated
            )),
        (0u16..7, any::<bool>()).prop_map(|(column, negated)| Sql::IsNull(column, negated)),
        Just(Sql::Sold),
        prop::option::of(any::<bool>()).prop_map(Sql::Constant),
        (prop::sample::select(vec!["has_any", "has_all"]), prop::collection::vec(word(), 1..3))
            .prop_map(|(function, texts)| Sql::Has(function, texts)),
        (prop::collection::vec(prop::option::weighted(0.9, 0u64..12), 1..4), any::<bool>())
            .prop_map(|(ids, negated)| Sql::IdIs(ids, negated)),
    ]
}

fn sql() -> impl Strategy<Value = Sql> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            3 => parts().prop_map(Sql::And),
            3 => parts().prop_map(Sql::Or),
            2 => inner.clone().prop_map(|part| Sql::Not(Box::new(part))),
            1 => (inner.clone(), any::<bool>(), any::<bool>())
                .prop_map(|(part, is_true, negated)| Sql::Is(Box::new(part), is_true, negated)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_where_holds_where_sql_says_true(sql in sql(), rows in rows()) {
        let schema = shop();
        for (sql, wanted) in [(sql.clone(), true), (Sql::Not(Box::new(sql.clone())), false)] {
            let mut writer = Writer { text: String::new(), parameters: Vec::new(), values: 0 };
            writer.sql(&sql);
            let filter = Filter::from_sql(&schema, &writer.text, &writer.parameters);
            let filter = match filter {
                Ok(filter) => filter,
                Err(refused) => return Err(TestCaseError::fail(format!("{}: {refused}", writer.text))),
            };
            prop_assert_eq!(filter.check(&schema), Ok(()));
            for row in &rows {
                let truth = truth(&sql, row);
                prop_assert_eq!(
                    row.holds(&schema, &filter), truth == Some(true),
                    "{} {:?} wanted {} on {:?}", writer.text, writer.parameters, wanted, row
                );
            }
        }
    }
}
