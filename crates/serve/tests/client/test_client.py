"""The official client of Qdrant against the server, beside the client's own store in memory."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

ROOT = Path(__file__).resolve().parents[4]
COMMAND = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))
DIMENSION = 96
ROWS = 1_000
SEED = 20261125
CITIES = ["Oslo", "Lima", "Pune", "Bern"]


@pytest.fixture(params=[False, True], ids=["http", "grpc"])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[QdrantClient]:
    """A client of a server of its own, over HTTP and over gRPC."""
    command = [COMMAND, "serve", tmp_path / "collections", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().rsplit(" ", 1)[1].strip()
        client = QdrantClient(
            url=address,
            prefer_grpc=request.param,
            grpc_port=int(address.rsplit(":", 1)[1]),
            timeout=60,
        )
        yield client
        client.close()
        server.terminate()
        assert server.wait(30) == 0


def points(
    rng: np.random.Generator, ids: list[models.ExtendedPointId]
) -> list[models.PointStruct]:
    """Points with payloads of every kind."""
    made = []
    for number, one in enumerate(ids):
        payload = {
            "city": CITIES[int(rng.integers(4))],
            "price": float(rng.integers(1000)) / 8,
            "stock": int(rng.integers(50)),
            "sold": bool(rng.integers(2)),
            "tags": [f"t{t}" for t in rng.integers(6, size=int(rng.integers(4)))],
            "maker": {"name": f"m{number % 7}", "at": {"code": number % 11}},
        }
        if number % 5 == 0:
            del payload["city"]
        vector = rng.normal(size=DIMENSION).astype(np.float32).tolist()
        made.append(models.PointStruct(id=one, vector=vector, payload=payload))
    return made


def both(served: QdrantClient, distance: models.Distance) -> list[QdrantClient]:
    """The server and the client's own store, with the same points."""
    clients = [served, QdrantClient(":memory:")]
    ids: list[models.ExtendedPointId] = list(range(ROWS))
    ids[::10] = [str(uuid.UUID(int=number)) for number in range(len(ids[::10]))]
    made = points(np.random.default_rng(SEED), ids)
    for client in clients:
        config = models.VectorParams(size=DIMENSION, distance=distance)
        assert client.create_collection("goods", vectors_config=config)
        for at in range(0, ROWS, 500):
            client.upsert("goods", made[at : at + 500])
    return clients


FILTERS = [
    models.Filter(
        must=[models.FieldCondition(key="city", match=models.MatchValue(value="Oslo"))]
    ),
    models.Filter(
        must=[models.FieldCondition(key="city", match=models.MatchAny(any=CITIES[:2]))]
    ),
    models.Filter(
        must=[models.FieldCondition(key="price", range=models.Range(gte=20, lt=60.5))]
    ),
    models.Filter(
        must=[models.FieldCondition(key="stock", match=models.MatchValue(value=7))]
    ),
    models.Filter(
        must_not=[
            models.FieldCondition(key="sold", match=models.MatchValue(value=True))
        ]
    ),
    models.Filter(
        must=[models.FieldCondition(key="tags", match=models.MatchValue(value="t3"))]
    ),
    models.Filter(
        must=[models.FieldCondition(key="maker.at.code", range=models.Range(gt=8))]
    ),
    models.Filter(
        must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="city"))]
    ),
    models.Filter(
        must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="tags"))]
    ),
    models.Filter(
        must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="nothing"))]
    ),
    models.Filter(
        must=[models.FieldCondition(key="nothing", match=models.MatchValue(value="x"))]
    ),
    models.Filter(
        must=[models.HasIdCondition(has_id=[3, 5, str(uuid.UUID(int=1)), 99_999])]
    ),
    models.Filter(
        should=[
            models.FieldCondition(key="city", match=models.MatchValue(value="Pune")),
            models.Filter(
                must=[
                    models.FieldCondition(key="stock", range=models.Range(lte=3)),
                    models.FieldCondition(
                        key="maker.name", match=models.MatchValue(value="m2")
                    ),
                ]
            ),
        ],
        must_not=[
            models.FieldCondition(key="tags", match=models.MatchAny(any=["t1", "t2"]))
        ],
    ),
    models.Filter(
        min_should=models.MinShould(
            conditions=[
                models.FieldCondition(
                    key="city", match=models.MatchValue(value="Oslo")
                ),
                models.FieldCondition(key="sold", match=models.MatchValue(value=True)),
                models.FieldCondition(key="stock", range=models.Range(gte=25)),
            ],
            min_count=2,
        )
    ),
]


