"""The store against LlamaIndex's own evaluator of filters, and by hand."""

import asyncio
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn
from llama_index_vstream import VStreamVectorStore

import vstream

DIMENSION = 64
COLORS = ["red", "green", "blue", "dark red", ""]
TAGS = ["new", "sale", "last"]
RNG = np.random.default_rng(11)


def node(at):
    metadata = {}
    if at % 7:
        metadata["color"] = COLORS[at % len(COLORS)]
    if at % 5:
        metadata["stock"] = at % 13 - 3
    if at % 3:
        metadata["price"] = (at % 40) / 4
    if at % 4:
        metadata["tags"] = TAGS[: at % 4]
    related = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"document-{at // 10}")}
    vector = RNG.standard_normal(DIMENSION).tolist()
    return TextNode(
        id_=f"node-{at}",
        text=f"text {at}",
        metadata=metadata,
        embedding=vector,
        relationships=related,
    )


NODES = [node(at) for at in range(600)]
BY_ID = {one.node_id: one for one in NODES}


@pytest.fixture(scope="module")
def store():
    made = VStreamVectorStore(dimension=DIMENSION)
    made.add(NODES)
    return made


texts = st.sampled_from(["red", "green", "purple", "", "dark"])
FAR = [math.inf, -math.inf, math.nan, 2**63, -(2**63) - 1, 2.0**63, 10**400, -(10**400), 1e308]
far = st.sampled_from(FAR)
floats = st.one_of(
    st.sampled_from([0.5, 3.0]), *(st.just(one) for one in FAR if type(one) is float)
)
wholes = st.one_of(st.integers(-4, 12), *(st.just(one) for one in FAR if type(one) is int))
numbers = st.one_of(st.integers(-4, 12), st.sampled_from([0.5, 2.25, 9.75]), far)
operators = FilterOperator


def one_filter():
    equal = st.sampled_from([operators.EQ, operators.NE])
    among = st.sampled_from([operators.IN, operators.NIN])
    order = st.sampled_from([operators.GT, operators.GTE, operators.LT, operators.LTE])
    inside = st.sampled_from(
        [operators.TEXT_MATCH, operators.TEXT_MATCH_INSENSITIVE, operators.CONTAINS]
    )
    lists = st.sampled_from([operators.ANY, operators.ALL])

    def made(key, operator, value):
        return st.builds(MetadataFilter, key=key, operator=operator, value=value)

    names = st.sampled_from(["stock", "price"])
    return st.one_of(
        made(st.just("color"), equal, texts),
        made(st.just("color"), among, st.lists(texts, min_size=1, max_size=3)),
        made(st.just("color"), inside, texts),
        made(names, equal, numbers),
        made(names, order, numbers),
        made(st.just("stock"), among, st.lists(st.integers(-4, 12), min_size=1, max_size=4)),
        made(names, among, st.lists(floats, min_size=1, max_size=4)),
        made(names, among, st.lists(wholes, min_size=1, max_size=4)),
        made(st.just("tags"), lists, st.lists(st.sampled_from(TAGS), min_size=1, max_size=3)),
        made(st.just("tags"), st.just(operators.CONTAINS), st.sampled_from(TAGS)),
        made(
            st.sampled_from(["color", "stock", "price", "tags", "unknown"]),
            st.just(operators.IS_EMPTY),
            st.none(),
        ),
        made(st.just("unknown"), equal, numbers),
    )


trees = st.builds(
    MetadataFilters,
    filters=st.lists(one_filter(), min_size=1, max_size=4),
    condition=st.sampled_from([FilterCondition.AND, FilterCondition.OR]),
)


@settings(max_examples=300, deadline=None)
@given(filters=trees)
def test_a_filter_holds_for_the_nodes_for_which_its_own_evaluator_says_so(store, filters):
    holds = build_metadata_filter_fn(lambda one: BY_ID[one].metadata, filters)
    expected = {one for one in BY_ID if holds(one)}
    assert {one.node_id for one in store.get_nodes(filters=filters)} == expected
    query = VectorStoreQuery(
        query_embedding=NODES[0].embedding, similarity_top_k=600, filters=filters
    )
    assert set(store.query(query).ids) == expected


def plain(at, **metadata):
    related = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="document")}
    vector = [float(at), 1.0]
    return TextNode(id_=f"n{at}", metadata=metadata, embedding=vector, relationships=related)


def ids_of(store, key, operator, value):
    filters = MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])
    return {one.node_id for one in store.get_nodes(filters=filters)}


def test_metadata_that_no_attribute_holds_refuses_no_node():
    store = VStreamVectorStore(dimension=2)
    odd = {"long": "x" * 5000, "n" * 129: 1, "large": 2**70, "list": ["a"] * 2000, "half": "\ud800"}
    odd |= {f"name {at}": at for at in range(300)} | {"ref_doc_id": "x"}
    odd |= {f"text {at}": "x" * 4000 for at in range(20)}
    # LlamaIndex itself keeps no such number.
    store.add([plain(0, **odd, year=2025), plain(1, year=2026, infinite=math.inf, nan=math.nan)])
    assert store.get_nodes(["n0"])[0].metadata == {**odd, "year": 2025}
    assert ids_of(store, "name 9", operators.EQ, 9) == {"n0"}
    assert len(store.client.attributes) == 256
    store.delete("document")
    assert store.get_nodes() == []


