//! Collections: made, listed, described, dropped.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{json, Map, Value as Json};
use vstream_engine::{AttributeKind, Element, IdKind, Metric, NameHash, Schema, Settings};

use super::wire::{no_such_vector, Body, Reply, Updated};
use super::VERSION;
use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::shared::{Changed, Shared};

/// Bytes of memory of a collection whose vectors lie on the disk, unless it says otherwise.
const MEMORY: u64 = 256 << 20;

/// A collection to make. What is about parts that are not here (graphs, shards, optimisers) is read
/// and changes nothing.
#[derive(Deserialize)]
pub(super) struct Create {
    vectors: Option<Json>,
    #[serde(default)]
    sparse_vectors: Option<Map<String, Json>>,
    #[serde(default)]
    vstream: Own,
}

/// Settings that Qdrant does not have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    recall_target: Option<f64>,
    /// Bytes of memory for rows in no segment and for blocks that were read.
    memory: Option<u64>,
    /// Bytes of memory for codes.
    code_memory: Option<u64>,
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

#[derive(Clone, Copy, Debug, Deserialize)]
enum Distance {
    Cosine,
    Dot,
    Euclid,
    Manhattan,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Datatype {
    Float32,
    Float16,
    Uint8,
}

impl Create {
    /// The settings of the engine. Errors: `BAD_REQUEST` for what is not supported.
    fn settings(self) -> Result<Settings, Failure> {
        if self.sparse_vectors.is_some_and(|sparse| !sparse.is_empty()) {
            return Err(Failure::bad("sparse vectors are not supported"));
        }
        let vectors = self.vectors.unwrap_or(Json::Null);
        let vectors = match vectors {
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
            return Err(Failure::bad("several vectors per point are not supported"));
        }
        let metric = match params.distance {
            Distance::Cosine => Metric::Cosine,
            Distance::Dot => Metric::InnerProduct,
            Distance::Euclid => Metric::L2,
            Distance::Manhattan => return Err(Failure::bad("Manhattan is not supported")),
        };
        let element = match params.datatype {
            None | Some(Datatype::Float32) => Element::F32,
            Some(Datatype::Float16) => Element::F16,
            Some(Datatype::Uint8) => Element::U8,
        };
        let schema = Schema {
            id: IdKind::String,
            id_key: NameHash::random_key(),
            open: true,
            ..Schema::default()
        };
        let mut settings = Settings::new(params.size, metric, element);
        settings.schema = Arc::new(schema);
        settings.memory = (params.on_disk == Some(true)).then_some(MEMORY);
        let Own { recall_target, memory, code_memory } = self.vstream;
        settings.recall_target = recall_target.unwrap_or(settings.recall_target);
        settings.memory = memory.or(settings.memory);
        settings.code_memory = code_memory;
        settings.validate()?;
        Ok(settings)
    }
}

/// The score of a distance, as Qdrant gives it.
pub(super) fn score(metric: Metric, distance: f32) -> f32 {
    match metric {
        Metric::Cosine => 1.0 - distance,
        Metric::InnerProduct => -distance,
        Metric::L2 => distance.max(0.0).sqrt(),
    }
}

/// The largest distance of a row whose score is good enough.
pub(super) fn radius(metric: Metric, threshold: f32) -> f32 {
    match metric {
        Metric::Cosine => 1.0 - threshold,
        Metric::InnerProduct => -threshold,
        // No distance is below zero.
        Metric::L2 if threshold < 0.0 => -1.0,
        Metric::L2 => threshold * threshold,
    }
}

/// Who answers: clients compare the version with their own.
pub(super) async fn version() -> Response {
    let title = format!("VStream {}", env!("CARGO_PKG_VERSION"));
    let body = json!({"title": title, "version": VERSION}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    access: Access,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let all = shared.catalog.all();
    let seen = all.iter().filter(|one| access.may(Scope::Read, Some(&one.name)).is_ok());
    let names: Vec<Json> = seen.map(|one| json!({"name": one.name})).collect();
    Ok(Reply::new(began, json!({"collections": names})).into_response())
}

pub(super) async fn exists(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let exists = shared.catalog.find(&name).is_some();
    Ok(Reply::new(began, json!({"exists": exists})).into_response())
}

pub(super) async fn info(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let stats = collection.stats().await?;
    let live = collection.live();
    let described = json!({
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": live,
        "points_count": live,
        "segments_count": stats.tree.segments.max(1),
        "config": config(&collection),
        "payload_schema": payload_schema(&collection),
    });
    Ok(Reply::new(began, described).into_response())
}

/// The configuration in the form that clients check: of parts that are not here, their absence.
fn config(collection: &Collection) -> Json {
    let settings = &collection.settings;
    let distance = match settings.metric {
        Metric::Cosine => "Cosine",
        Metric::InnerProduct => "Dot",
        Metric::L2 => "Euclid",
    };
    let datatype = match settings.element {
        Element::U8 => "uint8",
        Element::F16 => "float16",
        _ => "float32",
    };
    json!({
        "params": {
            "vectors": {
                "size": settings.dimension,
                "distance": distance,
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

/// The attributes as indexes. How many points have a value is not counted: all could have one.
fn payload_schema(collection: &Collection) -> Json {
    let schema = collection.reader().schema();
    let live = collection.live();
    let entries = schema.attributes.iter().map(|attribute| {
        let kind = match attribute.kind {
            AttributeKind::Keyword | AttributeKind::Keywords => "keyword",
            AttributeKind::I64 => "integer",
            AttributeKind::F64 => "float",
            AttributeKind::Bool => "bool",
            AttributeKind::Timestamp => "datetime",
            AttributeKind::Text => "text",
        };
        (attribute.name.clone(), json!({"data_type": kind, "points": live}))
    });
    Json::Object(entries.collect())
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Create>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Admin, Some(&name))?;
    let settings = body.value.settings()?;
    shared.catalog.create(&name, settings).await?;
    Ok(changed(access, Reply::new(began, true).into_response()))
}

/// Changes nothing: what a client may change is about parts that are not here.
pub(super) async fn update(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Admin, Some(&name))?;
    shared.catalog.get(&name)?;
    Ok(Reply::new(began, true).into_response())
}

pub(super) async fn drop_one(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Admin, Some(&name))?;
    let was_there = shared.catalog.drop(&name).await?;
    shared.measured.forget(&name);
    Ok(changed(access, Reply::new(began, was_there).into_response()))
}

/// An index to make, which here is an attribute.
#[derive(Deserialize)]
pub(super) struct CreateIndex {
    field_name: String,
    field_schema: Option<Json>,
}

impl CreateIndex {
    /// The kind of the attribute. Errors: `BAD_REQUEST` for what is not supported.
    fn kind(&self) -> Result<AttributeKind, Failure> {
        let kind = match &self.field_schema {
            Some(Json::String(kind)) => kind.as_str(),
            Some(Json::Object(object)) => object.get("type").and_then(Json::as_str).unwrap_or(""),
            _ => "",
        };
        Ok(match kind {
            "keyword" | "uuid" => AttributeKind::Keyword,
            "integer" => AttributeKind::I64,
            "float" => AttributeKind::F64,
            "bool" => AttributeKind::Bool,
            "datetime" => AttributeKind::Timestamp,
            "" => return Err(Failure::bad("give field_schema, such as keyword")),
            other => return Err(Failure::bad(format!("an index of {other} is not supported"))),
        })
    }
}

pub(super) async fn create_index(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<CreateIndex>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Write, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let (kind, field) = (body.value.kind()?, body.value.field_name.clone());
    let added = move |rows: &mut vstream_engine::NumberedWriter| {
        let schema = rows.engine().schema();
        let there = schema.column(&field).and_then(|column| schema.kind(column));
        match there {
            Some(there) if serves(there, kind) => Ok(()),
            _ => {
                rows.engine_mut().add_attribute(&field, kind)?;
                Ok(())
            }
        }
    };
    collection.writes.durable(added).await?;
    let done = Updated { operation_id: 0, status: "completed" };
    Ok(changed(access, Reply::new(began, done).into_response()))
}

/// True if an attribute answers what an index of this kind is for.
fn serves(there: AttributeKind, wanted: AttributeKind) -> bool {
    use AttributeKind::{Keyword, Keywords, F64, I64};
    there == wanted || matches!((there, wanted), (Keywords, Keyword) | (F64, I64) | (I64, F64))
}

/// Keeps the attribute: it costs little, and rows have values of it.
pub(super) async fn delete_index(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path((name, _)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Write, Some(&name))?;
    shared.catalog.get(&name)?;
    let done = Updated { operation_id: 0, status: "completed" };
    Ok(Reply::new(began, done).into_response())
}

/// Marks the answer for the audit log.
pub(super) fn changed(access: Access, mut response: Response) -> Response {
    response.extensions_mut().insert(Changed(access));
    response
}
