"""What Python asks of a job. `JobReaderIT` has Python ask a real one, through failures."""

import asyncio
import pickle
import struct
import threading

import numpy as np
import pytest
from partition import Partition, publish

import vstream
from vstream import Job


@pytest.fixture
def partitions(tmp_path, rng):
    """Three of a thousand rows each."""
    made = []
    for part in range(3):
        ids = np.arange(part, 3000, 3)
        made.append(Partition(ids, rng.random((1000, 64), dtype=np.float32)))
    publish(tmp_path, made)
    yield made
    for partition in made:
        partition.listener.close()


def nearest(partitions, query, k):
    rows = np.concatenate([partition.rows for partition in partitions])
    ids = np.concatenate([partition.ids for partition in partitions])
    distances = ((rows - query) ** 2).sum(axis=1)
    order = np.lexsort((ids, distances))[:k]
    return ids[order].tolist(), distances[order]


def test_answers_are_those_of_all_partitions(tmp_path, partitions, rng):
    with Job.connect(tmp_path) as job:
        assert (job.dimension, job.metric, job.attributes) == (64, "l2", {"color": "keyword"})
        assert repr(job) == f"Job({str(tmp_path)!r}, dimension=64, metric='l2')"
        for k in (1, 10, 100):
            query = rng.random(64, dtype=np.float32)
            found = job.search(query, k, with_=["payload", "color"])
            ids, distances = found
            wanted, apart = nearest(partitions, query, k)
            assert ids.tolist() == wanted
            np.testing.assert_allclose(distances, apart, rtol=1e-6)
            assert found.json() == [{"row": one} for one in wanted]
            assert found.attributes == {"color": [None] * k}
            assert (found.offsets, found.watermark, found.partial) == ([5, 6], 90, False)
            assert next(found.rows())["id"] == wanted[0]
            copied = pickle.loads(pickle.dumps(found))
            assert type(copied) is vstream.JobAnswer
            assert list(copied.rows()) == list(found.rows())
            assert (copied.offsets, copied.watermark, copied.partial) == ([5, 6], 90, False)
    with pytest.raises(vstream.Closed, match="make another Job"):
        job.search(query)


def test_a_question_says_what_is_wanted(tmp_path, partitions):
    query = np.zeros(64, np.float32)
    with Job.connect(tmp_path, deadline=7) as job:
        for given, effort in [({}, 0), ({"exact": True}, -1), ({"probes": 9}, 9)]:
            job.search(query, min_offsets=[4, 6], min_watermark=80, deadline=3, **given)
            asked = partitions[0].questions[-1]
            wait, watermark, count, first, second = struct.unpack_from(">iqiqq", asked)
            assert 0 < wait <= 3_000
            assert (watermark, count, first, second) == (80, 2, 4, 6)
            assert struct.unpack_from(">ii", asked, 32) == (10, effort)
        job.search(query, radius=2.0)
        assert partitions[0].questions[-1].endswith(struct.pack(">f", 2.0))
        job.search(query, where={"color": "red"})
        assert b"red" in partitions[0].questions[-1]
        found = job.search(query)
        job.search(query, min_offsets=[*found.offsets, -1], min_watermark=-5)


def test_rows_that_are_missing_are_an_error_unless_they_may_be(tmp_path, partitions):
    query = np.zeros(64, np.float32)
    with Job.connect(tmp_path) as job:
        partitions[1].is_partial = True
        with pytest.raises(vstream.Unavailable, match="remote level"):
            job.search(query)
        assert job.search(query, partial=True).partial
        partitions[1].is_partial = False
        partitions[2].flags = 32
        with pytest.raises(vstream.InvalidInput, match="ask for fewer rows"):
            job.search(query, 100, with_=["payload"])
        partitions[2].flags = 4
        partitions[0].status, partitions[0].message = 1, "The filter is too deep."
        with pytest.raises(vstream.InvalidInput, match="too deep"):
            job.search(query)
        partitions[0].status, partitions[0].message = 2, "The partition has no time."
        with pytest.raises(vstream.Unavailable, match="has no time"):
            job.search(query, deadline=1)


def test_threads_and_tasks_ask_at_once(tmp_path, partitions, rng):
    queries = rng.random((40, 64), dtype=np.float32)
    wanted = [nearest(partitions, query, 5)[0] for query in queries]
    found = [None] * len(queries)

    def ask(at):
        found[at] = job.search(queries[at], 5).ids.tolist()

    with Job.connect(tmp_path) as job:
        threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(queries))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == wanted

    async def ask_all():
        async with await vstream.AsyncJob.connect(tmp_path) as job:
            return await asyncio.gather(*(job.search(query, 5) for query in queries))

    assert [answer.ids.tolist() for answer in asyncio.run(ask_all())] == wanted


def test_wrong_arguments_are_refused_before_anything_is_asked(tmp_path, partitions):
    query = np.zeros(64, np.float32)
    with Job.connect(tmp_path) as job:
        for call, said in [
            (lambda: job.search(query[:3]), "3 elements"),
            (lambda: job.search(query, 0), "k is 0"),
            (lambda: job.search(query, 1001), "k is 1001"),
            (lambda: job.search(query, k=2**62), "k is"),
            (lambda: job.search(query * np.nan), "not finite"),
            (lambda: job.search(query, probes=0), "probes is 0"),
            (lambda: job.search(query, probes=3, exact=True), "exclude each other"),
            (lambda: job.search(query, exact=1), "exact is 1"),
            (lambda: job.search(query, with_=["size"]), "no attribute 'size'"),
            (lambda: job.search(query, where={"size": 3}), "size"),
            (lambda: job.search(query, group="ann"), "no shared groups"),
            (lambda: job.search(query, min_offsets=[1.5]), "an offset is a float"),
            (lambda: job.search(query, min_watermark=2**63), "min_watermark is 9"),
            (lambda: job.search(query, radius=float("nan")), "radius is not a number"),
            (lambda: job.search(query, deadline=0), "deadline is 0"),
            (lambda: job.search(query, deadline=61), "deadline is 61"),
        ]:
            with pytest.raises(vstream.InvalidInput, match=said):
                call()
        assert partitions[0].questions == []
        with pytest.raises(TypeError):
            pickle.dumps(job)
    with pytest.raises(TypeError, match=r"Job\.connect"):
        Job()


def test_where_no_job_answers_that_is_said(tmp_path, partitions):
    for partition in partitions:
        partition.key = b"a key"
    with pytest.raises(vstream.InvalidInput, match="does not take this key"):
        Job.connect(tmp_path, key="another")
    Job.connect(tmp_path, key="a key").close()
    (tmp_path / "empty").mkdir()
    with pytest.raises(vstream.Unavailable, match="no job has published"):
        Job.connect(tmp_path / "empty", deadline=0.05)
    with pytest.raises(vstream.InvalidInput, match="certificate"):
        Job.connect(tmp_path, certificates=tmp_path / "nowhere.pem")
