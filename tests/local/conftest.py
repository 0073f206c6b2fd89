"""Whole jobs as real processes of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# The helpers that the drill shares are in `bench/`, which no distribution holds.
sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> Path:
    """A client's folder of the test's own; compiled kernels are kept for the next run."""
    home = tmp_path / "home"
    monkeypatch.setenv("YARNPS_HOME", str(home))
    kernels = Path(str(pytestconfig.rootpath)) / ".pytest_cache" / "d" / "kernels"
    monkeypatch.setenv("YARNPS_KERNEL_CACHE", str(kernels))
    no_defaults = tmp_path / "site.yaml"
    no_defaults.write_text("")
    monkeypatch.setenv("YARNPS_CONFIG", str(no_defaults))
    return home
