"""Results about the disk become tables with goals, and pictures; costs lie on the right line."""

import json

import pytest

import disk_peers
import disk_tables as tables

MIB = 1 << 20


def times(p50=1000.0, p99=2000.0, p999=3000.0):
    return {"count": 1000, "p50": p50, "p99": p99, "p999": p999, "max": 60_000.0, "mean": p50}


def plan(**more):
    about = {"rows": 100_000, "epochs": 20, "change": 1000, "order": "skewed", "seed": 7}
    return {**about, "dimension": 128, "neighbours": 0, **more}


def epoch(number, recall=0.955, pair=None, peak=8 * MIB):
    asked = {"recall": recall, "reads": 5.0, "read_bytes": 20_480.0, "latency": times()}
    both = pair and {"live": {"recall": pair[0]}, "fresh": {"asked": {"recall": pair[1]}}}
    found = {"epoch": number, "asked": asked, "equal-effort": both, "peak-bytes": peak}
    found |= {"engine-bytes": 3 * MIB, "segments": 4, "leaves": 400}
    if number:
        found |= {"queries": times(), "rows-per-s": 30_000.0, "written-bytes": 2e6}
        found |= {"disk-read-bytes": 1e6, "splits": 2, "joins": 1, "moved": 30}
        found |= {"inserts": times(20.0, 60.0, 1500.0), "commits": times()}
    return found


def experiment(**more):
    pairs = {5: (0.95, 0.955), 10: (0.95, 0.962), 20: (0.95, 0.945)}
    found = {
        "plan": plan(),
        "epochs": [epoch(number, pair=pairs.get(number)) for number in range(21)],
        "element": "u8",
        "memory-bytes": MIB,
        "code-memory-bytes": None,
        "rate": 2000.0,
        "target": 0.95,
        "peak-bytes-before": 5 * MIB,
        "first-epochs": times(),
        "last-epochs": times(p999=3300.0),
    }
    return {**found, **more}


