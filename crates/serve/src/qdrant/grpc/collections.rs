//! The service of collections.

use std::time::Instant;

use serde_json::json;
use tonic::{Request, Response, Status};
use vstream_engine::{AttributeKind, Element, Metric};

use super::answer::seconds;
use super::proto::collections_server::Collections;
use super::proto::payload_index_params::IndexParams;
use super::proto::vectors_config::Config;
use super::proto::{
    self, CollectionConfig, CollectionDescription, CollectionExistsRequest,
    CollectionExistsResponse, CollectionInfo, CollectionOperationResponse, CollectionParams,
    CollectionStatus, CreateCollection, CreateFieldIndexCollection, DeleteCollection, FieldType,
    GetCollectionInfoRequest, GetCollectionInfoResponse, HnswConfigDiff, ListCollectionsRequest,
    ListCollectionsResponse, OptimizerStatus, OptimizersConfigDiff, PayloadSchemaInfo,
    PayloadSchemaType, ShardingMethod, UpdateCollection, VectorParams, VectorsConfig,
    WalConfigDiff,
};
use super::{value, Face};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::grpc::access;
use crate::qdrant::collections::{
    self, no_multivector, no_sparse, no_such_vector, Datatype, Described, Distance, New, Own,
};

type Answer<M> = Result<Response<M>, Status>;

#[tonic::async_trait]
impl Collections for Face {
    async fn get(
        &self,
        request: Request<GetCollectionInfoRequest>,
    ) -> Answer<GetCollectionInfoResponse> {
        let began = Instant::now();
        let (call, _) = self.open(request, |message| &mut message.collection_name)?;
        let result = Some(info(&collections::describe(&call).await?));
        Ok(Response::new(GetCollectionInfoResponse { result, time: seconds(began) }))
    }

    async fn list(
        &self,
        request: Request<ListCollectionsRequest>,
    ) -> Answer<ListCollectionsResponse> {
        let began = Instant::now();
        let names = collections::names(&self.0, &access(&request)?);
        let collections = names.into_iter().map(|name| CollectionDescription { name }).collect();
        Ok(Response::new(ListCollectionsResponse { collections, time: seconds(began) }))
    }

    async fn create(
        &self,
        request: Request<CreateCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        collections::create(&call, message).await?;
        Ok(Response::new(CollectionOperationResponse { result: true, time: seconds(began) }))
    }

    async fn update(
        &self,
        request: Request<UpdateCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let began = Instant::now();
        let (call, _) = self.open(request, |message| &mut message.collection_name)?;
        collections::update(&call)?;
        Ok(Response::new(CollectionOperationResponse { result: true, time: seconds(began) }))
    }

    async fn delete(
        &self,
        request: Request<DeleteCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let began = Instant::now();
        let (call, _) = self.open(request, |message| &mut message.collection_name)?;
        let result = collections::drop_one(&call).await?;
        Ok(Response::new(CollectionOperationResponse { result, time: seconds(began) }))
    }

    async fn collection_exists(
        &self,
        request: Request<CollectionExistsRequest>,
    ) -> Answer<CollectionExistsResponse> {
        let began = Instant::now();
        let (call, _) = self.open(request, |message| &mut message.collection_name)?;
        let result = Some(proto::CollectionExists { exists: collections::exists(&call)? });
        Ok(Response::new(CollectionExistsResponse { result, time: seconds(began) }))
    }
}

impl TryFrom<CreateCollection> for New {
    type Error = Failure;

    /// What is about parts that are not here (graphs, shards, optimisers) changes nothing. Errors:
    /// `BAD_REQUEST` for what is not supported.
    fn try_from(create: CreateCollection) -> Result<New, Failure> {
        if create.sparse_vectors_config.is_some_and(|sparse| !sparse.map.is_empty()) {
            return Err(no_sparse());
        }
        if create.sharding_method == Some(ShardingMethod::Custom.into()) {
            return Err(Failure::bad("shard keys are not supported: a collection has one shard"));
        }
        let params = match create.vectors_config.and_then(|vectors| vectors.config) {
            Some(Config::Params(params)) => params,
            Some(Config::ParamsMap(named)) => {
                let names: Vec<String> = named.map.into_keys().collect();
                return Err(no_such_vector(&names.join(", ")));
            }
            None => return Err(Failure::bad("give vectors_config, with size and distance")),
        };
        if params.multivector_config.is_some() {
            return Err(no_multivector());
        }
        Ok(New {
            size: usize::try_from(params.size).unwrap_or(usize::MAX),
            distance: distance(&params)?,
            datatype: datatype(&params)?,
            on_disk: params.on_disk == Some(true),
            own: Own::default(),
        })
    }
}

fn distance(params: &VectorParams) -> Result<Distance, Failure> {
    match proto::Distance::try_from(params.distance) {
        Ok(proto::Distance::Cosine) => Ok(Distance::Cosine),
        Ok(proto::Distance::Euclid) => Ok(Distance::Euclid),
        Ok(proto::Distance::Dot) => Ok(Distance::Dot),
        Ok(proto::Distance::Manhattan) => Ok(Distance::Manhattan),
        Ok(proto::Distance::UnknownDistance) | Err(_) => {
            Err(Failure::bad("give the distance: Cosine, Dot or Euclid"))
        }
    }
}

