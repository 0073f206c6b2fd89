"""``python -m yarnps.am.clusters.farewell CAUSE``: end this attempt as failed, with a cause.

For the supervisor, when the ApplicationMaster cannot say it itself. YARN starts the next attempt,
if one is left.
"""

from __future__ import annotations

import sys

from yarnps.am.clusters.yarn import Client


def main() -> int:
    """Tell YARN."""
    Client.from_current().shutdown("FAILED", sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
