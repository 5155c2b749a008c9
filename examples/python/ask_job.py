"""Questions for a running job, a line of JSON each: `ask_job.py CHECKPOINTS [SECONDS]`.

A question is `{"vector": [...], "k": 10, "where": {...}, "exact": false, "with": ["color"]}`, of
which only the vector must be there. An answer has ids, distances, what `with` asked for, and the
offsets of the stream behind it. It waits up to SECONDS for the job, and for each answer.
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
    ids = found.ids if isinstance(found.ids, list) else found.ids.tolist()
    distances = found.distances.tolist()
    rest = {"attributes": found.attributes, "offsets": found.offsets}
    return {"ids": ids, "distances": distances, **rest}


def main() -> None:
    """Answer each line."""
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    with vstream.Job.connect(sys.argv[1], deadline=seconds) as job:
        for line in sys.stdin:
            try:
                answer = ask(job, json.loads(line))
            except vstream.VStreamError as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)


main()
