"""Snapshots and persistent directories: round trips, damage, crashes, other users."""

import os
import resource
import shutil
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
    with pytest.raises(vstream.StorageError, match="MANIFEST"):
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
    with pytest.raises(vstream.InvalidInput, match=r"use Collection\.restore"):
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
    snapshots = [p.name for p in place.iterdir() if p.name.startswith("snapshot-")]
    assert len(snapshots) == 1, "older snapshots are removed"


def test_rows_after_the_last_flush_are_lost_as_documented(tmp_path):
    c = Collection.create(1, path=tmp_path)
    c.upsert(1, [1])
    c.flush()
    c.upsert(2, [2])
    with pytest.warns(ResourceWarning, match="last rows are lost"):
        del c
    with Collection.open(tmp_path) as back:
        assert back.search([1])[0].tolist() == [1]


def test_a_flush_without_changes_writes_nothing(tmp_path):
    with Collection.create(1, path=tmp_path) as c:
        c.upsert(1, [1])
        c.flush()
        before = sorted(p.name for p in tmp_path.iterdir())
        c.flush()
        c.delete(99)
        c.flush()
        assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_collection_without_path_cannot_flush():
    c = Collection.create(1)
    with pytest.raises(vstream.InvalidInput, match="use snapshot"):
        c.flush()


def test_create_and_open_do_not_take_each_others_place(tmp_path):
    with Collection.create(1, path=tmp_path):
        pass
    with pytest.raises(vstream.InvalidInput, match=r"use Collection\.open"):
        Collection.create(1, path=tmp_path)
    with pytest.raises(vstream.InvalidInput, match=r"use Collection\.open"):
        Collection.restore(tmp_path)
    with pytest.raises(vstream.InvalidInput, match="choose another"):
        Collection.create(1).snapshot(tmp_path)
    with pytest.raises(vstream.InvalidInput, match=r"use Collection\.create"):
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


def test_any_flipped_byte_of_the_settings_is_found(tmp_path):
    Collection.create(1, path=tmp_path).close()
    file = tmp_path / "collection.json"
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
        with pytest.raises(vstream.CorruptData, match=r"collection\.json"):
            Collection.open(tmp_path)
    file.write_bytes(whole)
    for gone in tmp_path.glob("snapshot-*"):
        shutil.rmtree(gone)
    with pytest.raises(vstream.CorruptData, match="is gone"):
        Collection.open(tmp_path)


def test_what_a_crash_left_behind_is_ignored_and_then_removed(tmp_path):
    with Collection.create(1, path=tmp_path) as c:
        c.upsert(1, [1])
    torn = tmp_path / "snapshot-9"
    torn.mkdir()
    (torn / "shard-000.rows").write_bytes(b"torn")
    with Collection.open(tmp_path) as c:
        assert len(c) == 1
        c.upsert(2, [2])
    assert [p.name for p in tmp_path.glob("snapshot-*")] == ["snapshot-10"]
    assert len(Collection.open(tmp_path)) == 2


@contextmanager
def full_disk():
    """Let no file grow beyond 100 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_flush_that_fails_can_be_repeated(tmp_path):
    c = Collection.create(4, path=tmp_path)
    c.upsert(1, [1, 1, 1, 1])
    c.flush()
    c.upsert(range(100), np.ones((100, 4)))
    for attempt in (c.flush, c.close):
        with full_disk(), pytest.raises(vstream.StorageError, match="cannot write"):
            attempt()
        assert not c.closed
        assert len(c.search([1, 1, 1, 1])[0]) == 10
    c.close()
    assert len(Collection.open(tmp_path)) == 100


FLUSH_FOREVER = """
import sys, numpy as np, vstream
c = vstream.Collection.open(sys.argv[1])
while True:
    n = len(c)
    c.upsert(np.arange(n, n + 100), np.ones((100, 8)))
    c.flush()
    print(len(c), flush=True)
"""


def test_a_killed_process_leaves_a_flushed_state(tmp_path):
    Collection.create(8, path=tmp_path).close()
    acknowledged = 0
    for turn in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", FLUSH_FOREVER, str(tmp_path)],
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
            # The flush that was being made may have been finished, but not told.
            assert len(c) in (acknowledged, acknowledged + 100)
            acknowledged = len(c)
