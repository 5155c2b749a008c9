"""Rows with attributes, payloads and string ids, against a dictionary of rows."""

import copy
import datetime
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vstream

DIMENSION = 64
ROWS = 3000
ATTRIBUTES = {
    "color": "keyword",
    "tags": "keywords",
    "stock": "i64",
    "price": "f64",
    "new": "bool",
    "at": "timestamp",
}
COLORS = ["red", "green", "blue", "dark blue", "grün", ""]
TAGS = ["sale", "last", "gift", "big"]
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def rows_of(rng, count):
    def maybe(value):
        return None if rng.random() < 0.15 else value

    return [
        {
            "color": maybe(COLORS[rng.integers(len(COLORS))]),
            "tags": maybe([tag for tag in TAGS if rng.random() < 0.3]),
            "stock": maybe(int(rng.integers(-5, 20))),
            "price": maybe(float(rng.integers(0, 400)) / 4),
            "new": maybe(bool(rng.integers(2))),
            "at": maybe(START + datetime.timedelta(hours=int(rng.integers(0, 500)))),
        }
        for _ in range(count)
    ]


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in ATTRIBUTES}


class Shop:
    """A collection and the rows that it should have."""

    def __init__(self, collection, rng):
        self.collection = collection
        self.vectors = rng.standard_normal((ROWS, DIMENSION), dtype=np.float32)
        self.rows = rows_of(rng, ROWS)
        self.ids = np.arange(ROWS) * 7 + 3
        payloads = [{"number": int(one)} for one in self.ids]
        collection.upsert(self.ids, self.vectors, columns_of(self.rows), payloads)

    def matching(self, holds):
        return [at for at, row in enumerate(self.rows) if holds(row)]

    def nearest(self, query, k, holds):
        at = np.array(self.matching(holds), dtype=int)
        distances = ((self.vectors[at] - query) ** 2).sum(axis=1)
        return self.ids[at[np.argsort(distances, kind="stable")[:k]]].tolist()


@pytest.fixture(scope="module", params=["memory", "disk"])
def shop(request, tmp_path_factory):
    place = {}
    if request.param == "disk":
        place = {"path": tmp_path_factory.mktemp("shop") / "rows", "memory": 1 << 20}
    with vstream.Collection.create(DIMENSION, attributes=ATTRIBUTES, **place) as collection:
        yield Shop(collection, np.random.default_rng(5))


def some(test):
    """Return a condition that does not hold for a missing value."""
    return lambda value: value is not None and test(value)


# A condition as a dictionary, and the same in Python.
def one_condition():
    def on(name, form, test):
        return ({name: form}, lambda row: some(test)(row[name]))

    colors, stocks = st.sampled_from([*COLORS, "none"]), st.integers(-6, 21)
    prices = st.sampled_from([0.0, 0.25, 10.0, 50.5, 99.75, 200.0])
    tags = st.lists(st.sampled_from([*TAGS, "none"]), min_size=1, max_size=3)
    hours = st.integers(0, 500).map(lambda hour: START + datetime.timedelta(hours=hour))
    return st.one_of(
        colors.map(lambda c: on("color", c, lambda v: v == c)),
        colors.map(lambda c: ({"color": {"$ne": c}}, lambda row: row["color"] != c)),
        st.lists(colors, min_size=1, max_size=3).map(
            lambda c: on("color", {"$in": c}, lambda v: v in c)
        ),
        st.lists(colors, min_size=1, max_size=3).map(
            lambda c: ({"color": {"$nin": c}}, lambda row: row["color"] not in c)
        ),
        st.sampled_from(["", "d", "dark ", "gr", "grü"]).map(
            lambda p: on("color", {"$prefix": p}, lambda v: v.startswith(p))
        ),
        stocks.map(lambda n: on("stock", n, lambda v: v == n)),
        stocks.map(lambda n: on("stock", {"$gt": n}, lambda v: v > n)),
        st.tuples(stocks, stocks).map(
            lambda n: on("stock", {"$gte": n[0], "$lt": n[1]}, lambda v: n[0] <= v < n[1])
        ),
        prices.map(lambda p: on("price", {"$lte": p}, lambda v: v <= p)),
        prices.map(lambda p: on("price", p, lambda v: v == p)),
        st.booleans().map(lambda b: on("new", b, lambda v: v is b)),
        hours.map(lambda t: on("at", {"$gte": t}, lambda v: v >= t)),
        tags.map(lambda t: on("tags", {"$any": t}, lambda v: any(one in v for one in t))),
        tags.map(lambda t: on("tags", {"$all": t}, lambda v: all(one in v for one in t))),
        st.sampled_from(list(ATTRIBUTES)).flatmap(
            lambda name: st.booleans().map(
                lambda b: ({name: {"$exists": b}}, lambda row: (row[name] is not None) is b)
            )
        ),
    )


