use vstream_attribute::{AttributeKind, AttributesBuilder, Schema, ValueRef};

use super::*;
use crate::error::QueryErrorKind;

fn schema() -> Schema {
    Schema::new([
        ("title", AttributeKind::Text),
        ("tag", AttributeKind::Keyword),
        ("body", AttributeKind::Text),
    ])
    .expect("a schema")
}

fn row(title: &str, body: &str) -> Vec<u8> {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    for (column, text) in [(0, title), (2, body)] {
        if !text.is_empty() {
            builder.set(&schema, column, &ValueRef::Text(text)).expect("a text");
        }
    }
    builder.set(&schema, 1, &ValueRef::Keyword("quick")).expect("a keyword");
    builder.build().bytes().to_vec()
}

fn attributes(row: &[u8]) -> vstream_attribute::Attributes<'_> {
    vstream_attribute::Attributes::decode(row).expect("attributes")
}

fn parse(text: &str) -> Result<TextQuery, crate::QueryError> {
    TextQuery::parse(&schema(), text, PlainTerms::Any)
}

/// Whether a query holds for a row, and how often its terms occur.
fn ask(query: &str, title: &str, body: &str) -> (bool, u64) {
    ask_with(&parse(query).expect(query), title, body)
}

fn ask_with(query: &TextQuery, title: &str, body: &str) -> (bool, u64) {
    let matcher = TextMatcher::new(query, &schema()).expect("a matcher");
    let mut counts = TermCounts::default();
    let row = row(title, body);
    let holds = matcher.count(attributes(&row), &mut counts);
    (holds, counts.occurrences())
}

#[test]
fn words_follow_unicode_and_keep_their_places() {
    let text = "Don’t stop, l'été: 3.14 naïve_x 東京 мир-2!";
    let words: Vec<(u32, &str)> = tokens(text).map(|token| (token.position, token.text)).collect();
    let expected = ["Don’t", "stop", "l'été", "3.14", "naïve_x", "東", "京", "мир", "2"];
    assert_eq!(words, (0..).zip(expected).collect::<Vec<_>>());
    assert!(tokens(text).all(|token| text[token.from..].starts_with(token.text)));
    assert_eq!(tokens(" -- !?\u{200b}\n").count(), 0);
    assert_eq!(tokens("").count(), 0);
}

#[test]
fn folding_makes_words_of_any_case_equal() {
    let mut buffer = String::new();
    for (word, folded) in [
        ("plain", "plain"),
        ("Plain", "plain"),
        ("ÉTÉ", "été"),
        ("ΟΔΟΣ", "οδοσ"),
        ("οδος", "οδοσ"),
        ("МИР", "мир"),
        ("\u{212a}elvin", "kelvin"),
        ("3X", "3x"),
    ] {
        assert_eq!(fold(word, &mut buffer), folded);
    }
}

#[test]
fn words_prefixes_and_phrases_are_found_in_any_case() {
    let body = "The quick brown fox; the QUICK-brown cat. A quicksand.";
    assert_eq!(ask("quick", "", body), (true, 2));
    assert_eq!(ask("QUICK*", "", body), (true, 3));
    assert_eq!(ask("\"quick brown\"", "", body), (true, 2));
    assert_eq!(ask("quick-brown", "", body), (true, 2), "a word of two words is a phrase");
    assert_eq!(ask("quick-bro*", "", body), (true, 2), "and so is a prefix of two");
    assert_eq!(ask("\"brown quick\"", "", body), (false, 0));
    assert_eq!(ask("\"fox cat\"", "", body), (false, 0));
    assert_eq!(ask("\"a a\"", "", "a a a b a a"), (true, 3), "occurrences may overlap");
    assert_eq!(ask("\"a a b\"", "", "a a a b a b"), (true, 1), "after a false start");
    assert_eq!(ask("\u{212a}elvin", "", "a kelvin"), (true, 1));
    assert_eq!(ask("kelvin", "", "a \u{212a}ELVIN"), (true, 1), "its first byte is not ASCII");
}

#[test]
fn a_phrase_does_not_reach_from_one_attribute_into_the_next() {
    assert_eq!(ask("\"red fox\"", "the red", "fox runs"), (false, 0));
    assert_eq!(ask("\"red fox\"", "red fox", "red fox red fox"), (true, 3));
}

