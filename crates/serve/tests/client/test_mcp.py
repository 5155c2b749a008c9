"""The official client of the Model Context Protocol against the server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

ROOT = Path(__file__).resolve().parents[4]
COMMAND = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))
COLOURS = {1: [1.0, 0.0, 0.0], 2: [0.0, 1.0, 0.0], 3: [0.9, 0.1, 0.0]}


@dataclass
class Served:
    """A server of its own, with a collection and a key of each scope."""

    url: str
    keys: dict[str, str]


@contextmanager
def serving(folder: Path, *switches: str) -> Iterator[Served]:
    keys, entries = {}, []
    for scope in ("read", "write", "admin"):
        made = subprocess.run(
            [COMMAND, "key", scope, "--scope", scope],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        keys[scope] = made[0].split()[1]
        entries.append(json.loads(made[1].split(maxsplit=1)[1]))
    (folder / "keys.json").write_text(json.dumps({"keys": entries}))
    command = [COMMAND, "serve", folder / "collections", "--listen", "127.0.0.1:0"]
    command += ["--keys", folder / "keys.json", *switches]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        served = Served(server.stdout.readline().rsplit(" ", 1)[1].strip(), keys)
        try:
            fill(served)
            yield served
        finally:
            server.terminate()
        assert server.wait(30) == 0


def fill(served: Served) -> None:
    points = [
        {"id": one, "vector": vector, "payload": {"warm": one != 2}}
        for one, vector in COLOURS.items()
    ]
    vectors = {"size": 3, "distance": "Cosine"}
    put(served, "/collections/colours", {"vectors": vectors})
    put(served, "/collections/colours/points?wait=true", {"points": points})


def put(served: Served, path: str, body: object) -> None:
    headers = {"api-key": served.keys["admin"], "content-type": "application/json"}
    request = Request(served.url + path, json.dumps(body).encode(), headers)
    request.method = "PUT"
    with urlopen(request, timeout=30) as answer:
        assert answer.status == 200


@asynccontextmanager
async def client_of(served: Served, key: str, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(served.url + "/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def within(
    served: Served, key: str, mode: str, work: Callable[[Client], Awaitable[None]]
) -> None:
    """Does some work with a client; raises what the client raises."""

    async def run() -> None:
        async with client_of(served, key, mode) as client:
            await work(client)

    asyncio.run(run())


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers, which the client has compared with the tool's own schema."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    assert json.loads(text) == result.structured_content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


# The client asks for the newest revision and falls back, or begins as older clients do.
@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")]
)
def test_a_model_reads_and_writes_as_its_key_may(
    tmp_path: Path, mode: str, revision: str
) -> None:
    async def read(client: Client) -> None:
        assert client.session.protocol_version == revision
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["collections", "search", "get", "watch"]
        for tool in tools.values():
            assert tool.annotations is not None and tool.annotations.read_only_hint
        there = await called(client, "collections", collection="colours")
        assert there["collections"][0]["fields"] == {"warm": "bool"}
        vector = COLOURS[1]
        found = await called(client, "search", collection="colours", vector=vector, k=2)
        assert [point["id"] for point in found["points"]] == [1, 3]
        assert found["points"][0]["score"] == pytest.approx(1.0, abs=1e-5)
        warm = {"must": [{"key": "warm", "match": {"value": True}}]}
        found = await called(client, "search", collection="colours", id=3, filter=warm)
        assert [point["id"] for point in found["points"]] == [1]
        got = await called(client, "get", collection="colours", ids=[2, 9])
        assert got["points"][0]["payload"] == {"warm": False} and got["missing"] == [9]
        why = await refused(client, "search", collection="colors", id=1)
        assert "Call 'collections'" in why
        point = {"id": 4, "vector": [0, 0, 1]}
        why = await refused(client, "upsert", collection="colours", points=[point])
        assert "the key does not allow this" in why

    async def write(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["collections", "search", "get", "watch", "upsert", "delete"]
        begun = (await called(client, "watch", collection="colours"))["sequence"]
        point = {"id": 4, "vector": [0, 0, 1], "payload": {"warm": False}}
        done = await called(client, "upsert", collection="colours", points=[point])
        assert done == {"written": 1}
        found = await called(client, "search", collection="colours", vector=[0, 0, 1])
        assert found["points"][0]["id"] == 4
        done = await called(client, "delete", collection="colours", ids=[4])
        got = await called(client, "get", collection="colours", ids=[4])
        assert done == {"deleted": 1} and got["missing"] == [4]
        seen = await called(
            client, "watch", collection="colours", after=begun, wait_ms=100
        )
        assert [change["kind"] for change in seen["changes"]] == ["upsert", "delete"]

    with serving(tmp_path, "--mcp-writes") as served:
        within(served, served.keys["read"], mode, read)
        within(served, served.keys["write"], mode, write)
        with pytest.raises(Exception) as error:
            within(served, "0123", mode, read)
        assert "give a key" in str(innermost(error.value))


def test_without_the_switch_nobody_writes(tmp_path: Path) -> None:
    async def write(client: Client) -> None:
        assert len((await client.list_tools()).tools) == 4
        point = {"id": 4, "vector": [0, 0, 1]}
        why = await refused(client, "upsert", collection="colours", points=[point])
        assert "--mcp-writes" in why
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("drop", {})

    with serving(tmp_path) as served:
        within(served, served.keys["admin"], "auto", write)


def innermost(error: BaseException) -> BaseException:
    """The client's tasks give their errors in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
