"""Requests from several connections at a time, as fast as they are answered or at a rate."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from systems import Connection

CONNECTIONS = 4
"""Connections that search as fast as they can."""


def _together(work: Sequence[Callable[[], None]]) -> None:
    """Run all of it at the same time; what goes wrong in one ends the run."""
    failed: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except (Exception, SystemExit) as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def write(connect: Callable[[], Connection], requests: Sequence[Any], writers: int) -> float:
    """Send all requests; return the seconds until the last is answered."""
    turn = itertools.count()
    connections = [connect() for _ in range(writers)]

    def send(connection: Connection) -> None:
        while (at := next(turn)) < len(requests):
            connection.send(requests[at])

    begun = time.perf_counter()
    _together([lambda one=one: send(one) for one in connections])
    return time.perf_counter() - begun


def closed(connect: Callable[[], Connection], questions: Sequence[Any], seconds: float) -> float:
    """Return queries per second of connections that ask as fast as they are answered."""
    turn = itertools.count()
    connections = [connect() for _ in range(CONNECTIONS)]
    asked = [0] * CONNECTIONS
    begun = time.perf_counter()

    def ask(at: int) -> None:
        while time.perf_counter() - begun < seconds:
            connections[at].send(questions[next(turn) % len(questions)])
            asked[at] += 1

    _together([lambda at=at: ask(at) for at in range(CONNECTIONS)])
    return sum(asked) / (time.perf_counter() - begun)


def at_rate(
    connection: Connection, requests: Sequence[Any], rate: float, seconds: float
) -> list[float]:
    """Send so many requests per second, one at a time; return seconds from when each was due.

    A server that is too slow for the rate is given up after twice the time.
    """
    times = []
    begun = time.perf_counter()
    for at in range(int(rate * seconds)):
        if time.perf_counter() > begun + 2 * seconds:
            break
        due = begun + at / rate
        early = due - time.perf_counter()
        if early > 0:
            time.sleep(early)
        connection.send(requests[at % len(requests)])
        times.append(time.perf_counter() - due)
    return times


def beside(
    connect: Callable[[], Connection],
    questions: Sequence[Any],
    writes: Sequence[Any],
    seconds: float,
    rate: float,
) -> tuple[list[float], int]:
    """Ask at a rate while ten writes come per second.

    Return the seconds of each query, and how many writes were answered until the last.
    """
    times: list[float] = []
    written = [0]
    over = threading.Event()
    asking, writing = connect(), connect()

    def ask() -> None:
        try:
            times.extend(at_rate(asking, questions, rate, seconds))
        finally:
            over.set()

    def send() -> None:
        begun = time.perf_counter()
        for at, one in enumerate(writes):
            early = begun + at / 10 - time.perf_counter()
            if early > 0:
                time.sleep(early)
            if over.is_set():
                return
            writing.send(one)
            written[0] += 1

    _together([ask, send])
    return times, written[0]
