"""The backup of a server as docs/guide/operations.md says it, and the way back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))


def run(*arguments: object) -> None:
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A server of a folder: its address, and what it printed when it ended."""
    command = [COMMAND, "serve", folder, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        printed = [server.stdout.readline()]
        try:
            yield printed[0].rsplit(" ", 1)[1].strip(), printed
        finally:
            server.terminate()
        printed += server.stdout.readlines()
        assert server.wait(30) == 0


def ask(address: str, method: str, path: str, body: object) -> Any:
    headers = {"content-type": "application/json"}
    request = Request(address + path, json.dumps(body).encode(), headers, method=method)
    with urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())["result"]


def test_a_server_that_runs_is_copied_and_copied_again(tmp_path: Path) -> None:
    served, backup = tmp_path / "served", tmp_path / "backup"
    with serving(served) as (address, _):
        vectors = {"size": 64, "distance": "Cosine"}
        ask(address, "PUT", "/collections/a", {"vectors": vectors})
        path = "/collections/a/points?wait=true"
        for begin in range(0, 3_000, 500):
            points = [
                {"id": one, "vector": [one % (2 + at) + 1 for at in range(64)]}
                for one in range(begin, begin + 500)
            ]
            ask(address, "PUT", path, {"points": points})
            copy = [
                "serve",
                backup,
                "--listen",
                "127.0.0.1:0",
                "--follow",
                address,
                "--once",
            ]
            if begin % 1_000 == 0:
                run(*copy)
                run("verify", backup / "a")
        run(*copy)
        deleted = {"points": [1, 2, 3]}
        ask(address, "POST", "/collections/a/points/delete?wait=true", deleted)
        # Nobody is there: it waits, and says at the end what is missing.
        nobody = ["serve", tmp_path / "none", "--listen", "127.0.0.1:0", "--once"]
        command = [COMMAND, *nobody, "--follow", "http://127.0.0.1:9"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as alone:
            assert alone.stdout is not None
            alone.stdout.readline()
            alone.terminate()
            said = alone.communicate(timeout=60)[1].decode()
            assert alone.returncode != 0
            assert "The copy is not whole" in said
    with serving(backup) as (address, printed):
        assert ask(address, "POST", "/collections/a/points/count", {})["count"] == 3_000
        found = ask(
            address, "POST", "/collections/a/points/query", {"query": 2_999, "limit": 5}
        )
        assert len(found["points"]) == 5
    assert not any("Not served" in line for line in printed)


def test_a_collection_comes_back_from_its_backup(tmp_path: Path) -> None:
    served, backup = tmp_path / "served", tmp_path / "backup"
    with serving(served) as (address, _):
        for name in ("a", "b"):
            vectors = {"size": 2, "distance": "Euclid"}
            ask(address, "PUT", f"/collections/{name}", {"vectors": vectors})
            points = [{"id": one, "vector": [one, 1]} for one in range(100)]
            path = f"/collections/{name}/points?wait=true"
            ask(address, "PUT", path, {"points": points})
    run("snapshot", "push", served / "a", backup)
    run("verify", backup)
    for file in (served / "a").iterdir():
        if file.name != "LOCK":
            file.write_bytes(b"not what was written")

    with serving(served) as (address, printed):
        assert ask(address, "POST", "/collections/b/points/count", {})["count"] == 100
    assert any(line.startswith("Not served: the collection 'a'") for line in printed)

    (served / "a").rename(tmp_path / "damaged")
    run("snapshot", "pull", backup, served / "a")
    with serving(served) as (address, printed):
        assert ask(address, "POST", "/collections/a/points/count", {})["count"] == 100
        found = ask(
            address, "POST", "/collections/a/points/query", {"query": 7, "limit": 2}
        )
        assert {point["id"] for point in found["points"]} == {6, 8}
    assert not any("Not served" in line for line in printed)
