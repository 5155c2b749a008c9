"""What is deployed, compared with the command that is really there."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMMAND = Path(os.environ.get("VSTREAM", ROOT / "target/release/vstream"))
# Metrics that a replica alone exports, and the names under which they are registered.
OF_REPLICAS = {
    "vstream_behind_seconds": "behind_seconds",
    "vstream_follow_losses_total": "follow_losses",
    "vstream_following": "following",
    "vstream_writer_sequence": "writer_sequence",
}
METRIC = re.compile(r"\bvstream_[a-z_]+")

sys.path.insert(0, str(DEPLOY / "helm"))
import charts


def output(*arguments: object) -> str:
    return subprocess.run(
        [COMMAND, *arguments], check=True, capture_output=True, text=True
    ).stdout


def flags_of(words: list[str]) -> set[str]:
    return {word.split("=")[0] for word in words if word.startswith("--")}


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The switches of `vstream serve`."""
    return set(re.findall(r"--[a-z-]+", output("serve", "--help")))


def rendered(name: str) -> dict[str, dict[str, Any]]:
    """The manifests of a chart by their kind."""
    text = (charts.HELM / "rendered" / name).read_text()
    made = [one for one in yaml.safe_load_all(text) if one]
    kinds = {one["kind"]: one for one in made}
    assert len(kinds) == len(made)
    for one in made:
        assert one["apiVersion"] and one["metadata"]["name"].startswith("vectors")
    return kinds


@pytest.mark.parametrize("name", charts.RENDERED)
def test_rendered_charts_are_those_of_today(name: str) -> None:
    first = (charts.HELM / "rendered" / name).read_text().splitlines()[0]
    assert first.split()[-1] == charts.digest(name), "run: make charts"


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The one container of a pod, after what every pod must have was looked at."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    return container


