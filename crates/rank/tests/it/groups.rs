//! A query over a group as the partition runs it, against the same computed row by row.

use vstream_rank::{
    closeness, reciprocal_rank_fusion, Best, Bm25Collector, Bm25Settings, Diversify, Expression,
    Fused, PlainTerms, RankInputs, RankRow, Ranked, RankedList, TermCounts, TextMatcher, TextQuery,
    FUSION_CONSTANT,
};
use vstream_vector::{kernels, Metric, SplitMix};

use crate::mail::{mails, schema, word, Mail, FOLDER, NOW_MS};

struct Group {
    mails: Vec<Mail>,
    /// Distance of each mail to the query.
    distances: Vec<f32>,
}

/// A mailbox of rows with vectors, and a query near one of them.
fn group(seed: u64, rows: usize, dimension: usize, metric: Metric) -> Group {
    let random = &mut SplitMix(seed);
    let mails = mails(random, rows, 500);
    let mut vectors: Vec<Vec<f32>> =
        (0..rows).map(|_| (0..dimension).map(|_| random.normal()).collect()).collect();
    let mut query: Vec<f32> = vectors[0].iter().map(|x| x + 0.5 * random.normal()).collect();
    if metric == Metric::Cosine {
        for vector in vectors.iter_mut().chain([&mut query]) {
            let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            vector.iter_mut().for_each(|x| *x /= norm);
        }
    }
    let distance = |vector: &Vec<f32>| match metric {
        Metric::L2 => kernels::l2_squared(&query, vector),
        Metric::Cosine => 1.0 - kernels::inner_product(&query, vector),
        Metric::InnerProduct => -kernels::inner_product(&query, vector),
    };
    Group { distances: vectors.iter().map(distance).collect(), mails }
}

#[test]
fn a_ranked_query_answers_what_the_formula_says_for_each_row() {
    for (seed, (dimension, metric)) in
        (1..).zip([(64, Metric::L2), (384, Metric::Cosine), (768, Metric::InnerProduct)])
    {
        let group = group(seed, 5_000, dimension, metric);
        let schema = schema();
        let text = format!("{} \"{} {}\" -{}", word(0), word(1), word(2), word(40));
        let query = TextQuery::parse(&schema, &text, PlainTerms::Any).expect("a query");
        let matcher = TextMatcher::new(&query, &schema).expect("a matcher");
        let text = "($w * closeness + (1 - $w) * bm25 / (bm25 + 5)) * \
                    if(has(folder, 'spam'), 0.1, 1) + 0.05 * freshness(sent, 8640000) + \
                    0.02 * attribute(stars)";
        let expression = Expression::parse(&schema, text).expect("an expression");
        assert!(expression.uses_bm25() && expression.uses_distance());
        let inputs = RankInputs { parameters: &[("w", 0.6)], metric, now_ms: NOW_MS };
        let program = expression.bind(&inputs).expect("a program");

        // First pass: match, and gather the statistics.
        let (mut counts, mut kept) = (TermCounts::default(), Vec::new());
        let mut collector = Bm25Collector::new(&matcher);
        for (at, mail) in group.mails.iter().enumerate() {
            if matcher.count(mail.attributes(), &mut counts) {
                kept.push((at, collector.keep(&counts)));
            } else {
                collector.add(&counts);
            }
        }
        // Second pass: rank.
        let scores = collector.finish(&Bm25Settings::default());
        let (mut best, mut diverse) = (Best::new(50), Diversify::new(20, 5));
        let mut all = Vec::new();
        for (at, number) in kept {
            let (mail, distance) = (&group.mails[at], group.distances[at]);
            let attributes = mail.attributes();
            let bm25 = Some((&scores, number));
            let score = program.evaluate(&RankRow { attributes, distance: Some(distance), bm25 });
            let row = Ranked { score, id: at as u64, version: 1, distance: Some(distance) };
            best.offer(row);
            diverse.offer(attributes.get(FOLDER).as_ref(), row);

            let bm25 = scores.score(number);
            let spam = if mail.folder == Some("spam") { 0.1 } else { 1.0 };
            let fresh = mail
                .sent_ms
                .map_or(0.0, |sent| (1.0 - (NOW_MS - sent) as f64 / 1000.0 / 8_640_000.0).max(0.0));
            let expected = (0.6 * closeness(metric, distance) + (1.0 - 0.6) * bm25 / (bm25 + 5.0))
                * spam
                + 0.05 * fresh
                + 0.02 * mail.stars.unwrap_or(0) as f64;
            assert_eq!(score, expected, "{metric}, mail {at}");
            all.push((expected, at as u64, mail.folder));
        }
        assert!(all.len() > 500 && all.len() < 4_900, "{} match", all.len());
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let ids: Vec<u64> = best.finish().iter().map(|row| row.id).collect();
        assert_eq!(ids, all[..50].iter().map(|row| row.1).collect::<Vec<_>>());
        let mut expected = Vec::new();
        for folder in [Some("inbox"), Some("sent"), Some("spam"), None] {
            expected.extend(all.iter().filter(|row| row.2 == folder).take(5).map(|row| row.1));
        }
        let mut ids: Vec<u64> = diverse.finish().iter().map(|(_, row)| row.id).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ids, expected, "all folders have 5 rows");
    }
}

#[test]
fn fusion_joins_the_lists_of_vector_and_text() {
    let group = group(11, 3_000, 128, Metric::L2);
    let schema = schema();
    let text = format!("{} {}", word(3), word(9));
    let query = TextQuery::parse(&schema, &text, PlainTerms::Any).expect("a query");
    let matcher = TextMatcher::new(&query, &schema).expect("a matcher");
    let (mut counts, mut kept) = (TermCounts::default(), Vec::new());
    let mut collector = Bm25Collector::new(&matcher);
    for (at, mail) in group.mails.iter().enumerate() {
        if matcher.count(mail.attributes(), &mut counts) {
            kept.push((at, collector.keep(&counts)));
        } else {
            collector.add(&counts);
        }
    }
    let scores = collector.finish(&Bm25Settings::default());
    let (mut near, mut said) = (Best::new(100), Best::new(100));
    for (at, distance) in group.distances.iter().enumerate() {
        let score = -f64::from(*distance);
        near.offer(Ranked { score, id: at as u64, version: 1, distance: Some(*distance) });
    }
    for (at, number) in kept {
        let score = scores.score(number);
        said.offer(Ranked { score, id: at as u64, version: 1, distance: None });
    }
    let ids = |rows: Vec<Ranked>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let (near, said) = (ids(near.finish()), ids(said.finish()));
    let lists = [RankedList { ids: &near, weight: 2.0 }, RankedList { ids: &said, weight: 1.0 }];
    let fused = reciprocal_rank_fusion(&lists, FUSION_CONSTANT, 40).expect("lists");

    let place = |list: &[u64], id: u64| list.iter().position(|one| *one == id);
    let mut expected: Vec<Fused> = (0..group.mails.len() as u64)
        .filter(|id| place(&near, *id).is_some() || place(&said, *id).is_some())
        .map(|id| {
            let part = |list: &[u64], weight: f64| {
                place(list, id).map_or(0.0, |at| weight / (60.0 + at as f64 + 1.0))
            };
            Fused { id, score: part(&near, 2.0) + part(&said, 1.0) }
        })
        .collect();
    expected.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    assert_eq!(fused, expected[..40]);
}