#[test]
fn a_term_searches_its_attribute_or_all_texts_but_no_keyword() {
    assert_eq!(ask("title:fox", "a fox", "a fox fox"), (true, 1));
    assert_eq!(ask("title:fox", "a cat", "a fox fox"), (false, 0));
    assert_eq!(ask("title:\"a fox\"", "a fox", "a fox"), (true, 1));
    assert_eq!(ask("body:(fox cat)", "fox", "cat cat"), (true, 2));
    assert_eq!(ask("fox", "a fox", "a fox fox"), (true, 3));
    assert!(!ask("quick", "a", "b").0, "the keyword 'quick' is no text");
}

#[test]
fn signs_say_what_must_and_must_not_be_there() {
    assert!(ask("cat dog", "", "dog").0, "one plain term is enough");
    assert!(!ask("cat dog", "", "cow").0);
    assert!(ask("+cow cat", "", "cow").0, "beside a must none is needed");
    assert_eq!(ask("+cow cat", "", "cow cat"), (true, 2), "but it counts");
    assert!(!ask("+cow cat", "", "cat").0);
    assert!(!ask("cat -dog", "", "cat dog").0);
    assert!(ask("-dog", "", "cat").0);
    assert!(ask("-(cat dog)", "", "cow").0);
    assert!(!ask("-(+cat +dog)", "", "dog cat").0);
    assert!(ask("-(+cat +dog)", "", "dog").0);
    assert!(ask("cat - dog", "", "dog").0, "a sign alone is no sign");
    let read = |plain| TextQuery::parse(&schema(), "a b c", plain).expect("a query");
    assert!(!ask_with(&read(PlainTerms::All), "a", "b").0);
    assert!(ask_with(&read(PlainTerms::All), "a c", "b").0);
    assert!(ask_with(&read(PlainTerms::AtLeast(2)), "a", "b").0);
    assert!(!ask_with(&read(PlainTerms::AtLeast(2)), "a", "").0);
    assert!(ask_with(&read(PlainTerms::AtLeast(9)), "a b c", "").0);
    assert!(ask_with(&read(PlainTerms::AtLeast(0)), "", "z").0);
}

#[test]
fn errors_have_a_kind_and_a_place() {
    use QueryErrorKind::{NoWords, Syntax, TooLarge, UnknownAttribute, WrongType};
    for (text, kind, at) in [
        ("", NoWords, 0),
        (" ... \"\" ()", NoWords, 0),
        ("a \"b", Syntax, 2),
        ("a (b", Syntax, 2),
        ("ab) c", Syntax, 2),
        ("a b*c", Syntax, 3),
        ("a titel:b", UnknownAttribute, 2),
        ("a tag:b", WrongType, 2),
        ("title: b", Syntax, 6),
        ("((((((((( a )))))))))", TooLarge, 8),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.kind, error.at), (kind, at), "{text}: {error}");
    }
    let many = "w ".repeat(65);
    assert_eq!(parse(&many).expect_err("65 terms").kind, TooLarge);
    assert!(parse(&many[2..]).is_ok());
    let long = "w".repeat(TEXT_QUERY_BYTES_MAX + 1);
    assert_eq!(parse(&long).expect_err("too long").kind, TooLarge);
    let word = |text: &str| TextQuery::Word { column: None, text: text.to_owned() };
    let mut deep = word("a");
    for _ in 0..40 {
        deep = TextQuery::Not(Box::new(deep));
    }
    let phrase = "a ".repeat(33);
    let wide = TextQuery::Or(vec![TextQuery::And(Vec::new()); 2_000]);
    for (query, kind) in [
        (deep, TooLarge),
        (wide, TooLarge),
        (TextQuery::Or(vec![word("a"); 65]), TooLarge),
        (TextQuery::Phrase { column: None, text: phrase }, TooLarge),
        (word("?"), NoWords),
        (TextQuery::Word { column: Some(1), text: "a".to_owned() }, WrongType),
        (TextQuery::Word { column: Some(9), text: "a".to_owned() }, UnknownAttribute),
    ] {
        assert_eq!(TextMatcher::new(&query, &schema()).err().expect("an error").kind, kind);
    }
    let without = Schema::new([("n", AttributeKind::I64)]).expect("a schema");
    assert_eq!(TextMatcher::new(&word("a"), &without).err().expect("an error").kind, NoWords);
}