def conditions():
    def joined(parts):
        both = st.lists(parts, min_size=1, max_size=3)
        return st.one_of(
            both.map(
                lambda p: (
                    {"$and": [form for form, _ in p]},
                    lambda row: all(test(row) for _, test in p),
                )
            ),
            both.map(
                lambda p: (
                    {"$or": [form for form, _ in p]},
                    lambda row: any(test(row) for _, test in p),
                )
            ),
            parts.map(lambda p: ({"$not": p[0]}, lambda row: not p[1](row))),
        )

    return st.recursive(one_condition(), joined, max_leaves=6)


@settings(max_examples=150)
@given(condition=conditions(), seed=st.integers(0, 2**32 - 1))
def test_a_search_finds_the_nearest_rows_that_match(shop, condition, seed):
    where, holds = condition
    query = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    matching = shop.matching(holds)
    assert shop.collection.count(where) == len(matching)
    answer = shop.collection.search(query, 10, exact=True, where=where)
    assert answer.ids.tolist() == shop.nearest(query, 10, holds)
    found = shop.collection.search(query, 10, where=where).ids.tolist()
    assert set(found) <= set(shop.ids[matching].tolist())
    assert len(found) == min(10, len(matching))


def test_recall_holds_for_filtered_queries(shop):
    rng = np.random.default_rng(9)
    cases = [
        ({"new": True}, lambda row: row["new"] is True),
        ({"color": "red"}, lambda row: row["color"] == "red"),
        ({"stock": 3}, lambda row: row["stock"] == 3),
        ({"stock": 3, "color": "blue"}, lambda row: row["stock"] == 3 and row["color"] == "blue"),
    ]
    for where, holds in cases:
        found = wanted = 0
        for _ in range(50):
            query = rng.standard_normal(DIMENSION, dtype=np.float32)
            truth = set(shop.nearest(query, 10, holds))
            wanted += len(truth)
            found += len(truth & set(shop.collection.search(query, 10, where=where).ids.tolist()))
        assert found / wanted >= 0.93, where


def test_three_forms_of_one_condition_agree(shop):
    forms = [
        {"color": "red", "stock": {"$gte": 3}, "tags": {"$any": ["sale", "gift"]}},
        {
            "must": [
                {"key": "color", "match": {"value": "red"}},
                {"key": "stock", "range": {"gte": 3}},
                {"key": "tags", "match": {"any": ["sale", "gift"]}},
            ]
        },
    ]
    sql = "color = ? AND stock >= ? AND has_any(tags, 'sale', 'gift')"
    counts = [shop.collection.count(form) for form in forms]
    counts.append(shop.collection.count(sql, parameters=["red", 3]))
    assert counts[0] > 10
    assert len(set(counts)) == 1


def test_rows_come_back_as_they_were(shop):
    asked = [*shop.ids[[5, 1, 2900]].tolist(), 999_999]
    rows = shop.collection.get(asked, vectors=True)
    assert rows.ids.tolist() == asked[:3]
    for at, row in zip([5, 1, 2900], rows, strict=True):
        assert {name: row[name] for name in ATTRIBUTES} == shop.rows[at]
        np.testing.assert_array_equal(row["vector"], shop.vectors[at])
    assert [one["number"] for one in rows.json()] == asked[:3]


