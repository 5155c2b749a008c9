//! SQL texts: names, parameters, and what is refused. `sql_truth` has the meaning.

use vstream_attribute::{AttributeKind, Filter, IdKind, NameHash, Names, Schema, Value};

use crate::json::found;
use crate::model::shop;

#[test]
fn expressions_find_rows() {
    let schema = shop();
    let text = |text: &str| Value::Keyword(text.to_owned());
    let cases: Vec<(&str, Vec<Value>, &[usize])> = vec![
        ("price < 10 or colour = 'rose'", vec![], &[0, 1]),
        ("NOT price < 10", vec![], &[1]),
        ("10 > price", vec![], &[0]),
        ("price BETWEEN $2 AND $1", vec![Value::I64(20), Value::F64(9.5)], &[0, 1]),
        ("price = $1 OR price = $1 + 0", vec![], &[]),
        ("stock = -7 -- a comment\n AND /* another */ true", vec![], &[1]),
        ("colour IN (?, 'blue')", vec![text("red")], &[0]),
        ("colour IN (?)", vec![Value::Keywords(vec!["red".into(), "rose".into()])], &[0, 1]),
        ("has_any(tags, ?)", vec![Value::Keywords(vec!["old".into(), "new".into()])], &[0]),
        ("HAS_ALL(tags, 'new', 'sale')", vec![], &[0]),
        ("NOT has_any(tags, 'new')", vec![], &[1]),
        ("born > '2000-01-01T00:00:00Z'", vec![], &[0]),
        ("born = ?", vec![Value::Timestamp(0)], &[1]),
        ("sold IS NOT TRUE", vec![], &[1, 2]),
        ("colour LIKE 'ro%'", vec![], &[1]),
        ("note is null AND id != 2", vec![], &[1]),
        ("ID IN (0, 2)", vec![], &[0, 2]),
        ("((((((((id = 1))))))))", vec![], &[1]),
    ];
    for (sql, parameters, rows) in cases {
        if sql.contains('+') {
            assert!(Filter::from_sql(&schema, sql, &parameters).is_err());
            continue;
        }
        let filter = Filter::from_sql(&schema, sql, &parameters);
        let filter = filter.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(found(&schema, &filter), rows, "{sql}");
    }
}

#[test]
fn words_of_sql_and_odd_names_name_attributes() {
    let mut schema = Schema::default();
    for name in ["user", "position", "date", "select", "meta.author", "mit Lücke", "id", "interval"]
    {
        schema.add(name, AttributeKind::Keyword).unwrap();
    }
    for (at, sql) in
        ["user", "position", "date", "select", "meta.author", "\"mit Lücke\"", "id", "interval"]
            .into_iter()
            .enumerate()
    {
        let filter = Filter::from_sql(&schema, &format!("{sql} = 'x'"), &[]).unwrap();
        let Filter::Attribute(column, _) = filter else { panic!("{filter:?}") };
        assert_eq!(usize::from(column), at, "{sql}");
    }
}

#[test]
fn string_ids_are_hashed() {
    let hash = NameHash::new(*b"0123456789abcdef");
    let schema = Schema { id: IdKind::String, ..Schema::default() };
    let filter = Filter::from_sql(Names::new(&schema, &hash), "id = 'abc'", &[]).unwrap();
    assert_eq!(filter, Filter::Ids(vec![hash.hash("abc").unwrap().id]));
    assert!(Filter::from_sql(&schema, "id = 'abc'", &[]).is_err());
    assert!(Filter::from_sql(Names::new(&schema, &hash), "id = 5", &[]).is_err());
}

#[test]
fn what_sql_has_beyond_filters_is_refused() {
    let schema = shop();
    let one = [Value::I64(1)];
    for (sql, parameters, part) in [
        ("", &[][..], "cannot be read"),
        ("price <", &[], "cannot be read"),
        ("price < 1 price > 2", &[], "ends before"),
        ("price < 1; DROP TABLE x", &[], "no meaning"),
        ("price IN (SELECT price FROM x)", &[], "cannot be read"),
        ("CASE WHEN sold THEN 1 END", &[], "ends before"),
        ("price + 1 < 2", &[], "no meaning"),
        ("price < stock", &[], "two attributes"),
        ("1 < 2", &[], "two values"),
        ("size = 1", &[], "no attribute 'size'"),
        ("colour = 5", &[], "compare it with a text, not 5"),
        ("price = 1e999", &[], "no number that fits"),
        ("tags = 'new'", &[], "use has_any or has_all"),
        ("has_any(colour, 'a')", &[], "no list"),
        ("lower(colour) = 'a'", &[], "an attribute on one side"),
        ("lower(colour)", &[], "'lower' is no function"),
        ("colour LIKE '%d'", &[], "only a text with one '%'"),
        ("colour LIKE 'r_d%'", &[], "only a text with one '%'"),
        ("price LIKE 'a%'", &[], "prefix"),
        ("id < 5", &[], "no order"),
        ("id", &[], "no condition by itself"),
        ("stock", &[], "a condition by itself"),
        ("stock = ?", &[], "no value for the parameter '?': 0 were given"),
        ("stock = 1", &one, "parameter 1 is not used"),
        ("stock = $1 or stock = ?", &one, "mixes"),
        ("stock = $2", &one, "'$2': 1 were given"),
        ("stock = $0", &one, "'$0'"),
        ("stock = ?2", &one, "'?2'"),
        ("stock = $a", &one, "'$a'"),
        ("sold IS UNKNOWN", &[], "cannot be read"),
        ("stock = - - 1", &[], "Only a number"),
        ("price = ?", &[Value::F64(f64::NAN)], "not finite"),
        ("colour = ?", &[Value::Keywords(vec![])], "A list as parameter"),
    ] {
        let refused = Filter::from_sql(&schema, sql, parameters).unwrap_err();
        assert!(refused.message.contains(part), "{sql}: {refused}");
    }
}
