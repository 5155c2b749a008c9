//! What a row costs while a group is scanned: `cargo bench -p vstream-rank --bench rank`.
//!
//! Text cases read 1,000 rows with a title of 8 words and a body of 120, and report bytes of text
//! per second. Expression cases report rows per second: 100 Mitem/s is 10 ns per row.

use divan::counter::{BytesCount, ItemsCount};
use divan::{black_box, Bencher};
use vstream_attribute::{AttributeKind, Attributes, AttributesBuilder, Schema, ValueRef};
use vstream_rank::{
    tokens, Bm25Collector, Bm25Settings, Diversify, Expression, GroupBy, Language, PlainTerms,
    RankInputs, RankRow, Ranked, TermCounts, TextMatcher, TextQuery,
};
use vstream_vector::{Metric, SplitMix};

const ROWS: usize = 1_000;
const VOCABULARY: u64 = 20_000;
const SEED: u64 = 3;

fn main() {
    divan::main();
}

/// A word for a number: numbers with few digits are frequent, as in a language.
fn word(random: &mut SplitMix, script: &str) -> String {
    let rank = (VOCABULARY as f64).powf(f64::from(random.unit())) as u64;
    let letters: Vec<char> = script.chars().collect();
    let (mut rest, mut word) = (rank * 7_919 + 13, String::new());
    while rest > 0 {
        word.push(letters[(rest % letters.len() as u64) as usize]);
        rest /= letters.len() as u64;
    }
    word
}

fn text(random: &mut SplitMix, words: usize, script: &str) -> String {
    let mut text = String::new();
    for at in 0..words {
        let word = word(random, script);
        match at % 12 {
            0 => {
                let mut letters = word.chars();
                text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
                text.push_str(letters.as_str());
            }
            11 => text.push_str(&format!("{word}.")),
            _ => text.push_str(&word),
        }
        text.push(' ');
    }
    text
}

const LATIN: &str = "etaoinshrdlcumwfgypbvk";
const CYRILLIC: &str = "оеаинтсрвлкмдпуяыьгзб";

fn schema() -> Schema {
    Schema::new([
        ("price", AttributeKind::F64),
        ("sent", AttributeKind::Timestamp),
        ("colour", AttributeKind::Keyword),
        ("title", AttributeKind::Text),
        ("body", AttributeKind::Text),
    ])
    .expect("a schema")
}

fn rows(schema: &Schema, script: &str) -> Vec<Vec<u8>> {
    let mut random = SplitMix(SEED);
    let mut builder = AttributesBuilder::default();
    let row = |_| {
        builder.clear();
        let (title, body) = (text(&mut random, 8, script), text(&mut random, 120, script));
        let values = [
            ValueRef::F64(100.0 * f64::from(random.unit())),
            ValueRef::Timestamp((1e12 * f64::from(random.unit())) as i64),
            ValueRef::Keyword(["red", "green", "blue"][(random.next() % 3) as usize]),
            ValueRef::Text(&title),
            ValueRef::Text(&body),
        ];
        for (column, value) in (0..).zip(&values) {
            builder.set(schema, column, value).expect("a value");
        }
        builder.build().bytes().to_vec()
    };
    (0..ROWS).map(row).collect()
}

fn decoded(rows: &[Vec<u8>]) -> Vec<Attributes<'_>> {
    rows.iter().map(|row| Attributes::decode(row).expect("attributes")).collect()
}

