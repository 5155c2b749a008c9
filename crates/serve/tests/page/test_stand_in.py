"""What the page makes of figures and answers that a real server gives seldom."""

from __future__ import annotations

import json
import time
from typing import Any

from browser import Browser, Page, cells, search, tile
from stand_in import StandIn, stand_in

STATE = "document.getElementById('state').textContent"
ANSWER = "document.getElementById('answer-state').textContent"
LIVE = f"{STATE} === 'Live'"
POINT = '{"id": %s, "score": 0.5, "payload": %s}'
# The heights of a chart's area of lines.
TOP, BOTTOM = 8, 136 - 18


def row(name: str, **own: Any) -> dict[str, Any]:
    """Return a collection of an event, whose engine has said nothing."""
    known = {"name": name, "recall_target": 0.9, "searches": 1, "engine": None}
    rates = {
        "searches_per_second": 5.0,
        "writes_per_second": 1.0,
        "p50": 1.0,
        "p99": 2.0,
    }
    return {**known, **rates, "fresh": 1.0, **own}


def server(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a server."""
    known = {"kind": "server", "version": "0", "uptime_seconds": 1, "requests": None}
    return {**known, "collections": list(rows), "more": 0, "slow": []}


def path(page: Page, chart: int, kind: str = "first") -> str:
    """Return the line of a chart."""
    return page.evaluate(
        f"document.querySelectorAll('#charts figure')[{chart}].querySelector('path.{kind}').getAttribute('d')"
    )


def heights(line: str) -> set[float]:
    """Return the heights of a line's points."""
    ends = line.replace("h0", "").replace("M", "L").split("L")
    return {float(end.split()[1]) for end in ends if end}


def answer(*points: str) -> tuple[int, str]:
    """Return an answer with points."""
    return 200, f'{{"result": {{"points": [{", ".join(points)}]}}, "time": 0.001}}'


def opened(browser: Browser, said: StandIn) -> Page:
    """Return a page that shows what is said."""
    page = Page(browser, said.address)
    page.wait(LIVE)
    page.wait(f"{tile('Searches per second')} || {tile('Vectors per second')}")
    return page


def test_a_chosen_collection_has_gaps_where_it_was_not(browser: Browser) -> None:
    with stand_in() as said:
        said.figures = server(row("a"))
        page = opened(browser, said)
        page.browser.listen(0.5)
        said.figures = server(row("a"), row("b", searches_per_second=7.0))
        page.wait(f"{tile('Searches per second')} === '12'")
        page.browser.listen(0.5)
        assert len(heights(path(page, 0))) == 2, "5, and then 12"
        page.evaluate(
            "document.querySelectorAll('#collection-table button')[1].click()"
        )
        page.wait(f"{tile('Searches per second')} === '7.0'")
        assert len(heights(path(page, 0))) == 1, "nothing of before it was made"
        # It is missing for a moment, as one of many may be: nothing takes its place.
        assert page.evaluate("document.getElementById('collection').value") == "b"
        said.figures = server(row("a"))
        page.wait(f"{tile('Searches per second')} === '–'")
        assert page.evaluate("document.getElementById('collection').value") == "b"
        assert (
            "b (missing)" in page.text()
            and "Figures of b, which is missing." in page.text()
        )
        said.figures = server(row("a"), row("b", searches_per_second=7.0))
        page.wait(f"{tile('Searches per second')} === '7.0'")
        assert "missing" not in page.text()
        assert path(page, 0).count("M") == 2, "a gap where it was missing"
        assert page.complaints() == []
        page.close()


def test_what_no_collection_says_is_no_number(browser: Browser) -> None:
    with stand_in() as said:
        said.figures = server(row("of_job"))
        page = opened(browser, said)
        for name in ("Rows", "Segments", "Memory", "Recall"):
            assert page.evaluate(tile(name)) == "–", name
        assert page.evaluate(tile("Rows", "note")) == "– leaves, – splits"
        assert path(page, 3) == ""
        said.figures = server()
        page.wait(f"{tile('Rows')} === '0'")
        page.close()


def test_recall_far_above_its_target_stays_in_its_chart(browser: Browser) -> None:
    with stand_in() as said:
        engine = {"recall": {"estimate": 0.99, "margin": 0.001, "audits": 9}}
        rows = [row(name, recall_target=0.7, engine=engine) for name in "ab"]
        said.figures = server(*rows)
        page = opened(browser, said)
        assert "Recall above the target" in page.text()
        line = path(page, 2)
        assert line and all(TOP <= height <= BOTTOM for height in heights(line)), line
        page.close()


def test_large_integers_are_asked_and_shown_as_they_are(browser: Browser) -> None:
    with stand_in() as said:
        said.figures = server(row("a"))
        payload = '{"id":9007199254740993,"deep":[-9007199254740995,18446744073709551615],"own":7,"text":"1"}'
        said.answer = lambda _: answer(
            POINT % ("18446744073709551615", payload),
            POINT % ("17", "null"),
            POINT % ('"x"', "{}"),
        )
        page = opened(browser, said)
        given = '{"must": [{"key": "n", "match": {"value": 9007199254740993}}]}'
        assert search(page, "[1, 9007199254740993]", f" {given}\n").startswith(
            "3 points."
        )
        assert f'"filter": {given}' in said.asked[-1]
        assert '"query": [1, 9007199254740993]' in said.asked[-1]
        assert json.loads(said.asked[-1])["limit"] == 10
        found = cells(page, "answer")
        assert [one[0] for one in found] == ["18446744073709551615", "17", "x"]
        assert [one[2] for one in found] == [payload, "–", "–"]
        # What ends an object too early is no filter.
        assert search(page, "1", '{}, "limit": 1').startswith("This is no JSON")
        assert len(said.asked) == 1
        assert page.complaints() == []
        page.close()


def test_a_question_says_who_failed_and_only_the_newest_is_answered(
    browser: Browser,
) -> None:
    with stand_in() as said:
        said.figures = server(row("a"))
        page = opened(browser, said)
        said.answer = lambda _: (502, "<html>Bad gateway</html>")
        assert (
            search(page, "1")
            == "Something else than the server answered, with the status 502."
        )
        said.answer = lambda _: (200, "{}")
        assert (
            search(page, "1")
            == "Something else than the server answered, with the status 200."
        )
        said.answer = lambda _: (0, "")
        assert search(page, "1") == "The server did not answer."
        said.answer = lambda _: (400, '{"status": {"error": "no such thing"}}')
        assert search(page, "1") == "no such thing"

        def late(body: str) -> tuple[int, str]:
            is_first = '"query": 1,' in body
            time.sleep(1 if is_first else 0)
            return answer(*([POINT % (1, "{}")] * (2 if is_first else 1)))

        said.answer, before = late, len(said.asked)
        page.fill("near", "1")
        page.evaluate("document.querySelector('#question button').click()")
        while len(said.asked) == before:
            page.browser.listen(0.02)
        assert search(page, "2").startswith("1 points.")
        page.browser.listen(1.5)
        assert page.evaluate(ANSWER).startswith("1 points.")
        page.close()


def test_a_key_is_tried_by_one_connection(browser: Browser) -> None:
    with stand_in() as said:
        said.figures, said.key = server(row("a")), "right"
        page = Page(browser, said.address)
        page.wait("!document.getElementById('key').hidden")
        # This one cannot be sent.
        opened_before = said.opened
        page.fill("key-text", "ключ")
        page.press("Enter")
        page.wait(
            "document.getElementById('key-error').textContent.includes('does not know')"
        )
        assert page.evaluate(STATE) == "Locked"
        assert said.opened == opened_before
        # The server is away for a while, and the key is given again and again.
        said.refuses = 503
        page.fill("key-text", "right")
        page.press("Enter")
        page.wait("document.getElementById('key').hidden")
        for _ in range(3):
            page.wait(f"{STATE}.startsWith('Refused (503)')")
            page.evaluate(
                "document.getElementById('key-text').value = 'right';"
                "document.getElementById('key').dispatchEvent(new Event('submit', {cancelable: true}))"
            )
        said.refuses = 0
        page.wait(LIVE)
        page.browser.listen(3)
        assert said.open == 1
        assert page.evaluate(LIVE)
        page.close()


def test_a_silent_connection_is_lost_and_leaves_a_gap(browser: Browser) -> None:
    with stand_in() as said:
        said.figures = server(row("a"))
        page = opened(browser, said)
        page.browser.listen(0.5)
        assert path(page, 0).count("M") == 1
        said.is_silent = True
        page.wait(f"{STATE}.startsWith('Lost')", seconds=10)
        said.is_silent = False
        page.wait(LIVE)
        page.browser.listen(0.5)
        assert path(page, 0).count("M") == 2, "nothing is known of the time between"
        assert page.complaints() == []
        page.close()


def test_a_server_in_the_place_of_a_job_has_a_past_of_its_own(browser: Browser) -> None:
    with stand_in() as said:
        partitions = {"rows_per_partition": [1, 2], "work_us_per_partition": [1, 1]}
        said.figures = {
            "kind": "job",
            "title": "a job",
            "asks": "of_job",
            "seconds": 1,
            "done": 0.5,
            "vectors_per_second": 9.0,
            "recall_target": 0.9,
            **partitions,
        }
        page = opened(browser, said)
        page.wait("!document.getElementById('ask').hidden")
        said.figures = server(row("a"))
        page.wait(f"{tile('Searches per second')} === '5.0'")
        for name in ("partitions", "done"):
            assert page.evaluate(f"document.getElementById({name!r}).hidden"), name
        assert page.evaluate("document.getElementById('collection').value") == "a"
        assert len(heights(path(page, 0))) == 1
        assert page.complaints() == []
        page.close()
