//! Requests about collections, as bodies of JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{json, Map, Value as Json};
use vstream_engine::Element;

use super::wire::{Body, Reply, Updated};
use crate::access::Access;
use crate::collection::Collection;
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::collections::{
    self, distance_name, index_name, no_multivector, no_sparse, no_such_vector, Datatype, Distance,
    New, Own,
};
use crate::qdrant::VERSION;
use crate::shared::Shared;

/// A collection to make. What is about parts that are not here (graphs, shards, optimisers) is read
/// and changes nothing.
#[derive(Deserialize)]
pub(super) struct Create {
    vectors: Option<Json>,
    #[serde(default)]
    sparse_vectors: Option<Map<String, Json>>,
    #[serde(default)]
    init_from: Option<Json>,
    #[serde(default)]
    vstream: Own,
}

#[derive(Deserialize)]
struct VectorParams {
    size: usize,
    distance: Distance,
    #[serde(default)]
    on_disk: Option<bool>,
    #[serde(default)]
    datatype: Option<Datatype>,
    #[serde(default)]
    multivector_config: Option<Json>,
}

impl TryFrom<Create> for New {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(create: Create) -> Result<New, Failure> {
        if create.sparse_vectors.is_some_and(|sparse| !sparse.is_empty()) {
            return Err(no_sparse());
        }
        if create.init_from.is_some() {
            return Err(Failure::bad("init_from is not supported: a collection begins empty"));
        }
        let vectors = match create.vectors.unwrap_or(Json::Null) {
            Json::Object(object) if object.contains_key("size") => Json::Object(object),
            Json::Object(object) => {
                let names: Vec<&str> = object.keys().map(String::as_str).collect();
                return Err(no_such_vector(&names.join(", ")));
            }
            _ => return Err(Failure::bad("give vectors, as {\"size\": …, \"distance\": …}")),
        };
        let params: VectorParams = serde_json::from_value(vectors)
            .map_err(|error| Failure::bad(format!("vectors: {error}")))?;
        if params.multivector_config.is_some_and(|config| !config.is_null()) {
            return Err(no_multivector());
        }
        Ok(New {
            size: params.size,
            distance: params.distance,
            datatype: params.datatype.unwrap_or_default(),
            on_disk: params.on_disk == Some(true),
            own: create.vstream,
        })
    }
}

/// Who answers: clients compare the version with their own.
pub(super) async fn version() -> Response {
    let body = json!({"title": collections::title(), "version": VERSION}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, access: Access) -> Response {
    let began = Instant::now();
    let names = collections::names(&shared, &access);
    let names: Vec<Json> = names.into_iter().map(|name| json!({"name": name})).collect();
    Reply::new(began, json!({"collections": names})).into_response()
}

pub(super) async fn exists(call: Call) -> Result<Response, Failure> {
    let began = Instant::now();
    let exists = collections::exists(&call)?;
    Ok(Reply::new(began, json!({"exists": exists})).into_response())
}

pub(super) async fn info(call: Call) -> Result<Response, Failure> {
    let began = Instant::now();
    let described = collections::describe(&call).await?;
    let described = json!({
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": described.live,
        "points_count": described.live,
        "segments_count": described.segments,
        "config": config(&described.collection),
        "payload_schema": payload_schema(&described.collection),
    });
    Ok(Reply::new(began, described).into_response())
}

/// The configuration in the form that clients check: of parts that are not here, their absence.
fn config(collection: &Collection) -> Json {
    let settings = &collection.settings;
    let datatype = match settings.element {
        Element::U8 => "uint8",
        Element::F16 => "float16",
        _ => "float32",
    };
    json!({
        "params": {
            "vectors": {
                "size": settings.dimension,
                "distance": distance_name(settings.metric),
                "on_disk": settings.memory.is_some(),
                "datatype": datatype,
            },
            "shard_number": 1,
            "replication_factor": 1,
            "write_consistency_factor": 1,
            "on_disk_payload": settings.memory.is_some(),
        },
        "hnsw_config": {"m": 0, "ef_construct": 4, "full_scan_threshold": 0},
        "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 0},
        "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
        "metadata": {"recall_target": settings.recall_target},
    })
}

/// The attributes as indexes. How many points have a value is not counted: all could have one. Clients need a number
/// where a job has the points, which does not say.
fn payload_schema(collection: &Collection) -> Json {
    let schema = collection.reader().schema();
    let live = collection.live().unwrap_or(0);
    let entries = schema.attributes.iter().map(|attribute| {
        let kind = index_name(attribute.kind);
        (attribute.name.clone(), json!({"data_type": kind, "points": live}))
    });
    Json::Object(entries.collect())
}

pub(super) async fn create(call: Call, body: Body<Create>) -> Result<Response, Failure> {
    let began = Instant::now();
    collections::create(&call, body.value).await?;
    Ok(Reply::new(began, true).into_response())
}

pub(super) async fn update(call: Call) -> Result<Response, Failure> {
    let began = Instant::now();
    collections::update(&call)?;
    Ok(Reply::new(began, true).into_response())
}

pub(super) async fn drop_one(call: Call) -> Result<Response, Failure> {
    let began = Instant::now();
    let was_there = collections::drop_one(&call).await?;
    Ok(Reply::new(began, was_there).into_response())
}

/// An index to make.
#[derive(Deserialize)]
pub(super) struct CreateIndex {
    field_name: String,
    field_schema: Option<Json>,
}

pub(super) async fn create_index(call: Call, body: Body<CreateIndex>) -> Result<Response, Failure> {
    let began = Instant::now();
    let CreateIndex { field_name, field_schema } = body.value;
    let kind = match &field_schema {
        Some(Json::String(kind)) => kind.as_str(),
        Some(Json::Object(object)) => object.get("type").and_then(Json::as_str).unwrap_or(""),
        _ => "",
    };
    collections::create_index(&call, field_name, kind).await?;
    let done = Updated { operation_id: 0, status: "completed" };
    Ok(Reply::new(began, done).into_response())
}

pub(super) async fn delete_index(call: Call) -> Result<Response, Failure> {
    let began = Instant::now();
    collections::delete_index(&call)?;
    let done = Updated { operation_id: 0, status: "completed" };
    Ok(Reply::new(began, done).into_response())
}
