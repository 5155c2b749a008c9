"""Counts of a collection at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecallEstimate:
    """What sampled exact checks in the background say about automatic searches.

    It speaks of as many neighbours as the last search asked for, or nearly as many.

    Attributes
    ----------
    recall
        Mean share of the true neighbours that the last checked answers held, 0 to 1.
    margin
        Half width of its 95 % confidence interval.
    audits
        Answers that were checked.
    evidence
        `"queries"` if they were answers to queries that users asked; `"rows"` if rows of the
        collection were asked for their neighbours, because users have asked too little yet.
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
        Rows that are gone for searches but whose memory is not yet reclaimed.
    leaves
        Clusters of near rows; 0 while all rows are scanned exactly.
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
