"""``python -m yarnps.server``: a server process, started by an agent."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import traceback

from yarnps._errors import ClusterError, YarnpsError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel, exit_without_agent


def main() -> int:
    """Say hello, learn the job, serve."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    channel = RoleChannel.from_environment()
    channel.send(pb.FromRole(hello=pb.RoleHello(pid=os.getpid())))
    # The ApplicationMaster answers while these are imported.
    from yarnps.server.process import ServerProcess

    messages = channel.receive_begin()
    if messages is None:
        exit_without_agent()
    try:
        ServerProcess(channel, messages[0].begin, messages[1:]).run()
    except Exception as error:  # the AM must hear of it, whatever it is
        log = logging.getLogger("yarnps.server")
        log.exception("the server process ends")
        failed = pb.RoleFailed(
            error=f"{type(error).__name__}: {error}",
            traceback=traceback.format_exc(),
            # A cluster that is away now may be back at the next start.
            user_error=isinstance(error, YarnpsError) and not isinstance(error, ClusterError),
        )
        channel.send(pb.FromRole(failed=failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
