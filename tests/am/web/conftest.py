"""A page that is served for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browsing import Served

from yarnps.status import Status


@pytest.fixture
def serve() -> Iterator[Callable[[Status], Served]]:
    """Serves a status; gone after the test."""
    pages: list[Served] = []

    def start(status: Status) -> Served:
        pages.append(Served(status))
        return pages[-1]

    yield start
    for page in pages:
        page.close()