def test_an_answer_carries_what_was_asked_for(shop):
    found = shop.collection.search(shop.vectors[0], 5, with_=["price", "payload"])
    by_id = dict(zip(shop.ids.tolist(), shop.rows, strict=True))
    assert found.attributes == {"price": [by_id[one]["price"] for one in found.ids.tolist()]}
    assert [one["number"] for one in found.json()] == found.ids.tolist()
    assert next(found.rows())["distance"] == 0.0


def test_pages_hold_every_row_once_in_the_order_of_ids(shop):
    seen, after = [], None
    while True:
        page, after = shop.collection.scroll({"new": True}, limit=333, after=after, with_=["new"])
        seen += page.ids.tolist()
        assert page.attributes["new"] == [True] * len(page)
        if after is None:
            break
    assert seen == sorted(shop.ids[shop.matching(lambda row: row["new"] is True)].tolist())


def test_a_radius_ends_an_answer(shop):
    distances = shop.collection.search(shop.vectors[7], 20, exact=True).distances
    radius = float(distances[10])
    within = shop.collection.search(shop.vectors[7], 20, exact=True, radius=radius)
    assert within.distances.tolist() == distances[:11].tolist()


@pytest.fixture
def small(tmp_path):
    made = vstream.Collection.create(
        4, id="string", attributes={"price": "f64", "stock": "i64"}, path=tmp_path / "small"
    )
    yield made
    made.close()


def test_string_ids(small):
    small.upsert(["a", "ß", "x" * 512], np.eye(4)[:3], {"price": [1.0, 2.0, 3.0]})
    assert small.search([1, 0, 0, 0], 1).ids == ["a"]
    assert small.get(["ß", "missing", "a"]).ids == ["ß", "a"]
    assert small.delete("a") == 1
    assert small.count() == 2
    for bad in ["", "x" * 513]:
        with pytest.raises(vstream.InvalidInput, match="512"):
            small.upsert(bad, [0, 0, 0, 1])
    with pytest.raises(vstream.InvalidInput):
        small.upsert(7, [0, 0, 0, 1])
    assert len(small) == 2


def test_update_keeps_the_vector_and_other_attributes(small, tmp_path):
    small.upsert(["a", "b"], np.eye(4)[:2], {"price": [1.0, 2.0], "stock": [1, 1]}, ["p", "q"])
    assert small.update(["a", "nobody"], {"stock": [0, 0]}) == 1
    assert small.update("b", {"price": None}, payload={"new": 1}) == 1
    small.close()
    again = vstream.Collection.open(tmp_path / "small")
    rows = {row["id"]: row for row in again.get(["a", "b"])}
    assert rows["a"] == {"id": "a", "price": 1.0, "stock": 0, "payload": b"p"}
    assert rows["b"] == {"id": "b", "price": None, "stock": 1, "payload": b'{"new":1}'}
    assert again.search([0, 1, 0, 0], 1, where={"stock": 1}).ids == ["b"]
    again.close()


def test_a_condition_decides_about_an_upsert(small):
    small.upsert("a", [1, 0, 0, 0], {"stock": 5})
    newer = {"stock": {"$lt": 9}}
    assert small.upsert("a", [0, 1, 0, 0], {"stock": 9}, where=newer) == 1
    assert small.upsert("a", [0, 0, 1, 0], {"stock": 8}, where=newer) == 0
    assert small.upsert("b", [0, 0, 1, 0], {"stock": 8}, where=newer) == 1
    assert small.get("a").attributes["stock"] == [9]


def test_deletes_by_condition(small):
    stock = [at % 10 for at in range(500)]
    small.upsert(
        [f"row {at}" for at in range(500)],
        np.random.default_rng(1).random((500, 4)),
        {"stock": stock},
    )
    assert small.delete(where={"stock": {"$in": [1, 2]}}) == 100
    assert small.count() == 400
    assert small.count("stock = 1") == 0
    with pytest.raises(vstream.InvalidInput, match="either"):
        small.delete()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"price": ["cheap"]}, "price"),
        ({"price": [float("nan")]}, "price"),
        ({"price": [10**400]}, "price"),
        ({"stock": [1.5]}, "stock"),
        ({"stock": [2**63]}, "stock"),
        ({"colour": ["red"]}, "no attribute 'colour'"),
        ({"price": [1.0, 2.0]}, "one value per row"),
    ],
)
def test_bad_attributes_change_nothing(small, attributes, words):
    with pytest.raises(vstream.InvalidInput, match=words):
        small.upsert(["a"], [[0, 0, 0, 1]], attributes)
    assert len(small) == 0


