//! Requests over gRPC, on the port of HTTP: they are answered as those of HTTP are.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::{json, Value as Json};
use tokio::runtime::Runtime;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use vstream_serve::{new_key, KeyFile, Limits, Scope, ServeSettings};

use self::proto::collections_client::CollectionsClient;
use self::proto::condition::ConditionOneOf;
use self::proto::points_client::PointsClient;
use self::proto::points_selector::PointsSelectorOneOf;
use self::proto::qdrant_client::QdrantClient;
use self::proto::value::Kind;
use self::proto::*;
use crate::hostile::raw;
use crate::support::{fill, point, settings, vector, Served, DIMENSION};

#[expect(clippy::large_enum_variant, clippy::enum_variant_names, reason = "the build makes this")]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/client/qdrant.rs"));
}

const ROWS: u64 = 900;

/// A client of each service. Calls return when they are answered.
struct Client {
    runtime: Runtime,
    channel: Channel,
    points: PointsClient<Channel>,
    collections: CollectionsClient<Channel>,
}

impl Client {
    fn of(server: &Served) -> Client {
        let runtime = Runtime::new().expect("threads");
        let inside = runtime.enter();
        let channel = Endpoint::from_shared(server.url("")).expect("an address").connect_lazy();
        let points = PointsClient::new(channel.clone());
        let collections = CollectionsClient::new(channel.clone());
        drop(inside);
        Client { runtime, channel, points, collections }
    }

    fn upsert(&mut self, points: Vec<PointStruct>) -> Result<PointsOperationResponse, Status> {
        self.upsert_with(UpsertPoints { points, wait: Some(true), ..UpsertPoints::default() })
    }

    fn upsert_with(&mut self, message: UpsertPoints) -> Result<PointsOperationResponse, Status> {
        let message = UpsertPoints { collection_name: "a".to_owned(), ..message };
        let answer = self.runtime.block_on(self.points.upsert(message));
        answer.map(tonic::Response::into_inner)
    }

    fn query(&mut self, message: QueryPoints) -> Result<Vec<ScoredPoint>, Status> {
        let message = QueryPoints { collection_name: "a".to_owned(), ..message };
        let answer = self.runtime.block_on(self.points.query(message));
        answer.map(|answer| answer.into_inner().result)
    }

    fn scroll(&mut self, message: ScrollPoints) -> Result<ScrollResponse, Status> {
        let message = ScrollPoints { collection_name: "a".to_owned(), ..message };
        let answer = self.runtime.block_on(self.points.scroll(message));
        answer.map(tonic::Response::into_inner)
    }

    /// Calls a method that the services here do not have.
    fn other(&mut self, path: &'static str) -> Status {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let codec = tonic_prost::ProstCodec::<CountPoints, CountResponse>::default();
        let called = async {
            client.ready().await.expect("a connection");
            let request = Request::new(CountPoints::default());
            client.unary(request, PathAndQuery::from_static(path), codec).await
        };
        self.runtime.block_on(called).expect_err("no such method")
    }
}

fn number(id: u64) -> Option<PointId> {
    Some(PointId { point_id_options: Some(point_id::PointIdOptions::Num(id)) })
}

fn dense(data: Vec<f32>) -> Option<Vectors> {
    let vector =
        Vector { vector: Some(vector::Vector::Dense(DenseVector { data })), ..Vector::default() };
    Some(Vectors { vectors_options: Some(vectors::VectorsOptions::Vector(vector)) })
}

fn nearest(variant: vector_input::Variant) -> Option<Query> {
    let input = VectorInput { variant: Some(variant) };
    Some(Query { variant: Some(query::Variant::Nearest(input)) })
}

fn near(data: Vec<f32>) -> Option<Query> {
    nearest(vector_input::Variant::Dense(DenseVector { data }))
}

fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(is_true) => Kind::BoolValue(*is_true),
        Json::Number(number) => number
            .as_i64()
            .map_or_else(|| Kind::DoubleValue(number.as_f64().unwrap()), Kind::IntegerValue),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(list) => {
            Kind::ListValue(ListValue { values: list.iter().map(value).collect() })
        }
        Json::Object(_) => Kind::StructValue(Struct { fields: fields(json) }),
    };
    Value { kind: Some(kind) }
}

