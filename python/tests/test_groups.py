"""Isolated groups: against brute force, and never a row of another group."""

import asyncio
import datetime
import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import METRICS, distances

import vstream
from vstream import Closed, GroupCollection, InvalidInput, Unavailable

DIMENSION = 96
COLORS = ["red", "green", "blue", None]
WORDS = ["invoice", "lunch", "friday", "release", "ticket", "train", "holiday", "draft"]
ATTRIBUTES = {"color": "keyword", "stars": "i64", "subject": "text", "sent": "timestamp"}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def rows_of(rng, count):
    """A table of `count` rows, and the same as dictionaries."""
    vectors = rng.standard_normal((count, DIMENSION)).astype(np.float32)
    columns = {
        "color": [COLORS[at] for at in rng.integers(len(COLORS), size=count)],
        "stars": [int(at) for at in rng.integers(10, size=count)],
        "subject": [" ".join(rng.choice(WORDS, size=rng.integers(1, 6))) for _ in range(count)],
        "sent": [START + datetime.timedelta(hours=int(at)) for at in rng.integers(500, size=count)],
    }
    return vectors, columns


def fill(collection, rng, sizes):
    """Write groups of these sizes; return what they hold."""
    model = {}
    is_text = collection.id == "string"
    for name, count in sizes.items():
        vectors, columns = rows_of(rng, count)
        ids = [f"row {at}" for at in range(count)] if is_text else list(range(count))
        payload = [f"{name}/{at}".encode() for at in range(count)]
        assert collection.group(name).upsert(ids, vectors, columns, payload) == count
        model[name] = {
            one: {"vector": vectors[at], **{key: values[at] for key, values in columns.items()}}
            for at, one in enumerate(ids)
        }
    return model


def nearest(metric, rows, query):
    """Ids and distances of all rows, nearest first, ties by id."""
    if not rows:
        return [], []
    ids = list(rows)
    away = distances(metric, [rows[one]["vector"] for one in ids], query)
    order = sorted(range(len(ids)), key=lambda at: (away[at], ids[at]))
    return [ids[at] for at in order], [away[at] for at in order]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["u64", "string"])
def test_answers_equal_brute_force(rng, tmp_path, metric, kind):
    sizes = {"ann": 1, "bob": 40, "a": 300, "ann ": 2500}
    path = tmp_path / "mail"
    c = GroupCollection.create(
        DIMENSION,
        metric,
        path=path,
        id=kind,
        attributes=ATTRIBUTES,
        memory=1 << 19,
        durability="none",
    )
    model = fill(c, rng, sizes)
    assert dict(c.groups()) == sizes
    for turn in range(2):
        for name, rows in model.items():
            group = c.group(name)
            assert len(group) == len(rows)
            query = rng.standard_normal(DIMENSION).astype(np.float32)
            wanted, away = nearest(metric, rows, query)
            found = group.search(query, k=12, with_=["stars", "payload"])
            np.testing.assert_allclose(found.distances, away[:12], rtol=1e-4, atol=1e-4)
            assert list(found.ids) == wanted[:12]
            assert found.attributes["stars"] == [rows[one]["stars"] for one in wanted[:12]]
            assert all(text.startswith(f"{name}/".encode()) for text in found.payload)
            red = {one: row for one, row in rows.items() if row["color"] == "red"}
            found = group.search(query, k=5, where={"color": "red"})
            assert list(found.ids) == nearest(metric, red, query)[0][:5]
            assert group.count("color = 'red'") == len(red)
        if turn == 0:
            c.close()
            c = GroupCollection.open(path, durability="none")
            group = c.group("bob")
            some = list(model["bob"])[:7]
            assert group.delete([*some, *some, "none" if kind == "string" else 999]) == 7
            for one in some:
                del model["bob"][one]
            assert group.update(list(model["bob"]), {"color": ["red"] * 33}) == 33
            for row in model["bob"].values():
                row["color"] = "red"
            gone = c.group("a").delete(where={"stars": {"$lt": 5}})
            left = {one: row for one, row in model["a"].items() if row["stars"] >= 5}
            assert gone == len(model["a"]) - len(left)
            model["a"] = left
            c.group("ann").drop()
            model["ann"] = {}
    c.close()


