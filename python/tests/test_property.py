"""Any sequence of calls leaves what a dict would hold, and answers as brute force would."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from oracle import METRICS, check

from vstream import Collection

ids = st.integers(0, 30) | st.integers(0, 2**63 - 1)
# Cosine needs a direction, so no vector is all zero; small whole numbers suit every element type.
numbers = st.integers(0, 127)


@given(
    metric=st.sampled_from(METRICS),
    rows=arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 60), st.integers(1, 9)),
        elements=st.floats(-1000, 1000, width=32).map(lambda x: x if abs(x) > 1e-3 else 1.0),
    ),
    k=st.integers(1, 70),
)
@settings(max_examples=150)
def test_exact_answers_equal_brute_force(metric, rows, k):
    c = Collection.create(rows.shape[1], metric)
    c.upsert(range(len(rows)), rows)
    live = dict(enumerate(rows))
    answer = c.search(rows[0], k, exact=True)
    assert len(answer[0]) == min(k, len(rows))
    check(c, live, rows[0], answer, complete=True)
    batch_ids, batch_distances = c.search_batch(rows, k, exact=True)
    for row, query in enumerate(rows):
        found = batch_ids[row] >= 0
        assert found.sum() == min(k, len(rows))
        check(c, live, query, (batch_ids[row][found], batch_distances[row][found]), complete=True)


@given(
    metric=st.sampled_from(METRICS),
    rows=arrays.arrays(
        np.float32,
        st.tuples(st.integers(2, 400), st.integers(1, 6)),
        elements=st.floats(-100, 100, width=32).map(lambda x: x if abs(x) > 1e-2 else 1.0),
    ),
)
@settings(max_examples=60)
def test_a_radius_holds_what_an_exact_search_finds_within_it(metric, rows):
    c = Collection.create(rows.shape[1], metric)
    c.upsert(range(len(rows)), rows)
    all_ids, all_distances = c.search(rows[0], len(rows), exact=True)
    for radius in (float(all_distances[len(rows) // 2]), float(all_distances[-1]), -1e9):
        ids, distances = c.search_radius(rows[0], radius)
        within = all_distances <= radius
        assert ids.tolist() == all_ids[within].tolist()
        assert distances.tolist() == all_distances[within].tolist()


class AgainstDict(RuleBasedStateMachine):
    """Drives a collection and a dict side by side."""

    @initialize(
        dimension=st.integers(1, 5),
        metric=st.sampled_from(METRICS),
        element=st.sampled_from(["f32", "f16", "bf16", "u8", "i8"]),
    )
    def create(self, dimension, metric, element):
        self.place = Path(tempfile.mkdtemp(prefix="vstream-"))
        self.snapshots = 0
        self.live = {}
        self.dimension = dimension
        self.c = Collection.create(dimension, metric, element)

    def vector(self, data):
        row = data.draw(st.lists(numbers, min_size=self.dimension, max_size=self.dimension))
        return np.array(row if any(row) else [1] * self.dimension, np.float32)

    @rule(data=st.data(), one=ids)
    def upsert(self, data, one):
        self.live[one] = self.vector(data)
        self.c.upsert(one, self.live[one])

    @rule(data=st.data(), many=st.lists(ids, max_size=40))
    def upsert_many(self, data, many):
        seed = data.draw(st.integers(0, 2**32))
        rows = np.random.default_rng(seed).integers(1, 128, (len(many), self.dimension))
        kind = data.draw(st.sampled_from([np.uint8, np.float32, np.float64]))
        self.c.upsert(many, rows.astype(kind))
        self.live.update(zip(many, rows.astype(np.float32), strict=True))

    @rule(data=st.data())
    def delete(self, data):
        some = data.draw(st.lists(ids | st.sampled_from([*self.live, 0]), max_size=20))
        assert self.c.delete(some) == len(set(some) & self.live.keys())
        for one in some:
            self.live.pop(one, None)

    @rule(data=st.data(), k=st.integers(1, 20))
    def search(self, data, k):
        query = self.vector(data)
        answer = self.c.search(query, k, exact=True)
        assert len(answer[0]) == min(k, len(self.live))
        check(self.c, self.live, query, answer, complete=True)
        check(self.c, self.live, query, self.c.search(query, k), complete=False)

    @rule()
    def restart(self):
        self.snapshots += 1
        self.c.snapshot(self.place / str(self.snapshots))
        self.c.close()
        self.c = Collection.restore(self.place / str(self.snapshots))

    @invariant()
    def counts(self):
        if hasattr(self, "c"):
            assert len(self.c) == self.c.stats().live_rows == len(self.live)

    def teardown(self):
        if hasattr(self, "c"):
            self.c.close()
            shutil.rmtree(self.place)


TestAgainstDict = AgainstDict.TestCase
# Under cosine a restored u8 collection holds directions, so answers stay those of the rows.
TestAgainstDict.settings = settings(max_examples=80, stateful_step_count=40)
