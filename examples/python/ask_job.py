"""Questions for a running job, a line of JSON each: `ask_job.py CHECKPOINTS [SECONDS]`.

A question is `{"vector": [...], "k": 10, "where": {...}, "exact": false, "with": ["color"]}`, of
which only the vector must be there. An answer has a dictionary per row, nearest first, with what
`with` asked for, and the offsets of the stream behind it. It waits up to SECONDS for the job, and
for each answer.
"""

import json
import sys
from typing import Any

import vstream


def ask(job: vstream.Job, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question."""
    found = job.search(
        question["vector"],
        question.get("k", 10),
        exact=question.get("exact", False),
        where=question.get("where"),
        with_=question.get("with", []),
    )
    return {"rows": list(found.rows()), "offsets": found.offsets}


def plain(value: object) -> str:
    """Return a payload, or a moment, as a text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def main() -> None:
    """Answer each line."""
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    with vstream.Job.connect(sys.argv[1], deadline=seconds) as job:
        for line in sys.stdin:
            try:
                answer = ask(job, json.loads(line))
            except KeyError:
                answer = {"error": "the question has no vector"}
            except (ValueError, AttributeError, vstream.VStreamError) as error:
                answer = {"error": str(error)}
            print(json.dumps(answer, default=plain), flush=True)


main()
