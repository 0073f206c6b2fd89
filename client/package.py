"""yarnps itself as an archive: every job runs the version that submitted it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

SUFFIXES = {".py", ".typed", ".html", ".css", ".js", ".svg", ".xml", ".json"}
# The oldest time that a zip file can hold: the same content makes the same bytes.
NO_TIME = (1980, 1, 1, 0, 0, 0)


def folders() -> dict[str, Path]:
    """Where the packages are; in a checkout two of them lie outside of ``yarnps/``."""
    import importlib.util

    found = {}
    for name in ("yarnps", "yarnps.am", "yarnps.client"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        found[name.replace(".", "/")] = Path(spec.submodule_search_locations[0])
    return found


def archive() -> bytes:
    """A zip with ``yarnps/``, ``yarnps/am/`` and ``yarnps/client/``."""
    names: dict[str, Path] = {}
    for prefix, folder in folders().items():
        for path in folder.rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                names[f"{prefix}/{path.relative_to(folder).as_posix()}"] = path
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for name in sorted(names):
            info = zipfile.ZipInfo(name, NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            file.writestr(info, names[name].read_bytes())
    return buffer.getvalue()
