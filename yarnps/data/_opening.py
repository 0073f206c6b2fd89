"""Files of the input by their full address."""

from __future__ import annotations

from yarnps.files import Files, open_files

from ._records import FileChanged, Split


def open_path(address: str) -> tuple[Files, str]:
    return open_files(address)


def check_unchanged(split: Split) -> None:
    """Compare the file with what was listed.

    Raises
    ------
    FileChanged
        When its length or time of modification is another.
    DataError
        When it is gone.
    """
    files, path = open_path(split.path)
    info = files.info(path)
    was = (split.file_size, split.modified_ms)
    now = (info.size, info.modified_ms if split.modified_ms >= 0 else split.modified_ms)
    if was != now:
        raise FileChanged(
            f"the file has changed since the job listed it: {split.path}: "
            f"{was[0]} bytes then, {now[0]} now; modified at {was[1]} ms then, {now[1]} ms now",
            "Write new data under a new name, and submit the job again.",
        )
