//! Answers by words, by rank, diverse and grouped equal those of a plain pass over the oracle's rows.

use std::cmp::Ordering;
use std::collections::HashMap;

use vstream_attribute::{Attributes, Filter, Value};
use vstream_group::{
    Bound, Diversity, Expression, GroupBy, GroupHit, GroupQuery, GroupSettings, PlainTerms, RankBy,
    TextQuery, TextSearch, With,
};
use vstream_rank::{
    Bm25Collector, Bm25Settings, RankInputs, RankRow, TermCounts, TextMatcher, FUSION_CONSTANT,
};
use vstream_vector::{Element, Metric};

use crate::model::{ModelRow, Pair};

/// A row as the oracle answers it: score, id, distance, version.
type Row = (f64, u64, Option<f32>, u64);

fn order(a: &Row, b: &Row) -> Ordering {
    let by_score = b.0.partial_cmp(&a.0).unwrap_or_else(|| a.0.is_nan().cmp(&b.0.is_nan()));
    by_score.then(a.1.cmp(&b.1))
}

/// Every row that may be in the answer, best first, by another way than the store's.
fn oracle(pair: &Pair, group: &str, query: &GroupQuery<'_>) -> Vec<Row> {
    let settings = pair.store.settings();
    let distances: HashMap<u64, f32> = query.vector.map_or_else(HashMap::new, |vector| {
        let all = pair.model.search(group, settings, vector, usize::MAX, None);
        all.iter().map(|neighbor| (neighbor.id, neighbor.distance)).collect()
    });
    let rows: Vec<(u64, u64, &ModelRow)> = pair.model.rows(group).collect();
    let attributes = |row: &ModelRow| Attributes::decode(&row.attributes).unwrap().bytes().to_vec();
    let matcher = query.text.map(|text| TextMatcher::new(text.query, &settings.schema).unwrap());
    let mut collector = matcher.as_ref().map(Bm25Collector::new);
    let (mut counts, mut matched) = (TermCounts::default(), Vec::new());
    for (_, _, row) in &rows {
        let attributes = attributes(row);
        let attributes = Attributes::decode(&attributes).unwrap();
        let matches = matcher.as_ref().is_none_or(|one| one.count(attributes, &mut counts));
        if let Some(collector) = &mut collector {
            collector.keep(&counts);
        }
        matched.push(matches || query.text.is_some_and(|text| !text.must_match));
    }
    let scores = collector.map(|collector| collector.finish(&Bm25Settings::default()));
    let program = query.rank.map(|rank| {
        let (metric, now_ms) = (settings.metric, rank.now_ms);
        let inputs = RankInputs { parameters: rank.parameters, metric, now_ms };
        rank.expression.bind(&inputs).unwrap()
    });
    let mut found: Vec<(Row, f64)> = Vec::new();
    for (at, (id, version, row)) in rows.iter().enumerate() {
        let attributes = Attributes::decode(&row.attributes).unwrap();
        let distance = distances.get(id).copied();
        let is_near = query.radius.is_none_or(|radius| distance.unwrap() <= radius);
        if !matched[at] || !is_near || !query.filter.is_none_or(|f| f.holds(*id, attributes)) {
            continue;
        }
        let words = scores.as_ref().map_or(0.0, |scores| scores.score(at));
        let bm25 = scores.as_ref().map(|scores| (scores, at));
        let score = match (&program, distance) {
            (Some(program), _) => program.evaluate(&RankRow { attributes, distance, bm25 }),
            (None, Some(distance)) => -f64::from(distance),
            (None, None) => words,
        };
        found.push(((score, *id, distance, *version), words));
    }
    if query.rank.is_none() && query.vector.is_some() && query.text.is_some() {
        fuse(&mut found);
    }
    let mut rows: Vec<Row> = found.into_iter().map(|(row, _)| row).collect();
    rows.sort_by(order);
    rows
}

/// Replaces distances by the fusion of both orders.
fn fuse(found: &mut [(Row, f64)]) {
    let place = |better: &dyn Fn(usize) -> bool| (0..found.len()).filter(|&i| better(i)).count();
    let before = |a: (f64, u64), b: (f64, u64)| a.0 > b.0 || (a.0 == b.0 && a.1 < b.1);
    let scores: Vec<f64> = found
        .iter()
        .map(|((closeness, id, ..), words)| {
            let nearer = place(&|i| before((found[i].0 .0, found[i].0 .1), (*closeness, *id)));
            let mut score = 1.0 / (FUSION_CONSTANT + (nearer + 1) as f64);
            if *words > 0.0 {
                let better = place(&|i| before((found[i].1, found[i].0 .1), (*words, *id)));
                score += 1.0 / (FUSION_CONSTANT + (better + 1) as f64);
            }
            score
        })
        .collect();
    found.iter_mut().zip(scores).for_each(|((row, _), score)| row.0 = score);
}

