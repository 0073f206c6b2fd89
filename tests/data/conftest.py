"""Input in files of a test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of the input folder `in`; folders are made."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
