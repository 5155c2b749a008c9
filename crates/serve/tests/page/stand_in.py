"""A server that says what a test wants: the page's own files, events and answers.

A real server cannot be told to be silent, to forget a collection for a second, or to answer late.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "src/page"
FILES = {"/ui/": "page.html", "/ui/page.css": "page.css", "/ui/page.js": "page.js"}
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " require-trusted-types-for 'script'"
)
EVENT_S = 0.1


class StandIn:
    """What the server says; a test changes it while a page looks."""

    def __init__(self) -> None:
        """Say nothing yet."""
        self.figures: dict[str, Any] = {}
        self.is_silent = False
        self.refuses = 0
        self.key = ""
        # Requests for events, and those that are being answered.
        self.opened = 0
        self.open = 0
        self.asked: list[str] = []
        self.answer: Callable[[str], tuple[int, str]] = lambda _: (200, "{}")
        self.has_ended = False
        self.address = ""

    def events_status(self, key: str | None) -> int:
        """Return how a request for events is answered."""
        if self.refuses:
            return self.refuses
        return 401 if self.key and key != self.key else 200


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """Start a server that says what a test wants."""
    said, lock = StandIn(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/ui/events":
                self._events()
            elif name := FILES.get(self.path):
                text = (SOURCES / name).read_bytes()
                self._head(200, KINDS[Path(name).suffix])
                self.wfile.write(text)
            else:
                self._head(404, "text/plain")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            said.asked.append(body)
            status, text = said.answer(body)
            # Without a status the connection ends, as if the server were gone.
            if status:
                self._head(status, "application/json")
                self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

        def _head(self, status: int, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-security-policy", POLICY)
            self.end_headers()

        def _events(self) -> None:
            status = said.events_status(self.headers["api-key"])
            with lock:
                said.opened += 1
            self._head(status, "text/event-stream")
            if status != 200:
                return
            with lock:
                said.open += 1
            try:
                while not said.has_ended:
                    if not said.is_silent:
                        event = f"data: {json.dumps(said.figures)}\n\n"
                        self.wfile.write(event.encode())
                    time.sleep(EVENT_S)
            except OSError:
                pass  # The page has gone.
            finally:
                with lock:
                    said.open -= 1

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    said.address = f"http://127.0.0.1:{server.server_port}/ui/"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield said
    finally:
        said.has_ended = True
        server.shutdown()
        serving.join()
        server.server_close()
