"""Rows have columns of their own: no attribute takes their place in answers."""

import json
from pathlib import Path

import numpy as np
import pytest

from vstream import Collection, GroupCollection, InvalidInput, _native, _schema, rag

MODELS = Path(__file__).parents[2] / "crates/embed/tests/fixtures"
OWN = list(_schema.ROW_COLUMNS)


@pytest.mark.parametrize("name", OWN)
def test_names_of_own_columns_are_refused(name, tmp_path):
    """An attribute called `id` stood in answers where the id of the row should be."""
    refused = pytest.raises(InvalidInput, match=f"'{name}'.*choose a name")
    for create in (Collection.create, GroupCollection.create):
        with refused:
            create(1, path=tmp_path / "c", attributes={"price": "f64", name: "f64"})
    with refused:
        Collection.create(1, attributes={name: "f64"}, groups="shared")
    with refused:
        Collection.create(1).add_attribute(name, "f64")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OWN)
def test_names_that_data_brings_are_filters_alone(name):
    """Metadata of others is often called so, and is asked for in filters."""
    c = Collection.create(1, open_attributes=True)
    c.upsert([1, 2], [[1], [2]], {name: [70, 80]}, [b"one", b"two"])
    found = c.search([0], k=2, where={"must": [{"key": name, "match": {"value": 80}}]})
    assert found.ids.tolist() == [2]
    assert next(found.rows())["id"] == 2
    assert c.get([2]).attributes[name] == [80]


def test_groups_are_opened_with_other_names(tmp_path):
    GroupCollection.create(1, path=tmp_path / "mail").close()
    with pytest.raises(InvalidInput, match="'score'"):
        GroupCollection.open(tmp_path / "mail", attributes={"stars": "i64", "score": "f64"})
    with GroupCollection.open(tmp_path / "mail", attributes={"stars": "i64"}) as mail:
        assert mail.attributes == {"stars": "i64"}


def test_groups_that_have_such_an_attribute_are_opened_with_it(tmp_path):
    listed = [{"name": "score", "type": "f64"}]
    made = {"id": "u64", "attributes": listed, "open": False, "groups": {"mode": "isolated"}}
    kind = ("l2", "f32", json.dumps(made))
    _native.Groups.create(1, kind, (str(tmp_path / "mail"), "sync"), (None, None)).close()
    wanted = {"score": "f64", "stars": "i64"}
    with GroupCollection.open(tmp_path / "mail", attributes=wanted) as mail:
        assert mail.attributes == wanted


def test_documents_refuse_the_names_before_the_directory_keeps_them(tmp_path):
    model = rag.Model.open(MODELS / "words")
    for path in (None, tmp_path / "d"):
        with pytest.raises(InvalidInput, match="'score'"):
            rag.Documents.open(model, path, attributes={"score": "f64"})
    rag.Documents.open(model, tmp_path / "d", attributes={"stars": "f64"}).close()


@pytest.fixture
def elsewhere():
    """A collection with all these names as attributes, as a server or Rust may have made it."""
    c = Collection.create(2)
    for name in OWN:
        c._native.add_attribute(name, "i64")
        c.add_attribute(name, "i64")
    values = {name: [70 + at, 80 + at] for at, name in enumerate(OWN)}
    c.upsert([1, 2], [[0, 0], [1, 1]], values, [b"one", b"two"])
    return c


def test_own_columns_come_first_in_answers(elsewhere):
    found = elsewhere.search([0, 0], k=2, with_=OWN)
    own = {"id": 1, "distance": 0.0, "score": 72, "vector": 73, "payload": b"one"}
    assert next(found.rows()) == own
    assert found.columns()["id"].tolist() == [1, 2]
    assert found.columns()["distance"].tolist() == [0.0, 2.0]
    # Beside the columns an attribute is always under its name.
    assert found.attributes["id"] == [70, 80]
    assert found.attributes["distance"] == [71, 81]
    assert [row["id"] for row in elsewhere.search([0, 0], group_by=("id", 1)).rows()] == [1, 2]


def test_own_columns_come_first_in_rows(elsewhere):
    rows = elsewhere.get([1, 2], vectors=True)
    [one, two] = rows
    assert (one["id"], two["id"], one["payload"]) == (1, 2, b"one")
    np.testing.assert_array_equal(two["vector"], [1, 1])
    assert rows.attributes["payload"] == [74, 84]


@pytest.mark.parametrize("library", ["arrow", "pandas", "polars"])
def test_own_columns_come_first_in_tables(elsewhere, library):
    pytest.importorskip({"arrow": "pyarrow"}.get(library, library))
    found = elsewhere.search([0, 0], k=2, with_=OWN)
    table = getattr(found, f"to_{library}")()
    names = table.column_names if library == "arrow" else list(table.columns)
    assert sorted(names) == sorted(OWN)
    assert list(map(int, table["id"].to_numpy())) == [1, 2]
    assert list(map(float, table["distance"].to_numpy())) == [0.0, 2.0]


def test_a_score_is_the_score_of_the_answer():
    ann = GroupCollection.create(1, attributes={"subject": "text"}).group("ann")
    ann.upsert([1, 2], [[1], [2]], {"subject": ["an invoice", "lunch"]})
    found = ann.search(text="invoice", with_=["subject"])
    found.attributes["score"] = [7]
    assert next(found.rows())["score"] == found.scores[0]
