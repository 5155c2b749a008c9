"""The truth: every distance in double precision."""

import numpy as np

import vstream

METRICS = ["l2", "cosine", "inner_product"]

# Unit roundoff of what is not kept as it came. Under cosine it is a direction that is rounded.
ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8}


def distances(metric, rows, query):
    rows, query = np.asarray(rows, np.float64), np.asarray(query, np.float64)
    if metric == "l2":
        return ((rows - query) ** 2).sum(axis=1)
    if metric == "inner_product":
        return -(rows @ query)
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return 1.0 - (rows @ query) / norms


def tolerance(metric, element, rows, query):
    """Rounding of single precision, relative to the size of what is summed.

    Rows are such as the element holds exactly, but for directions.
    """
    rows, query = np.asarray(rows, np.float64), np.asarray(query, np.float64)
    if metric == "cosine":
        return 1e-5 + ROUNDOFF.get(element, 0.0)
    largest = max(np.abs(rows).max(initial=0.0), np.abs(query).max(initial=0.0), 1.0)
    return 1e-5 * query.size * largest**2


def check(collection, live, query, answer, *, complete):
    """Compare an answer with the rows that live, a dict of id to vector.

    Ties and near ties may come in either order, so distances are compared, not ids. An answer that
    is not complete may lack rows, but what it holds must be true.
    """
    ids, found = answer
    assert len(ids) == len(found)
    assert ids.dtype == np.int64
    assert found.dtype == np.float32
    assert len(set(ids.tolist())) == len(ids), "an id appears twice"
    assert all(i in live for i in ids.tolist()), "a row that does not live was found"
    order = list(zip(found.tolist(), ids.tolist(), strict=True))
    assert order == sorted(order), "not nearest first with ties by id"
    if not live:
        return
    slack = tolerance(collection.metric, collection.element, list(live.values()), query)
    if len(ids):
        true = distances(collection.metric, [live[i] for i in ids.tolist()], query)
        np.testing.assert_allclose(found, true, rtol=1e-5, atol=slack)
    if complete:
        best = np.sort(distances(collection.metric, list(live.values()), query))[: len(ids)]
        np.testing.assert_allclose(found, best, rtol=1e-5, atol=slack)


def recall(collection: vstream.Collection, queries, k, **effort):
    """Mean share of the exact answers that searches find."""
    shares = []
    for query in queries:
        true, _ = collection.search(query, k, exact=True)
        found, _ = collection.search(query, k, **effort)
        shares.append(len(np.intersect1d(true, found)) / len(true))
    return float(np.mean(shares))
