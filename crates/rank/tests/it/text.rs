//! Matching and BM25 against an implementation that keeps every word of every row.

use vstream_rank::{
    Bm25Collector, Bm25Constants, Bm25Settings, PlainTerms, TermCounts, TextMatcher, TextQuery,
};
use vstream_vector::SplitMix;

use crate::mail::{mails, plain_words, random_word, schema, word, Mail, BODY, SUBJECT};

/// How often a term occurs in the words of a text.
fn occurrences(term: &TextQuery, words: &[String]) -> usize {
    match term {
        TextQuery::Prefix { text, .. } => {
            words.iter().filter(|word| word.starts_with(&text.to_lowercase())).count()
        }
        TextQuery::Word { text, .. } | TextQuery::Phrase { text, .. } => {
            let wanted = plain_words(text);
            words.windows(wanted.len()).filter(|window| **window == wanted).count()
        }
        _ => unreachable!("no term"),
    }
}

fn column(term: &TextQuery) -> Option<u16> {
    match term {
        TextQuery::Word { column, .. }
        | TextQuery::Prefix { column, .. }
        | TextQuery::Phrase { column, .. } => *column,
        _ => unreachable!("no term"),
    }
}

/// Columns and words of a mail, empty where it has no text.
fn words_of(mail: &Mail) -> [(u16, Vec<String>); 2] {
    mail.texts().map(|(column, text)| (column, text.map(plain_words).unwrap_or_default()))
}

fn holds(query: &TextQuery, texts: &[(u16, Vec<String>)]) -> bool {
    match query {
        TextQuery::And(all) => all.iter().all(|one| holds(one, texts)),
        TextQuery::Or(any) => any.iter().any(|one| holds(one, texts)),
        TextQuery::AtLeast(least, of) => {
            of.iter().filter(|one| holds(one, texts)).count() >= *least
        }
        TextQuery::Not(one) => !holds(one, texts),
        term => texts.iter().any(|(at, words)| {
            column(term).is_none_or(|wanted| wanted == *at) && occurrences(term, words) > 0
        }),
    }
}

fn scored_terms<'a>(query: &'a TextQuery, terms: &mut Vec<&'a TextQuery>) {
    match query {
        TextQuery::And(of) | TextQuery::Or(of) | TextQuery::AtLeast(_, of) => {
            of.iter().for_each(|one| scored_terms(one, terms));
        }
        TextQuery::Not(_) => {}
        term => terms.push(term),
    }
}

fn random_term(random: &mut SplitMix, words: usize) -> TextQuery {
    let column = [None, None, Some(SUBJECT), Some(BODY)][random.below(4)];
    let word = random_word(random, words);
    match random.below(4) {
        0 => TextQuery::Prefix { column, text: word[..2].to_uppercase() },
        1 => {
            let mut text = word;
            for _ in 0..=random.below(2) {
                text = format!("{text} {}", random_word(random, words));
            }
            TextQuery::Phrase { column, text }
        }
        _ => TextQuery::Word { column, text: word },
    }
}

fn random_query(random: &mut SplitMix, words: usize, levels: usize) -> TextQuery {
    if levels == 0 || random.below(3) == 0 {
        return random_term(random, words);
    }
    let some = |random: &mut SplitMix| -> Vec<TextQuery> {
        (0..=random.below(3)).map(|_| random_query(random, words, levels - 1)).collect()
    };
    match random.below(6) {
        0 | 1 => TextQuery::And(some(random)),
        2 | 3 => TextQuery::Or(some(random)),
        4 => {
            let of = some(random);
            TextQuery::AtLeast(random.below(of.len() + 1), of)
        }
        _ => TextQuery::Not(Box::new(random_query(random, words, levels - 1))),
    }
}

#[test]
fn matching_finds_what_a_search_of_all_words_finds() {
    let (mut matched, mut asked) = (0, 0);
    for seed in 0..40 {
        let random = &mut SplitMix(seed);
        let words = [30, 300, 3_000][random.below(3)];
        let mails = mails(random, 250, words);
        let mut counts = TermCounts::default();
        for _ in 0..12 {
            let query = random_query(random, words, 3);
            let matcher = TextMatcher::new(&query, &schema()).expect("a matcher");
            for (at, mail) in mails.iter().enumerate() {
                let expected = holds(&query, &words_of(mail));
                let got = matcher.count(mail.attributes(), &mut counts);
                assert_eq!(got, expected, "seed {seed}, mail {at}: {query:?}");
                matched += usize::from(got);
                asked += 1;
            }
        }
    }
    assert!(matched > asked / 10 && matched < asked * 9 / 10, "{matched} of {asked} match");
}

