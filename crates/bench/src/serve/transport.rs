//! Ways to a server: one request at a time over one connection.

use std::net::SocketAddr;

use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};
use tonic::Status;

use self::proto::point_id::PointIdOptions;
use self::proto::points_client::PointsClient;
use self::proto::query::Variant;
use self::proto::value::Kind;
use self::proto::vectors::VectorsOptions;
use self::proto::{
    vector, vector_input, DenseVector, PointId, PointStruct, Query, QueryPoints, UpsertPoints,
    Value, Vector, VectorInput, Vectors,
};
use super::client::{request, Client};
use super::{path, COLLECTION, K};
use crate::runbook::{Matrix, RunbookError};

#[expect(clippy::large_enum_variant, clippy::enum_variant_names, reason = "the build makes this")]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/qdrant.rs"));
}

/// A way to a server. What is sent is made before the clock starts, as far as that is possible.
pub(super) trait Transport {
    /// Its name.
    const NAME: &'static str;
    /// A query.
    type Question: Sync;
    /// Points to write.
    type Points: Sync;
    /// A connection.
    type Connection;

    fn connect(address: SocketAddr) -> Result<Self::Connection, RunbookError>;

    /// The query for the nearest of a vector.
    fn question(vector: &[f32]) -> Self::Question;

    /// Rows to write under ids from `first` on.
    fn points(base: &Matrix, rows: impl Iterator<Item = usize>, first: usize) -> Self::Points;

    /// Asks, and reads the answer as far as any client must.
    fn ask(
        connection: &mut Self::Connection,
        question: &Self::Question,
    ) -> Result<(), RunbookError>;

    /// Asks, and returns the ids of the answer.
    fn found(
        connection: &mut Self::Connection,
        question: &Self::Question,
    ) -> Result<Vec<u64>, RunbookError>;

    /// Writes, and returns when the write is on the disk, with the sequence that the answer says.
    fn write(connection: &mut Self::Connection, points: &Self::Points)
        -> Result<u64, RunbookError>;
}

/// JSON over HTTP/1.1.
pub(super) struct Http;

impl Transport for Http {
    const NAME: &'static str = "HTTP";
    type Question = Vec<u8>;
    type Points = Vec<u8>;
    type Connection = Client;

    fn connect(address: SocketAddr) -> Result<Client, RunbookError> {
        Client::connect(address)
    }

    fn question(vector: &[f32]) -> Vec<u8> {
        let body = serde_json::json!({"query": vector, "limit": K}).to_string();
        request("POST", &path("/points/query"), &body)
    }

    fn points(base: &Matrix, rows: impl Iterator<Item = usize>, first: usize) -> Vec<u8> {
        let points: Vec<_> = rows
            .enumerate()
            .map(|(at, row)| {
                let payload = serde_json::json!({"part": row % 10});
                serde_json::json!({"id": first + at, "vector": base.row(row), "payload": payload})
            })
            .collect();
        let body = serde_json::json!({"points": points}).to_string();
        request("PUT", &path("/points?wait=true"), &body)
    }

    fn ask(client: &mut Client, question: &Vec<u8>) -> Result<(), RunbookError> {
        client.call(question).map(drop)
    }

    fn found(client: &mut Client, question: &Vec<u8>) -> Result<Vec<u64>, RunbookError> {
        let answer = client.json(question)?;
        let points = answer["result"]["points"].as_array().cloned().unwrap_or_default();
        Ok(points.iter().filter_map(|point| point["id"].as_u64()).collect())
    }

    fn write(client: &mut Client, points: &Vec<u8>) -> Result<u64, RunbookError> {
        client.sequence(points)
    }
}

/// Messages over HTTP/2.
pub(super) struct Grpc;

/// A connection, which is served while a call waits.
pub(super) struct GrpcConnection {
    runtime: Runtime,
    points: PointsClient<Channel>,
}

impl Transport for Grpc {
    const NAME: &'static str = "gRPC";
    type Question = QueryPoints;
    type Points = UpsertPoints;
    type Connection = GrpcConnection;

    fn connect(address: SocketAddr) -> Result<GrpcConnection, RunbookError> {
        let failed = |error: &dyn std::fmt::Display| {
            RunbookError::Io(format!("Cannot connect to {address}: {error}."))
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.map_err(|error| failed(&error))?.tcp_nodelay(true);
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| failed(&error))?;
        Ok(GrpcConnection { runtime, points: PointsClient::new(channel) })
    }

    fn question(vector: &[f32]) -> QueryPoints {
        let dense = vector_input::Variant::Dense(DenseVector { data: vector.to_vec() });
        let nearest = Variant::Nearest(VectorInput { variant: Some(dense) });
        QueryPoints {
            collection_name: COLLECTION.to_owned(),
            query: Some(Query { variant: Some(nearest) }),
            limit: Some(K as u64),
            ..QueryPoints::default()
        }
    }

    fn points(base: &Matrix, rows: impl Iterator<Item = usize>, first: usize) -> UpsertPoints {
        let point = |(at, row): (usize, usize)| {
            let dense = DenseVector { data: base.row(row).to_vec() };
            let vector = Vector { vector: Some(vector::Vector::Dense(dense)), ..Vector::default() };
            let part = Value { kind: Some(Kind::IntegerValue((row % 10) as i64)) };
            let id = PointIdOptions::Num((first + at) as u64);
            PointStruct {
                id: Some(PointId { point_id_options: Some(id) }),
                vectors: Some(Vectors { vectors_options: Some(VectorsOptions::Vector(vector)) }),
                payload: [("part".to_owned(), part)].into(),
            }
        };
        UpsertPoints {
            collection_name: COLLECTION.to_owned(),
            wait: Some(true),
            points: rows.enumerate().map(point).collect(),
            ..UpsertPoints::default()
        }
    }

    fn ask(connection: &mut GrpcConnection, question: &QueryPoints) -> Result<(), RunbookError> {
        let GrpcConnection { runtime, points } = connection;
        runtime.block_on(points.query(question.clone())).map(drop).map_err(refused)
    }

    fn found(
        connection: &mut GrpcConnection,
        question: &QueryPoints,
    ) -> Result<Vec<u64>, RunbookError> {
        let GrpcConnection { runtime, points } = connection;
        let answer = runtime.block_on(points.query(question.clone())).map_err(refused)?;
        let ids = answer.into_inner().result.into_iter().filter_map(|point| {
            match point.id?.point_id_options? {
                PointIdOptions::Num(number) => Some(number),
                PointIdOptions::Uuid(_) => None,
            }
        });
        Ok(ids.collect())
    }

    fn write(connection: &mut GrpcConnection, points: &UpsertPoints) -> Result<u64, RunbookError> {
        let client = &mut connection.points;
        let answer = connection.runtime.block_on(client.upsert(points.clone())).map_err(refused)?;
        let sequence = answer.metadata().get("vstream-sequence");
        let sequence = sequence.and_then(|text| text.to_str().ok()?.parse().ok());
        sequence.ok_or_else(|| RunbookError::Io("The answer says no sequence.".to_owned()))
    }
}

fn refused(status: Status) -> RunbookError {
    RunbookError::Io(format!("The server refused: {status}."))
}
