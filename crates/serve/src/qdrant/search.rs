//! The nearest points of a vector, or of another point.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value as Json;
use vstream_engine::{Effort, Filter, Query, With, K_MAX};

use super::call::Call;
use super::collections::{radius, score};
use super::filter::ReadFilter;
use super::points::{Point, Wanted};
use crate::catalog::blocking;
use crate::collection::{Collection, PointId, ANSWER_BYTES_MAX};
use crate::failure::Failure;
use crate::observe::SlowSearch;
use crate::shared::Moment;

/// Points of an answer unless a request says otherwise.
const LIMIT: usize = 10;

/// A query as a request has it.
pub(crate) struct Asked {
    /// `None`: points come in the order of ids.
    pub(crate) near: Option<Target>,
    pub(crate) filter: Option<Json>,
    pub(crate) is_exact: bool,
    pub(crate) score_threshold: Option<f32>,
    pub(crate) limit: Option<usize>,
    pub(crate) offset: Option<usize>,
    pub(crate) wanted: Wanted,
}

pub(crate) enum Target {
    Vector(Vec<f32>),
    Point(PointId),
}

/// A query of a kind that is not there.
pub(super) fn no_such_query(kind: &str) -> Failure {
    Failure::bad(format!(
        "a query by '{kind}' is not supported: give a vector or the id of a point"
    ))
}

/// A query of several steps.
pub(super) fn no_prefetch() -> Failure {
    Failure::bad("prefetch is not supported: a query has one step")
}

/// A query whose point is one of another collection.
pub(super) fn no_lookup() -> Failure {
    Failure::bad("lookup_from is not supported")
}

/// Answers queries. All are checked before the first is answered.
pub(crate) async fn answer<Q>(call: &Call, queries: Vec<Q>) -> Result<Vec<Vec<Point>>, Failure>
where
    Q: TryInto<Asked, Error = Failure>,
{
    let collection = call.read().await?;
    let (count, most) = (queries.len(), call.shared.limits.queries);
    if count > most {
        return Err(Failure::bad(format!("there are {count} queries: the limit is {most}")));
    }
    let asked = queries.into_iter().map(|query| Ask::new(&collection, query.try_into()?));
    let mut asked: Vec<Ask> = call.reading(|| asked.collect::<Result<_, _>>())?;
    // What was asked counts as long as it is worked on, whoever waits for it.
    let admitted = call.shared.admission.search()?;
    call.moment.note_recall(collection.reader().recall().map(|recall| recall.recall));
    let answers = match asked.as_mut_slice() {
        [one] if one.is_short(&collection) => vec![one.measured(&collection, call)?],
        _ => {
            let (of, call) = (collection.clone(), call.clone());
            let waits = Arc::new(());
            let is_awaited = Arc::downgrade(&waits);
            let all = move || {
                let _admitted = admitted;
                answer_all(&mut asked, &of, &call, &|| is_awaited.strong_count() > 0)
            };
            let answers = blocking(all).await;
            // It is dropped sooner if the client leaves, or its time is over.
            drop(waits);
            answers??
        }
    };
    call.moment.end(&collection).await?;
    Ok(answers)
}

/// Answers queries one after the other, as long as somebody waits. Errors: as [`Ask::measured`], and `PAYLOAD_TOO_LARGE` if
/// all answers together have more than [`ANSWER_BYTES_MAX`].
fn answer_all(
    asked: &mut [Ask],
    of: &Collection,
    call: &Call,
    is_awaited: &dyn Fn() -> bool,
) -> Result<Vec<Vec<Point>>, Failure> {
    let (mut all, mut bytes) = (Vec::with_capacity(asked.len()), 0);
    for one in asked {
        if !is_awaited() {
            return Err(Failure::busy("nobody waits for the answers"));
        }
        let points = one.measured(of, call)?;
        bytes += points.iter().map(Point::bytes).sum::<usize>();
        if bytes > ANSWER_BYTES_MAX {
            return Err(Failure::large_answer());
        }
        all.push(points);
    }
    Ok(all)
}

/// A query that was checked, as far as that is possible without the rows, and its filter.
struct Ask {
    what: Checked,
    filter: ReadFilter,
}

struct Checked {
    near: Option<Target>,
    effort: Effort,
    radius: Option<f32>,
    limit: usize,
    offset: usize,
    wanted: Wanted,
}

