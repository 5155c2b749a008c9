"""Snapshots and persistent directories: round trips, damage, crashes, other users."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from oracle import METRICS

import vstream
from vstream import Collection


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "u8", "i8"])
@pytest.mark.parametrize("metric", METRICS)
def test_a_snapshot_brings_everything_back(tmp_path, metric, element, rng):
    rows = rng.integers(1, 128, (3000, 12)).astype(np.float32)
    c = Collection.create(12, metric, element)
    c.upsert(np.arange(3000), rows)
    c.delete(np.arange(0, 3000, 3))
    c.snapshot(tmp_path / "s")
    back = Collection.restore(tmp_path / "s", recall_target=0.9)
    assert (back.dimension, back.metric, back.element) == (12, metric, element)
    assert back.recall_target == 0.9
    assert len(back) == back.stats().live_rows == 2000
    queries = rng.integers(1, 256, (20, 12))
    before, after = c.search_batch(queries, exact=True), back.search_batch(queries, exact=True)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.parametrize("memory", [None, 1 << 20])
@pytest.mark.parametrize("ids", ["u64", "string"])
@pytest.mark.parametrize("groups", [None, "shared"])
def test_a_snapshot_has_ids_attributes_and_groups(tmp_path, rng, memory, ids, groups):
    keys = list(range(3000)) if ids == "u64" else [f"row {i}" for i in range(3000)]
    attributes = {"n": "i64", "tag": "keyword"}
    stored = {} if memory is None else {"path": tmp_path / "c", "memory": memory}
    c = Collection.create(64, id=ids, attributes=attributes, groups=groups, **stored)
    fields = {"n": list(range(3000)), "tag": ["odd" if i % 2 else None for i in range(3000)]}
    group = [f"g{i % 7}" for i in range(3000)] if groups else None
    rows = rng.normal(size=(3000, 64)).astype(np.float32)
    c.upsert(keys, rows, fields, group=group)
    c.delete(keys[::3])
    c.snapshot(tmp_path / "s")
    back = Collection.restore(tmp_path / "s")
    assert back.attributes == c.attributes
    assert len(back) == 2000
    for where in ["n < 100", "tag = 'odd'", "tag is null and n >= 2000"]:
        assert back.count(where) == c.count(where) > 0
        before = c.search(rows[1], where=where, exact=True)
        after = back.search(rows[1], where=where, exact=True)
        np.testing.assert_array_equal(before[0], after[0])
        np.testing.assert_array_equal(before[1], after[1])
    back.upsert(keys[0], rows[0], {"n": -1}, group="g0" if groups else None)
    assert back.count("n < 0") == 1
    assert list(back.search(rows[0], k=1)[0]) == [keys[0]]


def test_a_restored_row_can_be_replaced_and_deleted_at_once(tmp_path):
    """Restored rows carry the versions of their first life; a fresh count starts below them."""
    c = Collection.create(1)
    for step in range(1000):
        c.upsert([1, 2], [[step], [step]])
    c.snapshot(tmp_path / "s")
    back = Collection.restore(tmp_path / "s")
    back.upsert(1, [-5])
    assert back.delete(2) == 1
    ids, distances = back.search([-5], exact=True)
    assert (ids.tolist(), distances.tolist()) == ([1], [0.0])
    back.upsert([1, 2], [[7], [8]])
    assert back.search([7])[1].tolist() == [0.0, 1.0]


def test_an_empty_collection_can_be_saved(tmp_path):
    Collection.create(3, "cosine").snapshot(tmp_path / "s")
    assert len(Collection.restore(tmp_path / "s")) == 0


def small_snapshot(place):
    c = Collection.create(2)
    c.upsert([1, 2, 3], [[1, 2], [3, 4], [5, 6]])
    c.snapshot(place)


def test_any_flipped_byte_of_a_snapshot_is_found(tmp_path):
    small_snapshot(tmp_path)
    files = sorted(p for p in tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        whole = file.read_bytes()
        for at in range(len(whole)):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            with pytest.raises(vstream.CorruptData, match=file.name):
                Collection.restore(tmp_path)
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            with pytest.raises(vstream.CorruptData, match=file.name):
                Collection.restore(tmp_path)
        file.write_bytes(whole)
    assert len(Collection.restore(tmp_path)) == 3


def test_missing_files_are_named(tmp_path):
    with pytest.raises(vstream.StorageError, match="nowhere"):
        Collection.restore(tmp_path / "nowhere")
    small_snapshot(tmp_path / "s")
    (tmp_path / "s" / "shard-000.rows").unlink()
    with pytest.raises(vstream.StorageError, match=r"shard-000\.rows"):
        Collection.restore(tmp_path / "s")


def test_a_snapshot_is_not_overwritten(tmp_path):
    small_snapshot(tmp_path)
    with pytest.raises(vstream.InvalidInput, match="already holds a snapshot"):
        small_snapshot(tmp_path)
    with pytest.raises(vstream.InvalidInput, match="holds a snapshot"):
        Collection.create(2, path=tmp_path)
    with pytest.raises(vstream.InvalidInput, match="holds no collection"):
        Collection.open(tmp_path)


def test_a_snapshot_that_cannot_be_written_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(vstream.StorageError, match="file"):
        small_snapshot(tmp_path / "file" / "s")


def test_a_persistent_collection_keeps_rows_and_settings(tmp_path, rng):
    place = tmp_path / "deep" / "c"
    rows = rng.standard_normal((500, 8), dtype=np.float32)
    with Collection.create(8, "cosine", path=str(place), recall_target=0.8) as c:
        c.upsert(np.arange(500), rows)
        assert c.path == place
    for count in (500, 499, 498):
        with Collection.open(place) as c:
            assert (c.metric, c.recall_target, len(c)) == ("cosine", 0.8, count)
            assert c.delete(count - 1) == 1


@pytest.mark.parametrize("durability", ["sync", "async", "none"])
def test_rows_are_kept_however_the_collection_ends(tmp_path, durability):
    c = Collection.create(1, path=tmp_path, durability=durability)
    c.upsert(1, [1])
    c.flush()
    c.upsert(2, [2])
    del c
    with Collection.open(tmp_path, durability="async") as c:
        c.upsert(3, [3])
        c.delete(1)
    with Collection.open(tmp_path) as back:
        assert back.search([1])[0].tolist() == [2, 3]


def test_a_collection_larger_than_its_memory_answers_exactly(tmp_path, rng):
    rows = rng.standard_normal((4000, 16), dtype=np.float32)
    with Collection.create(16, path=tmp_path, durability="async", memory=1 << 17) as c:
        for first in range(0, 4000, 100):
            c.upsert(np.arange(first, first + 100), rows[first : first + 100])
        c.delete(np.arange(0, 4000, 2))
        c.flush()
    assert list(tmp_path.glob("segment-*")), "rows have moved to the disk"
    with Collection.open(tmp_path) as c:
        assert len(c) == 2000
        for query in rng.standard_normal((20, 16), dtype=np.float32):
            gaps = ((rows - query) ** 2).sum(axis=1)
            gaps[::2] = np.inf
            assert c.search(query, 5, exact=True)[0].tolist() == np.argsort(gaps)[:5].tolist()


def test_what_is_asked_for_least_goes_to_the_remote_level(tmp_path, rng):
    rows = rng.standard_normal((8000, 64), dtype=np.float32)
    home, far = tmp_path / "home", tmp_path / "far"
    made = Collection.create(
        64, path=home, durability="none", memory=1 << 20, remote=str(far), disk=300_000
    )
    with made as c:
        for first in range(0, 8000, 500):
            c.upsert(np.arange(first, first + 500), rows[first : first + 500])
    deadline = time.monotonic() + 60
    with Collection.open(home) as c:
        while not list(far.rglob("segment-*")):
            assert time.monotonic() < deadline, "no segment has moved"
            time.sleep(0.05)
        for at in range(0, 8000, 999):
            assert c.search(rows[at], 1, exact=True)[0].tolist() == [at]
    assert (home / "REMOTE").read_text() == f"{far}\n300000\n"
    for wrong in [{"remote": "x"}, {"disk": 5}, {"remote": "ftp://x", "disk": 5}]:
        with pytest.raises(vstream.InvalidInput):
            Collection.create(4, path=tmp_path / "c", memory=1 << 20, **wrong)
    with pytest.raises(vstream.InvalidInput, match="memory"):
        Collection.create(4, path=tmp_path / "c", remote="x", disk=5)


def test_a_sliding_window_keeps_few_files(tmp_path, rng):
    rows = rng.standard_normal((20000, 8), dtype=np.float32)
    made = Collection.create(
        8, path=tmp_path, durability="none", memory=1 << 16, code_memory=0, deletes="oldest-first"
    )
    with made as c:
        for first in range(0, 20000, 100):
            c.upsert(np.arange(first, first + 100), rows[first : first + 100])
            c.delete(np.arange(max(first - 3000, 0), max(first - 2900, 0)))
    with Collection.open(tmp_path) as c:
        assert len(c) == 3000
        assert c.search(rows[19000], 1, exact=True)[0].tolist() == [19000]
    # The oldest are gone: nothing was left to be merged with what came later.
    assert 0 < len(list(tmp_path.glob("segment-*"))) < 64


def test_what_storage_does_not_know_is_refused(tmp_path):
    with pytest.raises(vstream.InvalidInput, match="choose any or oldest-first"):
        Collection.create(4, path=tmp_path / "c", deletes="newest-first")
    with pytest.raises(vstream.InvalidInput, match="code_memory is -1"):
        Collection.create(4, path=tmp_path / "c", memory=1 << 20, code_memory=-1)


def test_a_limit_to_memory_needs_a_place(tmp_path):
    with pytest.raises(vstream.InvalidInput, match="directory"):
        Collection.create(4, memory=1 << 20)
    with pytest.raises(vstream.InvalidInput, match="64 kb"):
        Collection.create(4, path=tmp_path / "c", memory=1000)


def test_an_unknown_durability_is_refused(tmp_path):
    with pytest.raises(vstream.InvalidInput, match="choose sync, async or none"):
        Collection.create(1, path=tmp_path / "c", durability="fsync")
    Collection.create(1, path=tmp_path).close()
    with pytest.raises(vstream.InvalidInput, match="choose sync, async or none"):
        Collection.open(tmp_path, durability="")


def test_a_durability_without_a_directory_is_refused():
    """It was taken and ignored, however it was spelt."""
    for create in (Collection.create, vstream.GroupCollection.create):
        with pytest.raises(vstream.InvalidInput, match="choose sync, async or none"):
            create(1, durability="snyc")
        for known in ("async", "none"):
            with pytest.raises(vstream.InvalidInput, match="give path too"):
                create(1, durability=known)
        create(1, durability="sync").close()


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize(
    "given",
    [
        {"code_memory": 1 << 20},
        {"code_memory": 0},
        {"deletes": "oldest-first"},
        {"segments": "auto"},
        {"segments": "graph"},
    ],
    ids=str,
)
def test_settings_of_files_without_a_limit_to_memory_are_refused(tmp_path, place, given):
    """All rows stay in memory then: these settings were taken and ignored."""
    path = None if place == "memory" else tmp_path / "c"
    with pytest.raises(vstream.InvalidInput, match="memory"):
        Collection.create(1, path=path, **given)
    assert not (tmp_path / "c").exists()
    usual = {"code_memory": None, "deletes": "any", "segments": "clusters", "durability": "sync"}
    Collection.create(1, path=path, **usual).close()


def test_a_collection_without_path_cannot_flush():
    c = Collection.create(1)
    with pytest.raises(vstream.InvalidInput, match="use snapshot"):
        c.flush()


def test_create_and_open_do_not_take_each_others_place(tmp_path):
    with Collection.create(1, path=tmp_path):
        pass
    with pytest.raises(vstream.InvalidInput, match="open it"):
        Collection.create(1, path=tmp_path)
    with pytest.raises(vstream.InvalidInput, match="open it"):
        Collection.restore(tmp_path)
    with pytest.raises(vstream.InvalidInput, match="choose another"):
        Collection.create(1).snapshot(tmp_path)
    with pytest.raises(vstream.InvalidInput, match="create one there"):
        Collection.open(tmp_path / "nowhere")
    assert len(Collection.open(tmp_path)) == 0


def test_a_directory_is_open_once(tmp_path):
    c = Collection.create(1, path=tmp_path)
    with pytest.raises(vstream.Unavailable, match="open already"):
        Collection.open(tmp_path)
    with pytest.raises(vstream.Unavailable, match="open already"):
        Collection.create(1, path=tmp_path)
    c.close()
    c.close()
    Collection.open(tmp_path).close()


def test_any_flipped_byte_of_a_collection_is_found(tmp_path):
    with Collection.create(1, path=tmp_path) as c:
        for one in range(5):
            c.upsert(one, [one])
    files = sorted(p for p in tmp_path.iterdir() if p.name != "LOCK")
    assert [p.name for p in files] == ["COLLECTION", "log-0000000001"]
    for file in files:
        whole = file.read_bytes()
        with file.open("r+b", buffering=0) as out:
            for at in range(len(whole)):
                os.pwrite(out.fileno(), bytes([whole[at] ^ 0x01]), at)
                with pytest.raises(vstream.CorruptData, match=file.name):
                    Collection.open(tmp_path)
                os.pwrite(out.fileno(), whole[at : at + 1], at)
    files[1].unlink()
    with pytest.raises(vstream.StorageError, match="log-0000000001"):
        Collection.open(tmp_path)


@contextmanager
def full_disk(limit):
    """Let no file grow beyond `limit` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_after_a_full_disk_writing_goes_on_where_it_was(tmp_path):
    c = Collection.create(4, path=tmp_path)
    c.upsert(1, [1, 1, 1, 1])
    with full_disk(1000):
        for _ in range(2):
            with pytest.raises(vstream.StorageError, match="cannot write"):
                c.upsert(range(100), np.ones((100, 4)))
        with pytest.raises(vstream.StorageError, match="cannot write"):
            c.close()
        assert not c.closed
        assert len(c.search([1, 1, 1, 1])[0]) == 10
    c.upsert(200, [1, 2, 3, 4])
    c.close()
    assert len(Collection.open(tmp_path)) == 101


