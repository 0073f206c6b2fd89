"""A skein application with one container and nothing of ours: prints when the container runs."""

from __future__ import annotations

import sys
import time
from typing import Any

import skein.core
import skein.model

core: Any = skein.core  # untyped
model: Any = skein.model

LIMIT_S = 120.0
SPECIFICATION = {
    "name": "bare",
    "master": {"resources": {"memory": "512 MiB", "vcores": 1}},
    "services": {
        "sleeper": {
            "instances": 1,
            "resources": {"memory": "256 MiB", "vcores": 1},
            "script": "sleep 600",
        }
    },
}


def main() -> int:
    """Submit, wait for the container, end the application."""
    spec = model.ApplicationSpec.from_dict(SPECIFICATION)
    spec.master.security = model.Security.new_credentials()
    with core.Client(log=False) as client:
        application = client.submit_and_connect(spec)
        try:
            deadline = time.monotonic() + LIMIT_S
            while not application.get_containers(states=["RUNNING"]):
                if time.monotonic() > deadline:
                    print("the container does not run", file=sys.stderr)
                    return 1
                time.sleep(0.05)
            print(time.time())
        finally:
            application.shutdown("SUCCEEDED")
    return 0


if __name__ == "__main__":
    sys.exit(main())