/// The value of a column of a row of the oracle.
fn value(pair: &Pair, group: &str, id: u64, column: u16) -> Option<Value> {
    let (_, row) = &pair.model.groups[group][&id];
    let row = row.as_ref().unwrap();
    Attributes::decode(&row.attributes).unwrap().get(column).map(|value| value.to_value())
}

fn compare(query: &GroupQuery<'_>, hits: &[GroupHit], wanted: &[Row], context: &str) {
    let found: Vec<(u64, u64, Option<f32>)> =
        hits.iter().map(|hit| (hit.row.id, hit.row.version, hit.distance)).collect();
    let rows: Vec<(u64, u64, Option<f32>)> =
        wanted.iter().map(|(_, id, distance, version)| (*id, *version, *distance)).collect();
    assert_eq!(found, rows, "{context}");
    for (hit, row) in hits.iter().zip(wanted) {
        let has_score = query.text.is_some() || query.rank.is_some();
        let score = hit.score.map(f64::to_bits);
        assert_eq!(score, has_score.then_some(row.0.to_bits()), "{context}: {hit:?}");
    }
}

/// Compares the answers to one query as rows, as diverse rows and as groups.
fn check(pair: &Pair, group: &str, query: &GroupQuery<'_>, context: &str) {
    let reader = pair.store.reader();
    let query = &GroupQuery { diversify: None, group_by: None, ..*query };
    let wanted = oracle(pair, group, query);
    let answer = reader.search(group, query).unwrap();
    compare(query, &answer.rows, &wanted[..wanted.len().min(query.k)], context);
    for (column, n) in [(1, 1), (1, 3), (0, 2)] {
        let diversify = Some(Diversity { column, per_value: n });
        let diverse = GroupQuery { diversify, ..*query };
        let mut taken: HashMap<String, usize> = HashMap::new();
        let mut rows = wanted.clone();
        rows.retain(|(_, id, ..)| {
            let count = taken.entry(format!("{:?}", value(pair, group, *id, column))).or_default();
            *count += 1;
            *count <= n
        });
        rows.truncate(query.k);
        let answer = reader.search(group, &diverse).unwrap();
        compare(&diverse, &answer.rows, &rows, &format!("{context}, {diversify:?}"));
        let group_by = Some(GroupBy { column, values: 4, per_value: n });
        let grouped = GroupQuery { group_by, ..*query };
        let mut groups: Vec<(Option<Value>, Vec<Row>)> = Vec::new();
        for row in &wanted {
            let value = value(pair, group, row.1, column);
            match groups.iter_mut().find(|(there, _)| *there == value) {
                Some((_, rows)) if rows.len() < n => rows.push(*row),
                Some(_) => {}
                None => groups.push((value, vec![*row])),
            }
        }
        groups.truncate(4);
        let answer = reader.search(group, &grouped).unwrap();
        assert_eq!(answer.groups.len(), groups.len(), "{context}, {group_by:?}");
        for (found, (value, rows)) in answer.groups.iter().zip(&groups) {
            assert_eq!(found.value, *value, "{context}, {group_by:?}");
            compare(&grouped, &found.rows, rows, &format!("{context}, {group_by:?}"));
        }
    }
}

const EXPRESSIONS: [&str; 5] = [
    "closeness",
    "0.7 * closeness + $w * bm25 / (bm25 + 10)",
    "attribute(price) - distance * freshness(sent, 86400)",
    "if(has(colour, 'red'), 2, 1) * closeness + bm25(subject)",
    "log(bm25) + 0 / (attribute(price) - 5)",
];

