"""Results of runbooks become a table and pictures."""

import json

import draw


def step(number, recall, live, both):
    names = ("live_recall", "fresh_recall", "same_rows_recall")
    compared = None if both is None else dict(zip(names, both, strict=True))
    found = {"type": "search", "step": number, "recall": recall, "live": live}
    return {**found, "equal_effort": compared}


def summary(steps, **more):
    peak = {"step": 1, "live": 1000, "memory_bytes": 400_000}
    fewest = {"step": 3, "live": 100, "memory_bytes": 60_000}
    recalls = [entry["recall"] for entry in steps]
    return {
        "type": "summary",
        "recall_min": min(recalls),
        "recall_mean": sum(recalls) / len(recalls),
        "guard_error_mean": -0.004,
        "memory_at_peak": peak,
        "memory_at_fewest_after_peak": fewest,
        **more,
    }


def test_gaps_to_a_fresh_index_are_counted_and_drawn(tmp_path):
    steps = [
        step(1, 0.96, 1000, (0.95, 0.945, 0.95)),
        step(2, 0.94, 500, (0.93, 0.95, 0.95)),
        step(3, 0.95, 100, (0.95, 0.955, 0.94)),
    ]
    result = tmp_path / "drift.json"
    every = [*steps, summary(steps)]
    result.write_text("\n".join(json.dumps(entry) for entry in every))
    table = tmp_path / "table.md"
    draw.main_of([str(tmp_path / "plots"), str(table), str(result)])
    line = table.read_text().splitlines()[-1]
    assert line == (
        "| drift | 3 | 0.940 / 0.950 | -0.004 | -0.005 / +0.007 / +0.020 | 1 | +0.003 / +0.015 "
        "| 90.0%, 85.0% |"
    )
    picture = (tmp_path / "plots" / "runbook-drift.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000


def test_without_a_fresh_index_there_are_no_gaps():
    steps = [step(1, 0.9, 10, None)]
    line = draw.row("replace", steps, summary(steps, guard_error_mean=None))
    assert line == "| replace | 1 | 0.900 / 0.900 | - | - | - | - | 90.0%, 85.0% |"
