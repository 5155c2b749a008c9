"""Searching while writing, from many threads."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vstream import Closed, Collection

DIMENSION = 16


def row_of(one, step):
    """Return the row that id `one` holds after its update `step`: the two can be read from it."""
    row = np.zeros(DIMENSION, np.float32)
    row[0], row[1] = one, step
    return row


def test_every_answer_is_true_while_two_writers_and_three_readers_run():
    """An id lives in one version at a time, and ids that nobody deletes are always found."""
    c = Collection.create(DIMENSION)
    kept = 50
    for one in range(kept):
        c.upsert(one, row_of(one, 0))
    stop = threading.Event()

    def write(first):
        rng = np.random.default_rng(first)
        for step in range(1, 4000):
            # Ids of one writer only, so that its own counts are exact.
            one = kept + first + 2 * int(rng.integers(500))
            if step % 3:
                c.upsert(one, row_of(one, step))
            else:
                c.delete(one)
            c.upsert(step % kept, row_of(step % kept, step))

    def read(seed):
        rng, searches = np.random.default_rng(seed), 0
        while not stop.is_set():
            one = int(rng.integers(kept))
            found, distances = c.search(row_of(one, 0), 20, exact=True)
            assert len(set(found.tolist())) == len(found), "an id was found twice"
            assert (np.diff(distances) >= 0).all()
            at = np.flatnonzero(found == one)
            # Its distance is the square of its step: other steps of the id must not show.
            if len(at):
                step = distances[at[0]] ** 0.5
                assert abs(step - round(float(step))) < 1e-2
            c.search(row_of(one, 0), 5)
            searches += 1
        return searches

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, seed) for seed in range(3)]
        for writer in [pool.submit(write, first) for first in range(2)]:
            writer.result()
        stop.set()
        assert all(reader.result() > 0 for reader in readers)
    assert len(c) == c.stats().live_rows
    for one in range(kept):
        assert one in c.search_batch([row_of(one, 0)], 1000, exact=True)[0]


def test_rows_that_nobody_touches_are_found_at_every_moment(rng):
    fixed = rng.standard_normal((64, DIMENSION), dtype=np.float32)
    c = Collection.create(DIMENSION)
    c.upsert(np.arange(64), fixed)
    stop = threading.Event()

    def churn():
        noise = rng.standard_normal((2000, DIMENSION), dtype=np.float32)
        while not stop.is_set():
            c.upsert(np.arange(100, 2100), noise)
            c.delete(np.arange(100, 2100))

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        try:
            for turn in range(1500):
                one = turn % 64
                found, distances = c.search(fixed[one], 1, exact=True)
                assert (found.tolist(), distances.tolist()) == ([one], [0.0])
        finally:
            stop.set()
        churning.result()


def test_calls_run_without_the_interpreter_lock(rng):
    """This thread goes on while another one is inside a single long call."""
    rows = rng.standard_normal((30_000, 64), dtype=np.float32)
    queries = rows[:400]
    c = Collection.create(64)
    calls = [
        lambda: c.upsert(np.arange(len(rows)), rows),
        lambda: c.search_batch(queries, 10, exact=True),
        lambda: c.delete(np.arange(len(rows))),
    ]
    for call in calls:
        done = threading.Event()

        def run(call=call, done=done):
            call()
            done.set()

        thread = threading.Thread(target=run)
        began = time.perf_counter()
        thread.start()
        turns = 0
        while not done.is_set():
            turns += 1
            time.sleep(0)
        took = time.perf_counter() - began
        thread.join()
        # Holding the lock would leave a turn or two, at either end of the call.
        assert turns > 20, f"only {turns} turns in {took:.3f} s"


def test_searches_do_not_wait_for_a_snapshot(tmp_path, rng):
    c = Collection.create(64)
    c.upsert(np.arange(60_000), rng.standard_normal((60_000, 64), dtype=np.float32))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(c.snapshot, tmp_path / "s")
        searches = 0
        while not writing.done():
            c.search(np.ones(64), 3, probes=1)
            assert len(c) == 60_000
            searches += 1
        writing.result()
    assert searches > 5
    assert len(Collection.restore(tmp_path / "s")) == 60_000


def test_closing_while_others_search_is_an_exception_not_a_crash():
    for _ in range(20):
        c = Collection.create(2)
        c.upsert(np.arange(100), np.ones((100, 2)))

        def search(c=c):
            answers = 0
            try:
                while True:
                    assert len(c.search([1, 1], 5)[0]) == 5
                    answers += 1
            except Closed:
                return answers

        with ThreadPoolExecutor(2) as pool:
            searching = [pool.submit(search) for _ in range(2)]
            time.sleep(0.005)
            c.close()
            assert all(one.result() >= 0 for one in searching)


def test_what_was_acknowledged_before_close_is_kept(tmp_path):
    """Threads write while the collection is closed: what they were told is done, is on disk."""
    for turn in range(10):
        place = tmp_path / str(turn)
        c = Collection.create(1, path=place)

        def write(first, c=c):
            one = first
            try:
                while True:
                    c.upsert(one, [one])
                    one += 2
            except Closed:
                return range(first, one, 2)

        with ThreadPoolExecutor(2) as pool:
            writing = [pool.submit(write, first) for first in range(2)]
            time.sleep(0.01)
            c.close()
            acknowledged = {one for done in writing for one in done.result()}
        with Collection.open(place) as back:
            assert len(back) == len(acknowledged)


def test_an_interrupt_ends_a_long_call(rng):
    rows = rng.standard_normal((300_000, 64), dtype=np.float32)
    c = Collection.create(64)
    # A shell starts its background jobs with the signal ignored, and Python leaves that so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            c.upsert(np.arange(len(rows)), rows)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert 0 < len(c) < len(rows)
    assert len(c) == c.stats().live_rows
    c.upsert(7, rows[7])