@pytest.mark.parametrize(
    "where",
    [
        {"colour": "red"},
        {"price": "cheap"},
        {"price": {"$near": 3}},
        {"$or": 3},
        "price >",
        "price = 'a'; DROP TABLE rows",
        {"price": {"$gt": float("nan")}},
    ],
)
def test_bad_conditions_are_refused(small, where):
    small.upsert("a", [0, 0, 0, 1])
    for ask in (small.count, lambda w: small.search([0, 0, 0, 1], where=w)):
        with pytest.raises(vstream.InvalidInput):
            ask(where)


def test_a_payload_has_a_limit(small):
    small.upsert("a", [0, 0, 0, 1], payload=b"x" * (1 << 20))
    with pytest.raises(vstream.InvalidInput, match="payload"):
        small.upsert("b", [0, 0, 0, 1], payload=b"x" * ((1 << 20) + 1))
    assert small.get("a").payload == [b"x" * (1 << 20)]
    assert len(small) == 1


def test_an_open_schema_learns_types():
    made = vstream.Collection.create(2, open_attributes=True)
    made.upsert([1, 2], np.eye(2), {"year": [None, 2026], "who": [["a"], None], "no": [None, None]})
    assert made.attributes == {"year": "i64", "who": "keywords"}
    with pytest.raises(vstream.InvalidInput, match="year"):
        made.upsert(3, [1, 1], {"year": "soon"})
    assert made.count({"year": 2026}) == 1


@pytest.mark.parametrize(
    "refused",
    [
        lambda c: c.upsert([1], [[1, 0]], {"price": [5]}, where="oops ="),
        lambda c: c.upsert([1], [[1, 0]], {"price": [5], "name": ["x" * 5000]}),
        lambda c: c.upsert([1], [[1, 0]], {"price": [5]}, payload=[b"x" * ((1 << 20) + 1)]),
        lambda c: c.update([1], {"price": [5], "name": ["x" * 5000]}),
        lambda c: c.upsert([1], [[1, 0]], {"price": [5], "year": ["soon"]}),
    ],
)
def test_a_refused_write_teaches_an_open_schema_nothing(refused):
    made = vstream.Collection.create(2, open_attributes=True, attributes={"year": "i64"})
    made.upsert(1, [0, 1])
    with pytest.raises(vstream.InvalidInput):
        refused(made)
    assert made.attributes == {"year": "i64"}
    # The kind of the refused value was not kept either.
    made.upsert([2], [[1, 0]], {"price": [4.5]})
    assert made.count({"price": 4.5}) == 1


def test_attributes_are_added_later(small, tmp_path):
    small.upsert("a", [1, 0, 0, 0], {"stock": 1})
    small.add_attribute("size", "keyword")
    small.upsert("b", [0, 1, 0, 0], {"size": "big"})
    with pytest.raises(vstream.InvalidInput, match="size"):
        small.add_attribute("size", "f64")
    small.close()
    again = vstream.Collection.open(tmp_path / "small")
    assert again.attributes == {"price": "f64", "stock": "i64", "size": "keyword"}
    assert again.search([1, 0, 0, 0], where={"size": {"$exists": False}}).ids == ["a"]
    again.close()


