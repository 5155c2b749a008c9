"""Counts of a collection at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecallEstimate:
    """The recall of automatic searches, measured by exact checks of some answers in the background.

    It holds for about as many neighbours as the last search asked for.

    Attributes
    ----------
    recall
        Mean share of the true neighbours in the last answers that were checked, 0 to 1.
    margin
        Half width of its 95 % confidence interval.
    audits
        Number of answers that were checked.
    evidence
        `"queries"` if the answers were to queries of users; `"rows"` if the engine asked for the
        neighbours of rows of the collection, because users have asked too few queries yet.
    """

    recall: float
    margin: float
    audits: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a collection at one moment.

    Attributes
    ----------
    live_rows
        Rows that a search can find; `len()` of the collection.
    deleted_rows
        Deleted or replaced rows whose memory is not reclaimed yet.
    leaves
        Clusters of near rows; 0 while every search scans all rows.
    probes
        Leaves that an automatic search visits now.
    refine
        Rows whose exact distance an automatic search for ten rows takes now.
    memory_bytes
        Native memory of the index, estimated from capacities.
    splits, merges, rewrites
        Leaves that were reorganised so far.
    moved_rows
        Rows that were moved to a nearer leaf so far.
    recall
        Measured recall of automatic searches; None before the first check.
    """

    live_rows: int
    deleted_rows: int
    leaves: int
    probes: int
    refine: int
    memory_bytes: int
    splits: int
    merges: int
    rewrites: int
    moved_rows: int
    recall: RecallEstimate | None


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Counts of a collection of isolated groups at one moment.

    Attributes
    ----------
    run_rows
        Rows in files, those that newer rows hide included.
    new_rows
        Rows in memory that are in no file yet; they may hide rows of files.
    tombstones
        Deleted rows that files still remember.
    runs
        Files of rows.
    run_bytes
        Bytes of these files.
    run_memory_bytes
        Bytes of memory for the files, beside the cache.
    new_bytes
        Bytes of memory of the new rows.
    cache_bytes
        Bytes in the cache of blocks.
    flushed_bytes, merged_bytes
        Bytes of files that were written from memory, and by merges, since the collection was
        opened.
    """

    run_rows: int
    new_rows: int
    tombstones: int
    runs: int
    run_bytes: int
    run_memory_bytes: int
    new_bytes: int
    cache_bytes: int
    flushed_bytes: int
    merged_bytes: int
