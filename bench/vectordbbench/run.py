"""VectorDBBench's own cases, by its own client of Qdrant, against ``vstream serve``.

The server has one core and the client the others. A case of streaming writes all rows at a rate
and searches meanwhile; then the same searches run with nothing beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vectordb_bench.metric import Metric

# Rows of a request.
BATCH = 100
# Neighbours of a query as its published results have them, searches at a time, and seconds of each.
K = 100
AT_A_TIME = [1, 4]
SECONDS = 20
# Moments of a stream at which searches begin, as shares of the rows.
STAGES = [0.5, 0.8]


@contextmanager
def server(command: Path, folder: Path) -> Iterator[str]:
    """Start a server on the first core; yield the address at which it is."""
    shutil.rmtree(folder, ignore_errors=True)
    arguments = ["taskset", "-c", "0", command, "serve", folder, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rsplit(" ", 1)[1].strip()
        finally:
            process.terminate()
            process.wait(60)


def dataset(folder: Path, size: int, dimension: int) -> dict[str, Any]:
    """Say where the files are."""
    return {
        "name": "local",
        "dir": str(folder.resolve()),
        "size": size,
        "dim": dimension,
        "metric_type": "COSINE",
        "file_count": 1,
        "use_shuffled": False,
        "with_gt": True,
    }


def run_case(address: str, kind: str, custom: dict[str, Any], stages: list[str]) -> Metric:
    """Run one case.

    * ``stages``: of ``drop_old``, ``load``, ``search_serial``, ``search_concurrent``.
    """
    from pydantic import SecretStr
    from vectordb_bench.backend.assembler import Assembler
    from vectordb_bench.backend.cases import CaseType
    from vectordb_bench.backend.clients import DB
    from vectordb_bench.backend.clients.qdrant_cloud.config import QdrantConfig, QdrantIndexConfig
    from vectordb_bench.backend.data_source import DatasetSource
    from vectordb_bench.models import CaseConfig, ConcurrencySearchConfig, TaskConfig, TaskStage

    searches = ConcurrencySearchConfig(num_concurrency=AT_A_TIME, concurrency_duration=SECONDS)
    case = CaseConfig(
        case_id=CaseType[kind], custom_case=custom, k=K, concurrency_search_config=searches
    )
    task = TaskConfig(
        db=DB.QdrantCloud,
        db_config=QdrantConfig(url=SecretStr(address), api_key=None),
        db_case_config=QdrantIndexConfig(),
        case_config=case,
        stages=[TaskStage[stage.upper()] for stage in stages],
        load_concurrency=1,
        insert_batch_size=BATCH,
    )
    runner = Assembler.assemble("run", task, DatasetSource.S3)
    return runner.run("drop_old" in stages)


def search_cases(address: str, files: dict[str, Any], filters: list[float]) -> list[dict[str, Any]]:
    """Search under filters for a label and without, over the rows that the first case loads."""
    common = {"description": "", "load_timeout": 3600, "optimize_timeout": 3600}
    out = []
    # Labels are written with the rows, so the first case is one with a filter.
    for share in [*filters, None]:
        custom = common | {"name": "search", "dataset_config": files, "label_percentage": share}
        custom["use_filter"] = share is not None
        search = ["search_serial", "search_concurrent"]
        stages = search if out else ["drop_old", "load", *search]
        found = run_case(address, "PerformanceCustomDataset", custom, stages)
        out.append(
            {
                "label": share,
                "load_s": found.load_duration,
                "recall": found.recall,
                "serial_p99_ms": 1e3 * found.serial_latency_p99,
                "per_s": found.conc_qps_list,
                "p99_ms": [1e3 * one for one in found.conc_latency_p99_list],
            }
        )
    return out


def streaming_case(address: str, files: dict[str, Any], rate: int) -> dict[str, Any]:
    """Search while rows come at a rate."""
    custom = {
        "description": "",
        "dataset_config": files,
        "insert_rate": rate,
        "search_stages": STAGES,
        "concurrencies": AT_A_TIME,
        "optimize_after_write": True,
        "read_dur_after_write": SECONDS,
    }
    found = run_case(address, "StreamingCustomDataset", custom, ["drop_old", "load"])
    return {
        "rate": rate,
        "ideal_s": found.st_ideal_insert_duration,
        "took_s": found.insert_duration,
        "stages": found.st_search_stage_list,
        "recall": found.st_recall_list,
        "serial_p99_ms": [1e3 * one for one in found.st_serial_latency_p99_list],
        "per_s": found.st_conc_qps_list_list,
        "p99_ms": [[1e3 * one for one in some] for some in found.st_conc_latency_p99_list_list],
    }


def table(report: dict[str, Any]) -> str:
    """Make the table that people read."""
    out = [
        f"{report['rows']} rows of {report['dimension']} dimensions, {K} neighbours. Times in ms.",
        "",
        "| case | recall | p99, one by one | queries/s, 1 and 4 at a time | p99 of these |",
        "|---|---|---|---|---|",
    ]

    def joined(values: list[float], digits: int) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values)

    for case in report["search"]:
        share = case["label"]
        name = "search" if share is None else f"search with a label that {100 * share:g} % have"
        out.append(
            f"| {name} | {case['recall']:.3f} | {case['serial_p99_ms']:.2f} "
            f"| {joined(case['per_s'], 0)} | {joined(case['p99_ms'], 2)} |"
        )
    for case in report["streaming"]:
        last = case["serial_p99_ms"][-1]
        for at, stage in enumerate(case["stages"]):
            when = (
                f"at {stage} %" if at < len(STAGES) else ["at the end", "later"][at - len(STAGES)]
            )
            serial = case["serial_p99_ms"][at]
            out.append(
                f"| {case['rate']} rows/s, {when} | {case['recall'][at]:.3f} "
                f"| {serial:.2f}, {serial / last:.2f} x later "
                f"| {joined(case['per_s'][at], 0)} | {joined(case['p99_ms'][at], 2)} |"
            )
        out.append(
            f"| {case['rate']} rows/s: all rows came in {case['took_s']:.0f} s, "
            f"{case['ideal_s']} s at that rate | | | | |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    """Measure, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", type=Path, default=Path("target/release/vstream"))
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--filters", type=float, nargs="*", default=[0.1, 0.01])
    parser.add_argument("--rates", type=int, nargs="*", default=[500, 5_000])
    parser.add_argument("--folder", type=Path, default=Path("run/vectordbbench"))
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    # It writes where these say, when it is imported.
    os.environ |= {
        "LOG_FILE": str(folder / "log"),
        "RESULTS_LOCAL_DIR": str(folder / "results"),
        "DATASET_LOCAL_DIR": str(folder),
    }
    from files import write
    from rows import read

    base, queries = read(asked.base, asked.rows), read(asked.queries, 1_000)
    files, made_of = folder / "files", f"{asked.base} {asked.queries} {len(base)}"
    made = files / "made-of"
    if not made.exists() or made.read_text() != made_of:
        made.unlink(missing_ok=True)
        write(files, base, queries, K)
        made.write_text(made_of)
    rows, dimension = base.shape
    del base
    os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - {0})
    described = dataset(files, rows, dimension)
    report: dict[str, Any] = {"rows": rows, "dimension": dimension, "streaming": []}
    with server(asked.command, folder / "served") as address:
        report["search"] = search_cases(address, described, asked.filters)
    for rate in asked.rates:
        with server(asked.command, folder / "served") as address:
            report["streaming"].append(streaming_case(address, described, rate))
    text = table(report)
    (folder / "table.md").write_text(text)
    (folder / "report.json").write_text(json.dumps(report, indent=1))
    print(text)


if __name__ == "__main__":
    main()