WRITE_FOREVER = """
import sys, numpy as np, vstream
c = vstream.Collection.open(sys.argv[1])
while True:
    n = len(c)
    c.upsert(np.arange(n, n + 100), np.ones((100, 8)))
    print(len(c), flush=True)
"""


def test_a_killed_process_loses_nothing_that_it_was_told(tmp_path):
    Collection.create(8, path=tmp_path).close()
    acknowledged = 0
    for turn in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITE_FOREVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            for _ in range(3 + turn):
                acknowledged = int(child.stdout.readline())
            time.sleep(0.0013 * turn)
            os.kill(child.pid, signal.SIGKILL)
            lines = child.stdout.read().split("\n")[:-1]
            acknowledged = int(lines[-1]) if lines else acknowledged
        with Collection.open(tmp_path) as c:
            # The call that was under way may have been finished, but not told; never a part of it.
            assert len(c) in (acknowledged, acknowledged + 100)
            acknowledged = len(c)


def test_graphs_are_refused_beside_what_they_do_not_hold(tmp_path):
    """`segments="graph"` needs memory, and takes no attributes; rows survive a restart."""
    for given in [{}, {"memory": 1 << 20, "code_memory": 0}, {"memory": 1 << 20, "id": "string"}]:
        with pytest.raises(vstream.InvalidInput, match="segments is graph"):
            Collection.create(8, path=tmp_path / "refused", segments="graph", **given)
    with pytest.raises(vstream.InvalidInput, match="choose auto, clusters or graph"):
        Collection.create(8, path=tmp_path / "refused", segments="tree")
    vectors = np.random.default_rng(5).random((2000, 8), dtype=np.float32)
    with Collection.create(8, path=tmp_path / "rows", memory=1 << 20, segments="graph") as made:
        made.upsert(np.arange(2000), vectors)
    with Collection.open(tmp_path / "rows") as opened:
        assert opened.search(vectors[7], k=1).ids.tolist() == [7]
