//! Text queries and rank expressions. Input: form u8, then the text.

use vstream_rank::{
    Expression, PlainTerms, QueryError, RankInputs, RankRow, TermCounts, TextMatcher, TextQuery,
};
use vstream_vector::Metric;

use crate::shop::Shop;

const EXPRESSION: u8 = 0;

pub(crate) fn read(bytes: &[u8]) {
    let [form, text @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match form % 4 {
        EXPRESSION => expression(text),
        1 => query(text, PlainTerms::Any),
        2 => query(text, PlainTerms::All),
        _ => query(text, PlainTerms::AtLeast(2)),
    }
}

/// An error says where, inside of the text.
fn is_inside(error: &QueryError, text: &str) {
    assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error} in {text:?}");
}

fn expression(text: &str) {
    let shop = Shop::of(false);
    let expression = match Expression::parse(&shop.schema, text) {
        Ok(expression) => expression,
        Err(error) => return is_inside(&error, text),
    };
    let parameters: Vec<(&str, f64)> = expression.parameters().map(|name| (name, 0.5)).collect();
    let inputs =
        RankInputs { parameters: &parameters, metric: Metric::L2, now_ms: 1_714_521_600_000 };
    let program = expression.bind(&inputs).expect("all parameters have values");
    for row in &shop.rows {
        for distance in [None, Some(0.0), Some(3.0), Some(f32::MAX)] {
            let row = RankRow { attributes: row.attributes(), distance, bm25: None };
            let ranks = [program.evaluate(&row), program.evaluate(&row)];
            assert_eq!(ranks[0].to_bits(), ranks[1].to_bits(), "{text}");
        }
    }
}

fn query(text: &str, plain: PlainTerms) {
    let shop = Shop::of(false);
    let query = match TextQuery::parse(&shop.schema, text, plain) {
        Ok(query) => query,
        Err(error) => return is_inside(&error, text),
    };
    let matcher = match TextMatcher::new(&query, &shop.schema) {
        Ok(matcher) => matcher,
        Err(error) => return is_inside(&error, text),
    };
    let mut counts = TermCounts::default();
    for row in &shop.rows {
        let matches = matcher.count(row.attributes(), &mut counts);
        assert_eq!(matches, matcher.count(row.attributes(), &mut counts), "{text}");
    }
}

const EXPRESSIONS: [&str; 8] = [
    "if(has(colour, 'red'), -1, 1) * closeness ^ 2 + 0.1 * freshness(born, 60)",
    "max(attribute(price, 3), attribute(stock), $boost) + relu(-distance)",
    "!(attribute(sold) == true) && attribute(stock) <= 2 || has(tags, 'ab')",
    "sigmoid(2.5e-3 * attribute(stock)) / (1 + abs(attribute(price) % 0.25))",
    "bm25 + bm25(note) * log(1 + exp(closeness))",
    "min(1, 2, 3, pow(2, 3), tanh(1), atan(1), sqrt(2), log10(10), ceil(1.5), floor(-1.5))",
    "((((((((((1))))))))))",
    "if(1 < 2, if(2 != 3, $p, $q), freshness(born))",
];
const QUERIES: [&str; 8] = [
    "red abc",
    "+red -abc \"it's red\"",
    "note:(red ab*) b",
    "(red abc) (note:b 100)",
    "\"\" * ab*",
    "-red",
    "bä \u{301} 東京",
    "note:\"a red\" +(ab abc)",
];

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let of = |form: u8, text: &str| [&[form], text.as_bytes()].concat();
    let mut corpus: Vec<Vec<u8>> = EXPRESSIONS.iter().map(|text| of(EXPRESSION, text)).collect();
    for form in 1..4 {
        corpus.extend(QUERIES.iter().map(|text| of(form, text)));
    }
    // Deeper than any parser may go.
    for (open, close) in [("(", ")"), ("-", "1"), ("if(1,", ",2)"), ("2^", "2"), ("!", "1")] {
        corpus.push(of(EXPRESSION, &(open.repeat(3000) + "1" + &close.repeat(3000))));
    }
    corpus.push(of(1, &("(".repeat(3000) + "a" + &")".repeat(3000))));
    corpus
}
