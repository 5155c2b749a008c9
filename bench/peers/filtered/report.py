"""The tables that people read, of search with filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.report import front, speed_at

Row = dict[str, Any]

# Recall may be so much below the target where no effort reaches it.
SLACK = 0.02
_NONE = "-"
# Not a database or library that somebody chooses, so no bar for ours.
_CONTROL = "exact"
_OURS = "vstream"


@dataclass(frozen=True, slots=True)
class AtTarget:
    """A speed at the target.

    Attributes
    ----------
    value
        Per second; None where recall stays below the target and its slack.
    is_least
        Even the least effort has more recall: the speed is a lower bound.
    recall
        Where no effort reaches the target: the recall of the point that stands for it, or the most
        there is. None where the speed is interpolated at the target.
    """

    value: float | None
    is_least: bool = False
    recall: float | None = None


def at_target(points: list[Row], target: float, speed: str = "qps") -> AtTarget:
    """Return the speed at the target, by what the efforts found.

    Where none reaches it, the fastest that is at most `SLACK` below stands for it.
    """
    found = speed_at(front(points, speed), target, speed)
    if found is not None:
        return AtTarget(found.value, found.is_least)
    close = [point for point in points if point["recall"] >= target - SLACK]
    if not close:
        return AtTarget(None, recall=max(point["recall"] for point in points))
    fastest = max(close, key=lambda point: point[speed])
    return AtTarget(fastest[speed], recall=fastest["recall"])


def fastest_good(points: list[Row], target: float) -> Row | None:
    """Return the fastest point that has the target, or else is at most `SLACK` below."""
    for least in (target, target - SLACK):
        good = [point for point in points if point["recall"] >= least]
        if good:
            return max(good, key=lambda point: point["qps"])
    return None


def table(run: Row) -> str:
    """Return the whole report as markdown."""
    machine = run["machine"]
    lines = [
        f"# Filters: {run['data']}, {run['rows']:,} rows",
        "",
        f"`{run['command']}`, commit {run['commit']}, {run['date']}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}.",
        f"Load average {run['load-before']:.2f} before and {run['load-after']:.2f} after.",
        f"{run['k']} neighbours, up to {run['queries']:,} queries per class, one thread, one run.",
        f"At most {run['seconds']:g} s per sweep and {run['box-s']:g} s per peer in all.",
        "",
    ]
    measured = [row for row in run["peers"] if "error" not in row]
    if measured:
        lines += [*_classes(measured, run), ""]
        lines += [*_speeds(measured, run["target"]), ""]
        lines += [*_cpu(measured, run["target"]), ""]
        lines += [*_latencies(measured, run["target"]), ""]
        lines += [*_promise(measured, run["target"])]
        lines += [*_builds(measured), ""]
    failed = [row for row in run["peers"] if "error" in row]
    if failed:
        lines += ["Not measured:", ""]
        lines += [f"- **{row['peer']}**: {row['error']}" for row in failed] + [""]
    lines += _notes(measured, run)
    return "\n".join(lines).rstrip() + "\n"


def _classes(rows: list[Row], run: Row) -> list[str]:
    share = run["attributes"]["share-with-a-value"].get("topic", 0.0)
    lines = [
        f"{100 * share:.0f} % of all rows of the data set have a topic. Classes of filters:",
        "",
    ]
    lines += _head(["class", "what matches", "rows that match, mean", "queries"])
    for one in rows[0]["classes"]:
        shown = f"{100 * one['selectivity']:.3g} %"
        lines.append(_line([one["class"], one["about"], shown, str(one["queries"])]))
    return lines


def _speeds(rows: list[Row], target: float) -> list[str]:
    lines = [f"Queries per second at recall {target:g}, with the time to prepare the filter:", ""]
    has_ours = any(row["peer"] == _OURS for row in rows)
    others = [row for row in rows if row["peer"] not in {_OURS, _CONTROL}]
    masks = [row for row in others if row["prepares-masks"]]
    head = [row["peer"] for row in rows] + [f"{row['peer']}, mask at hand" for row in masks]
    lines += _head(["class", *head, "best peer", *(["vstream is"] if has_ours else [])])
    for number, one in enumerate(rows[0]["classes"]):
        points = {row["peer"]: row["classes"][number]["points"] for row in rows}
        found = {name: at_target(every, target) for name, every in points.items()}
        cells = [_speed(found[row["peer"]]) for row in rows]
        cells += [_speed(at_target(points[row["peer"]], target, "search-qps")) for row in masks]
        best = max(
            (row["peer"] for row in others), key=lambda name: found[name].value or 0.0, default=None
        )
        cells.append(best if best and found[best].value else _NONE)
        if has_ours:
            cells.append(_times(found[_OURS], found[best]) if best else _NONE)
        lines.append(_line([one["class"], *cells]))
    return lines


def _times(ours: AtTarget, best: AtTarget) -> str:
    """Say how much faster ours is; `~` where both speeds are bounds."""
    if ours.value is None or best.value is None:
        return _NONE
    bounds = {(False, True): "≤ ", (True, False): "≥ ", (True, True): "~ "}
    return f"{bounds.get((ours.is_least, best.is_least), '')}{ours.value / best.value:.2f} x"


def _cpu(rows: list[Row], target: float) -> list[str]:
    lines = [
        "CPU us per query of the fastest effort with that recall, process / calling thread:",
        "",
        *_head(["class", *(row["peer"] for row in rows)]),
    ]
    for number, one in enumerate(rows[0]["classes"]):
        cells = []
        for row in rows:
            good = fastest_good(row["classes"][number]["points"], target)
            shown = good and f"{_number(good['cpu-us'])} / {_number(good['thread-cpu-us'])}"
            cells.append(shown or _NONE)
        lines.append(_line([one["class"], *cells]))
    return lines


def _latencies(rows: list[Row], target: float) -> list[str]:
    lines = [
        "p50 / p99 us of that effort, in brackets the effort and its recall:",
        "",
        *_head(["class", *(row["peer"] for row in rows)]),
    ]
    for number, one in enumerate(rows[0]["classes"]):
        cells = []
        for row in rows:
            good = fastest_good(row["classes"][number]["points"], target)
            if good is None:
                cells.append(_NONE)
                continue
            times = f"{_number(good['query-us']['p50'])} / {_number(good['query-us']['p99'])}"
            effort = f"{good['mode']} {good['effort']}".strip()
            cells.append(f"{times} ({effort}: {good['recall']:.3f} ± {good['recall-margin']:.3f})")
        lines.append(_line([one["class"], *cells]))
    return lines


def _promise(rows: list[Row], target: float) -> list[str]:
    """Show what ours finds when it is asked for the target: nobody tunes an effort per filter."""
    ours = next((row for row in rows if row["peer"] == _OURS), None)
    if ours is None:
        return []
    lines = [f"What vstream finds where it is asked for recall {target:g}:", ""]
    lines += _head(["class", "recall", "least of a query", "p99 us over that without a filter"])
    plain: float | None = None
    for one in ours["classes"]:
        point = next((p for p in one["points"] if p["effort"] == target), None)
        if point is None:
            lines.append(_line([one["class"], _NONE, _NONE, _NONE]))
            continue
        p99 = point["query-us"]["p99"]
        plain = p99 if one["class"] == "none" else plain
        times = _NONE if plain is None else f"{p99 / plain:.2f} x"
        missed = "" if point["recall"] >= target - SLACK else " **missed**"
        shown = f"{point['recall']:.3f} ± {point['recall-margin']:.3f}{missed}"
        lines.append(_line([one["class"], shown, f"{point['recall-least']:.2f}", times]))
    return [*lines, ""]


def _builds(rows: list[Row]) -> list[str]:
    head = ["build s", "B/row", "beyond raw", "wrong rows", "short answers", "time up", "load"]
    lines = _head(["peer", *head])
    for row in rows:
        points = [point for one in row["classes"] for point in one["points"]]
        late = [one["class"] for one in row["classes"] if not one["is-whole"]]
        whole, raw = row["bytes-per-vector"], row["raw-bytes-per-vector"]
        cells = [f"{row['build-s']:.1f}", f"{whole:.0f}", f"{whole - raw:+.0f}"]
        cells += [f"{sum(point['wrong'] for point in points):,}"]
        cells += [f"{sum(point['short'] for point in points):,}"]
        cells += [", ".join(late) or _NONE, f"{row['load-before']:.1f}"]
        title = f"{row['peer']} ({row['version']})" if row["version"] else row["peer"]
        lines.append(_line([title, *cells]))
    return lines


def _notes(rows: list[Row], run: Row) -> list[str]:
    lines = [f"- {row['peer']}: {row['parameters']}" for row in rows]
    old = [row for row in rows if row["commit"] != run["commit"]]
    return lines + [f"- {row['peer']}: of commit {row['commit']}, {row['date']}" for row in old]


def _speed(found: AtTarget) -> str:
    if found.value is None:
        return f"- (most {found.recall:.2f})"
    shown = f"{'≥ ' * found.is_least}{found.value:,.0f}"
    return shown if found.recall is None else f"{shown} ({found.recall:.3f})"


def _head(names: list[str]) -> list[str]:
    return [_line(names), "|---" * len(names) + "|"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