fn fields(json: &Json) -> BTreeMap<String, Value> {
    json.as_object().unwrap().iter().map(|(key, json)| (key.clone(), value(json))).collect()
}

/// The point of an id, with the payload that [`point`] gives it.
fn made(id: u64) -> PointStruct {
    let payload = fields(&point(id)["payload"]);
    PointStruct { id: number(id), vectors: dense(vector(id)), payload }
}

fn all_payload() -> Option<WithPayloadSelector> {
    let all = with_payload_selector::SelectorOptions::Enable(true);
    Some(WithPayloadSelector { selector_options: Some(all) })
}

fn on(key: &str, field: FieldCondition) -> Condition {
    let field = FieldCondition { key: key.to_owned(), ..field };
    Condition { condition_one_of: Some(ConditionOneOf::Field(field)) }
}

fn is(key: &str, value: r#match::MatchValue) -> Condition {
    let how = Match { match_value: Some(value) };
    on(key, FieldCondition { r#match: Some(how), ..FieldCondition::default() })
}

/// A filter as a message, and the same as JSON.
fn filters() -> Vec<(Filter, Json)> {
    use r#match::MatchValue;
    let lima = is("city", MatchValue::Keyword("Lima".to_owned()));
    let any = RepeatedStrings { strings: vec!["t1".to_owned(), "t3".to_owned()] };
    let range = Range { gte: Some(100.0), lt: Some(500.5), ..Range::default() };
    let range = on("number", FieldCondition { range: Some(range), ..FieldCondition::default() });
    let ids = HasIdCondition { has_id: [3, 5, 99_999].map(|id| number(id).unwrap()).to_vec() };
    let ids = Condition { condition_one_of: Some(ConditionOneOf::HasId(ids)) };
    let none = IsEmptyCondition { key: "nothing".to_owned() };
    let none = Condition { condition_one_of: Some(ConditionOneOf::IsEmpty(none)) };
    let even = is("in.even", MatchValue::Boolean(true));
    let lima_json = json!({"key": "city", "match": {"value": "Lima"}});
    let range_json = json!({"key": "number", "range": {"gte": 100, "lt": 500.5}});
    let even_json = json!({"key": "in.even", "match": {"value": true}});
    let least =
        MinShould { conditions: vec![lima.clone(), range.clone(), even.clone()], min_count: 2 };
    vec![
        (
            Filter { must: vec![lima.clone(), range.clone()], ..Filter::default() },
            json!({"must": [lima_json, range_json]}),
        ),
        (
            Filter {
                should: vec![is("tags", MatchValue::Keywords(any)), ids],
                must_not: vec![even.clone()],
                ..Filter::default()
            },
            json!({
                "should": [{"key": "tags", "match": {"any": ["t1", "t3"]}}, {"has_id": [3, 5, 99_999]}],
                "must_not": [even_json],
            }),
        ),
        (
            Filter { min_should: Some(least), must: vec![none], ..Filter::default() },
            json!({
                "min_should": {"conditions": [lima_json, range_json, even_json], "min_count": 2},
                "must": [{"is_empty": {"key": "nothing"}}],
            }),
        ),
        (
            Filter { must: vec![is("number", MatchValue::Integer(7))], ..Filter::default() },
            json!({"must": [{"key": "number", "match": {"value": 7}}]}),
        ),
    ]
}

fn id_of(id: &Option<PointId>) -> u64 {
    match id.as_ref().and_then(|id| id.point_id_options.as_ref()) {
        Some(point_id::PointIdOptions::Num(number)) => *number,
        other => panic!("{other:?} is no number"),
    }
}

/// Ids, scores and payloads of an answer are those of HTTP's answer.
fn same(ours: &[ScoredPoint], theirs: &Json) {
    let theirs = theirs.as_array().expect("points");
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(id_of(&ours.id), theirs["id"].as_u64().unwrap());
        assert_eq!(f64::from(ours.score) as f32, theirs["score"].as_f64().unwrap() as f32);
        assert_eq!(ours.payload, fields(&theirs["payload"]));
    }
}

#[test]
fn a_round_trip_is_that_of_http() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let mut client = Client::of(&server);
    let params = VectorParams {
        size: DIMENSION as u64,
        distance: Distance::Cosine.into(),
        ..VectorParams::default()
    };
    let config = vectors_config::Config::Params(params);
    let create = CreateCollection {
        collection_name: "a".to_owned(),
        vectors_config: Some(VectorsConfig { config: Some(config) }),
        ..CreateCollection::default()
    };
    assert!(
        client.runtime.block_on(client.collections.create(create)).unwrap().into_inner().result
    );
    // Half of the points come each way.
    fill(&server, "a", 0..ROWS / 2);
    let written = client.upsert((ROWS / 2..ROWS).map(made).collect()).unwrap();
    assert_eq!(written.result.unwrap().status(), UpdateStatus::Completed);
    for (filter, json) in filters() {
        for seed in 0..3 {
            let wanted = vector(1_000_000 + seed);
            let ours = client.query(QueryPoints {
                query: near(wanted.clone()),
                filter: Some(filter.clone()),
                limit: Some(7),
                offset: Some(2),
                params: Some(SearchParams { exact: Some(true), ..SearchParams::default() }),
                with_payload: all_payload(),
                ..QueryPoints::default()
            });
            let body = json!({
                "query": wanted, "filter": json, "limit": 7, "offset": 2, "params": {"exact": true},
                "with_payload": true,
            });
            let theirs = server.ok("POST", "/collections/a/points/query", body);
            same(&ours.unwrap(), &theirs["points"]);
        }
        let count = CountPoints {
            collection_name: "a".to_owned(),
            filter: Some(filter),
            ..CountPoints::default()
        };
        let count = client.runtime.block_on(client.points.count(count)).unwrap().into_inner();
        let body = json!({"filter": json});
        let theirs = server.ok("POST", "/collections/a/points/count", body);
        assert_eq!(count.result.unwrap().count, theirs["count"].as_u64().unwrap());
    }
    pages_are_those_of_http(&mut client);
    let by_id = QueryPoints {
        query: nearest(vector_input::Variant::Id(number(17).unwrap())),
        limit: Some(5),
        with_payload: all_payload(),
        ..QueryPoints::default()
    };
    let body = json!({"query": 17, "limit": 5, "with_payload": true});
    let theirs = server.ok("POST", "/collections/a/points/query", body);
    same(&client.query(by_id).unwrap(), &theirs["points"]);
    older_searches_are_those_of_http(&server, &mut client);
    points_go(&server, &mut client);
    server.running.stop();
}

