use vstream_attribute::{AttributeKind, Attributes, AttributesBuilder, Schema, ValueRef};
use vstream_vector::Metric;

use super::*;
use crate::error::QueryErrorKind;

const DAY_MS: i64 = 86_400_000;
const NOW_MS: i64 = 20_000 * DAY_MS;

fn schema() -> Schema {
    Schema::new([
        ("price", AttributeKind::F64),
        ("stock", AttributeKind::I64),
        ("new", AttributeKind::Bool),
        ("sent", AttributeKind::Timestamp),
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("title", AttributeKind::Text),
        ("weight in kg", AttributeKind::F64),
    ])
    .expect("a schema")
}

fn row() -> Vec<u8> {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    for (column, value) in [
        (0, ValueRef::F64(2.5)),
        (2, ValueRef::Bool(true)),
        (3, ValueRef::Timestamp(NOW_MS - 9 * DAY_MS)),
        (4, ValueRef::Keyword("red")),
        (5, ValueRef::Keywords(vec!["a", "b"])),
        (6, ValueRef::Text("a title")),
    ] {
        builder.set(&schema, column, &value).expect("a value");
    }
    builder.build().bytes().to_vec()
}

fn evaluate(text: &str, parameters: &[(&str, f64)]) -> f64 {
    let expression = Expression::parse(&schema(), text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let inputs = RankInputs { parameters, metric: Metric::L2, now_ms: NOW_MS };
    let program = expression.bind(&inputs).expect("a program");
    let row = row();
    let attributes = Attributes::decode(&row).expect("attributes");
    program.evaluate(&RankRow { attributes, distance: Some(9.0), bm25: None })
}

#[test]
fn operators_bind_as_documented() {
    for (text, value) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("7 - 2 - 1", 4.0),
        ("16 / 4 / 2", 2.0),
        ("7 % 4 * 2", 6.0),
        ("-7 % 4", -3.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1 * 3", 1.5),
        ("--2", 2.0),
        ("1 < 2", 1.0),
        ("1 + 1 == 2 && 3 >= 4", 0.0),
        ("0 || 1 && 0", 0.0),
        ("(0 || 1) && !0", 1.0),
        ("!1 == 0", 1.0),
        ("1.5e1 + .5 + 1.", 16.5),
        ("true + false", 1.0),
        ("1e2e", f64::NAN),
    ] {
        match Expression::parse(&schema(), text) {
            Ok(_) => assert_eq!(evaluate(text, &[]), value, "{text}"),
            Err(error) => assert!(value.is_nan(), "{text}: {error}"),
        }
    }
}

#[test]
fn functions_are_those_of_mathematics() {
    for (text, value) in [
        ("abs(-3)", 3.0),
        ("ceil(1.2) + floor(1.8)", 3.0),
        ("exp(0)", 1.0),
        ("log(exp(2))", 2.0),
        ("log10(1000)", 3.0f64),
        ("sqrt(16)", 4.0),
        ("pow(2, 10)", 1024.0),
        ("min(3, 1, 2)", 1.0),
        ("max(3, 1, 5, 2)", 5.0),
        ("tanh(0)", 0.0),
        ("atan(1) * 4", std::f64::consts::PI),
        ("sigmoid(0)", 0.5),
        ("relu(-2) + relu(2)", 2.0),
        ("if(1 > 2, 10, 20)", 20.0),
        ("if(closeness > 0.2, if(0, 1, 2), 3) + 4", 6.0),
        ("if(0, 1, 2) + 3", 5.0),
        ("-if(closeness, 1, 2)", -1.0),
    ] {
        assert!((evaluate(text, &[]) - value).abs() < 1e-12, "{text}: {}", evaluate(text, &[]));
    }
}

#[test]
fn arithmetic_without_a_result_is_defined() {
    assert_eq!(evaluate("1 / 0", &[]), f64::INFINITY);
    assert_eq!(evaluate("-1 / attribute(stock)", &[]), f64::NEG_INFINITY);
    for text in ["0 / 0", "5 % 0", "log(-1)", "sqrt(-1)", "attribute(stock) / 0", "relu(0/0)"] {
        assert!(evaluate(text, &[]).is_nan(), "{text}");
    }
    assert_eq!(evaluate("if(0 / 0, 1, 2)", &[]), 2.0, "not a number is not true");
    assert_eq!(evaluate("max(0 / 0, 1)", &[]), 1.0);
}

#[test]
fn features_read_the_row() {
    for (text, value) in [
        ("distance", 9.0),
        ("closeness", 0.25),
        ("bm25 + bm25(title)", 0.0),
        ("attribute(price)", 2.5),
        ("attribute('price') * attribute(new)", 2.5),
        ("attribute(stock)", 0.0),
        ("attribute(stock, 7)", 7.0),
        ("attribute(price, 7)", 2.5),
        ("attribute(\"weight in kg\", -1)", -1.0),
        ("attribute(sent)", (NOW_MS - 9 * DAY_MS) as f64),
        ("has(price) + has(stock) + has(title) + has(tags)", 3.0),
        ("has(colour, 'red') + has(colour, \"blue\")", 1.0),
        ("has(tags, 'b') + has(tags, 'c')", 1.0),
        ("freshness(sent)", 0.9),
        ("freshness(sent, 18 * 86400)", 0.5),
        ("freshness(sent, 86400)", 0.0),
        ("freshness(sent, 0) + freshness(sent, 0 / 0)", 0.0),
    ] {
        assert!((evaluate(text, &[]) - value).abs() < 1e-12, "{text}: {}", evaluate(text, &[]));
    }
    let expression = Expression::parse(&schema(), "freshness(sent, 10)").expect("an expression");
    let inputs = RankInputs { parameters: &[], metric: Metric::L2, now_ms: 0 };
    let row = row();
    let attributes = Attributes::decode(&row).expect("attributes");
    let row = RankRow { attributes, ..RankRow::default() };
    let program = expression.bind(&inputs).expect("a program");
    assert_eq!(program.evaluate(&row), 1.0, "the future is fresh");
    let nothing = Expression::parse(&schema(), "closeness + freshness(sent)").expect("parsed");
    let program = nothing.bind(&inputs).expect("a program");
    assert_eq!(program.evaluate(&RankRow::default()), 0.0);
}

#[test]
fn closeness_is_said_for_each_metric() {
    assert_eq!(closeness(Metric::L2, 9.0), 0.25);
    assert_eq!(closeness(Metric::Cosine, 1.0), 0.5);
    assert_eq!(closeness(Metric::InnerProduct, -3.0), 3.0);
    assert_eq!(closeness(Metric::L2, -1e-7), 1.0);
    assert_eq!(closeness(Metric::Cosine, -1e-7), 1.0);
}

#[test]
fn parameters_are_bound_by_the_query() {
    assert_eq!(evaluate("$a * 2 + $b.c * $a", &[("b.c", 3.0), ("a", 5.0)]), 25.0);
    let expression = Expression::parse(&schema(), "$a + $b + $a").expect("an expression");
    assert_eq!(expression.parameters().collect::<Vec<_>>(), ["a", "b"]);
    let wrong: [&[(&str, f64)]; 5] = [
        &[("a", 1.0)],
        &[("a", 1.0), ("b", f64::NAN)],
        &[("a", 1.0), ("b", f64::INFINITY)],
        &[("a", 1.0), ("b", 1.0), ("a", 2.0)],
        &[("a", 1.0), ("b", 1.0), ("c", 2.0)],
    ];
    for parameters in wrong {
        let inputs = RankInputs { parameters, metric: Metric::L2, now_ms: 0 };
        let error = expression.bind(&inputs).expect_err("bad parameters");
        assert_eq!(error.kind, QueryErrorKind::BadParameter, "{parameters:?}");
    }
}

#[test]
fn an_expression_says_what_it_needs() {
    let uses = |text| {
        let expression = Expression::parse(&schema(), text).expect(text);
        (expression.uses_distance(), expression.uses_bm25())
    };
    assert_eq!(uses("attribute(price)"), (false, false));
    assert_eq!(uses("if(has(price), closeness, 1)"), (true, false));
    assert_eq!(uses("-distance + bm25(title)"), (true, true));
    assert_eq!(uses("bm25"), (false, true));
}

#[test]
fn errors_have_a_kind_and_a_place() {
    use QueryErrorKind::{Syntax, TooLarge, UnknownAttribute, UnknownFunction, WrongType};
    for (text, kind, at) in [
        ("", Syntax, 0),
        ("1 +", Syntax, 3),
        ("1 2", Syntax, 2),
        ("(1", Syntax, 2),
        ("1)", Syntax, 1),
        ("1 < 2 < 3", Syntax, 6),
        ("1 = 2", Syntax, 2),
        ("1 # 2", Syntax, 2),
        ("$", Syntax, 0),
        ("1e999", Syntax, 0),
        (".", Syntax, 0),
        ("+1", Syntax, 0),
        ("min(1)", Syntax, 5),
        ("pow(1, 2, 3)", Syntax, 8),
        ("closeness(field, x)", Syntax, 9),
        ("attribute()", Syntax, 10),
        ("attribute('price)", Syntax, 10),
        ("has(colour, red)", Syntax, 12),
        ("2 * foo(1)", UnknownFunction, 4),
        ("price * 2", UnknownFunction, 0),
        ("attribute(prize)", UnknownAttribute, 10),
        ("attribute(colour)", WrongType, 10),
        ("freshness(stock)", WrongType, 10),
        ("bm25(colour)", WrongType, 5),
        ("1 + has(price, 'x')", WrongType, 8),
    ] {
        let error = Expression::parse(&schema(), text).expect_err(text);
        assert_eq!((error.kind, error.at), (kind, at), "{text}: {error}");
        assert!(error.message.ends_with('.'), "{error}");
    }
    let deep = [
        format!("{}1{}", "(".repeat(60), ")".repeat(60)),
        "-".repeat(60) + "1",
        "!".repeat(4_000) + "1",
        "2^".repeat(60) + "1",
        "abs(".repeat(1_000),
        "1".repeat(EXPRESSION_BYTES_MAX + 1),
    ];
    for text in deep {
        let error = Expression::parse(&schema(), &text).expect_err(&text[..20]);
        assert_eq!(error.kind, TooLarge, "{}: {error}", &text[..20]);
    }
}

#[test]
fn limits_are_reached_and_not_crossed() {
    let schema = Schema::new((0..40).map(|at| (NAMES[at], AttributeKind::I64))).expect("a schema");
    let sum = |count: usize| {
        let terms: Vec<_> =
            NAMES[..count].iter().map(|name| format!("attribute({name})")).collect();
        Expression::parse(&schema, &terms.join(" + "))
    };
    assert!(sum(32).is_ok());
    assert_eq!(sum(33).expect_err("33 attributes").kind, QueryErrorKind::TooLarge);
    let stacked =
        |count: usize| Expression::parse(&schema, &format!("{}$a", "$a ^ ".repeat(count - 1)));
    assert!(stacked(32).is_ok());
    assert_eq!(stacked(33).expect_err("33 values").kind, QueryErrorKind::TooLarge);
    let nested = |count: usize| {
        Expression::parse(&schema, &format!("{}1{}", "(".repeat(count - 1), ")".repeat(count - 1)))
    };
    assert!(nested(48).is_ok());
    assert_eq!(nested(49).expect_err("49 levels").kind, QueryErrorKind::TooLarge);
    let parameters = |count: usize| {
        let terms: Vec<_> = (0..count).map(|at| format!("$p{at}")).collect();
        Expression::parse(&schema, &terms.join("+"))
    };
    assert!(parameters(64).is_ok());
    assert_eq!(parameters(65).expect_err("65 parameters").kind, QueryErrorKind::TooLarge);
    let long = |count: usize| Expression::parse(&schema, &format!("$a{}", "+$a".repeat(count)));
    assert!(long(511).is_ok());
    assert_eq!(long(512).expect_err("1,025 operations").kind, QueryErrorKind::TooLarge);
    assert!(Expression::parse(&schema, &format!("1{}", "+1".repeat(2_000))).is_ok(), "folded");
}

const NAMES: [&str; 40] = [
    "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2", "b3", "b4", "b5",
    "b6", "b7", "b8", "b9", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d0", "d1",
    "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9",
];
