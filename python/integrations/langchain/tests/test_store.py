"""What the standard suite does not ask: filters, scores, MMR, persistence, errors."""

import asyncio
import hashlib
import math

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_vstream import VStream

import vstream


class Hashed(Embeddings):
    """A vector is the mean of random vectors of words: texts that share words are near."""

    def embed_query(self, text):
        words = text.split() or [""]
        return np.mean([self._word(word) for word in words], axis=0).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    @staticmethod
    def _word(word):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal(64)


TEXTS = [f"{thing} number {at}" for at in range(200) for thing in ("apple", "boat", "cloud")]
METADATAS = [
    {"thing": text.split()[0], "at": int(text.split()[-1]), "tags": [text.split()[0], "all"]}
    for text in TEXTS
]
IDS = [text.replace(" ", "-") for text in TEXTS]


@pytest.fixture
def store():
    made = VStream(Hashed())
    made.add_texts(TEXTS, METADATAS, ids=IDS)
    yield made
    made.collection.close()


def brute_force(query, k, holds):
    vectors = np.array(Hashed().embed_documents(TEXTS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = np.array(Hashed().embed_query(query), dtype=np.float32)
    distances = 1 - vectors @ (asked / np.linalg.norm(asked))
    order = [at for at in np.argsort(distances) if holds(METADATAS[at])]
    return [(IDS[at], distances[at]) for at in order[:k]]


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ({"thing": "boat"}, lambda m: m["thing"] == "boat"),
        ({"at": {"$gte": 190}}, lambda m: m["at"] >= 190),
        ({"$or": [{"at": 3}, {"at": {"$in": [5, 7]}}]}, lambda m: m["at"] in (3, 5, 7)),
        (
            {"thing": {"$ne": "boat"}, "at": {"$lt": 9}},
            lambda m: m["thing"] != "boat" and m["at"] < 9,
        ),
        ({"must": [{"key": "tags", "match": {"value": "cloud"}}]}, lambda m: "cloud" in m["tags"]),
        (
            "thing = 'apple' AND at BETWEEN 10 AND 20",
            lambda m: m["thing"] == "apple" and 10 <= m["at"] <= 20,
        ),
    ],
)
def test_a_filter_gives_the_nearest_that_match(store, where, holds):
    found = store.similarity_search_with_score("apple number 7", k=5, filter=where)
    expected = brute_force("apple number 7", 5, holds)
    assert [one.id for one, _ in found] == [one for one, _ in expected]
    np.testing.assert_allclose([d for _, d in found], [d for _, d in expected], atol=1e-5)
    assert all(holds(one.metadata) for one, _ in found)


def test_metadata_of_any_shape_comes_back():
    store = VStream(Hashed())
    odd = {"none": None, "deep": {"a": [1, {"b": 2}]}, "mixed": [1, "a"], "year": 2025}
    store.add_documents([Document(id="x", page_content="text", metadata=odd)])
    assert store.get_by_ids(["x"])[0].metadata == odd
    assert store.collection.attributes == {"year": "i64"}


def test_metadata_that_no_attribute_holds_refuses_no_document():
    store = VStream(Hashed())
    odd = {"long": "x" * 5000, "n" * 129: 1, "large": 2**70, "list": ["a"] * 2000, "half": "\ud800"}
    odd |= {"infinite": math.inf, **{f"name {at}": at for at in range(300)}, "year": 2025}
    store.add_texts(["text", "another"], [odd, {"year": 2026, "nan": math.nan}], ids=["x", "y"])
    assert store.get_by_ids(["x"])[0].metadata == odd
    assert math.isnan(store.get_by_ids(["y"])[0].metadata["nan"])
    assert len(store.collection.attributes) == 256
    [found] = store.similarity_search("text", filter={"name 9": 9})
    assert found.id == "x"


@pytest.mark.parametrize(
    ("where", "equal"),
    [
        ({"later": 1}, {"thing": "none"}),
        ({"later": None}, {}),
        ({"later": {"$ne": 1}}, {}),
        ({"later": {"$nin": [1, 2]}, "thing": "boat"}, {"thing": "boat"}),
        ({"later": {"$ne": None}}, {"thing": "none"}),
        ({"later": {"$gte": 1, "$lt": 3}, "thing": "boat"}, {"thing": "none"}),
        ({"later": {"$exists": False}}, {}),
        ({"later": {"$exists": True}}, {"thing": "none"}),
        ({"later": {"$not": {"$gt": 3}}}, {}),
        ({"$or": [{"later": {"$in": [1]}}, {"thing": "boat"}]}, {"thing": "boat"}),
        ({"$not": {"later": 1}}, {}),
        ({"$nor": [{"later": 1}, {"thing": "boat"}]}, {"thing": {"$ne": "boat"}}),
        ({"$and": [{"at": 3}, {"later": {"$ne": 1}}]}, {"at": 3}),
        ({"id": "boat-number-3", "later": {"$any": ["a"]}}, {"thing": "none"}),
        ({"must": [{"key": "later", "match": {"value": 1}}]}, {"thing": "none"}),
        ({"must_not": [{"key": "later", "range": {"gt": 1}}]}, {}),
        ({"must": {"is_null": {"key": "later"}}, "should": []}, {}),
        ({"must": [{"key": "later", "is_empty": False}]}, {"thing": "none"}),
        ({"must": [{"key": "later", "values_count": {"lt": 1}}]}, {}),
        ({"must": [{"key": "later", "match": {"except": [1]}}]}, {"thing": "none"}),
        (
            {"should": [{"is_empty": {"key": "at"}}, {"filter": {"must": [{"has_id": ["a"]}]}}]},
            {"thing": "none"},
        ),
        (
            {
                "min_should": {
                    "conditions": [
                        {"key": "later", "is_null": True},
                        {"must": [{"key": "later", "match": {"any": [1]}}], "should": None},
                        {"key": "thing", "match": {"value": "boat"}},
                    ],
                    "min_count": 2,
                }
            },
            {"thing": "boat"},
        ),
    ],
)
def test_metadata_that_no_document_has_is_missing(store, where, equal):
    """A store without documents, or of older ones, refused a filter on what comes later."""
    ids = [one.id for one in store.similarity_search("boat number 3", 600, filter=where)]
    assert ids == [one.id for one in store.similarity_search("boat number 3", 600, filter=equal)]
    store.delete(filter=where)
    assert len(store.collection) == 600 - len(ids)
    assert VStream(Hashed()).similarity_search("boat", filter=where) == []


