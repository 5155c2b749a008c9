"""The harness measures, counts and compares rightly: on a small data set, without other peers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import plots
from harness import report
from harness.data import Distances
from harness.plan import Plan
from harness.truth import LiveTruth, nearest

ROWS, QUERIES, DIMENSION, K = 3_000, 60, 16, 10
RUN = Path(__file__).resolve().parent.parent / "peers" / "run.py"


@pytest.fixture(scope="module")
def vectors():
    chance = np.random.default_rng(7)
    centres = chance.normal(size=(30, DIMENSION))
    points = centres[chance.integers(30, size=ROWS + QUERIES)]
    points = (points + 0.4 * chance.normal(size=points.shape)).astype(np.float32)
    return points[:ROWS], points[ROWS:]


@pytest.fixture(scope="module")
def folder(vectors, tmp_path_factory):
    made = tmp_path_factory.mktemp("points16")
    for name, part in zip(["base.fbin", "query.fbin"], vectors, strict=True):
        head = np.array(part.shape, dtype="<u4").tobytes()
        (made / name).write_bytes(head + part.astype("<f4").tobytes())
    (made / "meta.json").write_text(json.dumps({"base-rows": ROWS}))
    return made


def measure(folder, out, workload, peers, *more, **environment):
    command = [sys.executable, RUN, "--data", "points", "--folder", folder, "--metric", "l2"]
    command += ["--workload", workload, "--rows", ROWS, "--queries", QUERIES, "--seconds", 5]
    command += ["--box", 60, "--peers", peers, "--out", out, *more]
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = next(out.glob(f"points-{workload}-*"))
    rows = json.loads((found / "results.json").read_text())["peers"]
    return {row["peer"]: row for row in rows}, (found / "table.md").read_text(), found


def test_static_finds_all_with_the_exact_peer_and_most_with_ours(folder, tmp_path):
    rows, table, found = measure(folder, tmp_path, "static", "vstream exact")
    assert [point["recall"] for point in rows["exact"]["points"]] == [1.0]
    ours = max(point["recall"] for point in rows["vstream"]["points"])
    assert ours > 0.95, table
    plots.main_of([str(tmp_path / "plots"), str(found / "results.json")])
    picture = (tmp_path / "plots" / f"{found.name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000


def test_a_peer_that_crashes_or_takes_too_long_is_a_row_with_its_reason(folder, tmp_path):
    (tmp_path / "hnswlib.py").write_text("raise OSError('broken here')")
    path = {"PYTHONPATH": str(tmp_path)}
    rows, table, _ = measure(folder, tmp_path, "static", "hnswlib exact", **path)
    assert rows["hnswlib"]["error"] == "ended with code 1: OSError: broken here"
    assert "- **hnswlib**: ended with code 1" in table
    assert "error" not in rows["exact"]
    rows, table, _ = measure(folder, tmp_path, "static", "exact", "--box", 0.01)
    assert rows["exact"]["error"] == "not finished within 0 s at 3,000 rows"


def test_mixed_never_sees_a_dead_row_and_says_what_every_effort_found(folder, tmp_path):
    rows, table, _ = measure(folder, tmp_path, "mixed", "vstream,exact")
    cycles = (ROWS - ROWS // 2) // 3
    for row in rows.values():
        assert row["dead"] == 0
        assert row["is-whole"], table
        assert row["operations"] == 5 * cycles
    assert rows["exact"]["points"][0]["recall"] == 1.0
    efforts = rows["vstream"]["points"]
    assert all(0.6 < point["recall"] <= 1.0 for point in efforts), table
    # A stream's time is that of its operations, whichever effort they took.
    slowest = min(point["ops-per-s"] for point in efforts)
    fastest = max(point["ops-per-s"] for point in efforts)
    assert slowest * 0.9 <= rows["vstream"]["ops-per-s"] <= fastest * 1.1, table
    assert "At equal recall, 0.95:" in table


def test_earlier_rows_of_other_peers_are_kept_on_demand(folder, tmp_path):
    measure(folder, tmp_path, "static", "exact")
    kept, _, _ = measure(folder, tmp_path, "static", "vstream", "--keep")
    assert list(kept) == ["vstream", "exact"]
    alone, _, _ = measure(folder, tmp_path, "static", "vstream")
    assert list(alone) == ["vstream"]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_truth_is_that_of_a_plain_loop_at_every_cycle(vectors, metric):
    rows, queries = vectors
    distances, plan = Distances(rows, metric), Plan.of(ROWS)
    live = LiveTruth(nearest(distances, ROWS, queries, 128), plan, distances, queries)
    # With so few neighbours kept it has to look at all rows.
    short = LiveTruth(nearest(distances, ROWS, queries, K), plan, distances, queries)
    for cycle in [-1, 0, 17, len(plan.deletes) - 1]:
        alive = set(range(plan.preload + 3 * (cycle + 1))) - set(plan.deletes[: cycle + 1].tolist())
        ids = np.array(sorted(alive))
        for query in [0, QUERIES - 1]:
            if metric == "l2":
                every = ((rows[ids] - queries[query]) ** 2).sum(axis=1)
            else:
                every = 1 - rows[ids] @ queries[query]
            wanted = pytest.approx(float(np.sort(every)[K - 1]), rel=1e-4, abs=1e-5)
            assert live.kth(query, cycle, K) == wanted
            assert short.kth(query, cycle, K) == wanted


def test_a_speed_is_interpolated_between_the_recalls_around_it():
    points = [{"recall": r, "qps": q} for r, q in [(0.9, 4000.0), (0.94, 2000.0), (0.96, 1000.0)]]
    found = report.speed_at(points, 0.95, "qps")
    assert found.value == pytest.approx(1414.2, rel=1e-3)
    assert (found.low, found.high, found.is_least) == (0.94, 0.96, False)
    assert report.speed_at(points, 0.97, "qps") is None
    assert report.speed_at(points, 0.8, "qps").is_least
    # A point that another beats in both is not on the front.
    beaten = [*points, {"recall": 0.92, "qps": 500.0}]
    assert [point["recall"] for point in report.front(beaten, "qps")] == [0.9, 0.94, 0.96]
