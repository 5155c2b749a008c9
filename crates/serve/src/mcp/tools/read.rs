//! Tools that change nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{json, Map, Value as Json};

use super::json;
use crate::access::{Access, Scope};
use crate::collection::{Collection, PointId};
use crate::failure::Failure;
use crate::feed;
use crate::qdrant::{
    self, distance_name, index_name, retrieve, Asked, Call, Point, Target, Wanted, WithPayload,
};
use crate::shared::Shared;

/// Most points, or changes of points, of an answer.
pub(super) const POINTS_MAX: usize = 100;
/// The longest time for which a call waits for a change.
pub(super) const WAIT_MS_MAX: u64 = 30_000;

/// What there is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Collections {
    collection: Option<String>,
}

impl Collections {
    /// All collections that the key may read; or one, with the keys to filter by. Errors: of the one.
    pub(super) fn answer(
        self,
        shared: &Arc<Shared>,
        access: &Access,
    ) -> Result<Box<RawValue>, Failure> {
        let described = match self.collection {
            Some(name) => {
                access.may(Scope::Read, Some(&name))?;
                let collection = shared.catalog.get(&name)?;
                let mut one = described(&collection);
                one["fields"] = fields(&collection);
                vec![one]
            }
            None => {
                let may = |name: &str| access.may(Scope::Read, Some(name)).is_ok();
                let served = shared.catalog.all();
                let served = served.iter().filter(|one| may(&one.name)).map(|one| described(one));
                let is_served = |name: &str| shared.catalog.find(name).is_some();
                let broken = shared.catalog.broken().into_iter();
                let broken = broken.filter(|(name, _)| may(name) && !is_served(name));
                let broken = broken.map(|(name, why)| json!({"name": name, "broken": why}));
                served.chain(broken).collect()
            }
        };
        json(&json!({"collections": described}))
    }
}

fn described(collection: &Collection) -> Json {
    let mut described = json!({
        "name": collection.name,
        "dimension": collection.settings.dimension,
        "distance": distance_name(collection.settings.metric),
    });
    // A job does not say.
    if let Some(points) = collection.live() {
        described["points"] = Json::from(points);
    }
    described
}

/// The keys of payloads that filters find, with the kinds of their values.
fn fields(collection: &Collection) -> Json {
    let schema = collection.reader().schema();
    let fields = schema.attributes.iter();
    let fields = fields.map(|field| (field.name.clone(), Json::from(index_name(field.kind))));
    Json::Object(fields.collect::<Map<_, _>>())
}

/// The nearest points of a vector, or of another point.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Search {
    pub(super) collection: String,
    vector: Option<Vec<f32>>,
    id: Option<PointId>,
    filter: Option<Json>,
    k: Option<usize>,
    score_threshold: Option<f32>,
    payload: Option<Vec<String>>,
    #[serde(default)]
    with_vector: bool,
}

impl Search {
    /// Errors: those of a query.
    pub(super) async fn answer(self, call: &Call) -> Result<Box<RawValue>, Failure> {
        #[derive(Serialize)]
        struct Found {
            points: Vec<Point>,
            distance: &'static str,
        }
        let distance = distance_name(call.collection(Scope::Read)?.settings.metric);
        let points = qdrant::answer(call, vec![self]).await?.pop().unwrap_or_default();
        json(&Found { points, distance })
    }
}

impl TryFrom<Search> for Asked {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` unless a vector or an id is given, or for too many points.
    fn try_from(search: Search) -> Result<Asked, Failure> {
        let near = match (search.vector, search.id) {
            (Some(vector), None) => Target::Vector(vector),
            (None, Some(id)) => Target::Point(id),
            _ => return Err(Failure::bad("give 'vector' or 'id', and not both")),
        };
        check_count("k", search.k)?;
        Ok(Asked {
            near: Some(near),
            filter: search.filter,
            is_exact: false,
            score_threshold: search.score_threshold,
            limit: search.k,
            offset: None,
            wanted: wanted(search.payload, search.with_vector),
        })
    }
}

/// Points by id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Get {
    pub(super) collection: String,
    ids: Vec<PointId>,
    payload: Option<Vec<String>>,
    #[serde(default)]
    with_vector: bool,
}

impl Get {
    /// Errors: those of a read, and `BAD_REQUEST` for too many ids.
    pub(super) async fn answer(self, call: &Call) -> Result<Box<RawValue>, Failure> {
        #[derive(Serialize)]
        struct Got<'a> {
            points: &'a [Point],
            missing: Vec<&'a PointId>,
        }
        check_count("the number of ids", Some(self.ids.len()))?;
        let wanted = wanted(self.payload, self.with_vector);
        let points = retrieve(call, self.ids.clone(), wanted).await?;
        let is_missing = |id: &&PointId| !points.iter().any(|point| point.id.is_meant_by(id));
        json(&Got { points: &points, missing: self.ids.iter().filter(is_missing).collect() })
    }
}

/// What changed since.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Watch {
    pub(super) collection: String,
    after: Option<u64>,
    wait_ms: Option<u64>,
    limit: Option<usize>,
}

impl Watch {
    /// Errors: those of a stream of changes, and `BAD_REQUEST` for too many changes or too long a wait.
    pub(super) async fn answer(self, call: &Call) -> Result<Box<RawValue>, Failure> {
        check_count("limit", self.limit)?;
        let wait_ms = self.wait_ms.unwrap_or(0);
        if wait_ms > WAIT_MS_MAX {
            let what = format!("wait_ms is {wait_ms}: choose a value from 0 to {WAIT_MS_MAX}");
            return Err(Failure::bad(what));
        }
        let wait = Duration::from_millis(wait_ms);
        let most = self.limit.unwrap_or(POINTS_MAX);
        let recent = feed::recent(call, self.after, wait, most).await?;
        json(&json!({"changes": recent.changes, "sequence": recent.sequence}))
    }
}

/// * `keys`: of the payload; all if absent.
fn wanted(keys: Option<Vec<String>>, with_vector: bool) -> Wanted {
    Wanted::new(keys.map(WithPayload::Include), with_vector, true)
}

/// Errors: `BAD_REQUEST`.
fn check_count(what: &str, count: Option<usize>) -> Result<(), Failure> {
    match count {
        Some(count) if !(1..=POINTS_MAX).contains(&count) => {
            Err(Failure::bad(format!("{what} is {count}: choose a value from 1 to {POINTS_MAX}")))
        }
        _ => Ok(()),
    }
}
