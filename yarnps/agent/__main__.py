"""``python -m yarnps.agent``: what runs in every container."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from yarnps.agent._understudy import Understudy

EXIT_ENVIRONMENT = 72


def prepare_grpc() -> None:
    """Its settings; it reads them when it is imported."""
    # Unreachable peers are reported once by the agent, not over and over by grpc's core.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Roles are started without fork handlers; grpc's would only slow them down.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


def main(understudy: Understudy | None = None) -> int:
    """Run the agent of this container; its exit status."""
    env = dict(os.environ)  # for the roles: without the settings of our own grpc below
    prepare_grpc()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    from yarnps._errors import InputError
    from yarnps._version import VERSION
    from yarnps.agent._agent import Agent
    from yarnps.agent._settings import Settings

    folder = Path.cwd()
    try:
        settings = Settings.from_environment(env, folder)
    except InputError as e:
        logging.error("%s", e)
        return EXIT_ENVIRONMENT
    return Agent(settings, folder, VERSION, understudy).run()


def run(understudy: Understudy | None = None) -> NoReturn:
    """Run it, and end without the interpreter's end: a thread of grpc may wait for a dead peer."""
    status = main(understudy)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
