//! Answers by text, by rank expression, and by value: all visible rows are scanned.
//!
//! 1. The pass of `gather.rs` finds the rows that pass filter and text, and counts their words.
//! 2. Rows get distances, if the order or the radius asks for them.
//! 3. Rows get scores, and a collector keeps the best ones.

use std::cmp::Ordering;

use vstream_attribute::{Attributes, Value};
use vstream_rank::{
    AnswerGroup, AnswerRow, Best, Bm25Scores, Bm25Settings, Diversify, GroupBy as GroupByValue,
    Program, RankInputs, RankRow, TextMatcher, FUSION_CONSTANT,
};
use vstream_vector::Element;

use super::ask::{Diversity, GroupAnswer, GroupBy, GroupHit, GroupQuery, QueryStats};
use super::gather::{Candidate, Gathered, Gatherer};
use super::group::{GroupView, Hidden};
use crate::accept::Distances;
use crate::error::Error;
use crate::settings::GroupSettings;

/// A query whose words and expression are compiled.
pub(super) struct RankedQuery<'a> {
    query: &'a GroupQuery<'a>,
    matcher: Option<TextMatcher>,
    program: Option<Program>,
    element: Element,
}

/// A candidate with its place in the order.
#[derive(Clone, Copy, Debug)]
struct Scored {
    score: f64,
    id: u64,
    /// Position among the candidates.
    at: usize,
}

impl AnswerRow for Scored {
    fn order(&self, other: &Scored) -> Ordering {
        vstream_rank::by_score(self.score, other.score).then(self.id.cmp(&other.id))
    }
}