fn text_bytes(rows: &[Attributes<'_>]) -> BytesCount {
    let texts = rows.iter().flat_map(|row| row.iter());
    let bytes = texts.map(|(_, value)| match value {
        ValueRef::Text(text) => text.len(),
        _ => 0,
    });
    BytesCount::new(bytes.sum::<usize>())
}

#[divan::bench(args = [LATIN, CYRILLIC])]
fn cut_into_words(bencher: Bencher, script: &str) {
    let rows = rows(&schema(), script);
    let rows = decoded(&rows);
    bencher.counter(text_bytes(&rows)).bench(|| {
        let mut words = 0;
        for row in &rows {
            for (_, value) in row.iter() {
                if let ValueRef::Text(text) = value {
                    words += tokens(text).count();
                }
            }
        }
        words
    });
}

/// Two frequent words, a rare one, a prefix and a phrase.
fn query(schema: &Schema, script: &str) -> TextQuery {
    let mut random = SplitMix(SEED + 1);
    let mut word = || word(&mut random, script);
    let text =
        format!("{} {} title:{} {}* \"{} {}\"", word(), word(), word(), word(), word(), word());
    TextQuery::parse(schema, &text, PlainTerms::Any).expect("a query")
}

#[divan::bench(args = [LATIN, CYRILLIC])]
fn count_terms(bencher: Bencher, script: &str) {
    let schema = schema();
    let rows = rows(&schema, script);
    let rows = decoded(&rows);
    let matcher = TextMatcher::new(&query(&schema, script), &schema).expect("a matcher");
    count(bencher, &rows, &matcher);
}

#[divan::bench]
fn count_stemmed_terms(bencher: Bencher) {
    let schema = schema();
    let rows = rows(&schema, LATIN);
    let rows = decoded(&rows);
    let language = Some(Language::from_name("english").expect("a language"));
    let query = query(&schema, LATIN);
    let matcher = TextMatcher::with_stemming(&query, &schema, language).expect("a matcher");
    count(bencher, &rows, &matcher);
}

fn count(bencher: Bencher, rows: &[Attributes<'_>], matcher: &TextMatcher) {
    let mut counts = TermCounts::default();
    bencher
        .counter(text_bytes(rows))
        .bench_local(|| rows.iter().filter(|row| matcher.count(**row, &mut counts)).count());
}

#[divan::bench]
fn count_and_score_bm25(bencher: Bencher) {
    let schema = schema();
    let rows = rows(&schema, LATIN);
    let rows = decoded(&rows);
    let matcher = TextMatcher::new(&query(&schema, LATIN), &schema).expect("a matcher");
    let mut counts = TermCounts::default();
    bencher.counter(text_bytes(&rows)).bench_local(|| {
        let mut collector = Bm25Collector::new(&matcher);
        for row in &rows {
            if matcher.count(*row, &mut counts) {
                collector.keep(&counts);
            } else {
                collector.add(&counts);
            }
        }
        collector.finish(&Bm25Settings::default())
    });
}

const EXPRESSIONS: [&str; 4] = [
    "closeness",
    "0.7 * closeness + 0.3 * bm25 / 10",
    "closeness * (1 + 0.1 * freshness(sent, 86400)) - 0.01 * attribute(price)",
    "if(has(colour, 'red') && attribute(price) < 50, 2, 1) * sigmoid(4 * closeness - 2) + \
     0.2 * tanh(bm25(title)) + log(1 + max(attribute(price, 10), 1)) * freshness(sent)",
];

#[divan::bench(args = EXPRESSIONS)]
fn evaluate(bencher: Bencher, text: &str) {
    let schema = schema();
    let rows = rows(&schema, LATIN);
    let rows = decoded(&rows);
    let matcher = TextMatcher::new(&query(&schema, LATIN), &schema).expect("a matcher");
    let (mut counts, mut collector) = (TermCounts::default(), Bm25Collector::new(&matcher));
    for row in &rows {
        matcher.count(*row, &mut counts);
        collector.keep(&counts);
    }
    let bm25 = collector.finish(&Bm25Settings::default());
    let inputs = RankInputs { parameters: &[], metric: Metric::L2, now_ms: 1_000_000_000_000 };
    let expression = Expression::parse(&schema, text).expect("an expression");
    let program = expression.bind(&inputs).expect("a program");
    bencher.counter(ItemsCount::new(ROWS)).bench(|| {
        let mut sum = 0.0;
        for (at, attributes) in rows.iter().enumerate() {
            let (distance, bm25) = (Some(at as f32), Some((&bm25, at)));
            sum += program.evaluate(&RankRow { attributes: *attributes, distance, bm25 });
        }
        sum
    });
}

#[divan::bench(args = EXPRESSIONS)]
fn parse(text: &str) -> Expression {
    Expression::parse(black_box(&schema()), black_box(text)).expect("an expression")
}

const ANSWERS: usize = 100_000;

fn answers() -> Vec<(ValueRef<'static>, Ranked)> {
    let mut random = SplitMix(SEED);
    let row = |id| {
        let score = f64::from(random.unit());
        let row = Ranked { score, id, version: 1, distance: None };
        (ValueRef::I64(random.below(1_000) as i64), row)
    };
    (0..ANSWERS as u64).map(row).collect()
}

#[divan::bench(args = [10, 100, 1_000])]
fn diversify(bencher: Bencher, k: usize) {
    let answers = answers();
    bencher.counter(ItemsCount::new(ANSWERS)).bench(|| {
        let mut best = Diversify::new(k, 3);
        answers.iter().filter(|(value, row)| best.offer(Some(value), *row)).count()
    });
}

#[divan::bench]
fn group_by(bencher: Bencher) {
    let answers = answers();
    bencher.counter(ItemsCount::new(ANSWERS)).bench(|| {
        let mut groups = GroupBy::new(3, ANSWERS);
        for (value, row) in &answers {
            groups.offer(Some(value), *row).expect("room");
        }
        groups.finish(10)
    });
}
