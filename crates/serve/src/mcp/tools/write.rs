//! Tools that change points, which are there if the server was started so.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{json, Map, Value as Json};
use vstream_engine::With;

use super::json;
use crate::access::Scope;
use crate::catalog::blocking;
use crate::collection::PointId;
use crate::failure::Failure;
use crate::qdrant::{self, Call, NewPoint, Operation, Selector};

/// Most points that a call changes.
pub(super) const POINTS_MAX: usize = 1_000;

/// Points to write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Upsert {
    pub(super) collection: String,
    points: Vec<Given>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    id: PointId,
    vector: Vec<f32>,
    #[serde(default)]
    payload: Map<String, Json>,
}

impl Upsert {
    /// Errors: those of a write; then nothing was written.
    pub(super) async fn answer(self, call: &Call) -> Result<Box<RawValue>, Failure> {
        let count = self.points.len();
        check(call, count)?;
        qdrant::write(call, Some(true), vec![self]).await?;
        json(&json!({"written": count}))
    }
}

impl TryFrom<Upsert> for Operation {
    type Error = Failure;

    fn try_from(upsert: Upsert) -> Result<Operation, Failure> {
        let points = upsert.points.into_iter();
        let points = points.map(|Given { id, vector, payload }| NewPoint { id, vector, payload });
        Ok(Operation::Upsert(points.collect()))
    }
}

/// Points to delete. A filter that is wrong could match all, so there is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct Delete {
    pub(super) collection: String,
    ids: Vec<PointId>,
}

impl Delete {
    /// Errors: those of a write.
    pub(super) async fn answer(self, call: &Call) -> Result<Box<RawValue>, Failure> {
        check(call, self.ids.len())?;
        let collection = call.collection(Scope::Write)?;
        let ids = collection.meant(self.ids.clone())?;
        let mut keys = collection.ids.row_ids(&ids)?;
        keys.sort_unstable_by_key(|key| (key.id, key.check));
        keys.dedup();
        let there = blocking(move || collection.get(&keys, &With::default())).await??;
        qdrant::write(call, Some(true), vec![self]).await?;
        json(&json!({"deleted": there.iter().flatten().count()}))
    }
}

impl TryFrom<Delete> for Operation {
    type Error = Failure;

    fn try_from(delete: Delete) -> Result<Operation, Failure> {
        Ok(Operation::Delete(Selector { points: Some(delete.ids), filter: None }))
    }
}

/// Errors: `FORBIDDEN` unless the server was started with writes, `BAD_REQUEST` for no points or too many.
fn check(call: &Call, points: usize) -> Result<(), Failure> {
    if !call.shared.mcp_writes {
        let what = "this server lets no model write: it was started without --mcp-writes";
        return Err(Failure::new(axum::http::StatusCode::FORBIDDEN, what));
    }
    if !(1..=POINTS_MAX).contains(&points) {
        return Err(Failure::bad(format!(
            "there are {points} points: give 1 to {POINTS_MAX} in a call"
        )));
    }
    Ok(())
}
