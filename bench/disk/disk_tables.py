"""Tables and pictures of what `make bench-updates`, `-disk`, `-remote` and `-graph` found.

`disk_tables.py updates PLOTS TABLE.md RESULT.json`,
`disk_tables.py larger TABLE.md LIMIT_MIB RESULT.json...`,
`disk_tables.py remote TABLE.md RESULT.json` and
`disk_tables.py forms TABLE.md RESULT.json [PEERS.json]`. The results are those of the program
`disk`; a table ends with its goals, each met or missed.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

Found = dict[str, Any]

# What bench-updates should hold, after SPFresh's experiment.
GAP_MAX = 0.01
P999_RATIO_MAX = 1.2
BYTES_PER_ROW_MAX = 40
TARGET_MISSED_MAX = 0.01
# What bench-disk should hold.
COMMIT_MAX_MS = 50.0
READS_MAX = 1 / 2
_DPI = 90
_MIB = 1 << 20


def main_of(arguments: list[str]) -> None:
    """Do what the first argument says."""
    verb, *rest = arguments
    if verb == "updates":
        plots, table, result = (Path(name) for name in rest)
        found = json.loads(result.read_text())
        text = updates(found)
        plots.mkdir(parents=True, exist_ok=True)
        draw(found, plots / f"{result.stem}.png")
    elif verb == "larger":
        table, limit = Path(rest[0]), int(rest[1])
        text = larger([json.loads(Path(name).read_text()) for name in rest[2:]], limit)
    elif verb == "remote":
        table = Path(rest[0])
        text = remote(json.loads(Path(rest[1]).read_text()))
    else:
        table = Path(rest[0])
        peers = json.loads(Path(rest[2]).read_text()) if len(rest) > 2 else []
        text = forms(json.loads(Path(rest[1]).read_text()), peers)
    table.write_text(text)
    print(text)


def goal(what: str, *, is_met: bool, found: str) -> str:
    """Return the line of a goal."""
    return f"- {what}: {'met' if is_met else '**missed**'}, {found}."


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(cells: list[str]) -> list[str]:
    return [_line(cells), "|---" * len(cells) + "|"]


def _latency(times: Found) -> str:
    """Return p50 / p99 / p99.9 in milliseconds."""
    return " / ".join(f"{times[name] / 1000:.2f}" for name in ("p50", "p99", "p999"))


def _reads(asked: Found) -> str:
    """Return reads and KiB per query; a merge that ended meanwhile leaves none."""
    if asked["reads"] is None:
        return "-"
    return f"{asked['reads']:.1f}, {asked['read_bytes'] / 1024:.0f}"


def _data(plan: Found) -> str:
    real = f"{plan['neighbours']:,} of the rows are seeded neighbours of real ones"
    return real if plan["neighbours"] else "all rows are real descriptors"


def gaps(found: Found) -> list[tuple[int, float]]:
    """Return, per compared epoch, the recall of a fresh build less that of the live engine."""
    pairs = [(epoch["epoch"], epoch["equal-effort"]) for epoch in found["epochs"]]
    return [
        (number, pair["fresh"]["asked"]["recall"] - pair["live"]["recall"])
        for number, pair in pairs
        if pair
    ]


def shown(count: int) -> set[int]:
    """Return the epochs that have a line: the first, the last, and some eight between."""
    step = max(count // 10, 1)
    return {0, 1, count, *range(step, count + 1, step)}


def updates(found: Found) -> str:
    """Return the table of an experiment with epochs."""
    plan, epochs = found["plan"], found["epochs"]
    rows = plan["rows"]
    codes = found["code-memory-bytes"]
    codes = "all codes" if codes is None else f"{codes / 1024:,.0f} KiB of codes"
    about = (
        f"{rows:,} rows of {plan['dimension']} dimensions ({found['element']}), {plan['epochs']} "
        f"epochs that replace {plan['change']:,} rows each, {plan['order']} order, seed "
        f"{plan['seed']}; {_data(plan)}. Limits of the engine: "
        f"{found['memory-bytes'] / 1024:,.0f} KiB of rows and blocks, {codes}. At most "
        f"{found['rate']:,.0f} rows replaced per second."
    )
    lines = [
        about,
        "",
        *_head(
            [
                "epoch",
                "recall@10",
                "fresh less live",
                "ms p50 / p99 / p99.9 beside updates",
                "rows/s",
                "MB written",
                "MB read, with queries",
                "reads, KiB per query",
                "peak MiB",
                "segments, leaves",
            ]
        ),
    ]
    gap_of = dict(gaps(found))
    numbers = shown(plan["epochs"]) | set(gap_of)
    for epoch in (one for one in epochs if one["epoch"] in numbers):
        asked, number = epoch["asked"], epoch["epoch"]
        wrote = ["-", "-", "-", "-"]
        if number:
            wrote = [
                _latency(epoch["queries"]),
                f"{epoch['rows-per-s']:,.0f}",
                f"{epoch['written-bytes'] / 1e6:.1f}",
                f"{epoch['disk-read-bytes'] / 1e6:.1f}",
            ]
        lines.append(
            _line(
                [
                    str(number),
                    f"{asked['recall']:.4f}",
                    f"{gap_of[number]:+.4f}" if number in gap_of else "-",
                    *wrote,
                    _reads(asked),
                    f"{epoch['peak-bytes'] / _MIB:.1f}",
                    f"{epoch['segments']}, {epoch['leaves']}",
                ]
            )
        )
    return "\n".join([*lines, "", *_update_goals(found), *_writes(found)]) + "\n"


def _writes(found: Found) -> list[str]:
    """Return what the writes took, and what became of leaves."""
    epochs = found["epochs"][1:]
    if not epochs:
        return []

    def middle(kind: str, name: str) -> float:
        return statistics.median(epoch[kind][name] for epoch in epochs)

    times = {
        kind: " / ".join(f"{middle(kind, name):,.0f}" for name in ("p50", "p99", "p999"))
        for kind in ("inserts", "commits")
    }
    rows = found["plan"]["change"] * len(epochs)
    splits, joins, moved = (
        sum(epoch[kind] for epoch in epochs) for kind in ("splits", "joins", "moved")
    )
    taken = (
        f"- An insert takes {times['inserts']} us (p50 / p99 / p99.9, medians of the epochs), a "
        f"commit of 50 deletes and inserts {times['commits']} us."
    )
    became = (
        f"- Of {rows:,} inserts: {splits:,} splits of leaves, {100 * splits / rows:.2f} % of them; "
        f"{joins:,} leaves joined with others; {moved:,} rows moved to another leaf, "
        f"{moved / rows:.2f} per insert."
    )
    return [taken, became]


def _update_goals(found: Found) -> list[str]:
    plan, epochs = found["plan"], found["epochs"]
    every = gaps(found)
    most = max((gap for _, gap in every), default=0.0)
    least = min(epoch["asked"]["recall"] for epoch in epochs)
    mean = sum(epoch["asked"]["recall"] for epoch in epochs) / len(epochs)
    ratio = found["last-epochs"]["p999"] / max(found["first-epochs"]["p999"], 1e-9)
    peak = max(epoch["peak-bytes"] for epoch in epochs)
    grown = (peak - found["peak-bytes-before"]) / plan["rows"]
    return [
        goal(
            f"recall at most {TARGET_MISSED_MAX} below the target of {found['target']} after "
            "every epoch",
            is_met=least >= found["target"] - TARGET_MISSED_MAX,
            found=f"{least:.4f} at least, {mean:.4f} in the mean",
        ),
        goal(
            f"recall at most {GAP_MAX} below a fresh build at equal effort, at {len(every)} epochs",
            is_met=bool(every) and most <= GAP_MAX,
            found=f"{most:+.4f} at most",
        ),
        goal(
            f"p99.9 of the last ten epochs at most {P999_RATIO_MAX} x that of the first ten",
            is_met=plan["epochs"] >= 20 and ratio <= P999_RATIO_MAX,
            found=f"{ratio:.2f} x",
        ),
        goal(
            f"{BYTES_PER_ROW_MAX} bytes of memory per row at most, peak of the process less what "
            "it had before the engine",
            is_met=grown <= BYTES_PER_ROW_MAX,
            found=f"{grown:.1f} ({peak / _MIB:.1f} MiB, of which "
            f"{found['peak-bytes-before'] / _MIB:.1f} MiB before)",
        ),
        "- No rebuild: nothing was built anew, by construction.",
    ]


def draw(found: Found, path: Path) -> None:
    """Write the picture: recall, latency and memory over the epochs."""
    # Tables are made without the packages that draw.
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    epochs = found["epochs"]
    numbers = [epoch["epoch"] for epoch in epochs]
    figure, (recall, latency, memory) = plt.subplots(3, 1, figsize=(9, 8), sharex=True)
    recall.plot(
        numbers, [epoch["asked"]["recall"] for epoch in epochs], label="steered by the guard"
    )
    pairs = [epoch for epoch in epochs if epoch["equal-effort"]]
    for side, label, style in (
        ("live", "live, equal effort", "o"),
        ("fresh", "freshly built", "x"),
    ):
        points = [epoch["equal-effort"][side] for epoch in pairs]
        points = [point.get("asked", point)["recall"] for point in points]
        recall.plot([epoch["epoch"] for epoch in pairs], points, style, label=label)
    recall.axhline(found["target"], color="grey", linestyle="--", linewidth=0.8)
    recall.set_ylabel("recall@10")
    recall.legend(fontsize=8)
    for name, label in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
        times = [epoch["queries"][name] / 1000 for epoch in epochs[1:]]
        latency.plot(numbers[1:], times, label=label)
    latency.set_yscale("log")
    latency.set_ylabel("ms beside updates")
    latency.legend(fontsize=8)
    rows = found["plan"]["rows"]
    before = found["peak-bytes-before"]
    grown = [(epoch["peak-bytes"] - before) / rows for epoch in epochs]
    memory.plot(numbers, grown, label="peak of the process")
    memory.plot(
        numbers, [epoch["engine-bytes"] / rows for epoch in epochs], label="engine's own count"
    )
    memory.axhline(BYTES_PER_ROW_MAX, color="grey", linestyle="--", linewidth=0.8)
    memory.set_ylim(bottom=0)
    memory.set_ylabel("bytes per row")
    memory.set_xlabel("epoch")
    memory.legend(fontsize=8)
    recall.set_title(f"{rows:,} rows, {found['plan']['order']} order")
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def larger(cases: list[Found], limit_mib: int) -> str:
    """Return the table of rows that do not fit in memory, a column per kind of segments."""
    plan = cases[0]["plan"]
    first = cases[0]
    about = (
        f"{plan['rows']:,} rows of {plan['dimension']} dimensions ({first['element']}); "
        f"{_data(plan)}. Target {first['target']}, a process per case with a limit of "
        f"{limit_mib} MiB."
    )
    lines = [
        about,
        "",
        *_head(["", *(f"`segments: {case['segment-index']}`" for case in cases)]),
    ]

    def row(name: str, value: Any) -> None:
        lines.append(_line([name, *(value(case) for case in cases)]))

    def phases(name: str, value: Any) -> None:
        for phase, when in (("at-once", "right after ingest"), ("merged", "after merges")):
            row(f"{name}, {when}", lambda case, phase=phase: value(case[phase]))

    row("engine's limits, MiB: rows and blocks, codes", _limits)
    row("ingest, rows/s", lambda case: f"{case['rows-per-s']:,.0f}")
    row("longest commit of 100 rows, ms", lambda case: f"{case['commits']['max'] / 1000:.1f}")
    row("the writer waited, s", lambda case: f"{case['waited-us'] / 1e6:.1f}")
    row("bytes written per byte of vectors", lambda case: f"{case['written-per-byte']:.2f}")
    row(
        f"rows/s beside queries, at most {first['rate']:,.0f}",
        lambda case: f"{case['rows-per-s-beside-queries']:,.0f}",
    )
    row("seconds of a row in memory meanwhile, mean", _in_memory)
    row("ms p50 / p99 / p99.9 beside these", lambda case: _latency(case["queries-beside"]))
    phases("ms p50 / p99 / p99.9 idle", lambda phase: _latency(phase["idle"]))
    phases("recall@10", lambda phase: f"{phase['asked']['recall']:.4f}")
    phases("reads, KiB per query", lambda phase: _reads(phase["asked"]))
    phases("segments, of these graphs", lambda phase: f"{phase['segments']}, {phase['graphs']}")
    row("merges after ingest, s", lambda case: f"{case['merge-s']:.1f}")
    row("peak MiB of the process while rows came", lambda case: _mib(case["ingest-peak-bytes"]))
    row("peak MiB, merges included", lambda case: _mib(case["peak-bytes"]))
    row("of which before the engine", lambda case: _mib(case["peak-bytes-before"]))
    lines.append("")
    for case in cases:
        lines += _larger_goals(case, limit_mib)
    return "\n".join(lines) + "\n"


def _in_memory(case: Found) -> str:
    """Return the seconds of a row in memory before it went to a segment, at the rate."""
    mean = case.get("in-memory-ms")
    return "-" if mean is None else f"{mean / 1000:.2f}"


def remote(found: Found) -> str:
    """Return the table of segments in a far store, a line per share and group of queries."""
    plan = found["plan"]
    about = (
        f"{plan['rows']:,} rows of {plan['dimension']} dimensions ({found['element']}); "
        f"{_data(plan)}. {_mib(found['segment-bytes'])} MiB of segments, codes in memory, "
        f"{_mib(found['memory-bytes'])} MiB for rows and blocks. Target {found['target']}."
    )
    lines = [
        about,
        "",
        *_head(
            [
                "local share",
                "MiB local, far",
                "recall@10",
                "queries that read so many ranges",
                "of all",
                "ranges, KiB per query",
                "ms p50 / p99 / p99.9",
            ]
        ),
    ]
    for share in found["shares"]:
        place = f"{_mib(share['local-bytes'])}, {_mib(share['remote-bytes'])}"
        first = [f"{share['share']:g}", place, f"{share['asked']['recall']:.4f}"]
        every = share["all"]["queries"]
        for group in [share["all"], *share["groups"]]:
            lines.append(
                _line(
                    [
                        *first,
                        _ranges(group),
                        f"{group['queries'] / max(every, 1):.0%}",
                        f"{group['far-reads']:.1f}, {group['far-bytes'] / 1024:.0f}",
                        _latency(group["latency"]),
                    ]
                )
            )
            first = ["", "", ""]
    lines.append("")
    least = min(share["asked"]["recall"] for share in found["shares"])
    lines.append(
        goal(
            f"recall at most {TARGET_MISSED_MAX} below the target, wherever segments are",
            is_met=least >= found["target"] - TARGET_MISSED_MAX,
            found=f"{least:.4f} at least",
        )
    )
    lines.append(
        "- Opened in "
        + ", ".join(
            f"{share['open-s']:.1f} s (local {share['share']:g})" for share in found["shares"]
        )
        + ": ids and codes of all segments are read."
    )
    return "\n".join(lines) + "\n"


def _ranges(group: Found) -> str:
    if "ranges" not in group:
        return "all"
    least, most = group["ranges"]
    if most == 0:
        return "none"
    return f"{least} to {most}" if most < 1 << 60 else f"{least} and more"


def _limits(case: Found) -> str:
    codes = case["code-memory-bytes"]
    return f"{_mib(case['memory-bytes'])}, {'all' if codes is None else _mib(codes)}"


def _mib(bytes_: int) -> str:
    return f"{bytes_ / _MIB:.1f}"


def _larger_goals(case: Found, limit_mib: int) -> list[str]:
    name = f"`{case['segment-index']}`"
    phases = (case["at-once"], case["merged"])
    least = min(phase["asked"]["recall"] for phase in phases)
    held = case["rows-per-s-beside-queries"]
    longest = case["commits"]["max"] / 1000
    return [
        goal(
            f"{name}, {limit_mib} MiB for the process",
            is_met=case["peak-bytes"] <= limit_mib * _MIB,
            found=f"{_mib(case['peak-bytes'])} MiB",
        ),
        goal(
            f"{name}, recall at most {TARGET_MISSED_MAX} below the target",
            is_met=least >= case["target"] - TARGET_MISSED_MAX,
            found=f"{least:.4f} at least",
        ),
        goal(
            f"{name}, {case['rate']:,.0f} rows/s beside queries",
            is_met=held >= 0.98 * case["rate"],
            found=f"{held:,.0f}",
        ),
        goal(
            f"{name}, no commit longer than {COMMIT_MAX_MS:.0f} ms",
            is_met=longest <= COMMIT_MAX_MS,
            found=f"{longest:.1f} ms",
        ),
    ]


def forms(found: Found, peers: list[Found]) -> str:
    """Return the table of sealed segments at equal memory, the peers behind them."""
    what = "all real descriptors"
    if found["neighbours"]:
        what = f"{found['neighbours']:,} of them seeded neighbours of real ones"
    about = (
        f"{found['rows']:,} rows of {found['dimension']} dimensions ({found['element']}), {what}; "
        f"{found['queries']} queries, one thread, past the page cache."
    )
    lines = [
        about,
        "",
        *_head(
            [
                "memory, B per row",
                "form",
                "of which cache",
                "disk, B per row",
                "reads / rounds / KiB per query at recall 0.90",
                "at 0.95",
                "at 0.98",
                "queries/s at 0.95",
            ]
        ),
    ]
    for form in found["forms"]:
        cells = [_point(point) for point in form["at"]]
        point = form["at"][1]
        lines.append(
            _line(
                [
                    f"{form['fixed'] + form['cache']:.1f}",
                    form["name"],
                    f"{form['cache']:.1f}",
                    f"{form['disk']:.0f}",
                    *cells,
                    f"{1000 / point['ms']:,.0f}" if point else "-",
                ]
            )
        )
    for peer in peers:
        if "error" in peer:
            lines.append(_line(["-", peer["name"], f"not measured: {peer['error']}", *["-"] * 5]))
            continue
        cells = [_point(point) for point in peer["at"]]
        point = peer["at"][1]
        speed = f"{1000 / point['ms']:,.0f}" if point else "-"
        disk = f"{peer['disk']:.0f}"
        lines.append(_line([f"{peer['memory']:.1f}", peer["name"], "-", disk, *cells, speed]))
    return "\n".join([*lines, "", *_form_goals(found["forms"])]) + "\n"


def _point(point: Found | None) -> str:
    if point is None:
        return "not reached"
    parts = [point.get(name) for name in ("reads", "rounds", "kib")]
    return " / ".join("-" if part is None else f"{part:.1f}" for part in parts)


def _form_goals(every: list[Found]) -> list[str]:
    lines = []
    graphs = [form for form in every if form["name"].startswith("graph")]
    controls = [form for form in every if form["name"].startswith("DiskANN")]
    for graph, control in zip(graphs, controls, strict=True):
        ours, theirs = graph["at"][1], control["at"][1]
        if ours and theirs:
            share = ours["reads"] / theirs["reads"]
            what = f"{graph['name']}: half the reads of DiskANN's layout at most, at recall 0.95"
            lines.append(goal(what, is_met=share <= READS_MAX, found=f"{share:.2f} of them"))
    return lines


if __name__ == "__main__":
    main_of(sys.argv[1:])
