"""Versions of writes: which one stays, in whatever order they come."""

import numpy as np
import pytest

from vstream import Collection, GroupCollection, InvalidInput


def test_versions_decide_which_write_stays():
    """The model keeps the write with the highest version, later ones first among equals."""
    rng = np.random.default_rng(11)
    c = Collection.create(4, attributes={"at": "i64"})
    model: dict[int, int] = {}
    for _ in range(200):
        ids = rng.choice(300, 40, replace=False)
        versions = rng.integers(0, 1000, 40)
        vectors = rng.integers(-8, 9, (40, 4)).astype(np.float32)
        if rng.random() < 0.7:
            written = c.upsert(ids, vectors, attributes={"at": versions}, version=versions)
            given = dict(zip(ids.tolist(), versions.tolist(), strict=True))
            wins = [i for i, version in given.items() if model.get(i, -1) <= version]
            assert written == len(wins)
            model.update({i: given[i] for i in wins})
        elif rng.random() < 0.5:
            bound = int(rng.integers(0, 1000))
            gone = [int(i) for i in ids if model.get(int(i), 10**6) <= bound]
            assert c.delete(ids, version=bound) == len(gone)
            for i in gone:
                del model[i]
        else:
            given = dict(zip(ids.tolist(), versions.tolist(), strict=True))
            changed = [i for i, version in given.items() if model.get(i, 10**6) <= version]
            updated = c.update(ids, attributes={"at": versions}, version=versions)
            assert updated == len(changed)
            model.update({i: given[i] for i in changed})
        assert len(c) == len(model)
    rows = c.get(sorted(model), with_=["at"])
    assert rows.attributes["at"] == [model[i] for i in sorted(model)]


def test_a_write_without_a_version_wins():
    c = Collection.create(1, attributes={"at": "i64"})
    assert c.upsert(1, [1], version=10**15) == 1
    assert c.upsert(1, [2], version=10**15 - 1) == 0
    assert c.upsert(1, [3]) == 1
    assert c.update(1, attributes={"at": 4}) == 1
    assert c.delete(1, version=5) == 0
    assert c.delete(where={"at": {"$eq": 4}}, version=5) == 0
    assert c.delete(where={"at": {"$eq": 4}}) == 1
    assert c.upsert(1, [6], version=2**63 - 1) == 1
    assert c.delete(1) == 1
    assert c.upsert(1, [7]) == 1
    assert c.upsert(9, [7], version=np.int64(3)) == 1


@pytest.mark.parametrize(
    "version", [-1, 2**63, "5", 1.5, [1, 2], [1.5], [-1], [None], [[1]], [True]]
)
def test_a_bad_version_changes_nothing(version):
    c = Collection.create(1)
    with pytest.raises(InvalidInput):
        c.upsert([1], [[1]], version=version)
    with pytest.raises(InvalidInput):
        c.delete([1], version=version)
    assert len(c) == 0


@pytest.mark.parametrize("where", ["memory", "log", "segments"])
def test_a_remembered_delete_keeps_older_rows_away_and_lets_later_calls_win(tmp_path, where):
    """Deletes without a version take no more than they need, so that ids come back."""
    place = {} if where == "memory" else {"path": tmp_path / "c"}
    if where == "segments":
        place["memory"] = 65_536
    c = Collection.create(64, deletes_remembered=3600, attributes={"at": "i64"}, **place)
    ids = np.arange(2000)
    rows = np.random.default_rng(3).normal(size=(2000, 64)).astype(np.float32)
    c.upsert(ids, rows, attributes={"at": ids}, version=1000 + ids)
    assert c.delete(ids[:500], version=5000) == 500
    assert c.upsert(ids[:500], rows[:500], version=4999) == 0
    assert c.upsert(ids[:250], rows[:250], version=5001) == 250
    assert c.upsert(ids[250:500], rows[250:500]) == 250
    assert c.delete(ids) == 2000
    assert c.upsert(ids, rows, version=3000) == 0
    assert c.upsert(ids, rows, attributes={"at": ids}) == 2000
    assert c.delete(where={"at": {"$gte": 1000}}) == 1000
    assert c.upsert(ids[1000:], rows[1000:]) == 1000
    if where != "memory":
        c.close()
        c = Collection.open(tmp_path / "c")
        assert c.delete(ids) == 2000
        assert c.upsert(ids[0], rows[0]) == 1
        assert c.upsert(ids, rows) == 2000
    assert len(c) == 2000


@pytest.mark.parametrize("seconds", [-1, 0, 0.5, 1e12, float("nan"), "1 h"])
def test_deletes_are_remembered_for_a_time_that_makes_sense(seconds):
    with pytest.raises(InvalidInput):
        Collection.create(1, deletes_remembered=seconds)


def test_versions_decide_in_a_group():
    """A row that is gone stays away from older writes until all files are one."""
    mail = GroupCollection.create(2, attributes={"at": "i64"})
    ann, bob = mail.group("ann"), mail.group("bob")
    assert ann.upsert([1, 2, 3], np.eye(3, 2), attributes={"at": [5, 5, 5]}, version=[5, 5, 5]) == 3
    assert ann.upsert([1, 2], np.ones((2, 2)), attributes={"at": [4, 6]}, version=[4, 6]) == 1
    assert ann.update([1, 2, 3], attributes={"at": [7, 7, 7]}, version=[4, 7, 5]) == 2
    assert ann.get([1, 2, 3], with_=["at"]).attributes["at"] == [5, 7, 7]
    assert ann.delete([1, 2, 99], version=[5, 6, 9]) == 1
    assert ann.delete(where={"at": {"$eq": 7}}, version=6) == 1
    assert ann.scroll()[0].ids.tolist() == [2]
    assert ann.upsert(1, [1, 1], version=4) == 0
    assert ann.upsert(1, [1, 1], version=6) == 1
    assert bob.upsert(1, [0, 1], version=1) == 1
    with pytest.raises(InvalidInput):
        bob.upsert(1, [0, 1], version=-1)
    assert len(bob) == 1
