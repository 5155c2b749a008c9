"""What the methods do, one behaviour at a time."""

import gc
import pickle
import resource
import time
from pathlib import Path

import numpy as np
import pytest
from oracle import METRICS, check, recall

import vstream
from vstream import Collection


def test_a_row_is_found_when_upsert_returns():
    c = Collection.create(3)
    for i in range(500):
        c.upsert(i, [i, 0, 0])
        ids, distances = c.search([i, 0, 0], 1)
        assert (ids.tolist(), distances.tolist()) == ([i], [0.0])


def test_a_row_is_gone_when_delete_returns():
    c = Collection.create(1)
    c.upsert(range(500), np.arange(500.0).reshape(-1, 1))
    for i in range(500):
        assert c.delete(i) == 1
        assert i not in c.search([i], 5)[0]
    assert len(c) == 0
    assert c.search([1], 5)[0].shape == (0,)


def test_delete_counts_rows_not_ids():
    c = Collection.create(1)
    c.upsert([1, 2, 3], [[1], [2], [3]])
    assert c.delete([]) == 0
    assert c.delete(9) == 0
    assert c.delete([1, 1, 9]) == 1
    assert c.delete(np.array([2, 3], np.uint8)) == 2


def test_an_upsert_replaces_the_row_of_its_id():
    c = Collection.create(2)
    for step in range(300):
        c.upsert(7, [step, 1])
        ids, distances = c.search([step, 0], 10, exact=True)
        assert (ids.tolist(), distances.tolist()) == ([7], [1.0])
    assert len(c) == 1


def test_of_an_id_that_comes_twice_in_a_call_the_last_row_stays():
    c = Collection.create(1)
    c.upsert([5, 5, 5], [[1], [2], [3]])
    assert len(c) == 1
    assert c.search([3])[1].tolist() == [0.0]


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_those_of_the_metric(metric, rng):
    rows = rng.standard_normal((200, 24), dtype=np.float32)
    c = Collection.create(24, metric)
    c.upsert(np.arange(200), rows)
    live = dict(enumerate(rows))
    for query in rng.standard_normal((20, 24), dtype=np.float32):
        check(c, live, query, c.search(query, 50, exact=True), complete=True)


def test_ties_come_by_id():
    c = Collection.create(1)
    c.upsert([9, 3, 6], [[1], [1], [1]])
    assert c.search([1], 3)[0].tolist() == [3, 6, 9]


NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": np.float32, "u8": np.uint8, "i8": np.int8}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("element", NUMPY)
def test_a_collection_of_any_element(element, metric, rng):
    rows = rng.integers(1, 128, (300, 16)).astype(NUMPY[element])
    c = Collection.create(16, metric, element)
    c.upsert(np.arange(300), rows)
    live = dict(enumerate(rows))
    check(c, live, rows[5], c.search(rows[5], 20, exact=True), complete=True)
    between = rows[5] + 0.5
    check(c, live, between, c.search(between, 20, exact=True), complete=True)
    c.upsert(5, rows[6])
    assert len(c) == 300


def test_ids_reach_from_0_to_the_largest_int64():
    c = Collection.create(1)
    c.upsert([0, 2**63 - 1], [[0], [1]])
    c.upsert(2**62, [2])
    assert c.search([0])[0].tolist() == [0, 2**63 - 1, 2**62]
    assert c.delete([2**63 - 1, 0]) == 2


def test_a_batch_of_queries_equals_single_ones(rng):
    rows = rng.standard_normal((3000, 8), dtype=np.float32)
    c = Collection.create(8)
    c.upsert(np.arange(3000), rows)
    queries = rng.standard_normal((300, 8), dtype=np.float32)
    ids, distances = c.search_batch(queries, 7, exact=True)
    assert (ids.shape, ids.dtype) == ((300, 7), np.int64)
    assert (distances.shape, distances.dtype) == ((300, 7), np.float32)
    assert ids.flags.c_contiguous
    assert ids.flags.writeable
    for row, query in enumerate(queries):
        one_ids, one_distances = c.search(query, 7, exact=True)
        np.testing.assert_array_equal(ids[row], one_ids)
        np.testing.assert_array_equal(distances[row], one_distances)


def test_a_batch_is_padded_with_minus_one_at_infinity():
    c = Collection.create(1)
    c.upsert(4, [1])
    ids, distances = c.search_batch([[1], [2]], 3)
    assert ids.tolist() == [[4, -1, -1], [4, -1, -1]]
    assert distances.tolist() == [[0.0, np.inf, np.inf], [1.0, np.inf, np.inf]]
    empty = Collection.create(1).search_batch([[1]], 2)
    assert empty[0].tolist() == [[-1, -1]]


