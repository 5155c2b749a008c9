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

from vstream.collection import Collection

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable
    from types import TracebackType


def _awaited(name: str) -> Callable[..., Awaitable[Any]]:
    """Return the method of that name, on a thread of the loop's pool."""
    method = getattr(Collection, name)

    @functools.wraps(method)
    async def call(self: AsyncCollection, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self.collection, name), *args, **kwargs)

    return call


class AsyncCollection:
    """A `Collection` whose calls are awaited: arguments and answers are the same.

    `create`, `open` and `restore` are not awaited: opening a large collection takes a while, so
    call it before the loop runs, or on a thread.

    Attributes
    ----------
    collection
        The collection itself, for what does not wait: its settings and its number of rows.
    """

    def __init__(self, collection: Collection) -> None:
        """Wrap a collection; several may share one."""
        self.collection = collection

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an empty collection: see `Collection.create`."""
        return cls(Collection.create(*args, **kwargs))

    @classmethod
    def open(cls, path: str | os.PathLike[str], durability: str | None = None) -> Self:
        """Open the directory of a collection: see `Collection.open`."""
        return cls(Collection.open(path, durability))

    upsert = _awaited("upsert")
    update = _awaited("update")
    delete = _awaited("delete")
    get = _awaited("get")
    scroll = _awaited("scroll")
    count = _awaited("count")
    search = _awaited("search")
    search_batch = _awaited("search_batch")
    search_radius = _awaited("search_radius")
    stats = _awaited("stats")
    snapshot = _awaited("snapshot")
    flush = _awaited("flush")
    close = _awaited("close")

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
