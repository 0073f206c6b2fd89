"""``python submit_bare.py LIMIT_S < specification.json``: run a bare skein application to its end.

Prints YARN's report as JSON. A process of its own, because skein warns on import and at exit.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import skein.core
import skein.model

core: Any = skein.core  # untyped
model: Any = skein.model


def main() -> int:
    limit_s = float(sys.argv[1])
    spec = model.ApplicationSpec.from_dict(json.load(sys.stdin))
    spec.master.security = model.Security.new_credentials()
    with core.Client(log=False) as client:
        application = client.submit(spec)
        deadline = time.monotonic() + limit_s
        while True:
            report = client.application_report(application)
            if str(report.state) in ("FINISHED", "FAILED", "KILLED"):
                break
            if time.monotonic() > deadline:
                client.kill_application(application)
                print(f"{application} has not ended in {limit_s} s", file=sys.stderr)
                return 1
            time.sleep(0.5)
    found = {
        "id": report.id,
        "user": report.user,
        "state": str(report.state),
        "final_status": str(report.final_status),
        "diagnostics": report.diagnostics,
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