fn datatype(params: &VectorParams) -> Result<Datatype, Failure> {
    match params.datatype.map(proto::Datatype::try_from) {
        None | Some(Ok(proto::Datatype::Default | proto::Datatype::Float32)) => {
            Ok(Datatype::Float32)
        }
        Some(Ok(proto::Datatype::Float16)) => Ok(Datatype::Float16),
        Some(Ok(proto::Datatype::Uint8)) => Ok(Datatype::Uint8),
        Some(_) => {
            Err(Failure::bad("the datatype is not supported: use Float32, Float16 or Uint8"))
        }
    }
}

/// The kind of the index that a message asks for; empty if it does not say.
pub(super) fn index_name(message: &CreateFieldIndexCollection) -> &'static str {
    let by_type = message.field_type.map(|kind| match FieldType::try_from(kind) {
        Ok(FieldType::Keyword) => "keyword",
        Ok(FieldType::Integer) => "integer",
        Ok(FieldType::Float) => "float",
        Ok(FieldType::Geo) => "geo",
        Ok(FieldType::Text) => "text",
        Ok(FieldType::Bool) => "bool",
        Ok(FieldType::Datetime) => "datetime",
        Ok(FieldType::Uuid) => "uuid",
        Err(_) => "an unknown type",
    });
    let params = message.field_index_params.as_ref().and_then(|all| all.index_params.as_ref());
    let by_params = params.map(|params| match params {
        IndexParams::KeywordIndexParams(_) => "keyword",
        IndexParams::IntegerIndexParams(_) => "integer",
        IndexParams::FloatIndexParams(_) => "float",
        IndexParams::GeoIndexParams(_) => "geo",
        IndexParams::TextIndexParams(_) => "text",
        IndexParams::BoolIndexParams(_) => "bool",
        IndexParams::DatetimeIndexParams(_) => "datetime",
        IndexParams::UuidIndexParams(_) => "uuid",
    });
    by_params.or(by_type).unwrap_or_default()
}

/// What clients read of a collection.
fn info(described: &Described) -> CollectionInfo {
    let Described { collection, live, segments } = described;
    CollectionInfo {
        status: CollectionStatus::Green.into(),
        optimizer_status: Some(OptimizerStatus { ok: true, error: String::new() }),
        segments_count: *segments,
        config: Some(config(collection)),
        payload_schema: payload_schema(collection),
        points_count: *live,
        indexed_vectors_count: *live,
        ..CollectionInfo::default()
    }
}

/// The configuration in the form that clients check: of parts that are not here, their absence.
fn config(collection: &Collection) -> CollectionConfig {
    let settings = &collection.settings;
    let distance = match settings.metric {
        Metric::Cosine => proto::Distance::Cosine,
        Metric::InnerProduct => proto::Distance::Dot,
        Metric::L2 => proto::Distance::Euclid,
    };
    let datatype = match settings.element {
        Element::U8 => proto::Datatype::Uint8,
        Element::F16 => proto::Datatype::Float16,
        _ => proto::Datatype::Float32,
    };
    let vectors = VectorParams {
        size: settings.dimension as u64,
        distance: distance.into(),
        on_disk: Some(settings.memory.is_some()),
        datatype: Some(datatype.into()),
        ..VectorParams::default()
    };
    let params = CollectionParams {
        shard_number: 1,
        on_disk_payload: settings.memory.is_some(),
        vectors_config: Some(VectorsConfig { config: Some(Config::Params(vectors)) }),
        replication_factor: Some(1),
        write_consistency_factor: Some(1),
        ..CollectionParams::default()
    };
    let metadata = json!({"recall_target": settings.recall_target});
    CollectionConfig {
        params: Some(params),
        hnsw_config: Some(HnswConfigDiff {
            m: Some(0),
            ef_construct: Some(4),
            full_scan_threshold: Some(0),
            ..HnswConfigDiff::default()
        }),
        optimizer_config: Some(OptimizersConfigDiff {
            default_segment_number: Some(0),
            flush_interval_sec: Some(0),
            ..OptimizersConfigDiff::default()
        }),
        wal_config: Some(WalConfigDiff {
            wal_capacity_mb: Some(32),
            wal_segments_ahead: Some(0),
            ..WalConfigDiff::default()
        }),
        metadata: metadata.as_object().cloned().map(value::fields).unwrap_or_default(),
        ..CollectionConfig::default()
    }
}

/// The attributes as indexes. How many points have a value is not counted: all could have one.
fn payload_schema(
    collection: &Collection,
) -> std::collections::BTreeMap<String, PayloadSchemaInfo> {
    let schema = collection.reader().schema();
    let points = collection.live();
    let entries = schema.attributes.iter().map(|attribute| {
        let kind = match attribute.kind {
            AttributeKind::Keyword | AttributeKind::Keywords => PayloadSchemaType::Keyword,
            AttributeKind::I64 => PayloadSchemaType::Integer,
            AttributeKind::F64 => PayloadSchemaType::Float,
            AttributeKind::Bool => PayloadSchemaType::Bool,
            AttributeKind::Timestamp => PayloadSchemaType::Datetime,
            AttributeKind::Text => PayloadSchemaType::Text,
        };
        let info = PayloadSchemaInfo { data_type: kind.into(), params: None, points };
        (attribute.name.clone(), info)
    });
    entries.collect()
}
