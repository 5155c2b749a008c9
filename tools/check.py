"""Checks formatting, and lints and tests what changed: `make check`, between two edits.

1. Changed files are those that differ from the merge base with BASE (origin/main, or else main),
   with uncommitted and new ones.
2. A path says which crate, Java package or Python folder it belongs to.
3. Formatting is checked always; lints and unit tests run for what changed alone. All commands are
   printed, all of them run, and the program fails if one does.

*Not useful for* what CI checks: `make lint` and `make test` check everything.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
JAVA = ["mvn", "-B", "-ntp", "-f", "java/pom.xml", "-q"]
# Checks documents and sources alike, so all of it runs after every change.
TIDY = "vstream-tidy"
LIBRARY_KINDS = {"lib", "rlib", "cdylib", "proc-macro"}
# What `make native` builds for Java.
LIBRARIES = ("libvstream.so", "libvstream.dylib")
# Files that say what all crates are: only the whole workspace checks them.
SHARED = {"Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "clippy.toml"}


@dataclass(frozen=True)
class Crate:
    """A crate of the workspace."""

    name: str
    folder: str
    has_library: bool


@dataclass(frozen=True)
class Step:
    """A command, and the folder that it runs in."""

    command: list[str]
    folder: str = "."


def main(arguments: list[str]) -> int:
    """Check what changed; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", help="what changes are compared with; origin/main")
    parser.add_argument("--plan", action="store_true", help="print the commands, run none")
    options = parser.parse_args(arguments)
    changed = changed_files(options.base)
    steps, notes = plan(changed, crates(), ROOT)
    print(f"{len(changed)} files changed.")
    for note in notes:
        print(f"note: {note}")
    if options.plan:
        for step in steps:
            print(shown(step))
        return 0
    return run(steps)


def changed_files(base: str | None) -> list[str]:
    """Return paths that differ from the merge base with `base`, and new files."""
    candidates = [base] if base else ["origin/main", "main"]
    found = [one for one in candidates if _git("rev-parse", "--verify", "--quiet", one, fails=True)]
    if base and not found:
        sys.exit(f"There is no commit {base}.")
    since = _git("merge-base", "HEAD", found[0])[0] if found else "HEAD"
    names = _git("diff", "--name-only", "--no-renames", since)
    return sorted({*names, *_git("ls-files", "--others", "--exclude-standard")})


def crates() -> list[Crate]:
    """Return the crates of the workspace."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for package in json.loads(done.stdout)["packages"]:
        folder = Path(package["manifest_path"]).parent.relative_to(ROOT).as_posix()
        tested = [target for target in package["targets"] if target["test"]]
        kinds = {kind for target in tested for kind in target["kind"]}
        found.append(Crate(package["name"], folder, bool(kinds & LIBRARY_KINDS)))
    return found


def plan(changed: list[str], workspace: list[Crate], root: Path) -> tuple[list[Step], list[str]]:
    """Return the commands for these paths, and what a reader should know besides."""
    rust, rust_notes = _rust(changed, workspace)
    java, java_notes = _java(changed, root)
    python, python_notes = _python(changed, root)
    return rust + java + python, rust_notes + java_notes + python_notes


def run(steps: list[Step]) -> int:
    """Run all steps; return 1 if one fails."""
    failed = []
    for step in steps:
        print(f"\n$ {shown(step)}", flush=True)
        begun = time.monotonic()
        done = subprocess.run(step.command, cwd=ROOT / step.folder, check=False)
        verdict = "ok" if done.returncode == 0 else "FAILED"
        print(f"{verdict}, {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode:
            failed.append(shown(step))
    for command in failed:
        print(f"FAILED: {command}")
    return 1 if failed else 0


def shown(step: Step) -> str:
    """Return the step as a line of a shell."""
    line = shlex.join(step.command)
    return line if step.folder == "." else f"cd {step.folder} && {line}"


def _rust(changed: list[str], workspace: list[Crate]) -> tuple[list[Step], list[str]]:
    steps = [Step(["cargo", "fmt", "--all", "--check"])]
    notes = []
    touched = _touched(changed, workspace)
    if touched:
        names = [word for crate in touched for word in ("-p", crate.name)]
        lint = ["cargo", "clippy", *names, "--no-deps", "--all-targets", "--", "-D", "warnings"]
        steps.append(Step(lint))
        tested = [crate for crate in touched if crate.name != TIDY]
        libraries = [word for crate in tested if crate.has_library for word in ("-p", crate.name)]
        if libraries:
            steps.append(Step(["cargo", "test", "-q", *libraries, "--lib"]))
        for crate in tested:
            steps.extend(_modules(changed, crate))
    if changed:
        steps.append(Step(["cargo", "test", "-q", "-p", TIDY]))
    shared = sorted(SHARED.intersection(changed))
    if shared:
        notes.append(f"{', '.join(shared)} changed: only `make lint` checks all crates.")
    return steps, notes


def _touched(changed: list[str], workspace: list[Crate]) -> list[Crate]:
    """Return the crates whose sources changed; the innermost folder counts."""
    found = set()
    for path in changed:
        owners = [crate for crate in workspace if path.startswith(crate.folder + "/")]
        if owners and path.endswith((".rs", ".toml")):
            found.add(max(owners, key=lambda crate: len(crate.folder)))
    return sorted(found, key=lambda crate: crate.name)


def _modules(changed: list[str], crate: Crate) -> list[Step]:
    """Return a run of the changed modules of the crate's integration tests, if there are any."""
    begin = f"{crate.folder}/tests/it/"
    sources = [path for path in changed if path.startswith(begin) and path.endswith(".rs")]
    found = {path.removeprefix(begin).removesuffix(".rs") for path in sources} - {"main"}
    names = sorted(name.removesuffix("/mod").replace("/", "::") for name in found)
    if not names:
        return []
    return [Step(["cargo", "test", "-q", "-p", crate.name, "--test", "it", "--", *names])]