def bm25(rows, words):
    """Scores over all rows, as Lucene's."""
    texts = {one: row["subject"].split() for one, row in rows.items()}
    mean = sum(map(len, texts.values())) / len(texts)
    scores = dict.fromkeys(rows, 0.0)
    for word in words:
        having = sum(word in text for text in texts.values())
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for one, text in texts.items():
            times = text.count(word)
            scores[one] += idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


def test_words_and_ranks_equal_brute_force(rng):
    c = GroupCollection.create(DIMENSION, attributes=ATTRIBUTES)
    model = fill(c, rng, {"ann": 700, "bob": 500})
    now = START + datetime.timedelta(hours=500)
    for name, rows in model.items():
        group = c.group(name)
        scores = bm25(rows, ["invoice", "train"])
        matching = [one for one in rows if scores[one] > 0]
        found = group.search(text="invoice train", k=20, where={"stars": {"$gte": 3}})
        wanted = sorted(
            (one for one in matching if rows[one]["stars"] >= 3),
            key=lambda one: (-scores[one], one),
        )
        np.testing.assert_allclose(found.scores, [scores[one] for one in wanted[:20]], rtol=1e-9)
        assert np.isnan(found.distances).all()

        query = rng.standard_normal(DIMENSION).astype(np.float32)
        away = dict(zip(*nearest("l2", rows, query), strict=True))

        def score(one, rows=rows, away=away, scores=scores):
            age = (now - rows[one]["sent"]).total_seconds()
            fresh = max(0.0, 1 - age / 864_000)
            return 1 / (1 + math.sqrt(away[one])) + 0.2 * scores[one] + 0.5 * fresh

        found = group.search(
            query,
            text="invoice train",
            optional_text=True,
            rank="closeness + $w * bm25(subject) + 0.5 * freshness(sent, 864000)",
            rank_parameters={"w": 0.2},
            now=now,
            k=15,
        )
        best = sorted(rows, key=lambda one: -score(one))
        np.testing.assert_allclose(found.scores, [score(one) for one in best[:15]], rtol=1e-4)
        np.testing.assert_allclose(found.distances, [away[one] for one in found.ids], rtol=1e-4)

        found = group.search(query, k=4, group_by=("color", 3), with_=["color"])
        order = nearest("l2", rows, query)[0]
        first = dict.fromkeys(rows[one]["color"] for one in order)
        assert [part.value for part in found.groups] == list(first)
        for part in found.groups:
            of_color = [one for one in order if rows[one]["color"] == part.value]
            assert part.ids == of_color[:3]
        found = group.search(query, k=6, diversify=("stars", 1), with_=["stars"])
        assert len(set(found.attributes["stars"])) == 6
        assert found.ids[0] == order[0]
        phrase = group.search(text='"invoice lunch"', k=1000)
        assert set(phrase.ids.tolist()) == {
            one for one in rows if "invoice lunch" in rows[one]["subject"]
        }


names = st.text(min_size=1, max_size=6) | st.sampled_from(["a", "aa", "a\0", "A", "ä", "a\u0308"])


@given(data=st.data())
@settings(max_examples=40)
def test_a_group_never_sees_another(data):
    groups = data.draw(st.lists(names, min_size=2, max_size=5, unique=True))
    c = GroupCollection.create(4, attributes={"owner": "keyword", "words": "text"})
    held = {name: {} for name in groups}
    for number, name in enumerate(groups):
        for step in range(data.draw(st.integers(1, 12))):
            one = data.draw(st.integers(0, 8))
            c.group(name).upsert(
                one, [number, step, one, 1], {"owner": name, "words": f"w{number} all"}
            )
            held[name][one] = step
        if data.draw(st.booleans()):
            c.flush()
        if data.draw(st.booleans()):
            one = data.draw(st.integers(0, 8))
            assert c.group(name).delete(one) == (held[name].pop(one, None) is not None)
        if data.draw(st.integers(0, 5)) == 0:
            c.group(name).drop()
            held[name] = {}
    other = data.draw(st.sampled_from(groups))
    number = groups.index(other)
    filters = [None, {"owner": other}, {"$not": {"owner": ""}}, {"$or": [{"owner": other}]}]
    for name, rows in held.items():
        group = c.group(name)
        for where in filters:
            sees = rows if where is None or where != {"owner": other} or name == other else {}
            if where == {"$or": [{"owner": other}]} and name != other:
                sees = {}
            found = [
                group.search([number, 0, 0, 1], k=1000, where=where).ids,
                group.search(text="all", k=1000, where=where).ids,
                group.search([0] * 4, rank="distance", k=1000, where=where).ids,
                group.scroll(where)[0].ids,
            ]
            for ids in found:
                assert sorted(ids.tolist()) == sorted(sees)
            assert group.count(where) == len(sees)
        expected = rows if name == other else {}
        assert set(group.search(text=f"w{number}", k=1000).ids.tolist()) == set(expected)
        assert {row["owner"] for row in group.get(range(9))} <= {name}
    assert dict(c.groups()) == {name: len(rows) for name, rows in held.items() if rows}


