"""The picture of the README shows figures that the document states."""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_point_is_a_row_of_the_document():
    document = (ROOT / "docs" / "benchmarks.md").read_text().replace("*", "").splitlines()
    stated = {
        tuple(cell.strip().replace(",", "").lower() for cell in line.split("|"))
        for line in document
        if line.startswith("|")
    }
    held = {(row[1], *row[3:6]) for row in stated if len(row) > 6}
    table = (ROOT / "bench" / "job" / "figures" / "beside.csv").read_text().splitlines()
    points = list(csv.reader(line for line in table if not line.startswith("#")))[1:]
    assert len(points) > 10
    for system, rate, median, p99 in points:
        assert (system.lower(), rate, median, p99) in held
