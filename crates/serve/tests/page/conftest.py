"""The browser of the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import COMMAND, Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser; every page of it is a tab without a past."""
    if COMMAND is None:
        pytest.skip("there is no chromium on the PATH")
    started = Browser(tmp_path_factory.mktemp("browser") / "profile")
    yield started
    started.close()