def table_columns():
    rng = np.random.default_rng(3)
    return {
        "id": [f"row {at}" for at in range(100)],
        "vector": [row.tolist() for row in rng.standard_normal((100, 4), dtype=np.float32)],
        "price": [None if at % 9 == 0 else at / 4 for at in range(100)],
        "stock": [None if at % 5 == 0 else at for at in range(100)],
        "payload": [json.dumps({"at": at}).encode() for at in range(100)],
    }


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars", "dict"])
def test_tables_go_in_and_come_out(small, library):
    columns = table_columns()
    if library == "dict":
        table = columns
    elif library == "pyarrow":
        table = pytest.importorskip("pyarrow").table(columns)
    else:
        table = pytest.importorskip(library).DataFrame(columns)
    if library == "pandas":
        # A column of whole numbers with gaps is one of floats in pandas, unless it is told.
        table["stock"] = table["stock"].astype("Int64")
        table["price"] = table["price"].astype(object).where(table["price"].notna(), None)
    small.upsert(table)
    assert small.count() == 100
    assert small.count({"stock": {"$exists": True}}) == 80
    assert small.get("row 8").attributes == {"price": [2.0], "stock": [8]}
    if library == "dict":
        return
    found = small.search(columns["vector"][8], 3, with_=["stock", "payload"])
    frame = getattr(found, {"pyarrow": "to_arrow"}.get(library, f"to_{library}"))()
    names = frame.column_names if library == "pyarrow" else list(frame.columns)
    assert names == ["id", "distance", "stock", "payload"]
    assert len(frame) == 3


@pytest.mark.parametrize("kind", ["list_", "large_list"])
def test_arrow_lists_of_several_lengths_are_refused(small, kind):
    arrow = pytest.importorskip("pyarrow")
    # As many numbers as the rows would need, but each row has some of another.
    uneven = [[1.0] * 4, [2.0] * 5, [3.0] * 3, [4.0] * 4]
    even = [[float(at)] * 4 for at in range(1, 5)]
    kind = getattr(arrow, kind)(arrow.float32())
    ids = [f"row {at}" for at in range(4)]
    for chunks in ([uneven], [uneven[:2], uneven[2:]], [even[:1], uneven[1:]]):
        column = arrow.chunked_array(chunks, type=kind)
        with pytest.raises(vstream.InvalidInput, match="same length"):
            small.upsert(arrow.table({"id": ids, "vector": column}))
    assert small.count() == 0
    small.upsert(arrow.table({"id": ids, "vector": arrow.chunked_array([even], type=kind)[0:4]}))
    assert small.get("row 2", vectors=True).vectors.tolist() == [even[2]]


