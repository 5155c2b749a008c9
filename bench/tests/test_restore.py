"""What a checkpoint uploaded: kinds of files, and the table of it."""

from job.restore import PLACES, kind, table


def test_a_file_is_known_by_its_first_or_last_bytes(tmp_path):
    for name, content, expected in [
        ("log", b"VSTRWLOG" + bytes(100), "logs"),
        ("rows", b"VSTRROWS" + bytes(100), "rows"),
        ("new", b"VSTRNEWS" + bytes(100), "VSTRNEWS"),
        ("table", bytes(100) + PLACES, "places"),
        ("_metadata", bytes(100), "metadata"),
        ("short", b"abc", "other"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        assert kind(str(path)) == expected, name
    assert kind(str(tmp_path / "none")).startswith("removed")


def test_the_largest_upload_is_that_of_all_kinds_together():
    figures = {
        "rows": 1_000_000,
        "memory": "null",
        "parallelism": [2, 4],
        "interval": 5,
        "loaded": 30.0,
        "state": 1_000,
        "added": [{"logs": 10, "rows": 20}, {"logs": 25}, {"places": 40}],
        "answered": 9.5,
    }
    lines = table(figures).splitlines()
    assert "| upload, most | 0.0 MB, 4.00% |" in lines
    assert "| of it logs: mean; most; in the largest | 1.17%; 2.50%; 0.00% |" in lines
    assert "| of it places: mean; most; in the largest | 1.33%; 4.00%; 4.00% |" in lines
