"""For `make test`: two processes, one with the sandbox and its tests, the other with all the rest.

Tests on YARN mostly wait, so that both together take as long as the longer one. Every file stays in
one process, with what its tests share. A plugin (``-p tests.two_rooms -n 2``); plain `pytest` works
without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

YARN = Path(__file__).parent / "yarn"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first."""
    items.sort(key=lambda item: YARN not in item.path.parents)


class TwoRooms(LoadScopeScheduling):
    """Hands out the files, and those on YARN as one."""

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0])
        return YARN.name if file.parent.name == YARN.name else str(file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoRooms:
    """xdist's question."""
    return TwoRooms(config, log)
