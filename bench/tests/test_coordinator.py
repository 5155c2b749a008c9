"""What the laws of a coordinator did becomes pictures."""

import json

import coordinator_plots


def test_laws_and_a_minute_of_them_are_drawn(tmp_path):
    row = {"table": "continuous", "law": "lean", "replicas": 1.3, "p99_s": 0.0}
    other = {**row, "law": "static 2", "replicas": 2, "p99_s": 2.5}
    rows = [{**one, "traffic": name} for one in (row, other) for name in ("High", "slow ramps")]
    result, courses = tmp_path / "coordinator.json", tmp_path / "courses.json"
    result.write_text(json.dumps({"rows": rows}))
    course = {"traffic": "High", "law": "lean", "bins": [[0.0, 1, 0, 0.01], [0.5, 2, 30, 0.2]]}
    courses.write_text(json.dumps([course, {**course, "traffic": "High, clumped"}]))
    coordinator_plots.main_of([str(tmp_path / "plots"), str(result), str(courses)])
    drawn = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert drawn == ["coordinator-high.png", "coordinator-laws.png"]
    assert coordinator_plots.colour("StreamRAG, hold") != coordinator_plots.colour("lean, effort")
