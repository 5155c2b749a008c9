//! A query never sees another group, whatever it asks for.

use proptest::prelude::*;
use vstream_attribute::{Filter, Test};
use vstream_group::{
    Diversity, Expression, GroupBy, GroupQuery, GroupSettings, PlainTerms, RankBy, RowRef,
    TextQuery, TextSearch, With,
};
use vstream_vector::{Element, Metric};

use crate::model::{Pair, COLOURS, NOW_MS};

/// Names that are easily taken for each other: one begins another, they differ in case, in
/// composition, or in the last letter.
fn name() -> impl Strategy<Value = String> {
    let close = prop::sample::select(vec![
        "ann",
        "ann ",
        " ann",
        "Ann",
        "ann\0",
        "ann/",
        "ann1",
        "ann10",
        "annn",
        "an",
        "é",
        "e\u{301}",
        "東京",
        "東京都",
        "🙂",
        "a\u{200b}nn",
    ]);
    prop_oneof![
        6 => close.prop_map(str::to_owned),
        1 => "[a-c]{1,3}",
        1 => any::<String>().prop_filter("a length", |name| (1..=512).contains(&name.len())),
        1 => (490..=512usize).prop_map(|bytes| "x".repeat(bytes)),
    ]
}

#[derive(Clone, Debug)]
struct Ask {
    group: usize,
    has_vector: bool,
    text: usize,
    must_match: bool,
    rank: usize,
    filter: usize,
    shape: usize,
}

fn ask() -> impl Strategy<Value = Ask> {
    let parts =
        (0..12usize, any::<bool>(), 0..4usize, any::<bool>(), 0..4usize, 0..5usize, 0..4usize);
    parts.prop_map(|(group, has_vector, text, must_match, rank, filter, shape)| Ask {
        group,
        has_vector,
        text,
        must_match,
        rank,
        filter,
        shape,
    })
}

fn filter(number: usize) -> Option<Filter> {
    match number {
        // Every row of the store passes, so that only the group keeps rows out.
        1 => Some(Filter::And(Vec::new())),
        2 => Some(Filter::Not(Box::new(Filter::Ids(vec![u64::MAX])))),
        3 => Some(Filter::Ids((0..5000).collect())),
        4 => {
            Some(Filter::Attribute(1, Test::KeywordIn(vec![COLOURS[3].into(), COLOURS[0].into()])))
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_query_never_sees_another_group(
        names in proptest::collection::hash_set(name(), 2..12),
        asks in proptest::collection::vec(ask(), 20..40),
        seed in 0..1000u64,
        place in 0..4usize,
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let settings = GroupSettings::new(64, Metric::Cosine, Element::F32);
        let mut pair = Pair::with_texts(GroupSettings { coded_rows: 24, ..settings }, seed);
        // The number of a row's group is its version, so that each row tells where it belongs.
        for (group, name) in names.iter().enumerate() {
            for id in 0..10 + 7 * group as u64 {
                let (vector, row) = pair.draw.row();
                let fields = vstream_attribute::Fields {
                    attributes: vstream_attribute::Attributes::decode(&row.attributes).unwrap(),
                    payload: Some(name.as_bytes()),
                    ..vstream_attribute::Fields::NONE
                };
                let row = RowRef { id, version: group as u64, vector: &vector, fields };
                pair.store.upsert(name, &row).unwrap();
            }
            if place == 1 && group % 3 == 0 {
                pair.store.flush().unwrap();
            }
        }
        match place {
            2 => pair.store.flush().unwrap(),
            3 => pair.store.compact_all().unwrap(),
            _ => {}
        }
        let schema = pair.store.settings().schema.clone();
        let reader = pair.store.reader();
        for ask in asks {
            let group = ask.group % names.len();
            let words = ["meeting", "meeting -spam", "subject:inv* body:price"];
            let text = words.get(ask.text).map(|text| {
                TextQuery::parse(&schema, text, PlainTerms::Any).unwrap()
            });
            let ranks = ["closeness + bm25", "0 - attribute(price)", "freshness(sent)"];
            let expression = ranks.get(ask.rank).map(|text| Expression::parse(&schema, text).unwrap());
            let rank = expression.as_ref().map(|expression| {
                RankBy { expression, parameters: &[], now_ms: NOW_MS }
            });
            let vector = pair.draw.vector();
            let needs_vector = ask.has_vector || (text.is_none() && rank.is_none());
            let filter = filter(ask.filter);
            let query = GroupQuery {
                vector: needs_vector.then_some(&vector[..]),
                filter: filter.as_ref(),
                text: text.as_ref().map(|query| {
                    TextSearch { must_match: ask.must_match, ..TextSearch::new(query) }
                }),
                rank,
                radius: (needs_vector && ask.shape == 1).then_some(2.0),
                diversify: (ask.shape == 2).then_some(Diversity { column: 1, per_value: 40 }),
                group_by: (ask.shape == 3)
                    .then_some(GroupBy { column: 1, values: 9, per_value: 100 }),
                with: With { payload: true, ..With::NOTHING },
                ..GroupQuery::new(1000)
            };
            let answer = reader.search(&names[group], &query).unwrap();
            let of_groups = answer.groups.iter().flat_map(|group| &group.rows);
            let hits: Vec<_> = answer.rows.iter().chain(of_groups).collect();
            for hit in &hits {
                prop_assert_eq!(hit.row.version, group as u64);
                prop_assert_eq!(hit.row.payload.as_deref(), Some(names[group].as_bytes()));
            }
            let is_whole = ask.filter < 4 && (query.text.is_none() || !ask.must_match);
            if is_whole && ask.shape != 2 {
                // All rows are there, so the test can see more than nothing.
                prop_assert_eq!(hits.len(), 10 + 7 * group, "{:?}", ask);
            }
        }
        prop_assert!(reader.search("nobody", &GroupQuery::nearest(&pair.draw.vector(), 9)).unwrap().rows.is_empty());
    }
}
