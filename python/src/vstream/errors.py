"""Exceptions, named by what the caller can do about them.

Every exception is a `VStreamError` and carries a full sentence. The engine's kinds of errors are
mapped to these classes in one table, in `native/src/failure.rs`.
"""


class VStreamError(Exception):
    """Base of everything that this package raises on purpose."""


class InvalidInput(VStreamError, ValueError):
    """Fix the call: an argument has a wrong type, shape or value. Nothing was changed."""


class Closed(VStreamError, ValueError):
    """The collection was closed: open it again."""


class Unavailable(VStreamError):
    """Try again later: for example, another process has the collection open."""


class CorruptData(VStreamError):
    """The bytes on disk are not what was written: restore from elsewhere."""


class Unsupported(VStreamError):
    """A newer version wrote it, or this combination is not supported."""


class StorageError(VStreamError, OSError):
    """The operating system refused to read or write; the message says what and where."""


class InternalError(VStreamError):
    """A defect of the engine: report it."""
