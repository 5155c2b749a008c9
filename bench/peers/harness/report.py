"""The table that people read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

RECALLS = (0.90, 0.95, 0.99)
# Recalls this near are called equal.
RECALL_BAND = 0.005
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Speed:
    """A speed at a recall, interpolated between two measured points.

    Attributes
    ----------
    value
        Per second.
    low, high
        The recalls of the two points; equal if one point stands for both.
    is_least
        Even the least effort has more recall: the speed is a lower bound.
    """

    value: float
    low: float
    high: float
    is_least: bool = False


def front(points: list[Row], speed: str) -> list[Row]:
    """Return the points that no other beats in both recall and speed, by rising recall."""
    best: list[Row] = []
    for point in sorted(points, key=lambda point: (-point[speed], -point["recall"])):
        if not best or point["recall"] > best[-1]["recall"]:
            best.append(point)
    return best


def speed_at(points: list[Row], recall: float, speed: str) -> Speed | None:
    """Interpolate `speed` at a recall, its logarithm linearly between the two nearest points.

    A single point whose recall is within the band stands for itself. None where no effort has the
    recall.
    """
    rising = sorted(points, key=lambda point: point["recall"])
    if len(rising) == 1 and abs(rising[0]["recall"] - recall) <= RECALL_BAND:
        return Speed(rising[0][speed], rising[0]["recall"], rising[0]["recall"])
    if not rising or rising[-1]["recall"] < recall:
        return None
    if rising[0]["recall"] >= recall:
        return Speed(rising[0][speed], rising[0]["recall"], rising[0]["recall"], is_least=True)
    after = next(at for at, point in enumerate(rising) if point["recall"] >= recall)
    low, high = rising[after - 1], rising[after]
    share = (recall - low["recall"]) / (high["recall"] - low["recall"])
    logarithm = math.log(low[speed]) * (1 - share) + math.log(high[speed]) * share
    return Speed(math.exp(logarithm), low["recall"], high["recall"])


def table(run: Row) -> str:
    """Return the whole report as markdown."""
    machine = run["machine"]
    lines = [
        f"# {run['data']}, {run['workload']}, {run['rows']:,} rows",
        "",
        f"`{run['command']}`, commit {run['commit']}, {run['date']}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}.",
        f"Load average {run['load-before']:.2f} before and {run['load-after']:.2f} after.",
        f"{run['k']} neighbours, {run['queries']:,} held-out queries, one thread, one run.",
        f"At most {run['seconds']:g} s per stream or sweep and {run['box-s']:g} s per peer in all.",
        "",
    ]
    rows = run["peers"]
    measured = [row for row in rows if "error" not in row]
    if run["workload"] == "static":
        lines += [*_static(measured), "", *_equal(measured, "qps", RECALLS[1])]
    else:
        lines += [
            *_mixed(measured, run["target"]),
            "",
            *_equal(measured, "ops-per-s", run["target"]),
        ]
        lines += ["", *_points(measured)]
    failed = [row for row in rows if "error" in row]
    if failed:
        lines += ["", "Not measured:", ""]
        lines += [f"- **{row['peer']}**: {row['error']}" for row in failed]
    lines += ["", *_notes(measured, run)]
    return "\n".join(lines).rstrip() + "\n"


def _static(rows: list[Row]) -> list[str]:
    head = [f"QPS @{recall:.2f}" for recall in RECALLS]
    head += ["CPU us/query @0.95", "batch QPS @0.95", "p50 / p99 / p99.9 us", "best recall"]
    lines = _head(["peer", *head, "build s", "B/vector", "beyond raw", "load"])
    for row in rows:
        points = row["points"]
        fronts = front(points, "qps")
        cells = [_bounded(speed_at(fronts, recall, "qps")) for recall in RECALLS]
        # The reciprocal is a speed, so that one front and one interpolation serve both.
        per_cpu_s = [{**point, "per-cpu-s": 1e6 / point["cpu-us"]} for point in points]
        cpu = speed_at(front(per_cpu_s, "per-cpu-s"), 0.95, "per-cpu-s")
        cells.append(_NONE if cpu is None else f"{'≤ ' * cpu.is_least}{1e6 / cpu.value:.0f}")
        cells.append(_bounded(speed_at(front(points, "batch-qps"), 0.95, "batch-qps")))
        good = [point for point in points if point["recall"] >= 0.95]
        fastest = max(good, key=lambda point: point["qps"], default=None)
        cells.append(_NONE if fastest is None else _three(fastest["query-us"]))
        whole = "" if row["is-whole"] else " (time up)"
        cells.append(f"{max(point['recall'] for point in points):.4f}{whole}")
        cells += [f"{row['build-s']:.1f}", *_memory(row), _load(row)]
        lines.append(_line([_title(row), *cells]))
    return lines


def _mixed(rows: list[Row], target: float) -> list[str]:
    head = ["effort", "recall", "ops/s", f"ops/s @{target:g}", "ops/CPU-s"]
    head += ["insert p50 / p99 / p99.9 us", "delete p50 us", "query p50 / p99 / p99.9 us"]
    head += ["idle query p50 / p99 / p99.9 us", "preload s", "B/vector", "beyond raw"]
    lines = _head(["peer", *head, "operations", "dead", "load"])
    for row in rows:
        point = min(row["points"], key=lambda point: abs(point["recall"] - target))
        cells = [str(point["effort"]), f"{point['recall']:.3f} ± {point['recall-margin']:.3f}"]
        cells += [f"{point['ops-per-s']:,.0f}"]
        cells += [_bounded(speed_at(row["points"], target, "ops-per-s"))]
        cells += [f"{row['ops-per-cpu-s']:,.0f}", _three(row["insert-us"])]
        cells += [_number(row["delete-us"].get("p50"))]
        cells += [_three(point["query-us"]), _three(point["idle-query-us"])]
        cells += [f"{row['build-s']:.1f}", *_memory(row)]
        whole = "" if row["is-whole"] else " (time up)"
        cells += [f"{row['operations']:,}{whole}", str(row["dead"]), _load(row)]
        lines.append(_line([_title(row), *cells]))
    return lines


def _equal(rows: list[Row], speed: str, recall: float) -> list[str]:
    """Compare at one recall: speeds, what they rest on, and how much faster `vstream` is."""
    found = {}
    for row in rows:
        # Efforts of a stream differ little in speed: by chance a front would leave most out.
        points = front(row["points"], speed) if speed == "qps" else row["points"]
        found[row["peer"]] = speed_at(points, recall, speed)
    ours = found.get("vstream")
    unit = "queries" if speed == "qps" else "operations"
    lines = [f"At equal recall, {recall:g}:", ""]
    lines += _head(["peer", f"{unit}/s", "between measured recalls", "± (95 %)", "vstream is"])
    for row in rows:
        at = found[row["peer"]]
        if at is None:
            lines.append(_line([_title(row), _NONE, f"most: {_most(row):.3f}", _NONE, _NONE]))
            continue
        close = [p for p in row["points"] if p["recall"] in {at.low, at.high}]
        margin = max(point["recall-margin"] for point in close)
        times = _NONE if ours is None else f"{'≤ ' * at.is_least}{ours.value / at.value:.2f} x"
        between = f"{at.low:.3f} and {at.high:.3f}" if at.low < at.high else f"at {at.low:.3f}"
        lines.append(_line([_title(row), _bounded(at), between, f"{margin:.3f}", times]))
    return lines


def _most(row: Row) -> float:
    return max(point["recall"] for point in row["points"])


def _points(rows: list[Row]) -> list[str]:
    """Every effort of every peer."""
    lines = ["All efforts of the stream:", ""]
    lines += _head(["peer", "effort", "recall", "ops/s", "query p50 / p99 / p99.9 us"])
    for row in rows:
        for point in row["points"]:
            recall = f"{point['recall']:.4f} ± {point['recall-margin']:.4f}"
            cells = [row["peer"], str(point["effort"]), recall, f"{point['ops-per-s']:,.0f}"]
            lines.append(_line([*cells, _three(point["query-us"])]))
    return lines


def _notes(rows: list[Row], run: Row) -> list[str]:
    lines = [f"- {row['peer']}: {row['parameters']}" for row in rows]
    for row in rows:
        if len(row["points"]) == 1 and "qps" in row["points"][0]:
            point = row["points"][0]
            lines.append(
                f"- {row['peer']} has one point: recall {point['recall']:.4f} at "
                f"{point['qps']:,.0f} QPS, {point['cpu-us']:.0f} CPU us/query"
            )
        if "search-call-us" in row["facts"]:
            facts = row["facts"]
            lines.append(
                f"- {row['peer']}: a call with next to nothing to do takes "
                f"{facts['search-call-us']:.1f} us (search) and "
                f"{facts['upsert-call-us']:.1f} us (upsert); included above"
            )
        if row["is-database"]:
            lines.append(
                f"- {row['peer']}: a database, so at most {row['rows']:,} rows, and a box of "
                f"{run['box-s']:g} s"
            )
        if row["commit"] != run["commit"]:
            lines.append(f"- {row['peer']}: measured at commit {row['commit']}, {row['date']}")
    return lines


def _head(names: list[str]) -> list[str]:
    return [_line(names), "|---" * len(names) + "|"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _title(row: Row) -> str:
    capped = f", {row['rows']:,} rows" if row["rows-asked"] > row["rows"] else ""
    return f"{row['peer']} ({row['version']}{capped})" if row["version"] else row["peer"]


def _memory(row: Row) -> list[str]:
    whole, raw = row["bytes-per-vector"], row["raw-bytes-per-vector"]
    return [f"{whole:.0f}", f"{whole - raw:+.0f}"]


def _load(row: Row) -> str:
    return f"{row['load-before']:.1f}"


def _bounded(found: Speed | None) -> str:
    if found is None:
        return _NONE
    return f"{'≥ ' * found.is_least}{found.value:,.0f}"


def _three(times: dict[str, float]) -> str:
    return " / ".join(_number(times.get(name)) for name in ("p50", "p99", "p99.9"))


def _number(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
