"""Where the blocks of HDFS files are, asked over HTTP.

The native client does not tell; the name node's web service does
(`GET /webhdfs/v1/<path>?op=GETFILEBLOCKLOCATIONS`).
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ._base import BlockHosts
from ._hadoop import HadoopConf

LIMIT_S = 5.0  # locality is a wish: a slow answer is worth less than none


class BlockLocations:
    """Asks for the hosts of files, until it has been refused once for good."""

    def __init__(self, conf: HadoopConf, host: str, user: str, notes: list[str]) -> None:
        self._addresses = conf.http_addresses(host)
        self._user = user
        self._notes = notes
        self._lock = threading.Lock()
        self._given_up = False
        # A name node is reached directly; a proxy in the environment is for the world outside.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def blocks(self, path: str, size: int) -> list[BlockHosts]:
        """The blocks of the first `size` bytes; empty when nobody tells."""
        if self._given_up or size <= 0:
            return []
        query = {"op": "GETFILEBLOCKLOCATIONS", "offset": "0", "length": str(size)}
        if self._user:
            query["user.name"] = self._user
        target = f"/webhdfs/v1{urllib.parse.quote(path)}?{urllib.parse.urlencode(query)}"
        problem = "no address of its web service is known"
        for address in list(self._addresses):
            try:
                with self._opener.open(address + target, timeout=LIMIT_S) as reply:
                    found = parse_blocks(json.load(reply))
            except urllib.error.HTTPError as error:
                problem = f"{address} answered {error.code} {error.reason}"
                if error.code == 404 and b"FileNotFound" in error.read():
                    return []
            except (OSError, ValueError) as error:
                problem = f"{address}: {error}"
            else:
                self._prefer(address)
                return found
        self._give_up(problem)
        return []

    def _prefer(self, address: str) -> None:
        """Ask the active name node first from now on."""
        with self._lock:
            if self._addresses[0] != address:
                self._addresses.remove(address)
                self._addresses.insert(0, address)

    def _give_up(self, problem: str) -> None:
        with self._lock:
            if self._given_up:
                return
            self._given_up = True
            self._notes.append(
                "where the blocks of the input are is not known, so splits go to any node: "
                f"WebHDFS did not answer ({problem})"
            )


def parse_blocks(document: Any) -> list[BlockHosts]:
    """The blocks in WebHDFS's answer.

    Raises
    ------
    ValueError
        When it is something else.
    """
    try:
        return [
            BlockHosts(int(block["offset"]), int(block["length"]), tuple(block["hosts"]))
            for block in document["BlockLocations"]["BlockLocation"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an answer of WebHDFS: {str(document)[:100]}") from error
