"""Moments that Python has no `datetime` for: refused when written, and read all the same."""

import datetime
import time

import numpy as np
import pytest

import vstream
from vstream import InvalidInput

UTC = datetime.UTC
FIRST = datetime.datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
LAST_MILLIS = 253_402_300_799_999
FIRST_MILLIS = -62_135_596_800_000
NOW = datetime.datetime(2026, 1, 1, tzinfo=UTC)
# Milliseconds that only another writer than Python gives.
FAR = [LAST_MILLIS + 1, FIRST_MILLIS - 1, 1_790_000_000_000_000_000, -(10**17)]


def collection():
    return vstream.Collection.create(1, attributes={"sent": "timestamp"})


def group():
    return vstream.GroupCollection.create(1, attributes={"sent": "timestamp"}).group("ann")


def written_elsewhere(rows, moments):
    """Write moments past the checks of Python, as Rust and servers may."""
    ids, vectors = np.arange(len(moments)), np.ones((len(moments), 1), np.float32)
    column = ("sent", "timestamp", (np.array(moments, np.int64), None))
    rows._native.upsert_many(ids, vectors, ([column], None), (None, None, None))
    return rows


@pytest.mark.parametrize("make", [collection, group])
@pytest.mark.parametrize(
    "far",
    [
        *FAR,
        2**70,
        np.int64(LAST_MILLIS + 1),
        np.datetime64("12000-01-01", "s"),
        np.datetime64("12000-01-01", "Y"),
        np.datetime64("0000-12-31T23:59:59.999", "ms"),
        # Wraps around to a moment of today when it is taken to milliseconds without care.
        np.datetime64(18_446_744_073_709_551, "s"),
        datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=1))),
        "0001-01-01T00:00:00+01:00",
    ],
    ids=repr,
)
def test_a_moment_beyond_datetime_changes_nothing(make, far):
    """Nanoseconds for milliseconds were taken, and every read of the row failed from then on."""
    rows = make()
    rows.upsert([1, 2], [[1], [2]], {"sent": [NOW, NOW]})
    array = np.array([far]) if isinstance(far, np.generic) else [far]
    for write in (
        lambda: rows.upsert(1, [3], {"sent": far}),
        lambda: rows.upsert([2, 3], [[3], [3]], {"sent": [NOW, far]}),
        lambda: rows.upsert([3], [[3]], {"sent": array}),
        lambda: rows.update([1, 2], {"sent": [None, far]}),
    ):
        with pytest.raises(InvalidInput, match=r"'sent'.*milliseconds since 1970"):
            write()
    assert [row["sent"] for row in rows.get([1, 2, 3])] == [NOW, NOW]


def test_columns_of_nanoseconds_are_refused():
    c = collection()
    for column in (np.array([time.time_ns()]), np.array([0, 0, 1]) * 10**18):
        with pytest.raises(InvalidInput, match="milliseconds since 1970"):
            c.upsert(range(len(column)), np.ones((len(column), 1)), {"sent": column})
    assert len(c) == 0


