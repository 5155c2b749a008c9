"""Measures whole jobs between Kafka topics, ours and those that call a database.

`python run.py OUT RUN...`: each RUN is a name of `RUNS`. Its result goes to OUT/RUN/result.json;
what a run does is told in `JobBench.java`. The jars and the tests' classes must be built, for
Milvus Lite those of `java/peers` too.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FLINK = ROOT / "java" / "flink" / "target"
BROKER = ROOT / "java" / "broker" / "target" / "lib"
# The clients that have dependencies of their own.
PEERS = ROOT / "java" / "peers" / "target"
# Where install.py of bench/peers puts the databases.
ENVIRONMENTS = ROOT / ".venv-peers" / "environments"

_CHECKPOINTS = {"checkpoint-ms": "1000", "until": "false"}
_BESIDE = {"preload": "50000", "seconds": "12"}
# Libraries behind the server of `served`; the effort of LanceDB is lists that are read.
_SERVED = {
    "qdrant": {**_BESIDE, "system": "qdrant_edge"},
    "lancedb": {**_BESIDE, "system": "lancedb", "effort": "128", "patience": "400"},
}
DIMENSION = 100
# A rate that Chroma holds too, so that latency at one rate is compared at several recalls.
_BY_RECALL = {
    "preload": "50000",
    "rates": "350",
    "seconds": "30",
    "warm-up": "350",
    "at-rest": "1000",
    "until": "false",
}
_TARGETS = ("0.8", "0.9", "0.95", "0.98")
_EFFORTS = ("10", "20", "40", "100", "200")
# The rates of the paper, then upwards; a peer that cannot keep 500 is asked for less.
_PAPER = "500,3500,6500,9500"
_SLOW = "50,100,200,350,500,700,1000,1500,2000,3500,6500,9500"
# Milvus Lite walks over all rows in Python for each query.
_SLOWEST = "10,20,35,50,75,100,125,150,200,350,500"
_MILVUS = {
    **_BESIDE,
    "system": "milvus_lite",
    "rates": _SLOWEST,
    "at-rest": "100",
    "patience": "400",
}

RUNS: dict[str, dict[str, str]] = {
    "raw": {"rates": "5000,8000,10000,11000,12000", "warm-up": "10000"},
    "json": {"format": "json", "rates": "5000,8000,9000,10000", "warm-up": "8000"},
    "exactly-once": {"delivery": "exactly-once", "rates": "5000", "until": "false"},
    "half": {"rates": "5000,5500", "warm-up": "10000", "until": "false"},
    "held": {**_CHECKPOINTS, "rates": "10000", "seconds": "300", "warm-up": "10000"},
    "held-half": {**_CHECKPOINTS, "rates": "5000", "seconds": "60", "warm-up": "10000"},
    "beside-vstream": {**_BESIDE, "rates": _PAPER},
    "beside-chroma": {**_BESIDE, "system": "chroma", "rates": _SLOW},
    "beside-chroma-single": {**_BESIDE, "system": "chroma", "rates": _SLOW, "batch": "1"},
    "beside-milvus": _MILVUS,
    "beside-milvus-single": {**_MILVUS, "batch": "1"},
    "beside-qdrant": {**_SERVED["qdrant"], "rates": _SLOW},
    "beside-lancedb": {**_SERVED["lancedb"], "rates": _SLOWEST, "at-rest": "100"},
    **{f"recall-vstream-{one}": {**_BY_RECALL, "recall-target": one} for one in _TARGETS},
    **{
        f"recall-chroma-{one}": {**_BY_RECALL, "system": "chroma", "effort": one}
        for one in _EFFORTS
    },
}


def main() -> None:
    """Run what the words name, one after another."""
    out = Path(sys.argv[1]).resolve()
    for name in sys.argv[2:]:
        folder = out / name
        subprocess.run(["rm", "-rf", folder], check=True)
        folder.mkdir(parents=True)
        with _server(RUNS[name], folder) as server:
            _run(folder, {**RUNS[name], **server})


def _run(folder: Path, options: dict[str, str]) -> None:
    jar = next(FLINK.glob("vstream-flink-*.jar"))
    path = f"{FLINK / 'test-classes'}:{jar}:{FLINK / 'lib'}/*"
    if options.get("system") == "milvus_lite":
        # Behind ours: where both have a library, it is that of Flink.
        path += f":{PEERS}/*:{PEERS / 'lib'}/*"
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    command = [
        *("java", "-Xms1g", "-Xmx1500m", "-XX:+UseSerialGC"),
        *(f"-Dvstream.broker.lib={BROKER}", "-cp", path),
        *("io.vstream.flink.bench.JobBench", "--folder", str(folder), *words),
    ]
    subprocess.run(command, check=False, cwd=ROOT)


@contextmanager
def _server(run: dict[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Start the server of a database on loopback, and end it."""
    system = run.get("system", "vstream")
    if system == "vstream":
        yield {}
        return
    port = _free_port()
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(_command(run, port, folder), stdout=log, stderr=log)
        try:
            _await(port, server)
            yield {"server": f"127.0.0.1:{port}", "server-pid": str(server.pid)}
        finally:
            server.kill()
            server.wait()


def _command(run: dict[str, str], port: int, folder: Path) -> list[str]:
    system = run["system"]
    programs = ENVIRONMENTS / system / "bin"
    if system in {one["system"] for one in _SERVED.values()}:
        words = [port, folder / "db", DIMENSION, run.get("effort", "100")]
        program = Path(__file__).with_name("served") / "server.py"
        return [str(programs / "python"), str(program), system, *map(str, words)]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    if system == "milvus_lite":
        data = ["--data-dir", str(folder / "db")]
        return [str(programs / "milvus-lite"), "server", *where, *data]
    return [str(programs / "chroma"), "run", *where, "--path", str(folder / "db")]


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    sys.exit("The server does not start; see server.log beside the result.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