def test_a_filter_that_cannot_be_is_refused(store):
    for where in [{"at": {"$near": 1}}, {"$xor": []}, {"must": [{"key": 7}]}, {"thing": 7}, "at >"]:
        with pytest.raises(vstream.InvalidInput):
            store.similarity_search("boat", filter=where)
    with pytest.raises(vstream.InvalidInput, match="no attribute 'later'"):
        store.similarity_search("boat", filter="later = 1")


def test_relevance_is_between_0_and_1_and_falls(store):
    found = store.similarity_search_with_relevance_scores("boat number 3", k=20)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1.0, abs=1e-5)
    assert all(0 <= score <= 1 for score in scores)


def closeness(rows):
    """Return the mean cosine of all pairs."""
    vectors = np.array(Hashed().embed_documents([one.page_content for one in rows]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors @ vectors.T)[np.triu_indices(len(rows), 1)].mean()


def test_diverse_answers_differ_more_than_the_nearest(store):
    nearest = store.similarity_search("apple number 7", k=4)
    diverse = store.max_marginal_relevance_search(
        "apple number 7", k=4, fetch_k=60, lambda_mult=0.1
    )
    assert diverse[0].id == nearest[0].id
    assert len({one.id for one in diverse}) == 4
    assert closeness(diverse) < closeness(nearest)
    filtered = store.max_marginal_relevance_search("apple", k=3, filter={"thing": "cloud"})
    assert {one.metadata["thing"] for one in filtered} == {"cloud"}


def test_a_directory_is_opened_again(tmp_path):
    first = VStream(Hashed(), path=tmp_path / "there")
    first.add_texts(["kept text"], [{"year": 1}], ids=["k"])
    first.collection.close()
    again = VStream(Hashed(), path=tmp_path / "there")
    assert again.similarity_search("kept", k=1, filter={"year": 1})[0].page_content == "kept text"
    again.collection.close()


def test_delete_by_filter(store):
    store.delete(filter={"thing": "boat"})
    assert len(store.collection) == 400
    with pytest.raises(ValueError, match="pass ids or filter"):
        store.delete()


def test_a_value_of_another_type_changes_nothing(store):
    with pytest.raises(vstream.InvalidInput, match="'at'"):
        store.add_texts(["new"], [{"at": "seven"}], ids=["new"])
    assert store.get_by_ids(["new"]) == []


def test_searches_and_writes_at_once(store):
    async def all_at_once():
        adds = [store.aadd_texts([f"fresh text {at}"], ids=[f"fresh-{at}"]) for at in range(20)]
        searches = [store.asimilarity_search("boat number 3", k=3) for _ in range(20)]
        done = await asyncio.gather(*adds, *searches)
        found = await asyncio.gather(
            *(store.asimilarity_search(f"fresh text {at}", k=1) for at in range(20))
        )
        return done, found

    _, found = asyncio.run(all_at_once())
    assert [one[0].id for one in found] == [f"fresh-{at}" for at in range(20)]


def test_a_store_over_one_group_sees_no_other():
    kinds = {"thing": "keyword", "at": "i64", "tags": "keywords"}
    users = vstream.GroupCollection.create(64, "cosine", id="string", attributes=kinds)
    ann, bob = (VStream(Hashed(), collection=users.group(name)) for name in ("ann", "bob"))
    ann.add_texts(TEXTS[:300], METADATAS[:300], ids=IDS[:300])
    bob.add_texts(TEXTS[300:], METADATAS[300:], ids=IDS[300:])
    found = bob.similarity_search("apple number 3", k=20, filter={"thing": "apple"})
    assert {one.id for one in found} <= set(IDS[300:])
    assert len(found) == 20
    assert bob.get_by_ids(IDS[:2]) == []
    assert ann.similarity_search("apple number 3", k=1)[0].id == "apple-number-3"
    ann.delete(IDS[:300])
    assert ann.similarity_search("apple number 3", k=5) == []
    assert len(bob.similarity_search("apple", k=300)) == 300
    with pytest.raises(vstream.InvalidInput, match="no attribute"):
        ann.add_texts(["new"], [{"unknown": 1}], ids=["new"])