def test_the_first_and_the_last_moment_are_taken():
    c = collection()
    forms = [
        [FIRST, LAST],
        [FIRST_MILLIS, LAST_MILLIS],
        np.array([FIRST_MILLIS, LAST_MILLIS]),
        np.array([FIRST_MILLIS, LAST_MILLIS], "datetime64[ms]"),
        np.array([FIRST_MILLIS * 1000, LAST_MILLIS * 1000 + 999], "datetime64[us]"),
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"],
    ]
    for form in forms:
        c.upsert([1, 2], [[1], [2]], {"sent": form})
        assert c.get([1, 2]).attributes["sent"] == [FIRST, LAST]
    c.upsert([3], [[3]], {"sent": np.array(["1677-09-22"], "datetime64[ns]")})
    assert c.get(3).attributes["sent"][0].year == 1677


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("far", [FAR[0], FAR[2], -(2**62)])
@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_columns_of_far_moments_are_refused(library, far, zone):
    """Libraries fail in ways of their own when such a column becomes a list."""
    far = np.array([1_767_225_600_000, far], "datetime64[ms]")
    module = pytest.importorskip(library)
    if library == "pyarrow":
        column = module.array(far).cast(module.timestamp("ms", zone))
    elif library == "pandas":
        column = module.Series(far).dt.tz_localize(zone)
    else:
        column = module.Series(far).dt.replace_time_zone(zone)
    c = collection()
    with pytest.raises(InvalidInput, match=r"'sent'.*milliseconds since 1970"):
        c.upsert([1, 2], [[1], [2]], {"sent": column})
    assert len(c) == 0


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_columns_of_polars_keep_their_zone(zone):
    polars = pytest.importorskip("polars")
    column = polars.Series([datetime.datetime(2026, 1, 1), None]).dt.replace_time_zone(zone)
    c = collection()
    c.upsert([1, 2], [[1], [2]], {"sent": column})
    hours = 5 if zone == "America/New_York" else 0
    assert c.get([1, 2]).attributes["sent"] == [NOW + datetime.timedelta(hours=hours), None]


@pytest.mark.parametrize("make", [collection, group])
def test_far_moments_of_other_writers_are_read(make):
    near = 1_767_225_600_000
    rows = written_elsewhere(make(), [near, *FAR])
    shown = [NOW, *(np.datetime64(far, "ms") for far in FAR)]
    assert rows.get(range(5)).attributes["sent"] == shown
    assert rows.scroll()[0].attributes["sent"] == shown
    found = rows.search([1], k=5, with_=["sent"])
    assert [row["sent"] for row in found.rows()] == shown
    parts = rows.search([1], k=5, group_by=("sent", 1)).groups
    assert {part.value for part in parts} == set(shown)
    # Whole numbers find such rows, so that a program can mend them.
    assert rows.delete(where={"sent": {"$gt": LAST_MILLIS}}) == 2
    assert rows.count("sent < ?", parameters=[FIRST_MILLIS]) == 2


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_far_moments_stand_in_tables(library):
    module = pytest.importorskip(library)
    c = written_elsewhere(collection(), [1_767_225_600_000, FAR[0], FAR[2]])
    c.upsert(3, [1])
    c.upsert(4, [1], {"sent": NOW})
    for found in (c.get(range(5)), c.search([1], k=5, with_=["sent"])):
        if library == "pyarrow":
            column = found.to_arrow()["sent"]
            assert column.type == module.timestamp("ms", "UTC")
            numbers = column.cast("int64").to_pylist()
        elif library == "pandas":
            column = found.to_pandas()["sent"]
            assert str(column.dtype) == "datetime64[ms, UTC]"
            numbers = column.astype("int64").where(column.notna(), None).to_list()
        else:
            column = found.to_polars()["sent"]
            assert column.dtype == module.Datetime("ms", "UTC")
            numbers = column.cast(module.Int64).to_list()
        near = 1_767_225_600_000
        assert [None if at == 3 else one for at, one in enumerate(numbers)] == [
            *(near, FAR[0], FAR[2]),
            *(None, near),
        ]
        assert found.columns()["sent"][0] == NOW


@pytest.mark.parametrize(
    "far", [np.datetime64("12000-01-01"), np.datetime64(10**17, "s"), np.datetime64("NaT")]
)
def test_far_moments_in_conditions_are_refused(far):
    c = collection()
    with pytest.raises(InvalidInput, match="milliseconds since 1970"):
        c.count({"sent": {"$lt": far}})
    with pytest.raises(InvalidInput, match="milliseconds since 1970"):
        c.count("sent < ?", parameters=[far])
    c.upsert(1, [1], {"sent": NOW})
    assert c.count({"sent": {"$gte": np.datetime64("2026-01-01")}}) == 1