impl<'a> RankedQuery<'a> {
    /// Compiles a query. Errors: `Query` for its words and parameters.
    pub(super) fn new(
        query: &'a GroupQuery<'a>,
        settings: &GroupSettings,
    ) -> Result<RankedQuery<'a>, Error> {
        let matcher = match query.text {
            Some(text) => {
                let schema = &settings.schema;
                Some(TextMatcher::with_stemming(text.query, schema, text.language)?)
            }
            None => None,
        };
        let program = match query.rank {
            Some(rank) => {
                let (metric, now_ms) = (settings.metric, rank.now_ms);
                let inputs = RankInputs { parameters: rank.parameters, metric, now_ms };
                Some(rank.expression.bind(&inputs)?)
            }
            None => None,
        };
        Ok(RankedQuery { query, matcher, program, element: settings.element })
    }

    /// The column by whose values the answer is grouped or made diverse.
    fn column(&self) -> Option<u16> {
        let diverse = self.query.diversify.map(|diversity| diversity.column);
        diverse.or(self.query.group_by.map(|group_by| group_by.column))
    }

    /// True if every candidate needs a distance: for its score, or for the radius.
    fn uses_distance(&self) -> bool {
        let by_rank = self.query.rank.is_none_or(|rank| rank.expression.uses_distance());
        self.query.vector.is_some() && (by_rank || self.query.radius.is_some())
    }

    /// Answers the query.
    ///
    /// * `distances`: those to the query's vector, if it has one.
    pub(super) fn run(
        &self,
        group: &GroupView,
        hidden: &Hidden,
        mut distances: Option<Distances<'_>>,
    ) -> Result<GroupAnswer, Error> {
        let by_attributes = self.query.rank.is_some_and(|rank| rank.expression.uses_attributes());
        let keeps = by_attributes || self.column().is_some();
        let must_match = self.query.text.is_some_and(|text| text.must_match);
        let text = self.matcher.as_ref().map(|matcher| (matcher, must_match));
        let gatherer = Gatherer::new(self.query.filter, text, keeps);
        let (mut gathered, bm25) = gatherer.run(group, hidden)?;
        let default = Bm25Settings::default();
        let constants = self.query.text.and_then(|text| text.bm25).unwrap_or(&default);
        let bm25 = bm25.map(|collector| collector.finish(constants));
        let mut stats = QueryStats {
            rows: gathered.rows,
            matches: gathered.candidates.len() as u64,
            runs: group.runs.len() as u64,
            ..QueryStats::default()
        };
        let mut near = None;
        if let (Some(distances), true) = (&mut distances, self.uses_distance()) {
            let mut found = exact(group, &gathered.candidates, distances)?;
            stats.exact_rows = found.len() as u64;
            if let Some(radius) = self.query.radius {
                let mut within = found.iter().map(|distance| *distance <= radius);
                gathered.candidates.retain(|_| within.next() == Some(true));
                found.retain(|distance| *distance <= radius);
            }
            near = Some(found);
        }
        let scores = self.scores(&gathered, near.as_deref(), bm25.as_ref());
        let best = self.best(&gathered, &scores);
        let mut hits = Hits { ranked: self, group, gathered: &gathered, near, distances };
        let mut answer = hits.answer(best)?;
        stats.bytes = group.asked_bytes();
        answer.stats = stats;
        Ok(answer)
    }

    /// The score of each candidate.
    fn scores(
        &self,
        gathered: &Gathered,
        near: Option<&[f32]>,
        bm25: Option<&Bm25Scores>,
    ) -> Vec<f64> {
        let candidates = &gathered.candidates;
        let distance = |at: usize| near.map(|near| near[at]);
        if let Some(program) = &self.program {
            let score = |(at, candidate): (usize, &Candidate)| {
                let attributes = gathered.attributes(candidate);
                let bm25 = bm25.map(|scores| (scores, candidate.bm25));
                program.evaluate(&RankRow { attributes, distance: distance(at), bm25 })
            };
            return candidates.iter().enumerate().map(score).collect();
        }
        let words: Option<Vec<f64>> = bm25.map(|scores| {
            candidates.iter().map(|candidate| scores.score(candidate.bm25)).collect()
        });
        let closeness: Option<Vec<f64>> =
            near.map(|near| near.iter().map(|distance| -f64::from(*distance)).collect());
        match (closeness, words) {
            (Some(closeness), Some(words)) => fused(candidates, &closeness, &words),
            (closeness, words) => closeness.or(words).expect("a query has a vector or a text"),
        }
    }

    fn best(&self, gathered: &Gathered, scores: &[f64]) -> Chosen {
        let scored = |at: usize| {
            let row = Scored { score: scores[at], id: gathered.candidates[at].id, at };
            let attributes = gathered.attributes(&gathered.candidates[at]);
            (row, attributes)
        };
        let rows = (0..scores.len()).map(scored);
        if let Some(Diversity { column, per_value }) = self.query.diversify {
            let mut collector = Diversify::new(self.query.k, per_value);
            rows.for_each(|(row, attributes)| {
                collector.offer(attributes.get(column).as_ref(), row);
            });
            return Chosen::Rows(collector.finish().into_iter().map(|(_, row)| row).collect());
        }
        if let Some(GroupBy { column, values, per_value }) = self.query.group_by {
            return Chosen::Groups(group_by(rows, column, values, per_value));
        }
        let mut collector = Best::new(self.query.k);
        rows.for_each(|(row, _)| {
            collector.offer(row);
        });
        Chosen::Rows(collector.finish())
    }
}

/// The rows of an answer, as positions among the candidates.
enum Chosen {
    Rows(Vec<Scored>),
    Groups(Vec<AnswerGroup<Scored>>),
}

/// The best values in two passes: the first finds them, the second their rows.
fn group_by<'a>(
    rows: impl Iterator<Item = (Scored, Attributes<'a>)> + Clone,
    column: u16,
    values: usize,
    per_value: usize,
) -> Vec<AnswerGroup<Scored>> {
    let mut first = Diversify::new(values, 1);
    rows.clone().for_each(|(row, attributes)| {
        first.offer(attributes.get(column).as_ref(), row);
    });
    let best: Vec<Option<Value>> = first.finish().into_iter().map(|(value, _)| value).collect();
    let mut second = GroupByValue::among(best.iter().map(Option::as_ref), per_value);
    rows.for_each(|(row, attributes)| {
        let offered = second.offer(attributes.get(column).as_ref(), row);
        offered.expect("a collector of known values has no limit");
    });
    second.finish(values)
}