fn older_searches_are_those_of_http(server: &Served, client: &mut Client) {
    let search = |seed: u64| SearchPoints {
        collection_name: "a".to_owned(),
        vector: vector(seed),
        limit: 4,
        with_payload: all_payload(),
        ..SearchPoints::default()
    };
    let body = |seed: u64| json!({"vector": vector(seed), "limit": 4, "with_payload": true});
    let found = client.runtime.block_on(client.points.search(search(70_000))).unwrap();
    let theirs = server.ok("POST", "/collections/a/points/search", body(70_000));
    same(&found.into_inner().result, &theirs);
    let batch = |other: &str| SearchBatchPoints {
        collection_name: "a".to_owned(),
        search_points: vec![
            search(70_001),
            SearchPoints { collection_name: other.to_owned(), ..search(70_002) },
        ],
        ..SearchBatchPoints::default()
    };
    let found = client.runtime.block_on(client.points.search_batch(batch(""))).unwrap();
    let searches = json!({"searches": [body(70_001), body(70_002)]});
    let theirs = server.ok("POST", "/collections/a/points/search/batch", searches);
    for (ours, theirs) in found.into_inner().result.iter().zip(theirs.as_array().unwrap()) {
        same(&ours.result, theirs);
    }
    let refused = client.runtime.block_on(client.points.search_batch(batch("b")));
    says(refused.expect_err("two collections"), Code::InvalidArgument, "one collection");
}