def test_epochs_become_a_table_with_goals_and_a_picture(tmp_path):
    result, table = tmp_path / "updates-skewed.json", tmp_path / "table.md"
    result.write_text(json.dumps(experiment()))
    tables.main_of(["updates", str(tmp_path / "plots"), str(table), str(result)])
    text = table.read_text()
    line = next(line for line in text.splitlines() if line.startswith("| 10 |"))
    assert line == (
        "| 10 | 0.9550 | +0.0120 | 1.00 / 2.00 / 3.00 | 30,000 | 2.0 | 1.0 | 5.0, 20 | 8.0 "
        "| 4, 400 |"
    )
    assert tables.gaps(experiment())[1] == (10, pytest.approx(0.012))
    assert "at 3 epochs: **missed**, +0.0120 at most" in text
    assert "that of the first ten: met, 1.10 x" in text
    # Three MiB over 100,000 rows.
    assert "before the engine: met, 31.5 (8.0 MiB, of which 5.0 MiB before)" in text
    assert "An insert takes 20 / 60 / 1,500 us" in text
    assert "Of 20,000 inserts: 40 splits of leaves, 0.20 % of them; 20 leaves joined" in text
    assert "600 rows moved to another leaf, 0.03 per insert" in text
    picture = (tmp_path / "plots" / "updates-skewed.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000


def test_goals_of_epochs_are_missed_where_they_are():
    low = [epoch(0), epoch(1, recall=0.93, peak=10 * MIB)]
    found = experiment(epochs=low, plan=plan(epochs=1, neighbours=12))
    text = tables.updates(found)
    assert "after every epoch: **missed**, 0.9300 at least" in text
    assert "before the engine: **missed**, 52.4" in text
    assert "at 0 epochs: **missed**" in text, "nothing was compared"
    assert "12 of the rows are seeded neighbours" in text
    unknown = {**low[0]["asked"], "reads": None, "read_bytes": None}
    text = tables.updates({**found, "epochs": [{**low[0], "asked": unknown}, low[1]]})
    assert "| 0 | 0.9550 | - | - | - | - | - | - | 8.0 |" in text, "a merge ended meanwhile"
    assert tables.shown(100) == {0, 1, *range(10, 101, 10)}
    assert tables.shown(3) == {0, 1, 2, 3}


def case(segments, peak):
    phase = {"idle": times(), "asked": epoch(0)["asked"], "segments": 3, "graphs": 1}
    return {
        "plan": plan(epochs=0),
        "segment-index": segments,
        "element": "u8",
        "target": 0.95,
        "rate": 40_000.0,
        "memory-bytes": 32 * MIB,
        "code-memory-bytes": 32 * MIB if segments == "clusters" else None,
        "rows-per-s": 90_000.0,
        "rows-per-s-beside-queries": 39_000.0,
        "commits": times(),
        "waited-us": 1_500_000,
        "in-memory-ms": 2_340.0 if segments == "clusters" else None,
        "written-per-byte": 4.0,
        "queries-beside": times(),
        "at-once": phase,
        "merged": phase,
        "merge-s": 9.0,
        "ingest-peak-bytes": 100 * MIB,
        "peak-bytes": peak,
        "peak-bytes-before": 5 * MIB,
    }


def test_cases_stand_beside_each_other_and_each_has_its_goals():
    text = tables.larger([case("clusters", 120 * MIB), case("graph", 300 * MIB)], 128)
    assert "| | `segments: clusters` | `segments: graph` |" in text.replace("|  |", "| |")
    assert "| engine's limits, MiB: rows and blocks, codes | 32.0, 32.0 | 32.0, all |" in text
    assert "| seconds of a row in memory meanwhile, mean | 2.34 | - |" in text
    assert "`clusters`, 128 MiB for the process: met, 120.0 MiB" in text
    assert "`graph`, 128 MiB for the process: **missed**, 300.0 MiB" in text
    assert "`graph`, 40,000 rows/s beside queries: **missed**, 39,000" in text
    assert "no commit longer than 50 ms: **missed**, 60.0 ms" in text


def test_forms_and_peers_share_a_table_and_missing_ones_say_why():
    def form(name, reads):
        point = {"recall": 0.95, "reads": reads, "rounds": 4.0, "kib": 4 * reads, "ms": 2.0}
        at = [point, point, None]
        return {"name": name, "budget": 36.0, "fixed": 30.0, "cache": 6.0, "disk": 280.0, "at": at}

    every = [
        form("graph, BNS, codes of 1 bit", 25.0),
        form("DiskANN's layout, codes of 1 bit", 54.0),
    ]
    found = {"rows": 1000, "dimension": 128, "element": "u8", "neighbours": 0, "queries": 100}
    peer = {**form("a peer", 40.0), "memory": 44.0}
    missing = {"name": "another", "error": "does not install here: no wheel"}
    text = tables.forms({**found, "forms": every}, [peer, missing])
    row = "| 36.0 | graph, BNS, codes of 1 bit | 6.0 | 280 | 25.0 / 4.0 / 100.0 |"
    assert row in text
    assert "| not reached | 500 |" in text
    assert "half the reads of DiskANN's layout at most, at recall 0.95: met, 0.46 of them" in text
    assert "| another | not measured: does not install here: no wheel |" in text


def test_costs_of_peers_lie_between_two_points():
    low = {"recall": 0.9, "reads": 20.0, "rounds": None, "ms": 1.0}
    high = {"recall": 1.0, "reads": 60.0, "rounds": None, "ms": 2.0}
    at = disk_peers.at_recall([low, high], 0.95)
    assert at["reads"] == pytest.approx(40.0)
    assert at["rounds"] is None
    assert disk_peers.at_recall([low, high], 0.8) == low
    assert disk_peers.at_recall([low], 0.95) is None


def test_a_table_of_a_far_store_has_a_line_per_group_of_queries():
    group = {"queries": 10, "far-reads": 3.0, "far-bytes": 2048.0, "latency": times()}
    share = {
        "share": 0.1,
        "local-bytes": 2 * MIB,
        "remote-bytes": 20 * MIB,
        "asked": {**epoch(0)["asked"], "recall": 0.93},
        "open-s": 1.25,
        "all": group,
        "groups": [
            {**group, "queries": 4, "ranges": [0, 0]},
            {**group, "queries": 5, "ranges": [1, 8]},
            {**group, "queries": 1, "ranges": [129, (1 << 64) - 1]},
        ],
    }
    found = {
        "plan": plan(epochs=0),
        "element": "u8",
        "segment-bytes": 22 * MIB,
        "memory-bytes": 4 * MIB,
        "target": 0.95,
        "shares": [share],
    }
    text = tables.remote(found)
    assert "| 0.1 | 2.0, 20.0 | 0.9300 | all | 100% | 3.0, 2 |" in text
    assert "|  |  |  | none | 40% |" in text
    assert "|  |  |  | 1 to 8 | 50% |" in text
    assert "|  |  |  | 129 and more | 10% |" in text
    assert "**missed**, 0.9300 at least" in text
    assert "1.2 s (local 0.1)" in text