/// All ways to ask, with and without vector, words, expression, filter and radius.
fn ask_everything(pair: &mut Pair, group: &str, context: &str) {
    let schema = pair.store.settings().schema.clone();
    let words = ["meeting -spam", "inv* \"red car\"", "subject:offer +body:price"];
    let texts: Vec<TextQuery> = words
        .iter()
        .map(|text| TextQuery::parse(&schema, text, PlainTerms::Any).unwrap())
        .collect();
    let filter =
        Filter::Attribute(1, vstream_attribute::Test::KeywordIn(vec!["blue".into(), "red".into()]));
    let expressions = EXPRESSIONS.map(|text| Expression::parse(&schema, text).unwrap());
    for turn in 0..36 {
        let vector = pair.draw.vector();
        let vector = (turn % 3 != 0).then_some(&vector[..]);
        let mut text = (turn % 4 != 1).then(|| TextSearch::new(&texts[turn % texts.len()]));
        if let Some(text) = &mut text {
            text.must_match = turn % 5 != 0;
        }
        let expression = &expressions[turn % expressions.len()];
        let uses_w = expression.parameters().next().is_some();
        let parameters: &[(&str, f64)] = if uses_w { &[("w", 0.4)] } else { &[] };
        let rank = RankBy { expression, parameters, now_ms: crate::model::NOW_MS };
        let rank = (turn % 2 == 0 || (vector.is_none() && text.is_none())).then_some(rank);
        let settings = pair.store.settings();
        let middle = vector.map(|vector| {
            let all = pair.model.search(group, settings, vector, usize::MAX, None);
            all.get(all.len() / 3).map_or(1.0, |neighbor| neighbor.distance)
        });
        let query = GroupQuery {
            vector,
            text,
            rank,
            filter: (turn % 7 < 2).then_some(&filter),
            radius: middle.filter(|_| turn % 6 == 2),
            ..GroupQuery::new(1 + turn % 30)
        };
        check(pair, group, &query, &format!("{context}, turn {turn}: {query:?}"));
    }
}

fn settings(metric: Metric, element: Element) -> GroupSettings {
    GroupSettings::new(384, metric, element)
}

/// Rows in memory, in one run, in several runs with updates and deletes, and merged.
#[test]
fn ranked_answers_equal_a_plain_pass_over_all_rows() {
    for (seed, metric, sizes) in [
        (1, Metric::Cosine, [10, 700]),
        (2, Metric::L2, [130, 400]),
        (3, Metric::InnerProduct, [1, 300]),
    ] {
        let mut pair = Pair::with_texts(settings(metric, Element::Bf16), seed);
        let names: Vec<String> = sizes.iter().map(|size| format!("box of {size}")).collect();
        for (name, &size) in names.iter().zip(&sizes) {
            (0..size).for_each(|id| pair.upsert(name, id * 3));
        }
        for (name, &size) in names.iter().zip(&sizes) {
            ask_everything(&mut pair, name, &format!("seed {seed}, {metric:?}, memory"));
            pair.store.flush().unwrap();
            ask_everything(&mut pair, name, &format!("seed {seed}, {metric:?}, a run"));
            for _ in 0..size / 8 {
                let id = 3 * pair.draw.random.below(size as usize + 3) as u64;
                match pair.draw.random.below(3) {
                    0 => pair.delete(name, id),
                    _ => pair.upsert(name, id),
                }
            }
            ask_everything(&mut pair, name, &format!("seed {seed}, {metric:?}, changes"));
            pair.store.compact_all().unwrap();
            ask_everything(&mut pair, name, &format!("seed {seed}, {metric:?}, merged"));
        }
    }
}

#[test]
fn hits_carry_what_was_asked_for() {
    let mut pair = Pair::with_texts(settings(Metric::Cosine, Element::F32), 9);
    (0..200).for_each(|id| pair.upsert("box", id));
    pair.store.flush().unwrap();
    (150..300).for_each(|id| pair.upsert("box", id));
    let vector = pair.draw.vector();
    let schema = pair.store.settings().schema.clone();
    let text = TextQuery::parse(&schema, "meeting offer price", PlainTerms::Any).unwrap();
    let plain = GroupQuery::nearest(&vector, 50);
    for text in [None, Some(TextSearch::new(&text))] {
        for with in
            [With::NOTHING, With::default(), With::ALL, With { payload: true, ..With::NOTHING }]
        {
            let answer =
                pair.store.reader().search("box", &GroupQuery { with, text, ..plain }).unwrap();
            assert_eq!(answer.rows.len(), 50);
            for hit in answer.rows {
                let (version, row) = &pair.model.groups["box"][&hit.row.id];
                let row = row.as_ref().unwrap();
                assert_eq!(hit.row.version, *version);
                let attributes = if with.attributes { &row.attributes[..] } else { &[] };
                assert_eq!(hit.row.attributes().bytes(), attributes);
                assert_eq!(hit.row.payload, row.payload.clone().filter(|_| with.payload));
                let vector = if with.vector { &row.vector[..] } else { &[] };
                assert_eq!(hit.row.vector, vector);
            }
        }
    }
}