def test_a_batch_of_no_queries_has_no_rows():
    c = Collection.create(4)
    ids, distances = c.search_batch(np.empty((0, 4), np.float32), 3)
    assert ids.shape == distances.shape == (0, 3)


def test_automatic_searches_reach_the_recall_target(rng):
    centers = rng.standard_normal((200, 16), dtype=np.float32) * 2
    rows = centers[rng.integers(200, size=20_000)] + rng.standard_normal((20_000, 16))
    c = Collection.create(16, recall_target=0.95)
    c.upsert(np.arange(20_000), rows)
    queries = centers[rng.integers(200, size=400)] + rng.standard_normal((400, 16))
    deadline = time.monotonic() + 30
    while (found := c.stats().recall) is None or found.audits < 16:
        assert time.monotonic() < deadline, "the guard has not checked any answer"
        c.search_batch(queries[200:])
    assert 0 <= found.recall <= 1
    assert found.margin >= 0
    assert recall(c, queries[:200], 10) > 0.9
    assert c.stats().leaves > 1


def test_more_probes_find_more(rng):
    rows = rng.standard_normal((10_000, 32), dtype=np.float32)
    c = Collection.create(32)
    c.upsert(np.arange(10_000), rows)
    queries = rng.standard_normal((50, 32), dtype=np.float32)
    few, many = recall(c, queries, 10, probes=1), recall(c, queries, 10, probes=10_000)
    assert few < many
    assert many > 0.95


def test_the_recall_target_of_a_search_is_the_collections_at_most():
    c = Collection.create(1, recall_target=0.9)
    c.upsert(1, [1])
    assert c.search([1], recall_target=0.9)[0].tolist() == [1]
    assert c.search_batch([[1]], 1, recall_target=0.5)[0].tolist() == [[1]]
    with pytest.raises(vstream.Unsupported, match=r"above the 0\.9 .* exact=True"):
        c.search([1], recall_target=0.95)


def test_narrow_rows_take_less_memory(rng):
    rows = rng.integers(0, 128, (5000, 64))
    taken = {}
    for element in NUMPY:
        c = Collection.create(64, element=element)
        c.upsert(np.arange(5000), rows)
        taken[element] = c.stats().memory_bytes
    saved = 5000 * 64
    assert max(taken["f16"], taken["bf16"]) <= taken["f32"] - 2 * saved
    assert max(taken["u8"], taken["i8"]) <= taken["f32"] - 3 * saved


def test_stats_count(rng):
    c = Collection.create(4)
    c.upsert(np.arange(5000), rng.standard_normal((5000, 4)))
    c.delete(np.arange(1000))
    stats = c.stats()
    assert stats.live_rows == len(c) == 4000
    assert stats.leaves > 1
    assert stats.splits > 0
    assert stats.memory_bytes > 4000 * 16
    assert stats.probes >= 1
    with pytest.raises(AttributeError):
        stats.live_rows = 0


def test_repr_says_what_it_is(tmp_path):
    c = Collection.create(2, "dot", "u8")
    assert repr(c) == "Collection(dimension=2, metric='inner_product', element='u8', rows=0)"
    assert (c.dimension, c.metric, c.element, c.recall_target, c.path) == (
        2,
        "inner_product",
        "u8",
        0.95,
        None,
    )
    c.close()
    assert repr(c) == "Collection(closed)"
    with Collection.create(2, path=tmp_path) as kept:
        assert repr(kept).endswith(f"rows=0, path={str(tmp_path)!r})")


def test_a_closed_collection_says_so():
    c = Collection.create(1)
    with c as same:
        assert same is c
        c.upsert(1, [1])
    c.close()
    assert c.closed
    calls = [
        lambda: c.upsert(1, [1]),
        lambda: c.upsert([1], [[1]]),
        lambda: c.delete(1),
        lambda: c.search([1]),
        lambda: c.search_batch([[1]]),
        c.stats,
        lambda: c.snapshot("nowhere"),
        c.flush,
        lambda: c.metric,
        lambda: len(c),
    ]
    for call in calls:
        with pytest.raises(vstream.Closed, match="open it again"):
            call()


def test_membership_and_iteration_are_not_offered():
    c = Collection.create(1)
    with pytest.raises(TypeError):
        _ = 1 in c
    with pytest.raises(TypeError):
        pickle.dumps(c)
    with pytest.raises(TypeError, match=r"Collection\.create"):
        Collection()


def test_close_frees_the_memory(rng):
    rows = rng.standard_normal((20_000, 128), dtype=np.float32)
    before = resident_mib()
    for _ in range(6):
        with Collection.create(128) as c:
            c.upsert(np.arange(20_000), rows)
    gc.collect()
    assert resident_mib() - before < 60, "six collections of 10 MB each were not freed"


def resident_mib():
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize() / 2**20
