"""Texts that have no UTF-8, such as names of files as `os.fsdecode` may give them, are refused."""

import os
from pathlib import Path

import numpy as np
import pytest

import vstream
from vstream import Collection, GroupCollection, InvalidInput, rag

HALF = os.fsdecode(b"caf\xe9.txt")


def collection():
    c = Collection.create(1, id="string", attributes={"color": "keyword", "tags": "keywords"})
    c.upsert("a", [1], {"color": "red"})
    return c


CALLS = {
    "id": lambda c: c.upsert(HALF, [1]),
    "ids": lambda c: c.upsert(["b", HALF], [[1], [1]]),
    "ids in an array": lambda c: c.upsert(np.array(["b", HALF]), [[1], [1]]),
    "ids of a table": lambda c: c.upsert({"id": ["b", HALF], "vector": [[1], [1]]}),
    "keyword": lambda c: c.upsert("a", [1], {"color": HALF}),
    "keywords": lambda c: c.upsert("a", [1], {"tags": ["x", HALF]}),
    "name of an attribute": lambda c: c.upsert("a", [1], {HALF: 1}),
    "payload": lambda c: c.upsert("a", [1], payload=HALF),
    "payloads": lambda c: c.upsert(["a", "b"], [[1], [1]], payload=["x", HALF]),
    "update": lambda c: c.update("a", {"color": HALF}),
    "update of an id": lambda c: c.update(HALF, {"color": "blue"}),
    "delete": lambda c: c.delete(HALF),
    "delete of several": lambda c: c.delete(["a", HALF]),
    "get": lambda c: c.get(HALF),
    "get of several": lambda c: c.get(["a", HALF]),
    "condition in SQL": lambda c: c.count(f"color = '{HALF}'"),
    "parameter": lambda c: c.count("color = ?", parameters=[HALF]),
    "condition": lambda c: c.count({"color": HALF}),
    "name in a condition": lambda c: c.count({HALF: 1}),
    "condition as Qdrant has it": lambda c: c.count({"must": [{"has_id": [HALF]}]}),
    "condition of a delete": lambda c: c.delete(where=f"color <> '{HALF}'"),
    "group": lambda c: c.count(group=HALF),
    "end of a page": lambda c: c.scroll(after=HALF),
    "with_": lambda c: c.search([1], with_=[HALF]),
    "with_ of a get": lambda c: c.get("a", [HALF]),
    "diversify": lambda c: c.search([1], diversify=(HALF, 1)),
    "group_by": lambda c: c.search([1], group_by=(HALF, 1)),
    "add_attribute": lambda c: c.add_attribute(HALF, "f64"),
    "type": lambda c: c.add_attribute("more", HALF),
}


@pytest.mark.parametrize("call", CALLS)
def test_half_a_surrogate_pair_is_refused(call):
    """Most of these raised TypeError or UnicodeEncodeError."""
    c = collection()
    with pytest.raises(InvalidInput):
        CALLS[call](c)
    assert [row["color"] for row in c.scroll()[0]] == ["red"]
    assert c.attributes == {"color": "keyword", "tags": "keywords"}


@pytest.mark.parametrize(
    "given",
    [
        {"metric": HALF},
        {"element": HALF},
        {"id": HALF},
        {"attributes": {HALF: "f64"}},
        {"attributes": {"a": HALF}},
        {"durability": HALF},
        {"groups": HALF},
        {"segments": HALF},
        {"deletes": HALF},
    ],
    ids=ascii,
)
def test_settings_with_half_a_surrogate_pair_are_refused(given):
    with pytest.raises(InvalidInput):
        Collection.create(1, **given)


def test_groups_refuse_half_a_surrogate_pair():
    mail = GroupCollection.create(1, attributes={"subject": "text", "sent": "timestamp"})
    ann = mail.group("ann")
    ann.upsert(1, [1], {"subject": "invoice"})
    for call in (
        lambda: mail.group(HALF),
        lambda: ann.upsert(1, [1], {"subject": HALF}),
        lambda: ann.search(text=HALF),
        lambda: ann.search(text="invoice", language=HALF),
        lambda: ann.search([1], rank=f"attribute({HALF})"),
        lambda: ann.search([1], rank="closeness", rank_parameters={HALF: 1}),
    ):
        with pytest.raises(InvalidInput):
            call()
    shared = Collection.create(1, groups="shared")
    for name in (HALF, [HALF]):
        with pytest.raises(InvalidInput):
            shared.upsert([1], [[1]], group=name)
    with pytest.raises(InvalidInput):
        shared.search([1], group=HALF)


def test_documents_refuse_half_a_surrogate_pair(tmp_path):
    """The directory kept such a write as begun, and refused every later one."""
    with pytest.raises(InvalidInput):
        rag.split(HALF)
    model = rag.Model.open(Path(__file__).parents[2] / "crates/embed/tests/fixtures/words")
    with rag.Documents.open(model, tmp_path / "d", attributes={"by": "keyword"}) as documents:
        for text, given in [(HALF, {}), ("Peace prevails.", {"by": HALF})]:
            with pytest.raises(InvalidInput, match="UTF-8"):
                documents.upsert("a", text, given)
        assert documents.upsert("a", "Peace prevails.", {"by": "ann"}).embedded == 1


@pytest.mark.parametrize("after", [1.5, 2**70, -(2**70), True, [1], b"a"])
def test_what_is_no_end_of_a_page_is_refused(after):
    c = Collection.create(1)
    c.upsert([1, 2], [[1], [2]])
    with pytest.raises(InvalidInput, match="after"):
        c.scroll(after=after)
    assert c.scroll(after=np.uint8(1))[0].ids.tolist() == [2]
    with pytest.raises(InvalidInput):
        c.scroll(after="a")


def test_a_path_may_be_any_name_of_a_file(tmp_path):
    with Collection.create(1, path=tmp_path / HALF) as c:
        c.upsert(1, [1])
    assert vstream.Collection.exists(tmp_path / HALF)


def test_texts_beyond_ascii_are_taken():
    c = Collection.create(1, id="string", attributes={"color": "keyword"})
    c.upsert(["ß", "😀"], [[1], [2]], {"color": ["grün", "🎨"]}, ["é", "😀"])
    assert [row["payload"].decode() for row in c.get(["ß", "😀"])] == ["é", "😀"]
    assert c.count("color = 'grün'") == 1
