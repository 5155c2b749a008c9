"""A result is kept whole, and a document shows the table of the newest one."""

import json

import pytest

import results

DOCUMENT = """Before.

<!-- results: speed -->
an old table
<!-- end of results -->

After.
"""


def test_what_is_recorded_is_rendered_and_rendering_again_changes_nothing(tmp_path):
    table, raw, lines = tmp_path / "t.md", tmp_path / "raw.json", tmp_path / "lines.json"
    table.write_text("| a |\n|---|\n| 1 |\n")
    raw.write_text('{"rows": [{"a": 1}, {"a": 2}], "seed": 7}')
    lines.write_text('{"step": 1}\n{"step": 2}\n')
    document, folder = tmp_path / "d.md", tmp_path / "results"
    document.write_text(DOCUMENT)
    command = ["record", "speed", str(table), str(raw), str(lines), "--command", "make speed"]
    results.main([*command, "--folder", str(folder)])
    kept = json.loads((folder / "speed.json").read_text())
    assert kept["raw"]["raw"] == {"rows": [{"a": 1}, {"a": 2}], "seed": 7}
    assert kept["raw"]["lines"] == [{"step": 1}, {"step": 2}]
    results.main(["render", str(document), "--folder", str(folder)])
    text = document.read_text()
    assert "an old table" not in text
    assert "`make speed`, commit " in text
    assert "| 1 |\n<!-- end of results -->\n\nAfter.\n" in text
    results.main(["render", str(document), "--folder", str(folder)])
    assert document.read_text() == text


def test_a_table_that_nothing_ends_takes_no_other_with_it(tmp_path):
    document, folder = tmp_path / "d.md", tmp_path / "results"
    text = DOCUMENT.replace("<!-- end of results -->", "Between.") + DOCUMENT
    document.write_text(text)
    folder.mkdir()
    with pytest.raises(SystemExit, match="speed has no line"):
        results.main(["render", str(document), "--folder", str(folder)])
    assert document.read_text() == text


def test_a_document_that_asks_for_what_was_not_measured_stays_as_it_was(tmp_path):
    document = tmp_path / "d.md"
    document.write_text(DOCUMENT)
    with pytest.raises(SystemExit, match=r"There is no result .*speed\.json"):
        results.main(["render", str(document), "--folder", str(tmp_path)])
    assert document.read_text() == DOCUMENT