fn pages_are_those_of_http(client: &mut Client) {
    let (mut seen, mut offset) = (Vec::new(), None);
    loop {
        let vectors = with_vectors_selector::SelectorOptions::Enable(true);
        let page = client.scroll(ScrollPoints {
            limit: Some(250),
            offset,
            with_vectors: Some(WithVectorsSelector { selector_options: Some(vectors) }),
            ..ScrollPoints::default()
        });
        let page = page.unwrap();
        for point in &page.result {
            let id = id_of(&point.id);
            assert_eq!(point.payload, made(id).payload, "{id}");
            let Some(vectors_output::VectorsOptions::Vector(vector)) =
                point.vectors.as_ref().and_then(|vectors| vectors.vectors_options.as_ref())
            else {
                panic!("{id} has no vector");
            };
            let Some(vector_output::Vector::Dense(dense)) = &vector.vector else {
                panic!("the vector of {id} is not dense");
            };
            assert_eq!(dense.data.len(), DIMENSION);
            seen.push(id);
        }
        offset = page.next_page_offset;
        if offset.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS).collect::<Vec<_>>());
}

/// Points are deleted by ids and by a filter, and changed in a batch.
fn points_go(server: &Served, client: &mut Client) {
    let delete = |one: PointsSelectorOneOf| DeletePoints {
        collection_name: "a".to_owned(),
        wait: Some(true),
        points: Some(PointsSelector { points_selector_one_of: Some(one) }),
        ..DeletePoints::default()
    };
    let ids = PointsIdsList { ids: vec![number(1).unwrap(), number(2).unwrap()] };
    let lima = is("city", r#match::MatchValue::Keyword("Lima".to_owned()));
    let filter = Filter { must: vec![lima], ..Filter::default() };
    for one in [PointsSelectorOneOf::Points(ids), PointsSelectorOneOf::Filter(filter)] {
        client.runtime.block_on(client.points.delete(delete(one))).unwrap();
    }
    let some = Some(PointsSelector {
        points_selector_one_of: Some(PointsSelectorOneOf::Points(PointsIdsList {
            ids: vec![number(3).unwrap()],
        })),
    });
    use points_update_operation::{Operation, PointStructList, SetPayload};
    let list = PointStructList { points: vec![made(1)], ..PointStructList::default() };
    let set = SetPayload {
        payload: fields(&json!({"city": "Rome"})),
        points_selector: some,
        ..SetPayload::default()
    };
    let operations = [Operation::Upsert(list), Operation::SetPayload(set)];
    let update = UpdateBatchPoints {
        collection_name: "a".to_owned(),
        wait: Some(true),
        operations: operations.map(|one| PointsUpdateOperation { operation: Some(one) }).to_vec(),
        ..UpdateBatchPoints::default()
    };
    let updated = client.runtime.block_on(client.points.update_batch(update)).unwrap();
    assert_eq!(updated.into_inner().result.len(), 2);
    let body = json!({"limit": ROWS});
    let left = server.ok("POST", "/collections/a/points/scroll", body);
    let left = left["points"].as_array().unwrap();
    let expected = (0..ROWS).filter(|&id| id == 1 || (id % 3 != 1 && id != 2));
    assert_eq!(left.len(), expected.count());
    let rome = left.iter().find(|point| point["id"] == 3).unwrap();
    assert_eq!(rome["payload"]["city"], "Rome");
}

fn says(status: Status, code: Code, words: &str) {
    let found = (status.code(), status.message());
    assert!(found.0 == code && found.1.contains(words), "{found:?} is not {code:?} '{words}'");
}

#[test]
fn what_is_not_there_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    fill(&server, "a", 0..10);
    let mut client = Client::of(&server);
    let queries = [
        (QueryPoints { query: near(vec![1.0]), ..QueryPoints::default() }, "64"),
        (
            QueryPoints { query: near(vec![f32::NAN; DIMENSION]), ..QueryPoints::default() },
            "finite",
        ),
        (QueryPoints { using: Some("other".to_owned()), ..QueryPoints::default() }, "other"),
        (
            QueryPoints { prefetch: vec![PrefetchQuery::default()], ..QueryPoints::default() },
            "prefetch",
        ),
        (
            QueryPoints {
                query: Some(Query { variant: Some(query::Variant::Fusion(0)) }),
                ..QueryPoints::default()
            },
            "fusion",
        ),
        (
            QueryPoints {
                query: nearest(vector_input::Variant::Sparse(SparseVector::default())),
                ..QueryPoints::default()
            },
            "sparse",
        ),
        (
            QueryPoints { lookup_from: Some(LookupLocation::default()), ..QueryPoints::default() },
            "lookup_from",
        ),
        (
            QueryPoints {
                shard_key_selector: Some(ShardKeySelector::default()),
                ..QueryPoints::default()
            },
            "shard",
        ),
        (QueryPoints { limit: Some(u64::MAX), ..QueryPoints::default() }, "limit"),
        (
            QueryPoints { score_threshold: Some(f32::NAN), ..QueryPoints::default() },
            "score_threshold",
        ),
    ];
    for (query, words) in queries {
        let query = QueryPoints { query: query.query.or_else(|| near(vector(1))), ..query };
        says(client.query(query).expect_err(words), Code::InvalidArgument, words);
    }
    let words = is("city", r#match::MatchValue::Text("x".to_owned()));
    let radius =
        FieldCondition { geo_radius: Some(GeoRadius::default()), ..FieldCondition::default() };
    let slice = ConditionOneOf::Slice(SliceCondition { total: 2, index: 0 });
    let slice = Condition { condition_one_of: Some(slice) };
    for (condition, words) in
        [(words, "text"), (on("city", radius), "geo_radius"), (slice, "slice")]
    {
        let filter = Some(Filter { must: vec![condition], ..Filter::default() });
        let scroll = ScrollPoints { filter, ..ScrollPoints::default() };
        says(client.scroll(scroll).expect_err(words), Code::InvalidArgument, words);
    }
    let order_by = Some(OrderBy { key: "city".to_owned(), ..OrderBy::default() });
    let scroll = ScrollPoints { order_by, ..ScrollPoints::default() };
    says(client.scroll(scroll).expect_err("an order"), Code::InvalidArgument, "order_by");
    points_are_refused(&mut client);
    says(client.other("/qdrant.Points/Recommend"), Code::Unimplemented, "/qdrant.Points/Recommend");
    says(client.other("/qdrant.Snapshots/Create"), Code::Unimplemented, "not supported");
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 10}), "nothing was written");
    server.running.stop();
}

