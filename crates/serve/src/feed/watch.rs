//! What happens to the points of a collection, as it happens: over gRPC, and over HTTP as server-sent
//! events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, State};
use axum::http::{header, HeaderMap, HeaderValue};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{json, Value as Json};
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response as Answer, Status};
use vstream_engine::{
    attributes_to_json, read_changes, Change, Fields, IdKind, PayloadChange, Schema,
};

use super::stream::{Log, News};
use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::grpc::access;
use crate::proto::changed::Kind;
use crate::proto::changes_server::Changes;
use crate::proto::{Changed, WatchReply, WatchRequest};
use crate::qdrant::Call;
use crate::shared::{Asks, Shared};

/// Messages of a stream that wait for its client.
const WAITING: usize = 1;

/// Answers those who watch.
pub(super) struct Face(pub(super) Arc<Shared>);

#[tonic::async_trait]
impl Changes for Face {
    type WatchStream = ReceiverStream<Result<WatchReply, Status>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Answer<Self::WatchStream>, Status> {
        let access = access(&request)?;
        let WatchRequest { collection, after } = request.into_inner();
        let mut log = open(&self.0, &access, &collection, after).await?;
        let (replies, stream) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            loop {
                let reply = next(&mut log).await.map_err(Status::from);
                let is_over = reply.is_err();
                if replies.send(reply).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Answer::new(ReceiverStream::new(stream)))
    }
}

/// What a request may say after the question mark.
#[derive(Deserialize)]
pub(super) struct Asked {
    /// Changes after this sequence; without it those from now on.
    after: Option<u64>,
    /// Vectors of points that were written, too.
    #[serde(default)]
    with_vector: bool,
}

/// Server-sent events: `upsert`, `update` and `delete`, whose ids are sequences. A client that goes on says
/// the last one, as browsers do by themselves.
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    access: Access,
    params: RawPathParams,
    Asks(Asked { after, with_vector }): Asks<Asked>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let name = params.iter().find(|(name, _)| *name == "collection").map_or("", |(_, name)| name);
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let mut log = open(&shared, &access, name, last.or(after)).await?;
    let (replies, stream) = mpsc::channel::<Result<Bytes, Infallible>>(WAITING);
    tokio::spawn(async move {
        loop {
            let (text, is_over) = match next(&mut log).await {
                Ok(reply) => (text(&reply, with_vector), false),
                Err(failure) => {
                    let why = json!({"error": failure.message});
                    (format!("event: end\ndata: {why}\n\n"), true)
                }
            };
            if replies.send(Ok(text.into())).await.is_err() || is_over {
                return;
            }
        }
    });
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(stream)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Opens the log of a collection. Errors: `FORBIDDEN`, `NOT_FOUND`, those of [`Log::open`].
async fn open(
    shared: &Arc<Shared>,
    access: &Access,
    name: &str,
    after: Option<u64>,
) -> Result<Log, Failure> {
    access.may(Scope::Read, Some(name))?;
    Log::open(shared, shared.catalog.get(name)?, after).await
}

/// The next changes; none if nothing happens.
async fn next(log: &mut Log) -> Result<WatchReply, Failure> {
    let News { groups, sequence, .. } = log.next().await?;
    let (schema, after) = (log.feed().schema(), log.after());
    let collection = log.collection();
    let mut changes = Vec::new();
    for group in &groups {
        read_changes(&collection.settings, group, &mut |sequence, change| {
            if sequence > after {
                changes.extend(changed(collection, &schema, sequence, change));
            }
        })?;
    }
    Ok(WatchReply { changes, sequence })
}

