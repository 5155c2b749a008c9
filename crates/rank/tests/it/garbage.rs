//! Texts that nobody would write: never a panic, always a place inside of the text.

use proptest::prelude::*;
use vstream_rank::{
    fold, tokens, Expression, PlainTerms, QueryError, RankInputs, RankRow, TermCounts, TextMatcher,
    TextQuery,
};
use vstream_vector::{Metric, SplitMix};

use crate::mail::{mails, schema, NOW_MS};

/// Pieces from which texts are made that are nearly expressions.
const PIECES: [&str; 44] = [
    "if(",
    "(",
    ")",
    ",",
    "closeness",
    "distance",
    "bm25",
    "bm25(subject)",
    "attribute(stars",
    "freshness(sent",
    "has(folder",
    "'spam'",
    "\"",
    "'",
    "$p",
    "$q",
    "1",
    "2.5e-3",
    "1e",
    ".",
    "0",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "<",
    "<=",
    "==",
    "=",
    "!",
    "!=",
    "&&",
    "&",
    "||",
    "|",
    " ",
    "max(",
    "relu(",
    "é",
    "\u{0}",
    "true",
    "🦀",
];

/// Pieces from which text queries are made.
const QUERY_PIECES: [&str; 20] = [
    "ba",
    "ce ",
    "di*",
    "*",
    "\"",
    "\"ba ce\"",
    "(",
    ")",
    "+",
    "-",
    ":",
    "subject:",
    "body:(",
    "folder:",
    " ",
    "é",
    "\u{301}",
    "東京",
    "\u{0}",
    "don't",
];

fn made_of(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let indices = prop::collection::vec(0..pieces.len(), 0..60);
    indices.prop_map(|indices| indices.into_iter().map(|at| pieces[at]).collect())
}

fn is_inside(error: &QueryError, text: &str) {
    assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error} in {text:?}");
    assert!(!error.message.is_empty());
}

fn try_expression(text: &str) {
    let expression = match Expression::parse(&schema(), text) {
        Ok(expression) => expression,
        Err(error) => return is_inside(&error, text),
    };
    let parameters: Vec<(&str, f64)> = expression.parameters().map(|name| (name, 0.5)).collect();
    let inputs = RankInputs { parameters: &parameters, metric: Metric::L2, now_ms: NOW_MS };
    let program = expression.bind(&inputs).expect("all parameters have values");
    for mail in &mails(&mut SplitMix(1), 4, 20) {
        let attributes = mail.attributes();
        for distance in [None, Some(0.0), Some(3.0)] {
            program.evaluate(&RankRow { attributes, distance, bm25: None });
        }
    }
}

fn try_query(text: &str) {
    for plain in [PlainTerms::Any, PlainTerms::All, PlainTerms::AtLeast(2)] {
        let query = match TextQuery::parse(&schema(), text, plain) {
            Ok(query) => query,
            Err(error) => return is_inside(&error, text),
        };
        match TextMatcher::new(&query, &schema()) {
            Ok(matcher) => {
                let mut counts = TermCounts::default();
                for mail in &mails(&mut SplitMix(1), 4, 20) {
                    matcher.count(mail.attributes(), &mut counts);
                }
            }
            Err(error) => is_inside(&error, text),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn any_text_is_an_expression_or_an_error(text in any::<String>()) {
        try_expression(&text);
    }

    #[test]
    fn pieces_of_expressions_are_an_expression_or_an_error(text in made_of(&PIECES)) {
        try_expression(&text);
    }

    #[test]
    fn a_changed_expression_is_an_expression_or_an_error(
        at in 0usize..80,
        change in any::<char>(),
        cut in 0usize..80,
    ) {
        let text = "if(has(folder, 'spam'), -1, 1) * closeness ^ 2 + 0.1 * freshness(sent, 60)";
        let mut text: Vec<char> = text.chars().collect();
        let at = at % text.len();
        text[at] = change;
        text.truncate(text.len() - cut.min(text.len()) / 2);
        try_expression(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_is_a_query_or_an_error(text in any::<String>()) {
        try_query(&text);
    }

    #[test]
    fn pieces_of_queries_are_a_query_or_an_error(text in made_of(&QUERY_PIECES)) {
        try_query(&text);
    }

    #[test]
    fn words_lie_in_the_text_in_order_and_fold_once(text in any::<String>()) {
        let (mut end, mut buffer, mut again) = (0, String::new(), String::new());
        for (position, token) in tokens(&text).enumerate() {
            prop_assert_eq!(token.position as usize, position);
            prop_assert!(token.from >= end && text[token.from..].starts_with(token.text));
            end = token.from + token.text.len();
            let folded = fold(token.text, &mut buffer);
            prop_assert_eq!(fold(folded, &mut again), folded);
        }
    }

    /// Every word of a text is found by a query for it.
    #[test]
    fn a_word_of_a_text_is_found_in_it(text in "[a-zA-Zα-ωА-я東京0-9' .]{0,60}") {
        let schema = schema();
        let mut builder = vstream_attribute::AttributesBuilder::default();
        let value = vstream_attribute::ValueRef::Text(&text);
        builder.set(&schema, 0, &value).expect("a text");
        let bytes = builder.build().bytes().to_vec();
        let row = vstream_attribute::Attributes::decode(&bytes).expect("attributes");
        let mut counts = TermCounts::default();
        for token in tokens(&text) {
            for word in [token.text.to_owned(), token.text.to_uppercase()] {
                let query = TextQuery::Word { column: None, text: word };
                let matcher = TextMatcher::new(&query, &schema).expect("a matcher");
                prop_assert!(matcher.count(row, &mut counts), "{:?}", query);
            }
        }
    }
}
