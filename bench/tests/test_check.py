"""`make check` runs what belongs to the changed paths, and nothing else."""

import check

WORKSPACE = [
    check.Crate("vstream-index", "crates/index", True),
    check.Crate("vstream-cli", "crates/cli", False),
    check.Crate("vstream-native", "java/native/rust", True),
    check.Crate("vstream-python", "python/native", False),
    check.Crate("vstream-tidy", "tools/tidy", True),
]


def planned(root, *changed):
    steps, notes = check.plan(list(changed), WORKSPACE, root)
    return [check.shown(step) for step in steps], notes


def file(root, path):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("")


def test_without_changes_only_formatting_is_checked(tmp_path):
    file(tmp_path, ".venv/bin/ruff")
    lines, notes = planned(tmp_path)
    assert not notes
    assert len(lines) == 4
    assert all("fmt" in line or "format" in line or "spotless" in line for line in lines)


def test_a_changed_crate_is_linted_and_its_unit_tests_run(tmp_path):
    lines, _ = planned(tmp_path, "crates/index/src/flat.rs", "crates/cli/src/main.rs")
    assert any("clippy -p vstream-cli -p vstream-index --no-deps" in line for line in lines)
    assert "cargo test -q -p vstream-index --lib" in lines
    assert "cargo test -q -p vstream-tidy" in lines


def test_a_changed_module_of_integration_tests_runs_alone(tmp_path):
    lines, _ = planned(tmp_path, "crates/index/tests/it/main.rs", "crates/index/tests/it/a/b.rs")
    assert "cargo test -q -p vstream-index --test it -- a::b" in lines


def test_the_innermost_crate_owns_a_file(tmp_path):
    lines, _ = planned(tmp_path, "java/native/rust/src/lib.rs", "python/native/src/lib.rs")
    assert any("clippy -p vstream-native -p vstream-python --no-deps" in line for line in lines)


def test_a_document_runs_the_rules_of_the_repository(tmp_path):
    lines, _ = planned(tmp_path, "docs/glossary.md")
    assert "cargo test -q -p vstream-tidy" in lines
    assert not any("clippy" in line for line in lines)


def test_a_java_class_runs_the_unit_tests_of_its_package(tmp_path):
    source = "java/flink/src/{}/java/io/vstream/flink/place/{}.java"
    file(tmp_path, source.format("test", "PlaceTest"))
    file(tmp_path, source.format("test", "PlaceIT"))
    changed = [source.format("main", "Place"), source.format("test", "PlaceIT")]
    lines, notes = planned(tmp_path, *changed)
    assert not any("-Dtest" in line for line in lines)
    assert any("make native" in note for note in notes)
    file(tmp_path, "target/release/libvstream.so")
    lines, notes = planned(tmp_path, *changed)
    assert any("-pl native,flink '-Dtest=io/vstream/flink/place/*Test'" in line for line in lines)
    assert any("PlaceIT" in note for note in notes)


def test_what_is_shared_by_all_crates_is_noted(tmp_path):
    _, notes = planned(tmp_path, "Cargo.lock")
    assert any("make lint" in note for note in notes)