fn points_are_refused(client: &mut Client) {
    let named = NamedVectors { vectors: BTreeMap::from([("image".to_owned(), Vector::default())]) };
    let named = Vectors { vectors_options: Some(vectors::VectorsOptions::Vectors(named)) };
    let several = MultiDenseVector { vectors: vec![DenseVector { data: vector(1) }; 2] };
    let several = Vector { vector: Some(vector::Vector::MultiDense(several)), ..Vector::default() };
    let several = Vectors { vectors_options: Some(vectors::VectorsOptions::Vector(several)) };
    let uuid = Some(PointId {
        point_id_options: Some(point_id::PointIdOptions::Uuid("a name".to_owned())),
    });
    let endless = Value { kind: Some(Kind::DoubleValue(f64::INFINITY)) };
    let bad = [
        (PointStruct { vectors: dense(vec![1.0]), ..made(100) }, "64"),
        (PointStruct { vectors: dense(vec![f32::NAN; DIMENSION]), ..made(100) }, "finite"),
        (PointStruct { vectors: None, ..made(100) }, "vector"),
        (PointStruct { vectors: Some(named), ..made(100) }, "image"),
        (PointStruct { vectors: Some(several), ..made(100) }, "several vectors"),
        (PointStruct { id: None, ..made(100) }, "no id"),
        (PointStruct { id: uuid, ..made(100) }, "UUID"),
        (
            PointStruct { payload: BTreeMap::from([("a".to_owned(), endless)]), ..made(100) },
            "finite",
        ),
        (PointStruct { payload: fields(&json!({"city": 5})), ..made(100) }, "city"),
    ];
    for (point, words) in bad {
        let refused = client.upsert(vec![made(101), point]);
        says(refused.expect_err(words), Code::InvalidArgument, words);
    }
    let only_new = Some(UpdateMode::InsertOnly.into());
    let message =
        UpsertPoints { points: vec![made(100)], update_mode: only_new, ..UpsertPoints::default() };
    let refused = client.upsert_with(message).expect_err("a mode");
    says(refused, Code::InvalidArgument, "update_mode");
    let none = CountPoints { collection_name: "none".to_owned(), ..CountPoints::default() };
    let none = client.runtime.block_on(client.points.count(none)).expect_err("no collection");
    says(none, Code::NotFound, "no collection");
    let there = CreateCollection {
        collection_name: "a".to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(vectors_config::Config::Params(VectorParams {
                size: 4,
                distance: Distance::Dot.into(),
                ..VectorParams::default()
            })),
        }),
        ..CreateCollection::default()
    };
    let there = client.runtime.block_on(client.collections.create(there)).expect_err("a conflict");
    says(there, Code::AlreadyExists, "there already");
}