impl Ask {
    /// Errors: `BAD_REQUEST` for what is out of bounds, or a filter that cannot be read.
    fn new(collection: &Collection, asked: Asked) -> Result<Ask, Failure> {
        let (limit, offset) = (asked.limit.unwrap_or(LIMIT), asked.offset.unwrap_or(0));
        // The point itself is one of its nearest.
        let all = limit.saturating_add(offset).saturating_add(1);
        if limit == 0 || all > K_MAX + 1 {
            return Err(Failure::bad(format!(
                "limit is {limit} and offset {offset}: their sum is 1 to {K_MAX}"
            )));
        }
        let metric = collection.settings.metric;
        let filter = ReadFilter::new(collection, asked.filter)?;
        let what = Checked {
            near: asked.near,
            effort: if asked.is_exact { Effort::Exact } else { Effort::Auto },
            radius: asked.score_threshold.map(|threshold| radius(metric, threshold)),
            limit,
            offset,
            wanted: asked.wanted,
        };
        Ok(Ask { what, filter })
    }

    fn is_short(&self, collection: &Collection) -> bool {
        let Some(Target::Vector(vector)) = &self.what.near else { return false };
        let k = self.what.limit + self.what.offset;
        collection.answers_at_once(&self.what.query(vector, k, self.filter.get()))
    }

    /// Answers, and counts a search. Errors: as [`Checked::answer`], which are not counted.
    fn measured(&mut self, collection: &Collection, call: &Call) -> Result<Vec<Point>, Failure> {
        let began = Instant::now();
        let Ask { what, filter } = self;
        let answer = |filter: Option<&Filter>| what.answer(collection, &call.moment, filter);
        let points = filter.look(collection, answer)?;
        if what.near.is_some() {
            let ended = Instant::now();
            let took = ended - began;
            call.shared.measured.searched(&collection.name, ended, took, || SlowSearch {
                collection: collection.name.clone(),
                ended,
                took,
                limit: what.limit + what.offset,
                is_filtered: filter.get().is_some(),
                is_exact: what.effort == Effort::Exact,
            });
        }
        Ok(points)
    }
}

impl Checked {
    fn query<'a>(&self, vector: &'a [f32], k: usize, filter: Option<&'a Filter>) -> Query<'a> {
        let k = k.min(K_MAX);
        Query { vector, k, effort: self.effort, filter, radius: self.radius }
    }

    /// Answers. Errors: `BAD_REQUEST` for a wrong vector, `NOT_FOUND` for an unknown point.
    fn answer(
        &self,
        collection: &Collection,
        moment: &Moment,
        filter: Option<&Filter>,
    ) -> Result<Vec<Point>, Failure> {
        let at = (collection, moment);
        match &self.near {
            Some(Target::Vector(vector)) => self.nearest(at, vector, filter, None),
            Some(Target::Point(id)) => {
                let id = &collection.meant_by(id)?;
                let key = collection.ids.row_id(id)?;
                let with = With { vector: true, ..With::default() };
                let row = collection.get(&[key], &with)?.pop().flatten();
                let vector = row.and_then(|row| row.vector);
                let vector = vector.ok_or_else(|| Failure::no_point(id))?;
                self.nearest(at, &vector, filter, Some(id))
            }
            // Without a query, points come in the order of ids.
            None => {
                let schema = collection.reader().schema();
                let (with, all) = (self.wanted.with(), self.limit + self.offset);
                let mut points = collection.first(filter, all, &with, &mut |row| {
                    let point = self.wanted.point(collection, &schema, row);
                    Point { score: Some(0.0), ..point }.sized()
                })?;
                points.drain(..self.offset.min(points.len()));
                Ok(points)
            }
        }
    }

    /// The nearest points of a vector.
    ///
    /// * `without`: a point that is not in the answer: the one that the vector is of.
    fn nearest(
        &self,
        (collection, moment): (&Collection, &Moment),
        vector: &[f32],
        filter: Option<&Filter>,
        without: Option<&PointId>,
    ) -> Result<Vec<Point>, Failure> {
        let schema = collection.reader().schema();
        let all = self.limit + self.offset;
        let k = all + usize::from(without.is_some());
        let (mut query, with) = (self.query(vector, k, filter), self.wanted.with());
        let mut others = None;
        if let Some(id) = without.filter(|_| k > K_MAX) {
            // There is no room for the point itself.
            let own = Filter::Ids(vec![collection.ids.row_id(id)?.id]);
            let all = filter.into_iter().cloned().chain([Filter::Not(Box::new(own))]);
            query.filter = Some(others.insert(Filter::And(all.collect())));
        }
        let make = &mut |row| self.wanted.point(collection, &schema, row).sized();
        let found = collection.answer(&query, &with, &moment.terms(), make)?;
        moment.note_found(&found);
        let metric = collection.settings.metric;
        let points = found
            .neighbors
            .iter()
            .zip(found.rows)
            .map(|(found, point)| Point { score: Some(score(metric, found.distance)), ..point });
        let is_it = |point: &Point| without.is_some_and(|id| point.id.is_same(id));
        let others = points.filter(|point| !is_it(point));
        Ok(others.take(all).skip(self.offset).collect())
    }
}