def test_progress_is_told():
    told = []

    def note(*at):
        told.append(at)

    made = vstream.Collection.create(8)
    made.upsert(np.arange(10_000), np.random.default_rng(1).random((10_000, 8)), progress=note)
    assert told[-1] == (10_000, 10_000)
    assert len(told) > 3
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_shared_groups_are_filters_on_one_index(rng, tmp_path):
    path = tmp_path / "notes"
    c = vstream.Collection.create(64, groups="shared", attributes={"price": "f64"}, path=path)
    assert c.groups == "shared"
    assert c.attributes == {"price": "f64", "group": "keyword"}
    vectors = rng.standard_normal((3000, 64)).astype(np.float32)
    owners = [f"user {at}" for at in rng.integers(40, size=3000)]
    assert c.upsert(range(3000), vectors, {"price": np.arange(3000.0)}, group=owners) == 3000
    with pytest.raises(vstream.InvalidInput, match="no group"):
        c.upsert([1, 2], vectors[:2])
    with pytest.raises(vstream.InvalidInput, match="twice"):
        c.upsert(1, vectors[0], {"group": "user 1"}, group="user 2")
    assert len(c) == 3000
    c.close()
    c = vstream.Collection.open(path)
    for name in ["user 3", "user 30", "nobody"]:
        mine = [at for at, owner in enumerate(owners) if owner == name]
        order = sorted(mine, key=lambda at: (((vectors[at] - vectors[0]) ** 2).sum(), at))
        assert c.search(vectors[0], k=20, group=name).ids.tolist() == order[:20]
        batch, _ = c.search_batch(vectors[:1], k=5, group=name)
        assert [one for one in batch[0].tolist() if one >= 0] == order[:5]
        assert c.count(group=name) == len(mine)
        assert c.scroll(group=name)[0].ids.tolist() == mine
        cheap = c.search(vectors[0], k=3000 // 3, group=name, where="price < ?", parameters=[900])
        assert set(cheap.ids.tolist()) == {at for at in mine if at < 900}
    assert c.search(vectors[0], k=1).ids.tolist() == [0]
    gone = owners.count("user 3")
    assert c.delete(group="user 3") == gone
    assert (len(c), c.count(group="user 3")) == (3000 - gone, 0)
    with pytest.raises(vstream.InvalidInput, match="group"):
        c.update(owners.index("user 4"), {"group": None})
    with pytest.raises(vstream.InvalidInput, match="shared groups"):
        vstream.Collection.create(2).search([1, 2], group="ann")


def test_answers_are_spread_over_values(rng):
    c = vstream.Collection.create(
        64, id="string", attributes={"color": "keyword", "seen": "timestamp"}
    )
    vectors = rng.standard_normal((4000, 64)).astype(np.float32)
    vectors[:2500] += 3
    colors = ["red"] * 2500 + [f"color {at % 70}" if at % 9 else None for at in range(1500)]
    days = [datetime.datetime(2026, 1, 1 + at % 5, tzinfo=datetime.UTC) for at in range(4000)]
    ids = [str(at) for at in range(4000)]
    c.upsert(ids, vectors, {"color": colors, "seen": days})
    query = np.full(64, 3, np.float32)
    away = ((vectors - query) ** 2).sum(axis=1)
    order = np.argsort(away, kind="stable")
    counts, wanted = {}, []
    for at in order:
        counts[colors[at]] = counts.get(colors[at], 0) + 1
        if counts[colors[at]] <= 3:
            wanted.append(str(at))
    found = c.search(query, k=30, exact=True, diversify=("color", 3))
    assert found.ids == wanted[:30]
    found = c.search(query, k=12, exact=True, group_by=("color", 2), with_=["color"])
    assert len(found.groups) == 12
    assert found.groups[0].value == "red"
    for part in found.groups:
        of_color = [str(at) for at in order if colors[at] == part.value]
        assert part.ids == of_color[:2]
        assert [row["color"] for row in part.rows()] == [part.value] * len(part)
    found = c.search(query, k=5, group_by=("seen", 1), exact=True)
    assert sorted(part.value for part in found.groups) == days[:5]
    with pytest.raises(vstream.InvalidInput, match="exclude"):
        c.search(query, diversify=("color", 1), group_by=("color", 1))
    with pytest.raises(vstream.InvalidInput, match="no attribute"):
        c.search(query, diversify=("colour", 1))


COPIES = [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy]


@pytest.mark.parametrize("copied", COPIES)
def test_an_answer_can_be_copied_and_goes_to_another_process(copied):
    """A tuple is made of one argument, and an answer is not: `multiprocessing` failed at it."""
    c = vstream.Collection.create(1, id="string", attributes={"color": "keyword"})
    c.upsert(["a", "b", "c"], [[1], [2], [3]], {"color": ["red", None, "red"]}, [b"1", b"2", None])
    found = c.search([0], k=2, with_=["color", "payload"], group_by=("color", 2))
    made = copied(found)
    assert type(made) is vstream.Answer
    assert made.ids == found.ids == ["a", "c", "b"]
    np.testing.assert_array_equal(made.distances, found.distances)
    assert (made.attributes, made.payload) == (found.attributes, found.payload)
    assert list(made.rows()) == list(found.rows())
    groups = [(one.value, one.ids, list(one.rows())) for one in found.groups]
    assert [(one.value, one.ids, list(one.rows())) for one in made.groups] == groups
    assert copied(found.groups[0]).ids == ["a", "c"]
    assert list(copied(c.get(["a", "b"]))) == list(c.get(["a", "b"]))


def test_the_scores_of_an_answer_are_copied_too():
    ann = vstream.GroupCollection.create(1, attributes={"subject": "text"}).group("ann")
    ann.upsert([1, 2], [[1], [2]], {"subject": ["an invoice", "lunch"]})
    found = ann.search(text="invoice")
    for copied in COPIES:
        np.testing.assert_array_equal(copied(found).scores, found.scores)
