"""Keep, find and recover vectors as they stream, inside the Python process.

>>> import vstream
>>> c = vstream.Collection.create(dimension=2)
>>> c.upsert([1, 2, 3], [[0, 0], [3, 4], [6, 8]])
3
>>> ids, distances = c.search([3, 3], k=2)
>>> ids.tolist(), distances.tolist()
([2, 1], [1.0, 18.0])
"""

from vstream import _native
from vstream.aio import AsyncCollection, AsyncGroup, AsyncGroupCollection, AsyncJob
from vstream.collection import Collection
from vstream.errors import (
    Closed,
    CorruptData,
    InternalError,
    InvalidInput,
    StorageError,
    Unavailable,
    Unsupported,
    VStreamError,
)
from vstream.groups import Group, GroupCollection
from vstream.job import Job, JobAnswer
from vstream.rows import Answer, AnswerGroup, Rows
from vstream.stats import GroupStats, RecallEstimate, Stats

__version__ = _native.VERSION

__all__ = [
    "Answer",
    "AnswerGroup",
    "AsyncCollection",
    "AsyncGroup",
    "AsyncGroupCollection",
    "AsyncJob",
    "Closed",
    "Collection",
    "CorruptData",
    "Group",
    "GroupCollection",
    "GroupStats",
    "InternalError",
    "InvalidInput",
    "Job",
    "JobAnswer",
    "RecallEstimate",
    "Rows",
    "Stats",
    "StorageError",
    "Unavailable",
    "Unsupported",
    "VStreamError",
    "__version__",
]