@pytest.mark.parametrize("name", ["serve-default.yaml", "serve.yaml"])
def test_the_server_runs_in_its_chart(name: str, known: set[str]) -> None:
    kinds = rendered(name)
    stateful = kinds["StatefulSet"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    selectors = [
        stateful["selector"]["matchLabels"],
        kinds["Service"]["spec"]["selector"],
        kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items() and len(selector) == 2
    assert stateful["serviceName"] == kinds["Service"]["metadata"]["name"]
    pod = stateful["template"]["spec"]
    assert stateful["replicas"] == 1 and pod["automountServiceAccountToken"] is False
    container = container_of(pod)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert flags_of(container["args"]) <= known
    assert ("--mcp-writes" in container["args"]) is (name == "serve.yaml")
    assert {"requests", "limits"} <= container["resources"].keys()
    for probe, path in [
        ("startupProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
        ("livenessProbe", "/healthz"),
    ]:
        get = {"path": path, "port": "https", "scheme": "HTTPS"}
        assert container[probe]["httpGet"] == get
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    claims = [one["metadata"]["name"] for one in stateful["volumeClaimTemplates"]]
    assert mounts.keys() == {one["name"] for one in pod["volumes"]} | set(claims)
    # Every file that the server reads or writes lies in a volume.
    for word in container["args"]:
        if "/" in word:
            path = word.split("=")[-1]
            within = [one["mountPath"] for one in mounts.values()]
            assert any(path.startswith(mount + "/") for mount in within), word
    policy = kinds["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["egress"] == []
    let_in = sum(len(rule["from"]) for rule in policy["ingress"])
    assert let_in == (2 if name == "serve.yaml" else 0), "nobody unless named"


def test_prometheus_is_shown_the_way() -> None:
    kinds = rendered("serve.yaml")
    assert "ServiceMonitor" not in rendered("serve-default.yaml")
    monitor = kinds["ServiceMonitor"]["spec"]
    labels = kinds["Service"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["endpoints"]
    ports = [port["name"] for port in kinds["Service"]["spec"]["ports"]]
    assert endpoint["port"] in ports and endpoint["path"] == "/metrics"
    assert endpoint["scheme"] == "https" and endpoint["authorization"]["credentials"]


def test_the_job_runs_in_its_chart() -> None:
    kinds = rendered("job.yaml")
    job = kinds["FlinkDeployment"]["spec"]
    container = container_of(job["podTemplate"]["spec"])
    assert container["name"] == "flink-main-container"
    assert job["job"]["args"] == ["--job", "/opt/vstream/job.json"]
    (mount,) = container["volumeMounts"]
    (volume,) = job["podTemplate"]["spec"]["volumes"]
    settings = kinds["ConfigMap"]
    assert volume["configMap"]["name"] == settings["metadata"]["name"]
    assert f"{mount['mountPath']}/job.json" == job["job"]["args"][1]
    given = json.loads(settings["data"]["job.json"])
    assert job["job"]["parallelism"] == given["parallelism"]
    assert job["job"]["upgradeMode"] == "savepoint"
    configured = job["flinkConfiguration"]
    assert all(isinstance(value, str) for value in configured.values())
    assert configured["high-availability.type"] == "kubernetes"
    assert configured["execution.checkpointing.savepoint-dir"]
    image = (DEPLOY / "container/job.Containerfile").read_text()
    jar = job["job"]["jarURI"].removeprefix("local://")
    assert f" {jar}\n" in image
    flink = re.search(r"FROM flink:(\d+)\.(\d+)", image)
    assert flink and job["flinkVersion"] == f"v{flink[1]}_{flink[2]}"
    pom = (ROOT / "java/pom.xml").read_text()
    assert f"<flink.version>{flink[1]}.{flink[2]}." in pom


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a container file."""
    text = (DEPLOY / "container" / name).read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    split = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(first.upper(), rest) for first, rest in split]


def test_the_container_runs_what_is_there(known: set[str]) -> None:
    made = instructions("serve.Containerfile")
    bases = [rest.split()[0] for first, rest in made if first == "FROM"]
    assert len(bases) == 2, "a stage that builds, and one that runs"
    assert all(re.search(r":.*(\d|nonroot)", base) for base in bases), "named versions"
    toolchain = (ROOT / "rust-toolchain.toml").read_text()
    version = re.search(r'channel = "(\d+\.\d+)', toolchain)
    assert version and bases[0].startswith(f"rust:{version[1]}-")
    last = made[max(at for at, one in enumerate(made) if one[0] == "FROM") :]
    of = dict(last)
    assert of["USER"].split(":")[0] not in ("", "0", "root")
    assert "RUN" not in of and "ADD" not in of
    command = json.loads(of["CMD"])
    assert json.loads(of["ENTRYPOINT"]) == ["vstream"] and command[0] == "serve"
    assert flags_of(command) <= known
    check = json.loads(of["HEALTHCHECK"].split("CMD", 1)[1])
    assert check[:2] == ["vstream", "health"]
    assert check[2] == command[command.index("--metrics") + 1]
    copied = {rest.split()[-1] for first, rest in last if first == "COPY"}
    assert command[1].startswith(of["VOLUME"] + "/") and of["VOLUME"] in copied


def test_what_the_build_copies_is_what_cargo_needs() -> None:
    text = (DEPLOY / "container/serve.Containerfile.dockerignore").read_text()
    let_in = [line[1:] for line in text.splitlines() if line.startswith("!")]
    for path in let_in:
        assert (ROOT / path).exists(), path
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1", "--offline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for package in json.loads(metadata.stdout)["packages"]:
        folder = str(Path(package["manifest_path"]).parent.relative_to(ROOT))
        assert any(f"{folder}/".startswith(f"{one}/") for one in let_in), folder


def test_the_unit_of_systemd_runs_what_is_there(known: set[str]) -> None:
    unit = (ROOT / "examples/systemd/vstream-serve.service").read_text()
    line = re.search(r"ExecStart=\S+ serve (.*)", unit)
    assert line and flags_of(line[1].split()) <= known


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str, str]]:
    """A server with the arguments of the chart, in other folders and on this machine alone.

    Gives the address, a key, and the address of health.
    """
    made = output("key", "metrics", "--scope", "admin").splitlines()
    key, entry = made[0].split()[1], made[1].split(maxsplit=1)[1]
    for name in ("data", "run/vstream/keys", "run/vstream/tls"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "run/vstream/keys/keys.json").write_text(f'{{"keys": [{entry}]}}')
    tls = folder / "run/vstream/tls"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        + ["-keyout", tls / "tls.key", "-out", tls / "tls.crt"],
        check=True,
        capture_output=True,
    )
    health = f"127.0.0.1:{free_port()}"
    stateful = rendered("serve.yaml")["StatefulSet"]["spec"]["template"]["spec"]
    moved = {"0.0.0.0:6333": "127.0.0.1:0", "127.0.0.1:9100": health}
    moved |= {"/data": f"{folder}/data", "/run/": f"{folder}/run/"}
    arguments = []
    for word in stateful["containers"][0]["args"]:
        for old, new in moved.items():
            word = word.replace(old, new, 1)
        arguments.append(word)
    with subprocess.Popen(
        [COMMAND, *arguments], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().rsplit(" ", 1)[1].strip()
        try:
            yield address.replace("127.0.0.1", "localhost"), key, health
        finally:
            server.terminate()
        assert server.wait(30) == 0


def test_every_metric_that_is_drawn_is_there(tmp_path: Path) -> None:
    broken = tmp_path / "data/collections/broken"
    broken.mkdir(parents=True)
    (broken / "COLLECTION").write_text("not what was written")
    with serving(tmp_path) as (address, key, health):
        trusted = ssl.create_default_context(
            cafile=tmp_path / "run/vstream/tls/tls.crt"
        )

        def ask(method: str, path: str, body: object = None) -> str:
            sent = None if body is None else json.dumps(body).encode()
            headers = {
                "Authorization": f"Bearer {key}",
                "content-type": "application/json",
                "MCP-Protocol-Version": "2025-11-25",
            }
            request = Request(address + path, sent, headers, method=method)
            with urlopen(request, timeout=30, context=trusted) as answer:
                return str(answer.read().decode())

        vectors = {"size": 2, "distance": "Euclid"}
        ask("PUT", "/collections/a", {"vectors": vectors})
        points = [{"id": one, "vector": [one, one % 7]} for one in range(5_000)]
        ask("PUT", "/collections/a/points?wait=true", {"points": points})
        call = {"name": "collections"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        assert "Euclid" in ask("POST", "/mcp", call)
        # The estimate is there when the audits have looked at some queries, beside the queries.
        text, until = "", time.monotonic() + 30
        while "vstream_recall_estimate{" not in text and time.monotonic() < until:
            for one in range(50):
                query = {"query": [one * 90, 3], "limit": 3}
                ask("POST", "/collections/a/points/query", query)
            text = ask("GET", "/metrics")
        assert "passed" in output("health", health)
    exported = set(METRIC.findall(text))
    described = set(re.findall(r"# TYPE (vstream_\w+) \w+", text))
    dashboard = (DEPLOY / "monitoring/vstream-serve.json").read_text()
    alerts = (DEPLOY / "monitoring/alerts.yaml").read_text()
    drawn = {*METRIC.findall(dashboard), *METRIC.findall(alerts)}
    # A server that follows nobody has no figures of a replica.
    source = (ROOT / "crates/serve/src/observe/measured.rs").read_text()
    of_replicas = {name for name in OF_REPLICAS if f'"{OF_REPLICAS[name]}"' in source}
    assert of_replicas == set(OF_REPLICAS)
    assert len(drawn) >= 10 and drawn - of_replicas <= exported, drawn - exported
    # And nothing is exported that no picture shows.
    shown = set(METRIC.findall(dashboard))
    for family in described:
        assert any(one.startswith(family) for one in shown), family
    labels = set(re.findall(r"[{,](\w+)=\"", text)) | {"job"}
    for names in re.findall(r"by \(([^)]*)\)", dashboard + alerts):
        assert {name.strip() for name in names.split(",")} <= labels, names


def test_the_dashboard_and_the_alerts_have_their_form() -> None:
    dashboard = json.loads((DEPLOY / "monitoring/vstream-serve.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) >= 10
    for panel in dashboard["panels"]:
        assert panel["title"] and panel["description"] and panel["gridPos"]
        for target in panel["targets"]:
            expression = target["expr"]
            assert expression.count("(") == expression.count(")"), expression
            assert METRIC.search(expression), expression
    named = {one["name"] for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(dashboard["panels"])))
    assert used <= named, used - named
    rules = yaml.safe_load((DEPLOY / "monitoring/alerts.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert rule["expr"].count("(") == rule["expr"].count(")")
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert rule["annotations"].keys() == {"summary", "description"}
