"""crates/serve/openapi.yaml against the server: every path is in it, and requests made of it are answered so."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

ROOT = Path(__file__).resolve().parents[4]
COMMAND = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))
FILE = ROOT / "crates/serve/openapi.yaml"
SOURCES = ROOT / "crates/serve/src"
DIMENSION = 4
# Requests of each call; the same ones every time.
REQUESTS = 25
# Whether every value at a bound is tried too: 21,000 requests, which take a minute.
IS_LONG = "OPENAPI_LONG" in os.environ
# These do not end by themselves; crates/serve/tests/it/watch.rs and page.rs read them.
STREAMS = "/(watch|ui/events)$"
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
# These get names at random; all other calls are about one collection that is there.
MAKE_AND_DROP = {"createCollection", "dropCollection"}
# What only a job understands.
OF_A_JOB = ["vstream-min-offsets", "vstream-min-watermark"]
# Files of the page for browsers, and the tools for models, which have a protocol of their own.
NOT_DESCRIBED = {"/ui", "/ui/page.css", "/ui/page.js", "/mcp"}
# What a server of a folder and of numbers and UUIDs says to requests that are made at random.
USUAL = {200, 400, 404, 405, 409, 412}


def described() -> dict[str, Any]:
    """The file."""
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


def narrowed() -> dict[str, Any]:
    """The file with vectors of the test's collection, so that requests get further than their size."""
    narrow = described()
    schemas = narrow["components"]["schemas"]
    schemas["Vector"] |= {"minItems": DIMENSION, "maxItems": DIMENSION}
    schemas["Vector"]["items"] = {"type": "number", "minimum": -1000, "maximum": 1000}
    return narrow


CONFIG = schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": IS_LONG}}})
SCHEMA = schemathesis.openapi.from_dict(narrowed(), config=CONFIG).exclude(
    path_regex=STREAMS
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server."""
    folder = tmp_path_factory.mktemp("served")
    command = [COMMAND, "serve", folder / "collections", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().rsplit(" ", 1)[1].strip()
        made = {"vectors": {"size": DIMENSION, "distance": "Cosine"}}
        assert requests.put(f"{address}/collections/goods", json=made, timeout=60).ok
        yield address
        server.terminate()
        assert server.wait(30) == 0


@SCHEMA.parametrize()
@settings(
    max_examples=REQUESTS,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_requests_made_of_the_file_are_answered_as_it_says(
    address: str, case: schemathesis.Case
) -> None:
    operation = case.operation.definition.raw.get("operationId")
    if "collection" in case.path_parameters and operation not in MAKE_AND_DROP:
        case.path_parameters["collection"] = "goods"
    for name in OF_A_JOB:
        case.headers.pop(name, None)
    # A sequence at random may be one for which it would wait.
    case.headers["vstream-wait-ms"] = "10"
    response = case.call(base_url=address, timeout=60)
    case.validate_response(response, checks=CHECKS)
    assert response.status_code in USUAL, response.text


def routes() -> set[tuple[str, str]]:
    """Paths and methods that the sources of the server route."""
    found = set()
    for source in SOURCES.rglob("*.rs"):
        text = source.read_text()
        for match in re.finditer(r'\.route\(\s*"(/[^"]*)"', text):
            end, depth = match.end(), 1
            while depth > 0:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            methods = re.findall(
                r"\b(get|put|post|patch|delete)\(", text[match.end() : end]
            )
            found |= {(match[1], method) for method in methods}
    return {(path, method) for path, method in found if path not in NOT_DESCRIBED}


def test_every_path_and_method_is_described() -> None:
    items = described()["paths"].items()
    methods = {"get", "put", "post", "patch", "delete"}
    there = {
        (path, method) for path, calls in items for method in calls if method in methods
    }
    assert len(routes()) > 25
    assert there - {("/ui/events", "get")} == routes()