def _java(changed: list[str], root: Path) -> tuple[list[Step], list[str]]:
    steps = [Step([*JAVA, "-Ppeers", "spotless:check"])]
    sources = [path for path in changed if path.startswith("java/") and path.endswith(".java")]
    packages, left = set(), set()
    for path in sources:
        name = PurePosixPath(path)
        if name.stem.endswith("IT") and (root / path).exists():
            left.add(name.stem)
        module, _, package = path.partition("/src/")
        package = package.partition("/java/")[2].rpartition("/")[0]
        tests = root / module / "src/test/java" / package
        if module in {"java/native", "java/flink"} and any(tests.glob("*Test.java")):
            packages.add(f"{package}/*Test")
    notes = []
    if left:
        notes.append(f"not run, they take long: {', '.join(sorted(left))} (`make test`).")
    if not packages:
        return steps, notes
    release = root / "target" / "release"
    if not any((release / name).exists() for name in LIBRARIES):
        notes.append("Java's unit tests are not run: there is no library; `make native` builds it.")
        return steps, notes
    if any(path.endswith(".rs") for path in changed):
        notes.append("Java's unit tests use the library that `make native` built last.")
    chosen = ["-pl", "native,flink", f"-Dtest={','.join(sorted(packages))}"]
    steps.append(Step([*JAVA, "test", *chosen, "-Dsurefire.failIfNoSpecifiedTests=false"]))
    return steps, notes


def _python(changed: list[str], root: Path) -> tuple[list[Step], list[str]]:
    programs = root / ".venv" / "bin"
    if not (programs / "ruff").exists():
        return [], ["Python is not checked: there is no .venv; `make python` makes it."]
    ruff, pytest = str(programs / "ruff"), str(programs / "pytest")
    format_ = [ruff, "format", "--check"]
    steps = [Step(format_, "python"), Step([*format_, "bench", "tools/check.py"])]
    notes = []
    if any(path.startswith("python/") and path.endswith((".py", ".pyi")) for path in changed):
        steps += [Step([ruff, "check"], "python"), Step([str(programs / "mypy")], "python")]
        steps.append(Step([pytest, "-q", "python/tests"]))
        notes.append("Python's tests use the package that `make python` installed last.")
    harness = [path for path in changed if path.endswith(".py")]
    if any(path.startswith(("bench/", "tools/")) for path in harness):
        steps.append(Step([ruff, "check", "bench", "tools/check.py"]))
        if (root / ".venv/.bench").exists():
            steps.append(Step([pytest, "-q", "bench/tests"]))
    return steps, notes


def _git(*arguments: str, fails: bool = False) -> list[str]:
    """Return the lines of git's answer; none where it fails and may."""
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=not fails)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
