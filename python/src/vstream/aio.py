"""The collection for asyncio: every call runs on a thread, without the interpreter lock.

>>> import asyncio
>>> async def demo():
...     async with vstream.AsyncCollection.create(dimension=1) as c:
...         await c.upsert([1, 2], [[1], [2]])
...         ids, _ = await c.search([2.2], k=1)
...         return ids.tolist()
>>> asyncio.run(demo())
[2]
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Self

from vstream._schema import mode
from vstream.collection import Collection
from vstream.errors import InvalidInput
from vstream.groups import Group, GroupCollection
from vstream.job import Job

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable
    from types import TracebackType


def _awaited(of: type, name: str, held: str = "collection") -> Callable[..., Awaitable[Any]]:
    """Return the method of that name of what is held, on a thread of the loop's pool."""
    method = getattr(of, name)

    @functools.wraps(method)
    async def call(self: object, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(getattr(self, held), name), *args, **kwargs)

    return call


def _setting(of: type, name: str, held: str = "collection") -> property:
    """Return the property of that name of what is held, which does not wait."""
    doc: str | None = getattr(of, name).__doc__
    return property(lambda self: getattr(getattr(self, held), name), doc=doc)


class AsyncCollection:
    """A `Collection` whose calls are awaited: arguments and answers are the same.

    `create`, `open`, `restore` and `exists` are not awaited: opening or restoring a large
    collection takes a while, so call it before the loop runs, or on a thread. Nor are settings
    such as `dimension` and `attributes`.

    Attributes
    ----------
    collection
        The collection itself.
    """

    def __init__(self, collection: Collection) -> None:
        """Wrap a collection; several may share one."""
        self.collection = collection

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an empty collection: see `Collection.create`."""
        if mode(kwargs.get("groups")) == "isolated":
            raise InvalidInput("groups are isolated: use AsyncGroupCollection.create")
        return cls(Collection.create(*args, **kwargs))

    @classmethod
    def open(cls, path: str | os.PathLike[str], durability: str | None = None) -> Self:
        """Open the directory of a collection: see `Collection.open`."""
        return cls(Collection.open(path, durability))

    @classmethod
    def restore(cls, path: str | os.PathLike[str], recall_target: float = 0.95) -> Self:
        """Make a collection in memory with the rows of a snapshot: see `Collection.restore`."""
        return cls(Collection.restore(path, recall_target))

    exists = staticmethod(Collection.exists)

    upsert = _awaited(Collection, "upsert")
    update = _awaited(Collection, "update")
    delete = _awaited(Collection, "delete")
    get = _awaited(Collection, "get")
    scroll = _awaited(Collection, "scroll")
    count = _awaited(Collection, "count")
    search = _awaited(Collection, "search")
    search_batch = _awaited(Collection, "search_batch")
    search_radius = _awaited(Collection, "search_radius")
    add_attribute = _awaited(Collection, "add_attribute")
    stats = _awaited(Collection, "stats")
    snapshot = _awaited(Collection, "snapshot")
    flush = _awaited(Collection, "flush")
    close = _awaited(Collection, "close")

    attributes = _setting(Collection, "attributes")
    closed = _setting(Collection, "closed")
    dimension = _setting(Collection, "dimension")
    element = _setting(Collection, "element")
    groups = _setting(Collection, "groups")
    metric = _setting(Collection, "metric")
    path = _setting(Collection, "path")
    recall_target = _setting(Collection, "recall_target")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.collection)

    async def __aenter__(self) -> Self:
        """Return the collection, to be closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await asyncio.to_thread(self.collection.close)


class AsyncGroup:
    """A `Group` whose calls are awaited: arguments and answers are the same.

    Attributes
    ----------
    group
        The group itself.
    """

    def __init__(self, group: Group) -> None:
        """Wrap a group; several may share one."""
        self.group = group

    upsert = _awaited(Group, "upsert", "group")
    update = _awaited(Group, "update", "group")
    delete = _awaited(Group, "delete", "group")
    get = _awaited(Group, "get", "group")
    scroll = _awaited(Group, "scroll", "group")
    count = _awaited(Group, "count", "group")
    search = _awaited(Group, "search", "group")
    drop = _awaited(Group, "drop", "group")

    attributes = _setting(Group, "attributes", "group")
    metric = _setting(Group, "metric", "group")
    name = _setting(Group, "name", "group")

    @property
    def collection(self) -> AsyncGroupCollection:
        """The collection of all groups."""
        return AsyncGroupCollection(self.group.collection)


class AsyncGroupCollection:
    """A `GroupCollection` whose calls are awaited; `create`, `open`, `exists` and settings are not.

    Attributes
    ----------
    collection
        The collection itself.

    Examples
    --------
    >>> import asyncio
    >>> async def demo():
    ...     async with vstream.AsyncGroupCollection.create(dimension=1) as mail:
    ...         await mail.group("ann").upsert([1, 2], [[1], [2]])
    ...         return (await mail.group("ann").search([2.2], k=1)).ids.tolist()
    >>> asyncio.run(demo())
    [2]
    """

    def __init__(self, collection: GroupCollection) -> None:
        """Wrap a collection; several may share one."""
        self.collection = collection

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an empty collection: see `GroupCollection.create`."""
        return cls(GroupCollection.create(*args, **kwargs))

    @classmethod
    def open(cls, *args: Any, **kwargs: Any) -> Self:
        """Open the directory of a collection: see `GroupCollection.open`."""
        return cls(GroupCollection.open(*args, **kwargs))

    exists = staticmethod(GroupCollection.exists)

    def group(self, name: str) -> AsyncGroup:
        """Return one group. It is not awaited, as it costs nothing."""
        return AsyncGroup(self.collection.group(name))

    async def groups(self) -> list[tuple[str, int]]:
        """Return the name of each group that has rows, and their number."""
        return await asyncio.to_thread(lambda: list(self.collection.groups()))

    search = _awaited(GroupCollection, "search")
    commit = _awaited(GroupCollection, "commit")
    flush = _awaited(GroupCollection, "flush")
    stats = _awaited(GroupCollection, "stats")
    close = _awaited(GroupCollection, "close")

    attributes = _setting(GroupCollection, "attributes")
    closed = _setting(GroupCollection, "closed")
    dimension = _setting(GroupCollection, "dimension")
    element = _setting(GroupCollection, "element")
    id = _setting(GroupCollection, "id")
    metric = _setting(GroupCollection, "metric")
    path = _setting(GroupCollection, "path")

    async def __aenter__(self) -> Self:
        """Return the collection, to be closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await asyncio.to_thread(self.collection.close)


class AsyncJob:
    """A `Job` whose calls are awaited, `connect` too; settings are not.

    Attributes
    ----------
    job
        The job itself.
    """

    def __init__(self, job: Job) -> None:
        """Wrap a job; several may share one."""
        self.job = job

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """Find a job and connect to its partitions: see `Job.connect`."""
        return cls(await asyncio.to_thread(Job.connect, *args, **kwargs))

    search = _awaited(Job, "search", "job")
    close = _awaited(Job, "close", "job")

    attributes = _setting(Job, "attributes", "job")
    dimension = _setting(Job, "dimension", "job")
    metric = _setting(Job, "metric", "job")

    async def __aenter__(self) -> Self:
        """Return the job, to be closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect."""
        await asyncio.to_thread(self.job.close)
