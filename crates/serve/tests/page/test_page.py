"""The page in a headless browser, against a server with real traffic and against a job."""

from __future__ import annotations

import http.client
import json
import os
import re
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import Browser, Page, amount, cells, number, search, tile

ROOT = Path(__file__).resolve().parents[4]
VSTREAM = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))
SHOTS = ROOT / "run/page"
DIMENSION = 48
SEED = 20261126
CITIES = ["Oslo", "Lima", "Pune", "Bern"]


class Client:
    """A client of a server, with one connection."""

    def __init__(self, address: str, key: str = "") -> None:
        """Connect when something is asked."""
        self._connection = http.client.HTTPConnection(address, timeout=30)
        self._headers = {"content-type": "application/json"} | (
            {"api-key": key} if key else {}
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the result of a request, which must be well."""
        text = json.dumps(body) if body is not None else None
        self._connection.request(method, path, text, self._headers)
        answer = self._connection.getresponse()
        read = answer.read()
        assert answer.status == 200, f"{method} {path}: {answer.status} {read!r}"
        return json.loads(read)["result"]

    def create(self, name: str, **own: Any) -> None:
        """Make a collection."""
        vectors = {"size": DIMENSION, "distance": "Cosine"}
        self.call("PUT", f"/collections/{name}", {"vectors": vectors, **own})

    def upsert(self, name: str, random: Random, ids: range) -> None:
        """Write points with random vectors."""
        made = [
            {
                "id": one,
                "vector": vector(random),
                "payload": {"city": CITIES[one % 4], "note": f"<b>{one}</b>"},
            }
            for one in ids
        ]
        self.call("PUT", f"/collections/{name}/points?wait=true", {"points": made})


def vector(random: Random) -> list[float]:
    """Return a random vector."""
    return [round(random.gauss(0, 1), 4) for _ in range(DIMENSION)]


@contextmanager
def serve(folder: Path, *options: str | Path) -> Iterator[tuple[str, str]]:
    """Start a server, and give the addresses of the interface and of the metrics."""
    command = [
        VSTREAM,
        "serve",
        folder,
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            said = [server.stdout.readline() for _ in range(3)]
            found = [re.search(r"http://([\d.:]+)", line) for line in said]
            assert all(found), said
            page = urlsplit(said[1].split()[-1])
            assert (page.path, page.netloc) == ("/ui/", found[0][1])
            yield found[0][1], found[2][1]
        finally:
            server.terminate()
        assert server.wait(30) == 0


@contextmanager
def traffic(address: str, names: list[str]) -> Iterator[list[Exception]]:
    """Write to collections and search them until the block ends."""
    stop, failed = threading.Event(), []

    def run(number: int) -> None:
        random, client, at = (
            Random(SEED + number),
            Client(address),
            10_000 * (number + 1),
        )
        try:
            while not stop.is_set():
                for name in names[: number + 1]:
                    client.upsert(name, random, range(at, at + 20))
                    for _ in range(5):
                        query = {"query": vector(random), "limit": 10}
                        client.call("POST", f"/collections/{name}/points/query", query)
                at += 20
                time.sleep(0.02)
        except (OSError, AssertionError, http.client.HTTPException) as error:
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=(number,)) for number in range(len(names))
    ]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


def metric(address: str, line: str) -> float:
    """Return the sum of the metrics whose lines begin so."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    found = [one.rsplit(" ", 1)[1] for one in text.splitlines() if one.startswith(line)]
    assert found, line
    return sum(map(float, found))


def test_figures_move_and_are_those_of_the_metrics(
    browser: Browser, tmp_path: Path
) -> None:
    with serve(tmp_path / "collections") as (address, metrics):
        client, names = Client(address), ["colors", "songs", "places"]
        for at, name in enumerate(names):
            client.create(name, vstream={"recall_target": 0.9 + at / 50})
            client.upsert(name, Random(SEED), range(2_000))
        page = Page(browser, f"http://{address}/ui/")
        page.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        with traffic(address, names) as failed:
            page.wait("document.getElementById('state').textContent === 'Live'")
            page.wait(f"{amount('Searches per second')} > 10")
            page.wait(f"{amount('Writes per second')} > 10")
            rows = number(page, "Rows")
            page.wait(f"{amount('Rows')} > {rows}")
            # Audits come by themselves, and an answer is asked while all this goes on.
            page.wait(f"{tile('Recall')} !== '–'")
            page.browser.listen(3)
            said = search(
                page, "17", '{"must": [{"key": "city", "match": {"value": "Lima"}}]}'
            )
            assert said.startswith("10 points."), said
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                page.browser.listen(0.6)
                page.screenshot(SHOTS / f"server-{scheme}.png")
            assert not failed, failed
        found = cells(page, "answer")
        assert len(found) == 10
        assert all(json.loads(payload)["city"] == "Lima" for _, _, payload in found)
        assert "17" not in [row[0] for row in found], (
            "the point itself is not in its answer"
        )

        # Without traffic the figures stand still, and are those of the metrics.
        page.wait(
            f"{tile('Searches per second')} === '0' && {tile('Writes per second')} === '0'"
        )
        for name, part, line in [
            ("Searches per second", "note", "vstream_search_seconds_count"),
            ("Writes per second", "note", "vstream_writes_total"),
            ("Rows", "value", "vstream_rows{"),
            ("Rows", "note", "vstream_leaves{"),
        ]:
            assert number(page, name, part) == metric(metrics, line), line
        table = {row[0]: row for row in cells(page, "collection-table")}
        assert set(table) == set(names)
        for name, row in table.items():
            assert float(row[1].replace(",", "")) == metric(
                metrics, f'vstream_rows{{collection="{name}"'
            )
        slow = cells(page, "slow-table")
        assert 1 <= len(slow) <= 20
        check_choosing(page)
        check_questions(page)
        check_manners(page, address)
        page.close()


def check_choosing(page: Page) -> None:
    """One collection alone, and all again, by keys alone."""
    everything = number(page, "Rows")
    page.evaluate("document.querySelector('#collection-table tbody button').focus()")
    page.press("Enter")
    page.wait(f"{amount('Rows')} < {everything}")
    assert (
        page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    )
    page.evaluate("document.getElementById('all').focus()")
    page.press("Enter")
    page.wait(f"{amount('Rows')} === {everything}")


def check_questions(page: Page) -> None:
    """Vectors and ids are asked, and what is wrong is said."""
    page.evaluate("document.getElementById('collection').value = 'songs'")
    assert search(page, json.dumps(vector(Random(1)))).startswith("10 points.")
    assert "there is no point with the id 99999999999999999999" not in search(page, "1")
    assert "there is no point with the id 9007199254740993" in search(
        page, "9007199254740993"
    )
    assert search(page, "[1, 2").startswith("This is no JSON")
    assert search(page, "1", "{").startswith("This is no JSON")
    assert "dimension" in search(page, "[1, 2]")
    assert "there is no point with the id nobody" in search(page, "nobody")
    # Texts from outside are shown as texts.
    assert search(page, "1").startswith("10 points.")
    assert all("<b>" in payload for _, _, payload in cells(page, "answer"))
    assert page.evaluate("document.querySelector('#answer b')") is None
    refused = [one for one in page.complaints() if "status of 4" in one]
    assert len(refused) == len(page.complaints()), page.complaints()
    page.browser.happened = [
        one for one in page.browser.happened if one.get("method") != "Log.entryAdded"
    ]


def check_manners(page: Page, address: str) -> None:
    """Nothing goes elsewhere, all has names, and a phone is wide enough."""
    assert page.requests()
    assert all(
        url.startswith((f"http://{address}/", "data:")) for url in page.requests()
    )
    assert page.complaints() == []
    fields = "Array.from(document.querySelectorAll('input, select, textarea'))"
    assert page.evaluate(f"{fields}.filter((one) => !one.labels.length).length") == 0
    named = "Array.from(document.querySelectorAll('svg, meter, progress'))"
    unnamed = f"{named}.filter((one) => !one.hasAttribute('aria-label')).length"
    assert page.evaluate(unnamed) == 0
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        check_contrast(page)
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.resize(390, 844)
    page.browser.listen(0.3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(SHOTS / "server-phone.png")


def check_contrast(page: Page) -> None:
    """Texts differ from what is behind them by 4.5 to 1, lines of charts by 3 to 1."""
    probe = """(name) => {
      const made = document.body.appendChild(document.createElement('i'));
      made.style.color = `var(--${name})`;
      const color = getComputedStyle(made).color;
      made.remove();
      return color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    }"""

    def luminance(name: str) -> float:
        parts = [part / 255 for part in page.evaluate(f"({probe})({name!r})")]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        return sum(
            weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear)
        )

    for behind in ("page", "card"):
        for name, least in [
            ("text", 4.5),
            ("quiet", 4.5),
            ("bad", 4.5),
            ("first", 4.5),
        ] + [
            ("second", 3.0),
            ("goal", 3.0),
        ]:
            dark, bright = sorted([luminance(behind), luminance(name)])
            assert (bright + 0.05) / (dark + 0.05) >= least, (behind, name)


def test_a_wrong_key_is_refused_and_a_right_one_is_in_no_address(
    browser: Browser, tmp_path: Path
) -> None:
    made = subprocess.run(
        [VSTREAM, "key", "reader", "--collection", "colors"],
        capture_output=True,
        check=True,
        text=True,
    )
    key, entry = (line.split(maxsplit=1)[1] for line in made.stdout.splitlines())
    owner = subprocess.run(
        [VSTREAM, "key", "owner", "--scope", "admin"],
        capture_output=True,
        check=True,
        text=True,
    )
    owner_key, owner_entry = (
        line.split(maxsplit=1)[1] for line in owner.stdout.splitlines()
    )
    keys, audit = tmp_path / "keys.json", tmp_path / "audit.log"
    keys.write_text(f'{{"keys": [{entry}, {owner_entry}]}}')
    options = ["--keys", keys, "--audit", audit]
    with serve(tmp_path / "collections", *options) as (address, _):
        client = Client(address, owner_key)
        for name in ("colors", "secrets"):
            client.create(name)
            client.upsert(name, Random(SEED), range(100))
        page = Page(browser, f"http://{address}/ui/")
        page.wait("!document.getElementById('key').hidden")
        assert "colors" not in page.text()
        page.fill("key-text", "0" * 64)
        page.press("Enter")
        page.wait(
            "document.getElementById('key-error').textContent.includes('does not know')"
        )
        assert page.evaluate("document.getElementById('figures').hidden")
        page.fill("key-text", key)
        page.press("Enter")
        page.wait("document.getElementById('state').textContent === 'Live'")
        page.wait("document.body.innerText.includes('colors')")
        assert "secrets" not in page.text(), "the key is one for 'colors' alone"
        assert search(page, "17").startswith("10 points.")
        urls = page.requests()
        assert all(url.startswith((f"http://{address}/", "data:")) for url in urls)
        assert not any(key in url or "0" * 64 in url for url in urls)
        assert key not in page.evaluate("document.documentElement.outerHTML")
        assert key not in audit.read_text()
        unexpected = [one for one in page.complaints() if "401" not in one]
        assert unexpected == []
        page.close()


# What a job says twice a second; `%d` are the seconds.
SAID = {
    "type": "progress",
    "phase": "stream",
    "deletes": 0,
    "query_p50_ms": 1.5,
    "query_p99_ms": 4.5,
    "recall_at_10": 0.9731,
    "recall_recent": 0.97,
    "audits": 12,
    "rows_per_partition": [120, 80],
    "work_us_per_partition": [3000, 1000],
    "writes_waiting": 7,
    "searches_in_flight": 3,
    "hand_over_step": 2,
    "epoch": 1,
    "rows_adopted": 40,
}


def test_a_job_is_shown_by_the_command_that_runs_it(
    browser: Browser, tmp_path: Path
) -> None:
    """The job is real but for its Java: a stand-in says what the job runner says."""
    for name, rows in [("base", 300), ("query", 10)]:
        body = struct.pack(
            f"<2I{rows * 4}f", rows, 4, *[1.0 + i for i in range(rows * 4)]
        )
        (tmp_path / f"{name}.fbin").write_bytes(body)
    (tmp_path / "job.yaml").write_text(
        "name: shown\ncollection: {dimension: 4, metric: cosine}\n"
        "vectors: {kind: generator, path: base.fbin}\nqueries: {kind: generator, path: query.fbin}\n"
        "workload: {rate: 500, duration: 2 s}\n"
        "checkpoint: {interval: 10 s, path: checkpoints}\nreads: {}\n"
    )
    lines = [
        json.dumps({**SAID, "seconds": at / 2, "vectors": 150 * at, "queries": 50 * at})
        for at in range(1, 25)
    ]
    result = json.dumps({**SAID, "type": "result", "seconds": 12.0, "vectors": 3600})
    script = "".join(f"printf '%s\\n' '{line}'\nsleep 0.25\n" for line in lines)
    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}printf '%s\\n' '{result}'\n")
    java.chmod(0o755)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/vstream.jar").touch()
    places = {"JAVA_HOME": str(tmp_path / "java"), "VSTREAM_HOME": str(tmp_path)}
    with subprocess.Popen(
        [VSTREAM, "run", "job.yaml", "--web=127.0.0.1:0"],
        cwd=tmp_path,
        env=os.environ | places,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stderr is not None
        url = command.stderr.readline().split()[-1]
        page = Page(browser, url)
        page.wait(f"{amount('Vectors per second')} > 100")
        assert number(page, "Recall@10") == 0.9731
        assert number(page, "Backlog") == 7
        held = [row[:2] + row[3:] for row in cells(page, "partition-table")]
        assert held == [["0", "120", "75 %"], ["1", "80", "25 %"]]
        assert "the new owners take the rows in" in page.text()
        # The job may be asked. Its stand-in has no partitions, and the box says so.
        page.wait("!document.getElementById('ask').hidden")
        assert "no job has published" in search(page, "[1, 2, 3, 4]")
        page.browser.listen(1)
        page.screenshot(SHOTS / "job-light.png")
        page.wait(
            "document.getElementById('state').textContent === 'The job has ended'"
        )
        assert number(page, "Vectors per second", "note") == 3600
        site = url.removesuffix("ui/")
        assert all(one.startswith((site, "data:")) for one in page.requests())
        assert [one for one in page.complaints() if "503" not in one] == []
        page.close()
        out, _ = command.communicate(timeout=10)
        assert command.returncode == 0
        assert json.loads(out.splitlines()[-1])["vectors"] == 3600


def built_home(folder: Path) -> Path:
    """Return a home of the command with the jars that the build of Java left, and skip without any."""
    target = ROOT / "java/flink/target"
    jars = [*target.glob("vstream-flink-*.jar"), *target.glob("lib/*.jar")]
    if len(jars) < 2 or not (target / "plugins").is_dir():
        pytest.skip("no jars are built: make java")
    (folder / "lib").mkdir(parents=True)
    for jar in jars:
        (folder / "lib" / jar.name).symlink_to(jar)
    (folder / "plugins").symlink_to(target / "plugins")
    return folder


def test_the_box_asks_a_job_that_runs(browser: Browser, tmp_path: Path) -> None:
    """Rows of a real job are found by the page, with what they carry, and by their ids."""
    random, rows = Random(SEED), 4_000
    vectors = [vector(random) for _ in range(rows)]
    for name, held in [("base", vectors), ("query", vectors[:10])]:
        body = struct.pack("<2I", len(held), DIMENSION)
        body += b"".join(struct.pack(f"<{DIMENSION}f", *one) for one in held)
        (tmp_path / f"{name}.fbin").write_bytes(body)
    (tmp_path / "job.yaml").write_text(
        "name: asked\nparallelism: 2\n"
        f"collection: {{dimension: {DIMENSION}, metric: l2}}\n"
        "vectors: {kind: generator, path: base.fbin, preload: 1000}\n"
        "queries: {kind: generator, path: query.fbin}\n"
        "workload: {ratio: {queries: 1, inserts: 1, deletes: 0}, rate: 100, duration: 60 s}\n"
        "checkpoint: {interval: 1 s, path: checkpoints}\nreads: {}\n"
    )
    home = built_home(tmp_path / "home")
    with subprocess.Popen(
        [VSTREAM, "run", "job.yaml", "--web=127.0.0.1:0"],
        cwd=tmp_path,
        env=os.environ | {"VSTREAM_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        try:
            assert command.stderr is not None
            page = Page(browser, command.stderr.readline().split()[-1])
            page.wait(f"{amount('Vectors per second')} > 0", seconds=120)
            page.wait("!document.getElementById('ask').hidden")
            # The first rows of the stream are there once the partitions can be asked.
            deadline = time.monotonic() + 60
            near = json.dumps(vectors[0])
            while not (said := search(page, near)).startswith("10 points."):
                assert time.monotonic() < deadline, said
                time.sleep(0.5)
            nearest = cells(page, "answer")[0]
            assert (nearest[0], float(nearest[1])) == ("0", 0.0), nearest
            assert "has 2 elements" in search(page, "[1, 2]")
            page.screenshot(SHOTS / "job-asked-light.png")
            page.close()
        finally:
            command.terminate()
            command.communicate(timeout=60)
