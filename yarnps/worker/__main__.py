"""``python -m yarnps.worker``: a worker of a built-in program, started by an agent."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from yarnps._errors import InputError, YarnpsError
from yarnps.worker.connecting import connect


def _program(name: str | None) -> Any:
    if not name:
        raise InputError(
            "the job file names neither `app` nor `services.worker.script`", "give one of them"
        )
    try:
        return importlib.import_module(f"yarnps.apps.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"yarnps.apps.{name}":
            raise
        raise InputError(
            f"there is no built-in program {name}", "use ftrl, fm or word2vec"
        ) from error


def main() -> int:
    """Run the program that the job file names."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    job = connect()
    try:
        _program(job.app).train(job)
    except YarnpsError as error:  # a sentence for people; the traceback is for the log
        job.fail(error)
        logging.getLogger("yarnps.worker").exception("the program ends")
        return 1
    job.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