#[test]
fn the_numbers_of_older_clients_are_a_vector() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    let mut client = Client::of(&server);
    let older = Vector { data: vector(7), ..Vector::default() };
    let older = Some(Vectors { vectors_options: Some(vectors::VectorsOptions::Vector(older)) });
    client.upsert(vec![PointStruct { vectors: older, ..made(7) }]).unwrap();
    let found = client.query(QueryPoints { query: near(vector(7)), ..QueryPoints::default() });
    assert_eq!(id_of(&found.unwrap()[0].id), 7);
    server.running.stop();
}

#[test]
fn keys_are_asked_for_as_over_http() {
    let dir = tempfile::tempdir().expect("a folder");
    let made_keys = [
        new_key("reader", Scope::Read, &[]).unwrap(),
        new_key("writer", Scope::Write, &["a".to_owned()]).unwrap(),
    ];
    let entries: Vec<&str> = made_keys.iter().map(|(_, entry)| entry.as_str()).collect();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{}]}}", entries.join(", "))).unwrap();
    let audit = dir.path().join("audit.log");
    let server = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        audit: Some(audit.clone()),
        ..settings(&dir.path().join("collections"))
    });
    let mut client = Client::of(&server);
    let upsert = |client: &mut Client, header: &'static str, key: &str| {
        let mut request = Request::new(UpsertPoints {
            collection_name: "a".to_owned(),
            points: vec![made(1)],
            ..UpsertPoints::default()
        });
        if !header.is_empty() {
            request.metadata_mut().insert(header, key.parse().unwrap());
        }
        client.runtime.block_on(client.points.upsert(request)).expect_err("refused").code()
    };
    let (reader, writer) = (made_keys[0].0.as_str(), made_keys[1].0.as_str());
    assert_eq!(upsert(&mut client, "", ""), Code::Unauthenticated);
    assert_eq!(upsert(&mut client, "api-key", "0123"), Code::Unauthenticated);
    assert_eq!(upsert(&mut client, "authorization", writer), Code::Unauthenticated);
    assert_eq!(upsert(&mut client, "api-key", reader), Code::PermissionDenied);
    assert_eq!(
        upsert(&mut client, "authorization", &format!("Bearer {reader}")),
        Code::PermissionDenied
    );
    // Who may write learns that there is nothing to write to.
    assert_eq!(upsert(&mut client, "api-key", writer), Code::NotFound);
    assert_eq!(upsert(&mut client, "authorization", &format!("Bearer {writer}")), Code::NotFound);
    let mut health = QdrantClient::new(client.channel.clone());
    let health = client.runtime.block_on(health.health_check(HealthCheckRequest {}));
    assert!(health.unwrap().into_inner().title.starts_with("VStream"));
    server.running.stop();
    let log = fs::read_to_string(audit).unwrap();
    assert!(log.contains("/qdrant.Points/Upsert") && log.contains("401"), "{log}");
    assert!(!log.contains(writer), "no key in the log");
}