@contextmanager
def refused(match: str, status: int, code: grpc.StatusCode) -> Iterator[None]:
    """Expects a refusal, with the status of HTTP or the code of gRPC."""
    with pytest.raises((UnexpectedResponse, grpc.RpcError), match=match) as error:
        yield
    assert (
        error.value.code() is code
        if isinstance(error.value, grpc.RpcError)
        else error.value.status_code == status
    )


def is_missing(error: Exception) -> bool:
    """True if a store says that there is no such point."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code == 404
    if isinstance(error, grpc.RpcError):
        return error.code() is grpc.StatusCode.NOT_FOUND
    return isinstance(error, KeyError)


def ids_of(
    found: list[models.ScoredPoint] | list[models.Record],
) -> list[models.ExtendedPointId]:
    return [point.id for point in found]


@pytest.mark.parametrize(
    "distance", [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]
)
def test_answers_are_those_of_the_clients_own_store(
    served: QdrantClient, distance: models.Distance
) -> None:
    clients = both(served, distance)
    rng = np.random.default_rng(SEED + 1)
    exact = models.SearchParams(exact=True)
    for condition in [None, *FILTERS]:
        counts = [
            client.count("goods", count_filter=condition).count for client in clients
        ]
        assert counts[0] == counts[1], condition
        vector = rng.normal(size=DIMENSION).tolist()
        ours, theirs = (
            client.query_points(
                "goods",
                query=vector,
                query_filter=condition,
                search_params=exact,
                limit=10,
            ).points
            for client in clients
        )
        assert ids_of(ours) == ids_of(theirs), condition
        scores = [[point.score for point in found] for found in (ours, theirs)]
        assert np.allclose(*scores, atol=1e-3), condition
        assert [point.payload for point in ours] == [point.payload for point in theirs]


def change(client: QdrantClient, which: int, of: tuple) -> None:
    """One of the changes that there are. Ids without a point are refused after the others changed."""
    some, condition, fresh, step = of
    if which == 0:
        client.upsert("goods", fresh)
    elif which == 1:
        client.delete("goods", points_selector=some)
    elif which == 2:
        client.set_payload("goods", {"city": f"c{step}", "new": {"step": step}}, some)
    elif which == 3:
        client.overwrite_payload("goods", {"stock": step}, points=some)
    elif which == 4:
        client.delete_payload("goods", ["city", "new"], points=some)
    elif which == 5:
        client.clear_payload("goods", points_selector=some)
    else:
        client.set_payload("goods", {"sold": True}, points=condition)


def test_changes_leave_what_they_leave_in_the_clients_own_store(
    served: QdrantClient,
) -> None:
    clients = both(served, models.Distance.COSINE)
    rng = np.random.default_rng(SEED + 2)
    for step in range(16):
        some = [int(one) for one in rng.choice(ROWS, size=20) if one % 10]
        condition = FILTERS[int(rng.integers(len(FILTERS)))]
        which = rng.integers(7)
        fresh = points(rng, list(some))
        missed = [False, False]
        for at, client in enumerate(clients):
            try:
                change(client, int(which), (some, condition, fresh, step))
            except (KeyError, UnexpectedResponse, grpc.RpcError) as error:
                missed[at] = is_missing(error)
        assert missed[0] == missed[1], f"step {step}, seed {SEED + 2}"
        stored = []
        for client in clients:
            records, after = client.scroll(
                "goods", limit=ROWS + 500, with_vectors=False
            )
            assert after is None
            stored.append({str(record.id): record.payload for record in records})
        assert stored[0] == stored[1], f"step {step}, seed {SEED + 2}"
        for condition in FILTERS:
            counts = [
                client.count("goods", count_filter=condition).count
                for client in clients
            ]
            assert counts[0] == counts[1], f"step {step}, {condition}"


def test_pages_batches_and_collections(served: QdrantClient) -> None:
    clients = both(served, models.Distance.COSINE)
    seen: list[models.ExtendedPointId] = []
    offset = None
    while True:
        records, offset = served.scroll(
            "goods", limit=333, offset=offset, with_payload=False
        )
        seen += ids_of(records)
        if offset is None:
            break
    assert len(seen) == len(set(seen)) == ROWS
    read = [
        client.retrieve("goods", [1, 7, 99_999], with_vectors=True)
        for client in clients
    ]
    assert ids_of(read[0]) == ids_of(read[1]) == [1, 7]
    assert np.allclose(read[0][0].vector, read[1][0].vector, atol=1e-5)
    requests = [
        models.QueryRequest(query=one, limit=3, with_payload=["city"]) for one in (1, 7)
    ]
    found = [client.query_batch_points("goods", requests) for client in clients]
    assert [ids_of(one.points) for one in found[0]] == [
        ids_of(one.points) for one in found[1]
    ]
    served.batch_update_points(
        "goods",
        [
            models.DeleteOperation(delete=models.PointIdsList(points=[1])),
            models.SetPayloadOperation(
                set_payload=models.SetPayload(payload={"city": "Rome"}, points=[2])
            ),
        ],
    )
    assert served.count("goods").count == ROWS - 1
    served.create_payload_index("goods", "made", models.PayloadSchemaType.DATETIME)
    served.set_payload("goods", {"made": "2026-11-25T10:00:00Z"}, points=[2, 3])
    since = models.DatetimeRange(gte="2026-11-25T09:00:00Z")  # type: ignore[arg-type]
    condition = models.Filter(must=[models.FieldCondition(key="made", range=since)])
    assert served.count("goods", count_filter=condition).count == 2
    info = served.get_collection("goods")
    assert (
        info.points_count == ROWS - 1 and info.status == models.CollectionStatus.GREEN
    )
    assert info.payload_schema["city"].data_type == models.PayloadSchemaType.KEYWORD
    assert [one.name for one in served.get_collections().collections] == ["goods"]
    assert served.collection_exists("goods") and not served.collection_exists("others")
    served.delete_collection("goods")
    assert served.get_collections().collections == []


def test_columns_are_uploaded(served: QdrantClient) -> None:
    config = models.VectorParams(size=DIMENSION, distance=models.Distance.DOT)
    served.create_collection("c", vectors_config=config)
    vectors = (
        np.random.default_rng(SEED).normal(size=(1_500, DIMENSION)).astype(np.float32)
    )
    served.upload_collection(
        "c",
        vectors,
        payload=[{"at": at} for at in range(1_500)],
        ids=range(1_500),
        wait=True,
    )
    assert served.count("c").count == 1_500
    best = int(np.argmax(vectors @ vectors[9]))
    found = served.query_points(
        "c", query=vectors[9], limit=1, with_payload=True
    ).points
    assert (found[0].id, found[0].payload) == (best, {"at": best})


def test_refusals_come_as_the_clients_own_errors(served: QdrantClient) -> None:
    invalid = (400, grpc.StatusCode.INVALID_ARGUMENT)
    with refused("there is no collection", 404, grpc.StatusCode.NOT_FOUND):
        served.query_points("none", query=[1.0])
    config = models.VectorParams(size=2, distance=models.Distance.DOT)
    served.create_collection("c", vectors_config=config)
    with refused("there already", 409, grpc.StatusCode.ALREADY_EXISTS):
        served.create_collection("c", vectors_config=config)
    with refused("3 dimensions", *invalid):
        served.upsert("c", [models.PointStruct(id=1, vector=[1.0, 2.0, 3.0])])
    with refused("fusion", *invalid):
        served.query_points("c", query=models.FusionQuery(fusion=models.Fusion.RRF))
    with refused("order_by", *invalid):
        served.scroll("c", order_by="price")
    with refused("without a name", *invalid):
        served.upsert("c", [models.PointStruct(id=1, vector={"image": [1.0, 2.0]})])
    assert served.count("c").count == 0
