//! A mailbox per user: rows of one user lie together, and a search sees one user alone.
//!
//! ```text
//! cargo run --release -p vstream-group --example mailbox
//! ```

use vstream_attribute::{AttributeKind, AttributesBuilder, Fields, Filter, Schema, ValueRef};
use vstream_group::{
    Error, Expression, GroupHit, GroupQuery, GroupSettings, GroupStore, PlainTerms, RankBy, RowRef,
    TextQuery, TextSearch, With,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 64;
const SUBJECT: u16 = 0;
/// The moment of the queries, in milliseconds since 1970.
const NOW_MS: i64 = 1_772_000_000_000;
const HOUR_MS: i64 = 3_600_000;

const SUBJECTS: [&str; 8] = [
    "Your invoice of May",
    "Invoice overdue: please pay",
    "Lunch on Friday?",
    "Minutes of the release meeting",
    "Your train tickets to Vienna",
    "Choir practice on Tuesday",
    "Photos of the summer",
    "The city repairs the water main",
];

/// The sum of a fixed vector per word, which stands for an embedding model.
fn embed(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSION];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty())
    {
        let seed = word.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
        let mut random = SplitMix(seed);
        sum.iter_mut().for_each(|x| *x += random.normal());
    }
    sum
}

/// Fills the mailboxes of some users, and asks one of them.
pub fn main() -> Result<(), Error> {
    // 1. The schema says what a mail carries; words are searched in attributes of type text.
    let schema = Schema::new([
        ("subject", AttributeKind::Text),
        ("sender", AttributeKind::Keyword),
        ("sent", AttributeKind::Timestamp),
    ])?;
    let settings = GroupSettings::new(DIMENSION, Metric::Cosine, Element::Bf16);
    let settings = GroupSettings { schema: schema.clone(), ..settings };
    let folder = std::env::temp_dir().join(format!("vstream-mailbox-{}", std::process::id()));
    let mut store = GroupStore::open_dir(&folder, settings)?;

    // 2. Mails of 200 users. A search finds a mail as soon as `upsert` has returned.
    let (mut random, mut builder) = (SplitMix(5), AttributesBuilder::default());
    for user in 0..200 {
        let name = format!("user-{user}");
        for id in 0..40 {
            let subject = SUBJECTS[random.below(SUBJECTS.len())];
            builder.clear();
            builder.set(&schema, SUBJECT, &ValueRef::Text(subject))?;
            builder.set(&schema, 1, &ValueRef::Keyword(["bank", "friend"][id as usize % 2]))?;
            let sent = NOW_MS - HOUR_MS * random.below(2_000) as i64;
            builder.set(&schema, 2, &ValueRef::Timestamp(sent))?;
            let fields = Fields { attributes: builder.build(), ..Fields::NONE };
            let row = RowRef { id, version: 1, vector: &embed(subject), fields };
            store.upsert(&name, &row)?;
        }
    }
    // 3. A commit makes them durable. Merges may run on any thread; here they run on this one.
    store.commit()?;
    store.flush()?;
    store.compact()?;

    // 4. By meaning, by words, and by an expression over both and the age of the mail.
    let reader = store.reader();
    let vector = embed("pay the invoice");
    let query = GroupQuery { with: With::default(), ..GroupQuery::nearest(&vector, 3) };
    show("nearest in meaning", &reader.search("user-7", &query)?.rows);

    let words = TextQuery::parse(&schema, "invoice -overdue", PlainTerms::Any)?;
    let bank = Filter::from_sql(&schema, "sender = 'bank'", &[])?;
    let text = Some(TextSearch::new(&words));
    let by_words =
        GroupQuery { text, filter: Some(&bank), with: With::default(), ..GroupQuery::new(3) };
    let found = reader.search("user-7", &by_words)?.rows;
    show("mails of the bank with 'invoice' and without 'overdue'", &found);
    assert!(found.iter().all(|hit| subject(hit) == SUBJECTS[0]));

    let rank = "closeness + 0.2 * bm25(subject) + $fresh * freshness(sent)";
    let expression = Expression::parse(&schema, rank)?;
    let rank =
        Some(RankBy { expression: &expression, parameters: &[("fresh", 0.5)], now_ms: NOW_MS });
    let text = text.map(|text| TextSearch { must_match: false, ..text });
    let ranked = GroupQuery { text, rank, ..query };
    show("by meaning, words and freshness", &reader.search("user-7", &ranked)?.rows);

    // 5. A mailbox is closed at once.
    store.drop_group("user-7")?;
    store.commit()?;
    assert_eq!(reader.count("user-7", None)?, 0);
    println!("{} mailboxes are left", reader.groups(None, 1000)?.len());
    drop(store);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

fn subject(hit: &GroupHit) -> String {
    match hit.row.attributes().get(SUBJECT) {
        Some(ValueRef::Text(subject)) => subject.to_owned(),
        _ => String::new(),
    }
}

fn show(title: &str, hits: &[GroupHit]) {
    println!("{title}:");
    for hit in hits {
        let score = hit.score.map(|score| format!("  score {score:.3}")).unwrap_or_default();
        println!("  {:>3}  {}{score}", hit.row.id, subject(hit));
    }
}
