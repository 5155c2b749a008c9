"""What is written about the package is true: examples run, stubs fit, the quickstart answers."""

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import vstream
from vstream import rag

HERE = Path(__file__).parent
# Small ones, of which the documentation says `models`.
MODELS = HERE.parents[1] / "crates/embed/tests/fixtures"
MODULES = [
    "vstream",
    "vstream.aio",
    "vstream.collection",
    "vstream.errors",
    "vstream.groups",
    "vstream.job",
    "vstream.metadata",
    "vstream.rag",
    "vstream.rag.answer",
    "vstream.rag.documents",
    "vstream.rag.language",
    "vstream.rag.model",
    "vstream.reads",
    "vstream.rows",
    "vstream.stats",
    "vstream.writes",
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name, tmp_path):
    module = importlib.import_module(name)
    extra = {"vstream": vstream, "rag": rag, "directory": tmp_path, "models": MODELS}
    result = doctest.testmod(module, extraglobs=extra)
    assert result.failed == 0


def test_docstrings_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    # Methods of the classes from which it inherits are not found below it.
    found = [test for one in vstream.Collection.__mro__[:-1] for test in finder.find(one)]
    with_examples = {test.name.split(".")[-1] for test in found if test.examples}
    assert with_examples >= {"create", "open", "upsert", "delete", "search", "search_batch"}


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(HERE.parent / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_everything_public_is_documented():
    for name, thing in [
        (name, getattr(module, name)) for module in (vstream, rag) for name in module.__all__
    ]:
        if inspect.isclass(thing):
            assert thing.__doc__, name
            for member, value in vars(thing).items():
                if inspect.isfunction(value) and not member.startswith("_"):
                    assert value.__doc__, f"{name}.{member}"


def test_stubs_fit_the_native_module():
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "vstream._native"],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_package_is_typed():
    assert (Path(vstream.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize(
    ("example", "said"),
    [("quickstart.py", "Frankenstein"), ("mailbox.py", "299 mailboxes after one was closed")],
)
def test_examples_answer(example, said):
    run = subprocess.run(
        [sys.executable, "-W", "error", str(HERE.parents[1] / "examples/python" / example)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert said in run.stdout