def test_what_is_committed_is_there_after_a_crash(tmp_path, rng):
    c = GroupCollection.create(DIMENSION, path=tmp_path / "a", attributes=ATTRIBUTES)
    model = fill(c, rng, {"ann": 100})
    with pytest.raises(Unavailable):
        GroupCollection.open(tmp_path / "a")
    c._native.close()  # As a process that ends, without what `close` of Python does.
    again = GroupCollection.open(tmp_path / "a", attributes={"color": "keyword", "late": "f64"})
    assert again.attributes == {**ATTRIBUTES, "late": "f64"}
    # A newer row replaces an older one, also after it was opened again.
    again.group("ann").upsert(5, model["ann"][5]["vector"] + 1, {"late": 2.5})
    rows = again.group("ann").get([5, 6], vectors=True)
    np.testing.assert_array_equal(rows.vectors[0], model["ann"][5]["vector"] + 1)
    assert rows.attributes["late"] == [2.5, None]
    again.close()
    again.close()
    assert again.closed
    with pytest.raises(Closed):
        again.group("ann")
    with pytest.raises(InvalidInput, match="type"):
        GroupCollection.open(tmp_path / "a", attributes={"color": "i64"})
    assert GroupCollection.exists(tmp_path / "a")
    with pytest.raises(InvalidInput, match="already"):
        GroupCollection.create(3, path=tmp_path / "a")
    with pytest.raises(InvalidInput, match="groups already"):
        vstream.Collection.create(3, path=tmp_path / "a")
    vstream.Collection.create(3, path=tmp_path / "plain").close()
    with pytest.raises(InvalidInput, match="without groups"):
        GroupCollection.create(3, path=tmp_path / "plain")
    with pytest.raises(InvalidInput, match="no collection"):
        GroupCollection.open(tmp_path / "nothing")


def test_upserts_with_a_condition_and_tables():
    c = GroupCollection.create(2, id="string", attributes={"stars": "i64"})
    ann = c.group("ann")
    table = {"id": ["a", "b"], "vector": [[1, 2], [3, 4]], "stars": [1, 5], "payload": [{}, None]}
    assert ann.upsert(table) == 2
    changed = ann.upsert(
        ["a", "b", "c"], [[0, 0]] * 3, {"stars": [9, 9, 9]}, where={"stars": {"$lt": 3}}
    )
    assert changed == 2
    rows = {row["id"]: row["stars"] for row in ann.get(["a", "b", "c", "d"])}
    assert rows == {"a": 9, "b": 5, "c": 9}
    page, after = ann.scroll(limit=2)
    rest, end = ann.scroll(limit=2, after=after)
    assert sorted([*page.ids, *rest.ids]) == ["a", "b", "c"]
    assert end is None


def test_an_upsert_says_what_it_wrote(tmp_path):
    c = GroupCollection.create(1, path=tmp_path / "a", attributes={"at": "i64"})
    ann = c.group("ann")
    assert ann.upsert([1], [[1]], {"at": [10]}, version=10) == 1
    c.flush()
    assert ann.upsert([1], [[2]], {"at": [5]}, version=5) == 0
    assert ann.get([1]).attributes["at"] == [10]
    # A write without a version wins, as in a collection without groups.
    assert ann.upsert([1], [[3]], {"at": [7]}, version=2**62) == 1
    assert ann.upsert(1, [4]) == 1
    assert ann.get([1], vectors=True).vectors.tolist() == [[4]]
    assert ann.delete([1], version=2**62 + 10**18) == 1
    assert ann.upsert(1, [5]) == 1
    assert ann.get([1], vectors=True).vectors.tolist() == [[5]]