/// Reciprocal rank fusion of two orders of all candidates. A row without any of the words has no
/// place in theirs.
fn fused(candidates: &[Candidate], closeness: &[f64], words: &[f64]) -> Vec<f64> {
    let mut scores = vec![0.0; candidates.len()];
    for (values, counts) in [(closeness, None), (words, Some(0.0))] {
        let counts = |at: &usize| counts.is_none_or(|least| values[*at] > least);
        let mut order: Vec<usize> = (0..candidates.len()).filter(counts).collect();
        let row = |at: usize| Scored { score: values[at], id: candidates[at].id, at };
        order.sort_unstable_by(|a, b| row(*a).order(&row(*b)));
        for (place, at) in (1u32..).zip(order) {
            scores[at] += 1.0 / (FUSION_CONSTANT + f64::from(place));
        }
    }
    scores
}

/// The distance of each candidate, by its position. Cost: reads the vectors of all of them.
fn exact(
    group: &GroupView,
    candidates: &[Candidate],
    distances: &mut Distances<'_>,
) -> Result<Vec<f32>, Error> {
    let mut found = vec![0.0; candidates.len()];
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|at| candidates[*at].place);
    for of_part in order.chunk_by(|a, b| candidates[*a].place.is_beside(candidates[*b].place)) {
        let place = candidates[of_part[0]].place;
        if place.is_in_memory() {
            for at in of_part {
                let entry = &group.memory[candidates[*at].place.row as usize];
                let content = entry.content.as_ref().expect("a living row").content();
                found[*at] = distances.to(content.vector);
            }
            continue;
        }
        let rows: Vec<u32> = of_part.iter().map(|at| candidates[*at].place.row).collect();
        let mut next = of_part.iter();
        group.part(place).visit_rows(&rows, |_, _, _, vector| {
            let at = next.next().expect("a row for each that was asked for");
            found[*at] = distances.to(vector);
        })?;
    }
    Ok(found)
}

/// Makes the rows of an answer.
struct Hits<'a> {
    ranked: &'a RankedQuery<'a>,
    group: &'a GroupView,
    gathered: &'a Gathered,
    near: Option<Vec<f32>>,
    distances: Option<Distances<'a>>,
}

impl Hits<'_> {
    fn answer(&mut self, chosen: Chosen) -> Result<GroupAnswer, Error> {
        let mut answer = GroupAnswer::default();
        match chosen {
            Chosen::Rows(rows) => {
                answer.rows = rows.iter().map(|row| self.hit(row)).collect::<Result<_, _>>()?;
            }
            Chosen::Groups(groups) => {
                for group in groups {
                    let rows = group.rows.iter().map(|row| self.hit(row));
                    let rows = rows.collect::<Result<_, _>>()?;
                    answer.groups.push(AnswerGroup { value: group.value, rows });
                }
            }
        }
        Ok(answer)
    }

    fn hit(&mut self, scored: &Scored) -> Result<GroupHit, Error> {
        let candidate = &self.gathered.candidates[scored.at];
        let distance = match (&self.near, &mut self.distances) {
            (Some(near), _) => Some(near[scored.at]),
            (None, Some(distances)) => {
                Some(exact(self.group, std::slice::from_ref(candidate), distances)?[0])
            }
            (None, None) => None,
        };
        let query = self.ranked.query;
        let by_distance = query.text.is_none() && query.rank.is_none();
        let key = (candidate.id, candidate.version);
        let row = self.group.show(candidate.place, key, self.ranked.element, query.with)?;
        Ok(GroupHit { distance, score: (!by_distance).then_some(scored.score), row })
    }
}