#[test]
fn messages_have_limits_and_are_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        body_bytes: 100_000,
        bodies_bytes: 150_000,
        request: Duration::from_millis(1_500),
        ..Limits::default()
    };
    let audit = dir.path().join("audit.log");
    let server = Served::new(ServeSettings {
        limits,
        audit: Some(audit.clone()),
        ..settings(&dir.path().join("collections"))
    });
    server.create("a", "Dot");
    let mut client = Client::of(&server);
    let refused = client.upsert((0..1_000).map(made).collect()).expect_err("too large");
    says(refused, Code::ResourceExhausted, "the limit is 100000");
    // Frames by hand: no prefix, half a message, two messages, a compressed one, a body that is none.
    let post = |kind: &str, body: &[u8]| {
        let head = format!(
            "POST /qdrant.Points/Upsert HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
             {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        raw(&server, &[head.as_bytes(), body].concat())
    };
    let kind = "application/grpc\r\ngrpc-encoding: gzip";
    let bodies: [(&[u8], &str); 4] = [
        (b"\0\0\0", "grpc-status: 3"),
        (b"\0\0\0\0\x09\x0a\x01a", "grpc-status: 3"),
        (b"\0\0\0\0\0\0\0\0\0\0", "grpc-status: 3"),
        (b"\x01\0\0\0\x03\x0a\x01a", "grpc-status: 12"),
    ];
    for (body, status) in bodies {
        let answer = post(kind, body);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(status),
            "{body:?}: {answer}"
        );
    }
    assert!(post("application/json", b"{}").starts_with("HTTP/1.1 415"));
    // A message that does not come holds its room until its time is over.
    let cut = |bytes: &[u8]| {
        let head =
            "POST /qdrant.Points/Upsert HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                    content-type: application/grpc\r\ncontent-length: 90005\r\n\r\n";
        raw(&server, &[head.as_bytes(), bytes].concat())
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| cut(&[&[0][..], &90_000u32.to_be_bytes()].concat()));
        std::thread::sleep(Duration::from_millis(300));
        let many = (0..200).map(made).collect();
        says(client.upsert(many).expect_err("no room"), Code::Unavailable, "memory");
        assert!(first.join().unwrap().contains("grpc-status: 4"));
    });
    client.upsert((0..200).map(made).collect()).expect("room");
    let metrics = server.running.metrics.expect("an address");
    let mut answer = ureq::get(format!("http://{metrics}/metrics")).call().expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a text");
    let line =
        |status: u16| format!("method=\"POST\",path=\"/qdrant.Points/Upsert\",status=\"{status}\"");
    for status in [200, 400, 413, 501, 503, 504] {
        assert!(text.contains(&line(status)), "{status}: {text}");
    }
    server.running.stop();
    let log = fs::read_to_string(audit).unwrap();
    assert!(log.contains("/qdrant.Points/Upsert") && log.contains("\"collection\":\"a\""), "{log}");
}

#[test]
fn answers_say_their_moment_and_a_server_that_only_reads_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let writer = Served::of(dir.path());
    writer.create("a", "Cosine");
    fill(&writer, "a", 0..20);
    writer.running.stop();
    let reader = Served::new(ServeSettings { read_only: true, ..settings(dir.path()) });
    let mut client = Client::of(&reader);
    let refused = client.upsert(vec![made(1)]).expect_err("it only reads");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.metadata().get("vstream-error").expect("a kind"), "read-only");
    let mut count = |min_sequence: &str| {
        let mut request =
            Request::new(CountPoints { collection_name: "a".to_owned(), ..CountPoints::default() });
        request.metadata_mut().insert("vstream-min-sequence", min_sequence.parse().unwrap());
        request.metadata_mut().insert("vstream-wait-ms", "50".parse().unwrap());
        client.runtime.block_on(client.points.count(request))
    };
    let counted = count("20").expect("every write is there");
    assert_eq!(counted.metadata().get("vstream-sequence").expect("a sequence"), "20");
    assert_eq!(counted.into_inner().result.expect("a count").count, 20);
    let behind = count("21").expect_err("there is no such write");
    assert_eq!(behind.code(), Code::FailedPrecondition);
    assert_eq!(behind.metadata().get("vstream-error").expect("a kind"), "behind");
    assert_eq!(count("many").expect_err("no number").code(), Code::InvalidArgument);
    reader.running.stop();
}
