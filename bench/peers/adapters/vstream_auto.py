"""VStream as users run it: no knob; the collection steers itself to its recall target."""

from __future__ import annotations

from typing import Any

from adapters import vstream


class Adapter(vstream.Adapter):
    """The same collection at its default recall target of 0.95."""

    efforts = ("auto",)
    effort_min = effort_max = 0
    # The guard checks a share of the queries; this many let it settle.
    warm_queries = 5_000
    parameters = "defaults, f32, recall_target=0.95"

    def set_effort(self, effort: Any) -> None:  # noqa: ARG002 - it has one.
        self._probes = None
