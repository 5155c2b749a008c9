"""Moments of attributes: milliseconds since 1970 in UTC, and what Python has for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# The first and the last millisecond of the years 1 to 9999, beyond which there is no `datetime`.
FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
# What a message says about the moments that attributes take.
WANTED = "milliseconds since 1970, in the years 1 to 9999"


def shown(millis: int | None) -> datetime | np.datetime64 | None:
    """Return a moment as a `datetime`, or as a `datetime64` where another writer's is beyond it."""
    if millis is None:
        return None
    if FIRST <= millis <= LAST:
        return EPOCH + timedelta(milliseconds=millis)
    return np.datetime64(millis, "ms")


def are_near(values: NDArray[Any] | np.datetime64) -> bool:
    """Return whether all values of type `datetime64` are in the years 1 to 9999."""
    # Years are the widest unit: no value is too large for it, as it may be for milliseconds.
    years = values.astype("datetime64[Y]").astype(np.int64)
    return bool(np.all((years >= 1 - 1970) & (years <= 9999 - 1970)))


def far_array(values: object) -> NDArray[np.datetime64] | None:
    """Return a column of moments as an array if one of them is beyond `datetime`."""
    if not isinstance(values, list) or not any(isinstance(one, np.datetime64) for one in values):
        return None
    return np.array(_without_zone(values), dtype="datetime64[ms]")


def _without_zone(values: Sequence[Any]) -> list[Any]:
    return [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in values]
