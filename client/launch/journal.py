"""What the launcher says: on stderr, and in a file where one is asked for."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TextIO

from yarnps._errors import InputError


class Journal:
    """Lines about the launch; a context manager.

    Parameters
    ----------
    debug
        Also the lines that only help to find out what is wrong.
    path
        A file that gets the lines, too, with their times.

    Raises
    ------
    InputError
        The file cannot be written.
    """

    def __init__(self, *, debug: bool, path: Path | None) -> None:
        self._debug = debug
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("a")
            except OSError as error:
                raise InputError(
                    f"the log file cannot be written: {path}: {error.strerror}",
                    "Correct --log-file.",
                ) from error

    def say(self, text: str, *, debug: bool = False) -> None:
        """A line for whoever watches."""
        if debug and not self._debug:
            return
        print(text, file=sys.stderr, flush=True)
        if self._file is not None:
            level = "DEBUG" if debug else "INFO"
            print(time.strftime("%Y-%m-%d %H:%M:%S"), level, text, file=self._file, flush=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