#[test]
fn a_phrase_of_32_words_is_found() {
    let words: Vec<String> = (0..32).map(|at| format!("w{at}")).collect();
    let phrase = format!("\"{}\"", words.join(" "));
    let text = format!("w0 w1 {} w31 w0", words.join(" "));
    assert_eq!(ask(&phrase, "", &text), (true, 1));
}

#[test]
fn stemming_makes_forms_of_a_word_equal_if_asked() {
    let query = parse("running \"national connection\" organi*").expect("a query");
    let row = row("He runs", "connected nations organise; national connections");
    let mut counts = TermCounts::default();
    let plain = TextMatcher::new(&query, &schema()).expect("a matcher");
    assert!(plain.count(attributes(&row), &mut counts), "the prefix is there");
    assert_eq!(counts.occurrences(), 1);
    let english = Some(Language::from_name("english").expect("a language"));
    let stemmed = TextMatcher::with_stemming(&query, &schema(), english).expect("a matcher");
    assert!(stemmed.count(attributes(&row), &mut counts));
    assert_eq!(counts.occurrences(), 3, "runs, the phrase, and the prefix");
    assert_eq!(
        Language::from_name("klingon").expect_err("unknown").kind,
        QueryErrorKind::WrongType
    );
    assert_eq!(english.map(Language::name), Some("english"));
}

/// The example that Elasticsearch's documentation explains: a term in 1 of 5 texts of 5.4 words on
/// average. Its text of 3 words scores 1.6943599, and one of 4 words 1.55077.
#[test]
fn bm25_gives_the_published_scores() {
    for (words, published) in [(3, 1.694_359_9), (4, 1.550_77)] {
        let query = parse("body:elasticsearch").expect("a query");
        let matcher = TextMatcher::new(&query, &schema()).expect("a matcher");
        let mut collector = Bm25Collector::new(&matcher);
        let mut counts = TermCounts::default();
        let found = row("not counted", &format!("Elasticsearch{}", " and".repeat(words - 1)));
        matcher.count(attributes(&found), &mut counts);
        let kept = collector.keep(&counts);
        let rest = 27 - words;
        for length in [rest / 4, rest / 4, rest / 4, rest - 3 * (rest / 4)] {
            let other = row("elasticsearch", &"word ".repeat(length));
            matcher.count(attributes(&other), &mut counts);
            collector.add(&counts);
        }
        // A row without the attribute is none of the 5.
        let other = row("elasticsearch", "");
        matcher.count(attributes(&other), &mut counts);
        collector.add(&counts);
        let scores = collector.finish(&Bm25Settings::default());
        assert!((scores.score(kept) - published).abs() < 1e-6, "{}", scores.score(kept));
        assert_eq!(scores.score_of(kept, 2), scores.score(kept));
        assert_eq!(scores.score_of(kept, 0).to_bits(), 0);
    }
}

#[test]
fn excluded_terms_do_not_score_and_constants_are_per_attribute() {
    let query = parse("fox -dog").expect("a query");
    let matcher = TextMatcher::new(&query, &schema()).expect("a matcher");
    let mut settings = Bm25Settings::default();
    let flat = Bm25Constants { k1: 0.0, b: 0.0 };
    settings.set(0, flat).expect("constants");
    for (k1, b) in [(-1.0, 0.5), (f64::NAN, 0.5), (1.2, 1.1), (1.2, f64::NAN), (f64::INFINITY, 0.0)]
    {
        assert!(settings.set(0, Bm25Constants { k1, b }).is_err());
    }
    let mut counts = TermCounts::default();
    let mut collector = Bm25Collector::new(&matcher);
    for (title, body) in [("fox fox fox", "fox"), ("cow", "dog"), ("cow", "cow")] {
        matcher.count(attributes(&row(title, body)), &mut counts);
        collector.keep(&counts);
    }
    let scores = collector.finish(&settings);
    let idf = (1.0f64 + (3.0 - 1.0 + 0.5) / 1.5).ln();
    assert!((scores.score_of(0, 0) - idf).abs() < 1e-12, "with k1 = 0 the score is the idf");
    assert!((scores.score_of(0, 2) - idf).abs() < 1e-12, "one word of one is average");
    assert!((scores.score(0) - 2.0 * idf).abs() < 1e-12);
    assert_eq!(scores.score(1).to_bits(), 0, "the dog is excluded, not searched");
    assert_eq!(scores.rows(), 3);
}