#[test]
fn queries_that_cannot_be_answered_are_refused() {
    let mut pair = Pair::with_texts(settings(Metric::L2, Element::F32), 11);
    pair.upsert("box", 1);
    let vector = pair.draw.vector();
    let reader = pair.store.reader();
    let near = GroupQuery::nearest(&vector, 5);
    let schema = pair.store.settings().schema.clone();
    let expression = Expression::parse(&schema, "$w * closeness").unwrap();
    let text = TextQuery::Word { column: Some(0), text: "offer".into() };
    let wrong = Filter::Attribute(0, vstream_attribute::Test::Bool(true));
    let by = |column, values, per_value| Some(GroupBy { column, values, per_value });
    let diverse = |column, per_value| Some(Diversity { column, per_value });
    let rank = |parameters| Some(RankBy { expression: &expression, parameters, now_ms: 0 });
    let bad = [
        GroupQuery::new(5),
        GroupQuery { k: 0, ..near },
        GroupQuery { k: 1001, ..near },
        GroupQuery { radius: Some(f32::NAN), ..near },
        GroupQuery { vector: None, radius: Some(1.0), rank: rank(&[("w", 1.0)]), ..near },
        GroupQuery { filter: Some(&wrong), ..near },
        GroupQuery { diversify: diverse(1, 0), ..near },
        GroupQuery { diversify: diverse(99, 1), ..near },
        GroupQuery { diversify: diverse(4, 1), ..near },
        GroupQuery { group_by: by(1, 0, 1), ..near },
        GroupQuery { group_by: by(1, 1001, 1), ..near },
        GroupQuery { group_by: by(1, 1000, 11), ..near },
        GroupQuery { group_by: by(1, 2, 2), diversify: diverse(1, 1), ..near },
        GroupQuery { rank: rank(&[]), ..near },
        GroupQuery { rank: rank(&[("w", f64::INFINITY)]), ..near },
        GroupQuery { text: Some(TextSearch::new(&text)), ..near },
    ];
    for query in bad {
        assert!(reader.search("box", &query).is_err(), "{query:?}");
    }
    assert_eq!(reader.search("box", &near).unwrap().rows.len(), 1);
}

/// Interval arithmetic over codes leaves few rows to read, whatever the answer is made of.
#[test]
fn most_rows_need_no_exact_distance() {
    for bound in [Bound::Proven, Bound::Deviations(7.0)] {
        let settings = GroupSettings { bound, ..settings(Metric::Cosine, Element::Bf16) };
        let mut pair = Pair::with_texts(settings, 31);
        (0..4000).for_each(|id| pair.upsert("box", id));
        pair.store.compact_all().unwrap();
        let schema = pair.store.settings().schema.clone();
        let texts = ["closeness", "closeness * (1 + 0.1 * freshness(sent, 86400)) + 0.01 * bm25"];
        let text = TextQuery::parse(&schema, "meeting offer", PlainTerms::Any).unwrap();
        let text = TextSearch { must_match: false, ..TextSearch::new(&text) };
        for rank in [None, Some(texts[0]), Some(texts[1])] {
            let vector = pair.draw.vector();
            let expression = rank.map(|text| Expression::parse(&schema, text).unwrap());
            let rank = expression.as_ref().map(|expression| RankBy {
                expression,
                parameters: &[],
                now_ms: crate::model::NOW_MS,
            });
            let near =
                GroupQuery { rank, text: rank.map(|_| text), ..GroupQuery::nearest(&vector, 10) };
            let diversify = Some(Diversity { column: 1, per_value: 3 });
            let group_by = Some(GroupBy { column: 1, values: 10, per_value: 3 });
            check(&pair, "box", &near, &format!("{bound:?}, {near:?}"));
            for query in [near, GroupQuery { diversify, ..near }, GroupQuery { group_by, ..near }] {
                let context = format!("{bound:?}, {query:?}");
                let stats = pair.store.reader().search("box", &query).unwrap().stats;
                assert!(stats.exact_rows < 800, "{context}: {stats:?}");
            }
        }
    }
}