def test_what_does_not_fit_is_refused():
    c = GroupCollection.create(2, attributes={"stars": "i64", "subject": "text"})
    ann = c.group("ann")
    ann.upsert(1, [1, 2])
    for call in [
        lambda: c.search([1, 2]),
        lambda: c.group(""),
        lambda: c.group("x" * 513),
        lambda: ann.upsert([1, 2], [[1, 2], [1, float("nan")]]),
        lambda: ann.upsert([1, 2], [[1, 2], [1, 3]], {"color": ["a", "b"]}),
        lambda: ann.upsert(2, [1, 2], group="bob"),
        lambda: ann.upsert("text", [1, 2]),
        lambda: ann.search([1, 2, 3]),
        ann.search,
        lambda: ann.search([1, 2], k=0),
        lambda: ann.search([1, 2], where={"nothing": 1}),
        lambda: ann.search(text="title:x"),
        lambda: ann.search(text='"open'),
        lambda: ann.search(text="x", match="some"),
        lambda: ann.search(text="x", language="klingon"),
        lambda: ann.search([1, 2], match="all"),
        lambda: ann.search([1, 2], rank="closenes"),
        lambda: ann.search([1, 2], rank="$w"),
        lambda: ann.search([1, 2], rank_parameters={"w": 1}),
        lambda: ann.search([1, 2], rank="1", now=5),
        lambda: ann.search([1, 2], diversify=("stars", 1), group_by=("stars", 1)),
        lambda: ann.search([1, 2], diversify=("subject", 1)),
        lambda: ann.search([1, 2], diversify="stars"),
        lambda: ann.search(text="x", radius=1.0),
        lambda: ann.delete(group="ann"),
        lambda: ann.scroll(limit=0),
        lambda: GroupCollection.create(2, attributes={"a": "nothing"}),
        lambda: GroupCollection.create(2, "cosine", "u8"),
        lambda: GroupCollection.create(0),
        lambda: vstream.Collection.create(2, groups="some"),
        lambda: vstream.Collection.create(2, groups={"mode": "shared", "x": "y"}),
        lambda: vstream.Collection.create(2, groups="isolated", recall_target=0.9),
    ]:
        with pytest.raises(InvalidInput):
            call()
    assert len(ann) == 1
    assert isinstance(vstream.Collection.create(2, groups={"mode": "isolated"}), GroupCollection)


def test_threads_write_and_read(tmp_path, rng):
    c = GroupCollection.create(
        32, path=tmp_path / "a", memory=1 << 16, durability="async", attributes={"n": "i64"}
    )
    failures = []

    def write(name):
        try:
            vectors = rng.standard_normal((50, 32)).astype(np.float32)
            for turn in range(20):
                ids = np.arange(turn * 50, turn * 50 + 50)
                c.group(name).upsert(ids, vectors, {"n": ids})
                assert c.group(name).count() == turn * 50 + 50
                found = c.group(name).search(vectors[3], k=60, with_=["n"])
                assert (np.asarray(found.attributes["n"]) == found.ids).all()
                assert len(found.ids) == min(60, turn * 50 + 50)
        except Exception as error:  # noqa: BLE001 - it is raised in the test's thread.
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"user {at}",)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    # Merges run beside the calls.
    deadline = time.monotonic() + 20
    while c.stats().merged_bytes == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert c.stats().merged_bytes > 0
    assert dict(c.groups()) == {f"user {at}": 1000 for at in range(4)}
    c.close()


def test_a_group_outlives_its_name_for_the_collection():
    ann = GroupCollection.create(1).group("ann")
    ann.upsert([1, 2], [[1], [2]])
    assert ann.search([2], k=1).ids.tolist() == [2]
    assert repr(ann) == "Group('ann')"


def test_groups_are_awaited(tmp_path):
    async def run():
        async with vstream.AsyncGroupCollection.create(1, path=tmp_path / "a") as mail:
            ann = mail.group("ann")
            await asyncio.gather(*(ann.upsert(at, [at]) for at in range(20)))
            await ann.delete(7)
            found = await ann.search([7.4], k=2)
            await mail.commit()
            assert (await mail.stats()).new_rows >= 19
            return found.ids.tolist(), await mail.groups()

    assert asyncio.run(run()) == ([8, 6], [("ann", 19)])
