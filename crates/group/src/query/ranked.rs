//! Answers by text, by rank expression, and by value: the attributes of all visible rows are scanned.
//!
//! 1. The pass of `gather.rs` finds the rows that pass filter and text, and counts their words.
//! 2. If the order asks for distances, `bounds.rs` gives an interval for each, from codes. Interval
//!    arithmetic over the expression makes a range of it that holds the score.
//! 3. The answer for the least scores gives a bound: the k-th score of the true answer is not less,
//!    because answers are best sets of a matroid, whose j-th score grows with every score. A row
//!    whose greatest score is below the bound is left out.
//! 4. Rows that are left get exact distances, by greatest score, until none can be in the answer.

use std::cmp::Ordering;

use vstream_attribute::{Attributes, Value};
use vstream_rank::{
    by_score, AnswerGroup, AnswerRow, Best, Bm25Scores, Bm25Settings, Diversify,
    GroupBy as GroupByValue, Program, RankInputs, RankRow, ScoreRange, TextMatcher,
    FUSION_CONSTANT,
};
use vstream_vector::Element;

use super::ask::{Diversity, GroupAnswer, GroupBy, GroupHit, GroupQuery, QueryStats};
use super::bounds::{Bounds, Near};
use super::gather::{Candidate, Gathered, Gatherer};
use super::group::{GroupView, Hidden};
use crate::error::Error;
use crate::settings::GroupSettings;

/// Candidates that get exact distances together at first; then twice as many, and so on.
const REFINED_FIRST: usize = 32;

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
        by_score(self.score, other.score).then(self.id.cmp(&other.id))
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
    /// * `bounds`: of distances to the query's vector, if it has one.
    pub(super) fn run(
        &self,
        group: &GroupView,
        hidden: &Hidden,
        bounds: Option<Bounds<'_>>,
    ) -> Result<GroupAnswer, Error> {
        let by_attributes = self.query.rank.is_some_and(|rank| rank.expression.uses_attributes());
        let keeps = by_attributes || self.column().is_some();
        let must_match = self.query.text.is_some_and(|text| text.must_match);
        let text = self.matcher.as_ref().map(|matcher| (matcher, must_match));
        let gatherer = Gatherer::new(self.query.filter, text, keeps);
        let (gathered, bm25) = gatherer.run(group, hidden)?;
        let default = Bm25Settings::default();
        let constants = self.query.text.and_then(|text| text.bm25).unwrap_or(&default);
        let bm25 = bm25.map(|collector| collector.finish(constants));
        let (rows, matches) = (gathered.rows, gathered.candidates.len() as u64);
        let near = Vec::new();
        let mut search = Search { ranked: self, group, gathered, bm25, bounds, near };
        let chosen = search.choose()?;
        let mut answer = search.answer(chosen)?;
        let found = search.bounds.map_or_else(QueryStats::default, |bounds| bounds.stats);
        let (runs, bytes) = (group.runs.len() as u64, group.asked_bytes());
        answer.stats = QueryStats { rows, matches, runs, bytes, ..found };
        Ok(answer)
    }
}

/// The rows of an answer, as positions among the candidates.
enum Chosen {
    Rows(Vec<Scored>),
    Groups(Vec<AnswerGroup<Scored>>),
}

/// Keeps the best rows: all of one kind of answers.
enum Collector {
    Best(Best<Scored>),
    /// With the column, and how many rows may have one value.
    Diverse(Diversify<Scored>, u16, usize),
}

impl Collector {
    fn offer(&mut self, row: Scored, attributes: Attributes<'_>) {
        match self {
            Collector::Best(best) => best.offer(row),
            Collector::Diverse(diverse, column, _) => {
                diverse.offer(attributes.get(*column).as_ref(), row)
            }
        };
    }

    /// Rows of a lower score are not in the answer.
    fn bound(&self) -> Option<f64> {
        let worst = match self {
            Collector::Best(best) => best.bound(),
            Collector::Diverse(diverse, ..) => diverse.bound(),
        };
        worst.map(|row| row.score)
    }

