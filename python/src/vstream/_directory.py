"""The directory of a persistent collection: settings, and the newest whole snapshot.

```
collection.json   the settings in one line, their CRC-32 in the next; written once
snapshot-N/       a snapshot of the engine; whole once it holds MANIFEST; the largest N counts
LOCK              held while the collection is open
```

A flush writes snapshot N+1 and only then removes the older ones, so a crash at any moment leaves
one whole snapshot. What a crash left behind is removed by the next flush.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from vstream.errors import (
    CorruptData,
    InvalidInput,
    StorageError,
    Unavailable,
    Unsupported,
    VStreamError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_SETTINGS = "collection.json"
_MANIFEST = "MANIFEST"
_PREFIX = "snapshot-"
_FORMAT = 1


class Directory:
    """A collection's directory, locked against other users until `release`."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: Path, settings: dict[str, Any]) -> Directory:
        """Make the directory and write the settings."""
        with _storage(f"create {path}"):
            path.mkdir(parents=True, exist_ok=True)
        if is_snapshot(path):
            raise InvalidInput(f"{path} holds a snapshot: choose another directory")
        directory = cls._locked(path)
        try:
            if is_collection(path):
                raise InvalidInput(f"{path} holds a collection: use Collection.open")
            directory._write_settings({"format": _FORMAT, **settings})
        except VStreamError:
            directory.release()
            raise
        return directory

    @classmethod
    def open(cls, path: Path) -> tuple[Directory, dict[str, Any]]:
        """Lock the directory and read the settings."""
        if not is_collection(path):
            hint = "use Collection.restore" if is_snapshot(path) else "use Collection.create"
            raise InvalidInput(f"{path} holds no collection: {hint}")
        directory = cls._locked(path)
        try:
            return directory, directory._read_settings()
        except VStreamError:
            directory.release()
            raise

    def newest(self) -> Path:
        """Return the newest whole snapshot."""
        whole = [number for number in self._numbers() if is_snapshot(self._snapshot(number))]
        if not whole:
            raise CorruptData(f"{self.path}: the snapshot of the collection is gone")
        return self._snapshot(max(whole))

    def write(self, snapshot: Callable[[Path], int]) -> int:
        """Let `snapshot` fill a new directory, then drop the older ones; return its result."""
        older = self._numbers()
        number = max(older, default=0) + 1
        result = snapshot(self._snapshot(number))
        with _storage(f"tidy up {self.path}"):
            self._sync()
            for old in older:
                shutil.rmtree(self._snapshot(old))
        return result

    def release(self) -> None:
        """Give the lock back."""
        self._lock.close()

    @classmethod
    def _locked(cls, path: Path) -> Directory:
        with _storage(f"open {path / 'LOCK'}"):
            lock = (path / "LOCK").open("a")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                raise Unavailable(f"{path} is open already: close it there first") from None
        return cls(path, lock)

    def _snapshot(self, number: int) -> Path:
        return self.path / f"{_PREFIX}{number}"

    def _numbers(self) -> list[int]:
        with _storage(f"list {self.path}"):
            endings = [p.name.removeprefix(_PREFIX) for p in self.path.glob(f"{_PREFIX}*")]
        return [int(ending) for ending in endings if ending.isdecimal()]

    def _write_settings(self, settings: dict[str, Any]) -> None:
        line = json.dumps(settings)
        partial = self.path / f"{_SETTINGS}.partial"
        with _storage(f"write {self.path / _SETTINGS}"):
            with partial.open("w", encoding="utf-8") as file:
                file.write(f"{line}\n{_checksum(line)}\n")
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.path / _SETTINGS)
            self._sync()

    def _read_settings(self) -> dict[str, Any]:
        path = self.path / _SETTINGS
        with _storage(f"read {path}"):
            lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        if len(lines) != 3 or lines[1] != _checksum(lines[0]) or lines[2]:
            raise CorruptData(f"{path}: the checksum at its end does not match its content")
        settings: dict[str, Any] = json.loads(lines[0])
        if settings["format"] != _FORMAT:
            found = settings["format"]
            raise Unsupported(f"{path} has format {found}: use a newer version of vstream")
        return settings

    def _sync(self) -> None:
        """Make the names in the directory last, as its files already do."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_collection(path: Path) -> bool:
    """Say whether `path` is the directory of a persistent collection."""
    return (path / _SETTINGS).is_file()


def is_snapshot(path: Path) -> bool:
    """Say whether `path` is a whole snapshot."""
    return (path / _MANIFEST).is_file()


def _checksum(line: str) -> str:
    return f"crc32 {zlib.crc32(line.encode()):08x}"


@contextmanager
def _storage(doing: str) -> Iterator[None]:
    """Turn what the operating system says into a `StorageError`."""
    try:
        yield
    except VStreamError:
        raise
    except OSError as error:
        raise StorageError(f"cannot {doing}: {error}") from error
