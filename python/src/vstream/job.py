"""Ask a running job: its partitions answer, without a topic between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vstream import _arguments, _native
from vstream.errors import InvalidInput
from vstream.filters import native_filter
from vstream.reads import answer, wanted
from vstream.rows import Answer

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike

    from vstream._native import Job as NativeJob
    from vstream.filters import Where

_DEADLINE_MAX = 60.0


class JobAnswer(Answer):
    """The answer of a job: an `Answer` that says how much of the stream is behind it.

    Attributes
    ----------
    offsets
        For each partition of the topic of vectors the offset before which all records are in the
        answer; -1 where nothing is known.
    watermark
        Event time up to which all rows are in it, in milliseconds since 1970; None without one.
    partial
        Whether rows are missing, because the store of the job's remote level gave no answer.
    """

    offsets: list[int]
    watermark: int | None
    partial: bool


class Job:
    """Connections to a running job whose file has `reads`.

    Make them with `Job.connect`; they find the job again after a failure, at another parallelism,
    and while ranges change partition. An answer holds the rows of one moment of each partition that
    was asked, and is at most a tenth of a second behind what the job has applied.

    *Threads.* Every method may be called from any thread and runs without the interpreter lock; 16
    threads ask at once, others wait.

    Examples
    --------
    `examples/python/ask_job.py` is a whole program around this::

        with vstream.Job.connect("run/checkpoints") as job:
            ids, distances = job.search(vector, k=10, where={"language": "en"})
    """

    _native: NativeJob
    _checkpoints: str
    _deadline: float

    def __init__(self) -> None:
        """Refuse: a job is connected to."""
        raise TypeError("use Job.connect")

    @classmethod
    def connect(
        cls,
        checkpoints: str | os.PathLike[str],
        search: str = "",
        *,
        key: str = "",
        certificates: str | os.PathLike[str] | None = None,
        deadline: float = 5.0,
    ) -> Self:
        """Find a job by its checkpoints and connect to its partitions.

        Parameters
        ----------
        checkpoints
            The folder of the job's checkpoints: a path, or `s3://bucket/folder`, whose endpoint,
            region and credentials come from the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`,
            `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`).
        search
            Name of the search; empty for the one search of a job file.
        key
            The key that the job's partitions know.
        certificates
            PEM file with the certificate of the partitions, or of who signed it. No TLS without it.
        deadline
            Seconds for which a question is asked again where a partition gives no answer: 0.001 to
            60. It holds for this call too.

        Raises
        ------
        InvalidInput
            If an argument is wrong, or the job does not take the key.
        Unavailable
            If no job answers in time.
        """
        place = _arguments.text("checkpoints", _arguments.path(checkpoints))
        name = _arguments.text("search", search)
        pem = None if certificates is None else _arguments.path(certificates)
        native = _native.Job.connect(
            place, name, (_arguments.text("key", key), pem), _wait(deadline)
        )
        made = cls.__new__(cls)
        made._native, made._checkpoints, made._deadline = native, place, deadline
        return made

    def search(
        self,
        query: ArrayLike,
        k: int = 10,
        *,
        probes: int | None = None,
        exact: bool = False,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        with_: Sequence[str] | None = None,
        radius: float | None = None,
        group: str | None = None,
        min_offsets: Sequence[int] = (),
        min_watermark: int | None = None,
        partial: bool = False,
        deadline: float | None = None,
    ) -> JobAnswer:
        """Find the nearest rows.

        Parameters
        ----------
        query, k, exact, where, parameters, with_, radius, group
            As in `Collection.search`. Questions that are exact, or have `where` or `probes`, go to
            all partitions.
        probes
            Visit this many leaves of each partition, instead of what the job's recall target needs.
        min_offsets
            Wait for all records before these offsets of the topic of vectors, a number for each of
            its partitions: so a program that writes to the topic reads its own writes. -1 waits for
            nothing.
        min_watermark
            Wait for all rows up to this event time, in milliseconds since 1970.
        partial
            Whether rows may be missing where the job's remote level gives no answer.
        deadline
            Seconds, instead of those of `connect`.

        Returns
        -------
        JobAnswer
            Unpacks to ids and distances, nearest first, ties by id.

        Raises
        ------
        InvalidInput
            If the question is wrong, or its rows have more than the 16 MiB of payload and
            attributes that a partition's answer carries.
        Unavailable
            If there is no answer in time, or one with rows missing.
        """
        for name, given in (("exact", exact), ("partial", partial)):
            if type(given) is not bool:
                raise InvalidInput(f"{name} is {given!r}: pass True or False")
        offsets = [_arguments.signed("an offset", offset) for offset in min_offsets]
        least = None if min_watermark is None else _arguments.signed("min_watermark", min_watermark)
        found, reached, watermark, is_partial = self._native.search(
            _arguments.vector("the query", query, many="search for each"),
            (
                _arguments.integer("k", k),
                None if probes is None else _arguments.integer("probes", probes),
                exact,
            ),
            (
                native_filter(where, parameters, group),
                None if radius is None else _arguments.real("radius", radius),
                None if with_ is None else wanted(with_),
            ),
            (offsets, least, partial, _wait(self._deadline if deadline is None else deadline)),
        )
        base = answer(found)
        made = JobAnswer(base.ids, base.distances, base.attributes, base.payload)
        made.offsets, made.watermark, made.partial = reached, watermark, is_partial
        return made

    def close(self) -> None:
        """Disconnect. Later questions raise `Closed`."""
        self._native.close()

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return self._native.dimension

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self._native.metric

    @property
    def attributes(self) -> dict[str, str]:
        """Types by the names of the attributes, as they were when this connected."""
        return self._native.attributes

    def __enter__(self) -> Self:
        """Return the job, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect."""
        self.close()

    def __repr__(self) -> str:
        """Return where the job is and what it holds, for display."""
        return f"Job({self._checkpoints!r}, dimension={self.dimension}, metric={self.metric!r})"


def _wait(seconds: object) -> int:
    """Return milliseconds."""
    given = _arguments.real("deadline", seconds)
    if not 0.001 <= given <= _DEADLINE_MAX:
        raise InvalidInput(f"deadline is {given}: choose 0.001 to 60 seconds")
    return round(given * 1000)