/// A change as a message; `None` if no point changed.
fn changed(
    of: &Collection,
    schema: &Schema,
    sequence: u64,
    change: &Change<'_>,
) -> Option<Changed> {
    let (kind, id, payload, vector) = match change {
        Change::Upsert(row) => {
            let payload = Some(payload(schema, &row.fields));
            (Kind::Upsert, row.id, payload, row.vector.to_vec())
        }
        Change::Update { id, update, .. } => {
            let payload = match update.payload {
                PayloadChange::Keep => None,
                PayloadChange::Set(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                PayloadChange::Remove => Some("{}".to_owned()),
            };
            (Kind::Update, *id, payload, Vec::new())
        }
        Change::Delete { id, .. } => (Kind::Delete, *id, None, Vec::new()),
        Change::Remember { .. } => return None,
    };
    let name = match (of.ids.kind, change) {
        (IdKind::U64, _) => id.to_string(),
        (IdKind::String, Change::Upsert(row)) => row.fields.name.to_owned(),
        (IdKind::String, _) => String::new(),
    };
    let key = format!("{id:016x}");
    Some(Changed { sequence, kind: kind.into(), key, id: name, payload, vector })
}

/// The payload of a row; of a row that another face wrote, its attributes.
fn payload(schema: &Schema, fields: &Fields<'_>) -> String {
    match fields.payload {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => Json::Object(attributes_to_json(schema, fields.attributes)).to_string(),
    }
}

/// Changes as events; without any a comment, which keeps the connection open.
fn text(reply: &WatchReply, with_vector: bool) -> String {
    if reply.changes.is_empty() {
        return format!(": {}\n\n", reply.sequence);
    }
    let event = |change: &Changed| {
        let (kind, data) = (name(change.kind()), described(change, with_vector));
        format!("id: {}\nevent: {kind}\ndata: {data}\n\n", change.sequence)
    };
    reply.changes.iter().map(event).collect()
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Upsert => "upsert",
        Kind::Update => "update",
        Kind::Delete => "delete",
    }
}

/// A change as JSON.
fn described(change: &Changed, with_vector: bool) -> Json {
    let mut data = json!({"sequence": change.sequence, "key": change.key});
    if !change.id.is_empty() {
        let number = change.id.parse::<u64>().map(Json::from);
        data["id"] = number.unwrap_or_else(|_| Json::from(change.id.as_str()));
    }
    if let Some(payload) = &change.payload {
        data["payload"] = serde_json::from_str(payload).unwrap_or_default();
    }
    if with_vector && !change.vector.is_empty() {
        data["vector"] = change.vector.clone().into();
    }
    data
}

/// Changes after a sequence, for who asks from time to time.
pub(crate) struct Recent {
    /// At most so many as were asked for, the oldest first.
    pub(crate) changes: Vec<Json>,
    /// What follows begins after this.
    pub(crate) sequence: u64,
}

/// The changes after a sequence; waits for the first one. Without a sequence, the one at which it would
/// begin now.
///
/// * `most`: changes of an answer.
///
/// Errors: as [`open`] and [`next`].
pub(crate) async fn recent(
    call: &Call,
    after: Option<u64>,
    wait: Duration,
    most: usize,
) -> Result<Recent, Failure> {
    let mut log = open(&call.shared, &call.access, &call.name, after).await?;
    let Some(after) = after else {
        return Ok(Recent { changes: Vec::new(), sequence: log.feed().sequence() });
    };
    let deadline = Instant::now() + wait;
    loop {
        let WatchReply { changes, sequence } = next(&mut log).await?;
        let mut new = changes.iter();
        let some: Vec<&Changed> = new.by_ref().take(most).collect();
        let is_over = !some.is_empty() || Instant::now() >= deadline;
        if is_over {
            let is_cut = new.next().is_some();
            let last = some.last().filter(|_| is_cut).map_or(sequence, |last| last.sequence);
            let with_kind = |change: &&Changed| {
                let mut data = described(change, false);
                // Python may have written bytes, or JSON that is no object: a model was told of keys.
                if let Some(fields) = data.as_object_mut() {
                    fields.retain(|key, value| key != "payload" || value.is_object());
                }
                data["kind"] = Json::from(name(change.kind()));
                data
            };
            let changes = some.iter().map(with_kind).collect();
            return Ok(Recent { changes, sequence: last.max(after) });
        }
    }
}
