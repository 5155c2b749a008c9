"""The table that people read."""

from __future__ import annotations

import math
from typing import Any

Row = dict[str, Any]

RECALLS = (0.90, 0.95, 0.99)
_NONE = "-"


def front(points: list[Row], speed: str) -> list[Row]:
    """Return the points that no other beats in both recall and speed, by rising recall."""
    best: list[Row] = []
    for point in sorted(points, key=lambda point: (-point[speed], -point["recall"])):
        if not best or point["recall"] > best[-1]["recall"]:
            best.append(point)
    return best


def speed_at(points: list[Row], recall: float, speed: str) -> tuple[float, bool] | None:
    """Interpolate `speed` at a recall, its logarithm linearly between two neighbours of the front.

    The second value says that even the least effort has more recall: the speed is a lower bound.
    None where no effort reaches it.
    """
    best = front(points, speed)
    if not best or best[-1]["recall"] < recall:
        return None
    if best[0]["recall"] >= recall:
        return best[0][speed], True
    after = next(at for at, point in enumerate(best) if point["recall"] >= recall)
    low, high = best[after - 1], best[after]
    share = (recall - low["recall"]) / (high["recall"] - low["recall"])
    logarithm = math.log(low[speed]) * (1 - share) + math.log(high[speed]) * share
    return math.exp(logarithm), False


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
        "",
    ]
    rows = run["peers"]
    measured = [row for row in rows if "error" not in row]
    lines += _static(measured) if run["workload"] == "static" else _mixed(measured)
    failed = [row for row in rows if "error" in row]
    if failed:
        lines += ["", "Not measured:", ""]
        lines += [f"- **{row['peer']}**: {row['error']}" for row in failed]
    lines += ["", *_notes(measured)]
    return "\n".join(lines).rstrip() + "\n"


def _static(rows: list[Row]) -> list[str]:
    head = [f"QPS @{recall:.2f}" for recall in RECALLS]
    head += ["CPU us/query @0.95", "batch QPS @0.95", "p50 / p99 / p99.9 us", "best recall"]
    lines = _head(["peer", *head, "build s", "B/vector", "load"])
    for row in rows:
        points = row["points"]
        cells = [_bounded(speed_at(points, recall, "qps")) for recall in RECALLS]
        # The reciprocal is a speed, so that one front and one interpolation serve both.
        per_cpu_s = [{**point, "per-cpu-s": 1e6 / point["cpu-us"]} for point in points]
        cpu = speed_at(per_cpu_s, 0.95, "per-cpu-s")
        cells.append(_NONE if cpu is None else f"{'≤ ' * cpu[1]}{1e6 / cpu[0]:.0f}")
        cells.append(_bounded(speed_at(points, 0.95, "batch-qps")))
        good = [point for point in points if point["recall"] >= 0.95]
        fastest = max(good, key=lambda point: point["qps"], default=None)
        cells.append(_NONE if fastest is None else _three(fastest["query-us"]))
        whole = "" if row["is-whole"] else " (time up)"
        cells.append(f"{max(point['recall'] for point in points):.4f}{whole}")
        cells += [f"{row['build-s']:.1f}", f"{row['bytes-per-vector']:.0f}", _load(row)]
        lines.append(_line([_title(row), *cells]))
    return lines


def _mixed(rows: list[Row]) -> list[str]:
    head = ["effort", "recall", "ops/s", "ops/CPU-s", "insert p50 / p99 / p99.9 us"]
    head += ["delete p50 us", "query p50 / p99 / p99.9 us", "idle query p50 / p99 us"]
    lines = _head(["peer", *head, "preload s", "B/vector", "operations", "dead", "load"])
    for row in rows:
        idle = row["idle-query-us"]
        cells = [str(row["effort"]), f"{row['recall']:.3f} ({row['tuned-recall']:.3f})"]
        cells += [f"{row['ops-per-s']:,.0f}", f"{row['ops-per-cpu-s']:,.0f}"]
        cells += [_three(row["insert-us"]), _number(row["delete-us"].get("p50"))]
        cells += [_three(row["query-us"]), f"{_number(idle['p50'])} / {_number(idle['p99'])}"]
        cells += [f"{row['build-s']:.1f}", f"{row['bytes-per-vector']:.0f}"]
        whole = "" if row["is-whole"] else " (time up)"
        cells += [f"{row['operations']:,}{whole}", str(row["dead"]), _load(row)]
        lines.append(_line([_title(row), *cells]))
    return lines


def _notes(rows: list[Row]) -> list[str]:
    lines = [f"- {row['peer']}: {row['parameters']}" for row in rows]
    for row in rows:
        points = row.get("points", [])
        if len(points) == 1:
            point = points[0]
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
        if row["rows-asked"] > row["rows"]:
            lines.append(f"- {row['peer']}: capped at {row['rows']:,} rows")
    return lines


def _head(names: list[str]) -> list[str]:
    return [_line(names), "|---" * len(names) + "|"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _title(row: Row) -> str:
    capped = f", {row['rows']:,} rows" if row["rows-asked"] > row["rows"] else ""
    return f"{row['peer']} ({row['version']}{capped})" if row["version"] else row["peer"]


def _load(row: Row) -> str:
    return f"{row['load-before']:.1f}"


def _bounded(found: tuple[float, bool] | None) -> str:
    if found is None:
        return _NONE
    speed, is_least = found
    return f"{'≥ ' * is_least}{speed:,.0f}"


def _three(times: dict[str, float]) -> str:
    return " / ".join(_number(times.get(name)) for name in ("p50", "p99", "p99.9"))


def _number(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
