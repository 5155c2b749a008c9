//! The service of points.

use std::time::Instant;

use tonic::{Request, Response, Status};

use super::answer::{id, operation, retrieved, scored, seconds, updated};
use super::change::Overwrite;
use super::collections::index_name;
use super::proto::points_server::Points;
use super::proto::{
    BatchResult, ClearPayloadPoints, CountPoints, CountResponse, CountResult,
    CreateFieldIndexCollection, DeleteFieldIndexCollection, DeletePayloadPoints, DeletePoints,
    GetPoints, GetResponse, PointsOperationResponse, QueryBatchPoints, QueryBatchResponse,
    QueryPoints, QueryResponse, ScrollPoints, ScrollResponse, SearchBatchPoints,
    SearchBatchResponse, SearchPoints, SearchResponse, SetPayloadPoints, UpdateBatchPoints,
    UpdateBatchResponse, UpsertPoints,
};
use super::read::{no_shards, point_ids, wanted};
use super::{filter, Face};
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::points::{self, Point};
use crate::qdrant::search::answer;
use crate::qdrant::write::{write, Operation, Written};
use crate::qdrant::{collections, search};

type Answer<M> = Result<Response<M>, Status>;

#[tonic::async_trait]
impl Points for Face {
    async fn upsert(&self, request: Request<UpsertPoints>) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, message).await
    }

    async fn delete(&self, request: Request<DeletePoints>) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, message).await
    }

    async fn set_payload(
        &self,
        request: Request<SetPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, message).await
    }

    async fn overwrite_payload(
        &self,
        request: Request<SetPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, Overwrite(message)).await
    }

    async fn delete_payload(
        &self,
        request: Request<DeletePayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, message).await
    }

    async fn clear_payload(
        &self,
        request: Request<ClearPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        change(call, message.wait, message).await
    }

    async fn update_batch(
        &self,
        request: Request<UpdateBatchPoints>,
    ) -> Answer<UpdateBatchResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        let count = message.operations.len();
        let written = write(&call, message.wait, message.operations).await?;
        let result = (0..count).map(|_| updated(written)).collect();
        Ok(Response::new(UpdateBatchResponse { result, time: seconds(began), usage: None }))
    }

    async fn create_field_index(
        &self,
        request: Request<CreateFieldIndexCollection>,
    ) -> Answer<PointsOperationResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        let index = index_name(&message);
        collections::create_index(&call, message.field_name, index).await?;
        Ok(Response::new(operation(began, Written::Completed)))
    }

    async fn delete_field_index(
        &self,
        request: Request<DeleteFieldIndexCollection>,
    ) -> Answer<PointsOperationResponse> {
        let began = Instant::now();
        let (call, _) = self.open(request, |message| &mut message.collection_name)?;
        collections::delete_index(&call)?;
        Ok(Response::new(operation(began, Written::Completed)))
    }

    async fn get(&self, request: Request<GetPoints>) -> Answer<GetResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        no_shards(&message.shard_key_selector)?;
        let wanted = wanted(message.with_payload, message.with_vectors, true)?;
        let found = points::retrieve(&call, point_ids(message.ids)?, wanted).await?;
        let result = found.into_iter().map(retrieved).collect();
        Ok(Response::new(GetResponse { result, time: seconds(began), usage: None }))
    }

    async fn scroll(&self, request: Request<ScrollPoints>) -> Answer<ScrollResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        let (found, next) = points::scroll(&call, message).await?;
        Ok(Response::new(ScrollResponse {
            next_page_offset: next.map(id),
            result: found.into_iter().map(retrieved).collect(),
            time: seconds(began),
            usage: None,
        }))
    }

    async fn count(&self, request: Request<CountPoints>) -> Answer<CountResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        no_shards(&message.shard_key_selector)?;
        let count = points::count(&call, filter::some(message.filter)?).await?;
        let result = Some(CountResult { count });
        Ok(Response::new(CountResponse { result, time: seconds(began), usage: None }))
    }

    async fn query(&self, request: Request<QueryPoints>) -> Answer<QueryResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        let result = one(answer(&call, vec![message]).await?);
        Ok(Response::new(QueryResponse { result, time: seconds(began), usage: None }))
    }

    async fn query_batch(&self, request: Request<QueryBatchPoints>) -> Answer<QueryBatchResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        no_others(&call, message.query_points.iter().map(|query| &query.collection_name))?;
        let result = batch(answer(&call, message.query_points).await?);
        Ok(Response::new(QueryBatchResponse { result, time: seconds(began), usage: None }))
    }

    async fn search(&self, request: Request<SearchPoints>) -> Answer<SearchResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        let result = one(answer(&call, vec![message]).await?);
        Ok(Response::new(SearchResponse { result, time: seconds(began), usage: None }))
    }

    async fn search_batch(
        &self,
        request: Request<SearchBatchPoints>,
    ) -> Answer<SearchBatchResponse> {
        let began = Instant::now();
        let (call, message) = self.open(request, |message| &mut message.collection_name)?;
        no_others(&call, message.search_points.iter().map(|search| &search.collection_name))?;
        let result = batch(search::answer(&call, message.search_points).await?);
        Ok(Response::new(SearchBatchResponse { result, time: seconds(began), usage: None }))
    }
}

/// Makes one change.
async fn change(
    call: Call,
    wait: Option<bool>,
    message: impl TryInto<Operation, Error = Failure>,
) -> Answer<PointsOperationResponse> {
    let began = Instant::now();
    let written = write(&call, wait, vec![message]).await?;
    Ok(Response::new(operation(began, written)))
}

/// The answer to one query.
fn one(mut all: Vec<Vec<Point>>) -> Vec<super::proto::ScoredPoint> {
    all.pop().unwrap_or_default().into_iter().map(scored).collect()
}

/// The answers to several queries.
fn batch(all: Vec<Vec<Point>>) -> Vec<BatchResult> {
    let scored = |points: Vec<Point>| points.into_iter().map(scored).collect();
    all.into_iter().map(|points| BatchResult { result: scored(points) }).collect()
}

/// Errors: `BAD_REQUEST` if a query of a batch names another collection than the batch.
fn no_others<'a>(call: &Call, names: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    match names.into_iter().find(|name| !name.is_empty() && **name != call.name) {
        Some(_) => Err(Failure::bad("the queries of a batch are about one collection")),
        None => Ok(()),
    }
}
