"""Makes Markdown of results: `python tables.py RESULT...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_STEPS = "rate asked | held | p50 ms | p99 ms | p99.9 ms | broker p99 ms | recall@10"


def main() -> None:
    """Print a table of the steps and one of processor time for each result.

    Of runs at one rate that differ in their recall (`recall-…`) it is one table of all.
    """
    of_rates = [path for path in sys.argv[1:] if not _is_by_recall(path)]
    by_recall = [path for path in sys.argv[1:] if _is_by_recall(path)]
    if by_recall:
        _by_recall([json.loads(Path(path).read_text()) for path in by_recall])
    for path in of_rates:
        result = json.loads(Path(path).read_text())
        print(f"### {Path(path).parent.name}\n")
        print(
            f"{result['system']}, {result['format']}, {result['delivery']}; {result['preload']:,} "
            f"rows at first, {result['rows']:,} at the end; recall@10 at rest "
            f"{result['recall_at_rest']:.3f} ({result['queries_at_rest']} queries).\n"
        )
        _steps(result["steps"])
        _processors(result["steps"])


def _is_by_recall(path: str) -> bool:
    return Path(path).parent.name.startswith("recall-")


def _by_recall(results: list[dict[str, Any]]) -> None:
    first = results[0]
    print(
        f"{first['steps'][0]['rate']:,} records/s, {first['preload']:,} rows at first; recall of "
        f"{first['queries_at_rest']:,} queries at rest.\n"
    )
    print("| system | target or effort | recall@10 | p50 ms | p99 ms | p99.9 ms | cores busy |")
    print("|---|---|---|---|---|---|---|")
    for result in results:
        step = result["steps"][0]
        is_ours = result["system"] == "vstream"
        asked = f"target {result['recall_target']}" if is_ours else f"ef {result['effort']}"
        beside = ("broker", "load generator", "whole machine")
        busy = sum(share for name, share in step["cpu"].items() if name not in beside)
        held = "" if step["sustained"] else ", not held"
        print(
            f"| {result['system']} | {asked}{held} | {result['recall_at_rest']:.4f} | "
            f"{step['p50_ms']:.1f} | {step['p99_ms']:.1f} | {step['p999_ms']:.1f} | {busy:.2f} |"
        )
    print()


def _steps(steps: list[dict[str, Any]]) -> None:
    print(f"| {_STEPS} |\n|{'---|' * 7}")
    for step in steps:
        held = f"{step['records_per_s']:,}" if step["sustained"] else "cannot sustain"
        recall = f"{step['recall']:.3f}" if "recall" in step else "-"
        print(
            f"| {step['rate']:,} | {held} | {step['p50_ms']:.0f} | {step['p99_ms']:.0f} | "
            f"{step['p999_ms']:.0f} | {step['broker_p99_ms']:.0f} | {recall} |"
        )
    print()


def _processors(steps: list[dict[str, Any]]) -> None:
    held = [step for step in steps if step["sustained"]] or steps[:1]
    chosen = {step["rate"]: dict(step["cpu"]) for step in (held[0], held[-1])}
    for cpu in chosen.values():
        # What is not of this benchmark: a figure is worth what this row leaves of it.
        machine = cpu.pop("whole machine")
        cpu["(other processes of the machine)"] = max(0, machine - sum(cpu.values()))
    names = sorted({name for cpu in chosen.values() for name in cpu})
    print(f"| cores busy at | {' | '.join(f'{rate:,}' for rate in chosen)} |")
    print(f"|---|{'---|' * len(chosen)}")
    for name in names:
        print(f"| {name} | {' | '.join(f'{cpu.get(name, 0):.2f}' for cpu in chosen.values())} |")
    print()


if __name__ == "__main__":
    main()
