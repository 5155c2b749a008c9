"""Serves an embedded database over HTTP on loopback, a JSON document per call.

`python server.py SYSTEM PORT FOLDER DIMENSION EFFORT`, in the environment of the system. Calls:
`/upsert` with `ids` and `vectors`, `/delete` with `ids`, `/query` with `vector` and `k`, which
answers with `ids`, and `/first-rows-written`.
"""

from __future__ import annotations

import importlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = {"qdrant_edge": "QdrantEdgeRows", "lancedb": "LanceDbRows"}


def handler(calls: dict[str, Callable[[dict[str, Any]], Any]]) -> type[BaseHTTPRequestHandler]:
    """Return a handler of the calls."""

    class Handler(BaseHTTPRequestHandler):
        # Connections stay open, as a client of a database keeps them.
        protocol_version = "HTTP/1.1"
        # A body behind its head must not wait for the acknowledgement of the head.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, answer = 200, calls[self.path](json.loads(body or b"{}"))
            except Exception as error:  # noqa: BLE001 whatever it is, the client is told
                status, answer = 500, {"error": repr(error)}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing: a line per call would be a part of what is measured."""

    return Handler


def main() -> None:
    """Serve until the process is ended."""
    system, port, folder, dimension, effort = sys.argv[1:]
    made = getattr(importlib.import_module(f"{system}_rows"), SYSTEMS[system])
    rows = made(Path(folder), int(dimension), int(effort))
    calls = {
        "/upsert": lambda call: rows.upsert(call["ids"], call["vectors"]),
        "/delete": lambda call: rows.delete(call["ids"]),
        "/query": lambda call: {"ids": rows.query(call["vector"], call["k"])},
        "/first-rows-written": lambda _: rows.first_rows_written(),
    }
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), handler(calls))
    server.serve_forever()


if __name__ == "__main__":
    main()