#[test]
fn a_query_as_text_means_what_its_tree_means() {
    let random = &mut SplitMix(77);
    let mails = mails(random, 2_000, 100);
    let (a, b, c, d, e) = (word(0), word(1), word(3), word(7), word(12));
    let text = format!("+{a} {b}* subject:{c} -\"{d} {e}\" ({e} +body:{d})");
    let query = TextQuery::parse(&schema(), &text, PlainTerms::Any).expect("a query");
    let term = |column, text: &str| TextQuery::Word { column, text: text.to_owned() };
    let tree = TextQuery::And(vec![
        term(None, &a),
        TextQuery::AtLeast(
            0,
            vec![
                TextQuery::Prefix { column: None, text: b },
                term(Some(SUBJECT), &c),
                TextQuery::And(vec![
                    term(Some(BODY), &d),
                    TextQuery::AtLeast(0, vec![term(None, &e)]),
                ]),
            ],
        ),
        TextQuery::Not(Box::new(TextQuery::Phrase { column: None, text: format!("{d} {e}") })),
    ]);
    assert_eq!(query, tree);
    let matcher = TextMatcher::new(&query, &schema()).expect("a matcher");
    let mut counts = TermCounts::default();
    let mut matched = 0;
    for mail in &mails {
        let got = matcher.count(mail.attributes(), &mut counts);
        assert_eq!(got, holds(&tree, &words_of(mail)));
        matched += usize::from(got);
    }
    assert!(matched > 100 && matched < 1_900, "{matched} match");
}

/// BM25 as a textbook has it: one pass per number.
fn textbook_score(
    terms: &[&TextQuery],
    group: &[[(u16, Vec<String>); 2]],
    row: usize,
    text: usize,
    constants: Bm25Constants,
) -> f64 {
    let column_at = group[row][text].0;
    let with_words: Vec<&Vec<String>> =
        group.iter().map(|texts| &texts[text].1).filter(|words| !words.is_empty()).collect();
    let rows = with_words.len() as f64;
    let mean = with_words.iter().map(|words| words.len() as f64).sum::<f64>() / rows;
    let words = &group[row][text].1;
    let mut score = 0.0;
    for term in terms.iter().filter(|term| column(term).is_none_or(|wanted| wanted == column_at)) {
        let with_term = with_words.iter().filter(|words| occurrences(term, words) > 0).count();
        let idf = (1.0 + (rows - with_term as f64 + 0.5) / (with_term as f64 + 0.5)).ln();
        let f = occurrences(term, words) as f64;
        let Bm25Constants { k1, b } = constants;
        let length = words.len() as f64 / mean;
        if f > 0.0 {
            score += idf * f * (k1 + 1.0) / (f + k1 * (1.0 - b + b * length));
        }
    }
    score
}

#[test]
fn bm25_gives_the_scores_of_a_textbook() {
    let (mut checked, mut positive) = (0, 0);
    for seed in 100..112 {
        let random = &mut SplitMix(seed);
        let mails = mails(random, 400, 200);
        let group: Vec<_> = mails.iter().map(words_of).collect();
        let query = random_query(random, 200, 2);
        let matcher = TextMatcher::new(&query, &schema()).expect("a matcher");
        let mut settings = Bm25Settings::default();
        let of_subject = Bm25Constants { k1: 0.4, b: 0.3 };
        settings.set(SUBJECT, of_subject).expect("constants");
        let constants = [of_subject, Bm25Constants::default()];
        let (mut counts, mut kept) = (TermCounts::default(), Vec::new());
        let mut collector = Bm25Collector::new(&matcher);
        for (at, mail) in mails.iter().enumerate() {
            if matcher.count(mail.attributes(), &mut counts) && at % 3 > 0 {
                kept.push((at, collector.keep(&counts)));
            } else {
                collector.add(&counts);
            }
        }
        let scores = collector.finish(&settings);
        assert_eq!(scores.rows(), kept.len());
        let mut terms = Vec::new();
        scored_terms(&query, &mut terms);
        for (at, row) in kept.into_iter().step_by(7) {
            let mut total = 0.0;
            for (text, column) in [SUBJECT, BODY].into_iter().enumerate() {
                let expected = textbook_score(&terms, &group, at, text, constants[text]);
                let got = scores.score_of(row, column);
                let close = (got - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                assert!(close, "seed {seed}, mail {at}: {got} for {expected}: {query:?}");
                total += expected;
            }
            assert!((scores.score(row) - total).abs() <= 1e-9 * total.abs().max(1.0));
            checked += 1;
            positive += usize::from(total > 0.0);
        }
    }
    assert!(checked > 200 && positive > 100, "{positive} of {checked} rows have a score");
}