def test_an_id_of_a_document_that_delete_would_not_find_is_refused():
    store = VStreamVectorStore(dimension=2)
    node = plain(0)
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="x" * 5000)
    with pytest.raises(vstream.InvalidInput, match="ref_doc_id"):
        store.add([node])


def test_a_collection_that_was_given_has_no_document_before_there_are_nodes():
    collection = vstream.Collection.create(2, "cosine", id="string", open_attributes=True)
    store = VStreamVectorStore(collection)
    store.delete("document")
    assert store.query(VectorStoreQuery([0.0, 1.0], doc_ids=["document"])).ids == []
    store.add([plain(0)])
    store.delete("document")
    assert store.get_nodes() == []


def test_many_numbers_are_one_condition():
    store = VStreamVectorStore(dimension=2)
    store.add([plain(at, price=at + 0.5) for at in range(9)])
    wanted = [at + 0.5 for at in range(5, 5000)]
    assert ids_of(store, "price", operators.IN, wanted) == {f"n{at}" for at in range(5, 9)}


@pytest.mark.parametrize(("texts", "length"), [(66_000, 8), (3000, 500)])
def test_more_texts_than_a_filter_takes_are_refused_by_name(texts, length):
    store = VStreamVectorStore(dimension=2)
    values = [f"{at:0{length - 1}}e" for at in range(texts)]
    store.client.upsert(
        [f"n{at}" for at in range(texts)], np.ones((texts, 2)), {"title": values}, [b"{}"] * texts
    )
    with pytest.raises(vstream.InvalidInput, match="text_match finds more texts of 'title'"):
        ids_of(store, "title", operators.TEXT_MATCH, "e")
    with pytest.raises(vstream.InvalidInput, match="'title'"):
        store.query(
            VectorStoreQuery(
                [1.0, 1.0],
                filters=MetadataFilters(
                    filters=[
                        MetadataFilter(key="title", operator=operators.CONTAINS, value="0"),
                        MetadataFilter(key="title", operator=operators.EQ, value="x"),
                    ]
                ),
            )
        )


def nearest(vector, ids, k):
    matrix = np.array([BY_ID[one].embedding for one in ids], dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    asked = np.array(vector, dtype=np.float32)
    return [ids[at] for at in np.argsort(-(matrix @ asked))[:k]]


def test_the_nearest_of_some_documents(store):
    wanted = [f"document-{at}" for at in range(5)]
    query = VectorStoreQuery(NODES[77].embedding, similarity_top_k=5, doc_ids=wanted)
    found = store.query(query)
    assert found.ids == nearest(NODES[77].embedding, [f"node-{at}" for at in range(50)], 5)
    assert found.nodes[0].text == f"text {found.ids[0].split('-')[1]}"
    assert found.similarities == sorted(found.similarities, reverse=True)


def test_nodes_come_back_whole(store):
    got = store.get_nodes(["node-8", "missing", "node-3"])
    assert [one.node_id for one in got] == ["node-8", "node-3"]
    assert got[0].metadata == BY_ID["node-8"].metadata
    assert got[0].ref_doc_id == "document-0"


def test_a_negation_of_several(store):
    filters = MetadataFilters(
        filters=[MetadataFilter(key="stock", value=3), MetadataFilter(key="color", value="red")],
        condition=FilterCondition.NOT,
    )
    for one in store.get_nodes(filters=filters):
        assert one.metadata.get("stock") != 3
        assert one.metadata.get("color") != "red"


def test_diverse_answers(store):
    query = VectorStoreQuery(
        NODES[3].embedding, similarity_top_k=4, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.3
    )
    found = store.query(query)
    assert found.ids[0] == "node-3"
    assert len(set(found.ids)) == 4


def test_deletes_by_document_by_id_and_by_filter(tmp_path):
    store = VStreamVectorStore(dimension=DIMENSION, path=tmp_path / "nodes")
    assert store.add(NODES) == [one.node_id for one in NODES]
    store.delete("document-2")
    store.delete_nodes(["node-0", "missing"])
    red = MetadataFilters(filters=[MetadataFilter(key="color", value="red")])
    store.delete_nodes(filters=red)
    left = {
        one.node_id
        for one in NODES
        if one.ref_doc_id != "document-2"
        and one.node_id != "node-0"
        and one.metadata.get("color") != "red"
    }
    assert {one.node_id for one in store.get_nodes()} == left
    store.client.close()
    again = VStreamVectorStore(path=tmp_path / "nodes")
    assert {one.node_id for one in again.get_nodes()} == left
    again.clear()
    assert again.get_nodes() == []
    again.client.close()


def test_what_is_not_supported_says_so(store):
    with pytest.raises(NotImplementedError, match="sparse"):
        store.query(VectorStoreQuery(NODES[0].embedding, mode=VectorStoreQueryMode.SPARSE))
    later = MetadataFilters(
        filters=[MetadataFilter(key="color", value="red", operator=FilterOperator.GT)]
    )
    with pytest.raises(ValueError, match="order"):
        store.get_nodes(filters=later)


def test_async_twins(store):
    async def ask():
        query = VectorStoreQuery(NODES[5].embedding, similarity_top_k=1)
        return await asyncio.gather(store.aquery(query), store.aget_nodes(["node-5"]))

    found, nodes = asyncio.run(ask())
    assert found.ids == ["node-5"]
    assert nodes[0].node_id == "node-5"
