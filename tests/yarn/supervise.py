"""``python supervise.py PROGRAM``: the supervisor with another program in its care."""

from __future__ import annotations

import sys
from pathlib import Path

from yarnps.am.supervisor import Supervisor, tell_yarn

if __name__ == "__main__":
    command = [sys.executable, "-c", sys.argv[1]]
    sys.exit(Supervisor(command, Path.cwd(), farewell=tell_yarn).run())