    fn finish(self) -> Vec<Scored> {
        match self {
            Collector::Best(best) => best.finish(),
            Collector::Diverse(diverse, ..) => {
                diverse.finish().into_iter().map(|(_, row)| row).collect()
            }
        }
    }
}

/// A query at work.
struct Search<'a> {
    ranked: &'a RankedQuery<'a>,
    group: &'a GroupView,
    gathered: Gathered,
    bm25: Option<Bm25Scores>,
    bounds: Option<Bounds<'a>>,
    /// The distances of the candidates, if the order or the radius asks for them.
    near: Vec<Near>,
}

impl Search<'_> {
    fn choose(&mut self) -> Result<Chosen, Error> {
        if let (Some(bounds), true) = (&mut self.bounds, self.ranked.uses_distance()) {
            self.near = bounds.first(&self.gathered.candidates)?;
        }
        let query = self.ranked.query;
        let all: Vec<usize> = (0..self.gathered.candidates.len()).collect();
        let fused = if query.rank.is_none() && query.text.is_some() && query.vector.is_some() {
            self.make_exact(&all)?;
            Some(self.fused())
        } else {
            None
        };
        let fused = fused.as_deref();
        let Some(GroupBy { column, values, per_value }) = query.group_by else {
            let make = || match query.diversify {
                Some(Diversity { column, per_value }) => {
                    Collector::Diverse(Diversify::new(query.k, per_value), column, per_value)
                }
                None => Collector::Best(Best::new(query.k)),
            };
            return Ok(Chosen::Rows(self.best(all, fused, make)?));
        };
        // The best values first, then the rows of these values alone.
        let one_each = || Collector::Diverse(Diversify::new(values, 1), column, 1);
        let best = self.best(all.clone(), fused, one_each)?;
        let value =
            |row: &Scored| self.attributes(row.at).get(column).map(|value| value.to_value());
        let best: Vec<Option<Value>> = best.iter().map(value).collect();
        let among = || GroupByValue::among(best.iter().map(Option::as_ref), per_value);
        let mut least = among();
        let mut pending: Vec<(Scored, Scored)> = Vec::new();
        for at in all {
            if let Some((low, high)) = self.ends(at, fused) {
                let found = least.offer(self.attributes(at).get(column).as_ref(), low);
                found.expect("known values have no limit");
                pending.push((low, high));
            }
        }
        pending.retain(|(_, high)| {
            // Of equal scores the row counts as the one that stands before.
            let high = Scored { id: 0, ..*high };
            least.may_keep(self.attributes(high.at).get(column).as_ref(), &high)
        });
        let pending: Vec<usize> = pending.iter().map(|(low, _)| low.at).collect();
        self.make_exact(&pending)?;
        let mut groups = among();
        for at in pending {
            if let Some((score, _)) = self.ends(at, fused) {
                let found = groups.offer(self.attributes(at).get(column).as_ref(), score);
                found.expect("known values have no limit");
            }
        }
        Ok(Chosen::Groups(groups.finish(values)))
    }

    /// The best of some candidates.
    ///
    /// * `fused`: the scores of all candidates, if they are known.
    fn best(
        &mut self,
        all: Vec<usize>,
        fused: Option<&[f64]>,
        make: impl Fn() -> Collector,
    ) -> Result<Vec<Scored>, Error> {
        let mut pending = self.pruned(all, fused, &make, None);
        let open: Vec<usize> = pending.iter().map(|(_, at)| *at).collect();
        if pending.len() > REFINED_FIRST && self.look_again(&open)? {
            pending = self.pruned(open, fused, &make, None);
        }
        let mut chosen = make();
        let mut together = REFINED_FIRST.max(self.ranked.query.k);
        while !pending.is_empty() {
            pending.sort_unstable_by(|a, b| by_score(a.0, b.0).then(a.1.cmp(&b.1)));
            let later = pending.split_off(pending.len().min(together));
            let now: Vec<usize> = pending.into_iter().map(|(_, at)| at).collect();
            self.make_exact(&now)?;
            for at in now {
                if let Some((score, _)) = self.ends(at, fused) {
                    chosen.offer(score, self.attributes(at));
                }
            }
            together *= 2;
            let later = later.into_iter().map(|(_, at)| at).collect();
            pending = self.pruned(later, fused, &make, chosen.bound());
        }
        Ok(chosen.finish())
    }

    /// The candidates that may be among the best, given that some have the score `bound` or more,
    /// with the greatest score of each.
    fn pruned(
        &self,
        all: Vec<usize>,
        fused: Option<&[f64]>,
        make: &impl Fn() -> Collector,
        bound: Option<f64>,
    ) -> Vec<(f64, usize)> {
        let mut least = make();
        // The best rows of each value, where an answer takes so many of a value.
        let mut of_values = match least {
            Collector::Best(_) => None,
            Collector::Diverse(_, column, n) => Some((column, GroupByValue::new(n, usize::MAX))),
        };
        let mut pending = Vec::with_capacity(all.len());
        for at in all {
            let Some((low, high)) = self.ends(at, fused) else { continue };
            if bound.is_some_and(|bound| by_score(high.score, bound).is_gt()) {
                continue;
            }
            let attributes = self.attributes(at);
            least.offer(low, attributes);
            if let Some((column, values)) = &mut of_values {
                let found = values.offer(attributes.get(*column).as_ref(), low);
                found.expect("no limit was set");
            }
            pending.push((high.score, at));
        }
        // What is no number stands last, so it bounds nothing.
        let own = least.bound();
        pending.retain(|(high, _)| own.is_none_or(|own| by_score(*high, own).is_le()));
        if let Some((column, mut values)) = of_values {
            pending.retain(|&(score, at)| {
                // Of equal scores the row counts as the one that stands before.
                let high = Scored { score, id: 0, at };
                values.may_keep(self.attributes(at).get(column).as_ref(), &high)
            });
        }
        pending
    }

    /// The least and the greatest score that a candidate may have, both the score if its distance is
    /// exact; `None` if it is beyond the radius.
    fn ends(&self, at: usize, fused: Option<&[f64]>) -> Option<(Scored, Scored)> {
        let id = self.gathered.candidates[at].id;
        let scored = |score| Scored { score, id, at };
        let near = self.near.get(at);
        let mut may_be_left_out = false;
        if let (Some(near), Some(radius)) = (near, self.ranked.query.radius) {
            if near.least > radius {
                return None;
            }
            may_be_left_out = near.most > radius;
        }
        if let Some(fused) = fused {
            return Some((scored(fused[at]), scored(fused[at])));
        }
        let range = match near {
            Some(near) if !near.is_exact => self.range(at, near),
            _ => {
                let score = self.score(at, near.map(|near| near.least));
                return Some((scored(score), scored(score)));
            }
        };
        // The worst that a row may be is not to be in the answer at all.
        let is_certain = !range.may_be_nan && !may_be_left_out;
        let least = if is_certain { range.least } else { f64::NAN };
        Some((scored(least), scored(range.most)))
    }

    fn range(&self, at: usize, near: &Near) -> ScoreRange {
        match &self.ranked.program {
            Some(program) => program.range(&self.row(at, None), (near.least, near.most)),
            None => ScoreRange {
                least: -f64::from(near.most),
                most: -f64::from(near.least),
                may_be_nan: false,
            },
        }
    }

    /// The score of a candidate whose distance is known, or not needed.
    fn score(&self, at: usize, distance: Option<f32>) -> f64 {
        match (&self.ranked.program, distance) {
            (Some(program), _) => program.evaluate(&self.row(at, distance)),
            (None, Some(distance)) => -f64::from(distance),
            (None, None) => self.words(at),
        }
    }

    fn row(&self, at: usize, distance: Option<f32>) -> RankRow<'_> {
        let bm25 = self.bm25.as_ref().map(|scores| (scores, self.gathered.candidates[at].bm25));
        RankRow { attributes: self.attributes(at), distance, bm25 }
    }

    fn words(&self, at: usize) -> f64 {
        let number = self.gathered.candidates[at].bm25;
        self.bm25.as_ref().map_or(0.0, |scores| scores.score(number))
    }

    fn attributes(&self, at: usize) -> Attributes<'_> {
        self.gathered.attributes(&self.gathered.candidates[at])
    }

    /// Exact distances of those of some candidates that need one and have none.
    fn make_exact(&mut self, which: &[usize]) -> Result<(), Error> {
        let open = |at: &usize| self.near.get(*at).is_some_and(|near| !near.is_exact);
        let open: Vec<usize> = which.iter().copied().filter(open).collect();
        match &mut self.bounds {
            Some(bounds) => bounds.exact(&self.gathered.candidates, &open, &mut self.near),
            None => Ok(()),
        }
    }

    fn look_again(&mut self, which: &[usize]) -> Result<bool, Error> {
        let open: Vec<usize> = which
            .iter()
            .copied()
            .filter(|at| self.near.get(*at).is_some_and(|near| !near.is_exact))
            .collect();
        match &self.bounds {
            Some(bounds) => bounds.look_again(&self.gathered.candidates, &open, &mut self.near),
            None => Ok(false),
        }
    }

    /// Reciprocal rank fusion of the orders by distance and by BM25, over all candidates within the
    /// radius. A row without any of the words has no place in the second.
    fn fused(&self) -> Vec<f64> {
        let candidates = &self.gathered.candidates;
        let radius = self.ranked.query.radius.unwrap_or(f32::INFINITY);
        let inside: Vec<usize> =
            (0..candidates.len()).filter(|&at| self.near[at].least <= radius).collect();
        let mut scores = vec![0.0; candidates.len()];
        let mut add = |mut rows: Vec<Scored>| {
            rows.sort_unstable_by(Scored::order);
            for (place, row) in (1u32..).zip(rows) {
                scores[row.at] += 1.0 / (FUSION_CONSTANT + f64::from(place));
            }
        };
        let scored = |at: usize, score: f64| Scored { score, id: candidates[at].id, at };
        let near = |at: &usize| scored(*at, -f64::from(self.near[*at].least));
        add(inside.iter().map(near).collect());
        let words = |at: &usize| scored(*at, self.words(*at));
        add(inside.iter().map(words).filter(|row| row.score > 0.0).collect());
        scores
    }

    fn answer(&mut self, chosen: Chosen) -> Result<GroupAnswer, Error> {
        let mut answer = GroupAnswer::default();
        match chosen {
            Chosen::Rows(rows) => answer.rows = self.hits(&rows)?,
            Chosen::Groups(groups) => {
                for AnswerGroup { value, rows } in groups {
                    answer.groups.push(AnswerGroup { value, rows: self.hits(&rows)? });
                }
            }
        }
        Ok(answer)
    }

    fn hits(&mut self, rows: &[Scored]) -> Result<Vec<GroupHit>, Error> {
        let candidates = &self.gathered.candidates;
        if let (Some(bounds), true) = (&mut self.bounds, self.near.is_empty()) {
            // The order did not ask for distances, but the answer tells them.
            let of_rows: Vec<Candidate> =
                rows.iter().map(|row| candidates[row.at].clone()).collect();
            let distances = bounds.of_each(&of_rows)?;
            return rows
                .iter()
                .zip(distances)
                .map(|(row, near)| self.hit(row, Some(near)))
                .collect();
        }
        let near = |row: &Scored| self.near.get(row.at).map(|near| near.least);
        rows.iter().map(|row| self.hit(row, near(row))).collect()
    }

    fn hit(&self, scored: &Scored, distance: Option<f32>) -> Result<GroupHit, Error> {
        let candidate = &self.gathered.candidates[scored.at];
        let query = self.ranked.query;
        let by_distance = query.text.is_none() && query.rank.is_none();
        let key = (candidate.id, candidate.version);
        let row = self.group.show(candidate.place, key, self.ranked.element, query.with)?;
        Ok(GroupHit { distance, score: (!by_distance).then_some(scored.score), row })
    }
}
