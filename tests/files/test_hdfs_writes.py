"""Writes to data nodes that are too slow for the client."""

from __future__ import annotations

from typing import Any

import pytest

from yarnps._errors import ClusterError
from yarnps.files import _hdfs, open_files
from yarnps.files._hdfs import HdfsFiles

SLOW = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException: Not replicated yet: /x"


class SlowNodes:
    """hdfs-native's client where the first writers fail: that cannot be had from a real cluster."""

    def __init__(self, failures: list[str]) -> None:
        self.failures = failures
        self.files: dict[str, bytes] = {}
        self.begun = 0

    def create(self, path: str, options: Any) -> SlowWriter:
        if path in self.files and not options.overwrite:
            raise FileExistsError(path)
        self.begun += 1
        self.files[path] = b""
        return SlowWriter(self, path)

    def delete(self, path: str, recursive: bool) -> bool:
        return self.files.pop(path, None) is not None

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        self.files[target] = self.files.pop(source)


class SlowWriter:
    def __init__(self, nodes: SlowNodes, path: str) -> None:
        self._nodes, self._path = nodes, path

    def write(self, data: bytes) -> None:
        self._nodes.files[self._path] += data
        if self._nodes.failures:
            raise RuntimeError(self._nodes.failures.pop())

    def close(self) -> None:
        pass


def on(nodes: SlowNodes, monkeypatch: pytest.MonkeyPatch) -> HdfsFiles:
    monkeypatch.setattr(_hdfs, "REPLICATION_WAITS_S", (0.0, 0.0))
    files, _ = open_files("hdfs://slow.example:8020/x")
    assert isinstance(files, HdfsFiles)
    monkeypatch.setattr(files, "_connected", lambda: nodes)
    return files


def test_a_file_is_written_again_while_its_blocks_are_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = SlowNodes([SLOW, SLOW])
    on(nodes, monkeypatch).write_bytes("/x", b"all of it")
    assert (nodes.files, nodes.begun) == ({"/x": b"all of it"}, 3)


def test_a_marker_is_still_taken_by_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = SlowNodes([SLOW])
    files = on(nodes, monkeypatch)
    assert files.write_new("/x", b"mine")
    assert not files.write_new("/x", b"theirs")
    assert nodes.files == {"/x": b"mine"}


@pytest.mark.parametrize("failures", [[SLOW] * 3, ["the disk is full"]])
def test_what_does_not_get_better_is_told_and_leaves_nothing(
    failures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = SlowNodes(failures)
    with pytest.raises(ClusterError, match=failures[0][:20]):
        on(nodes, monkeypatch).write_bytes("/x", b"all of it")
    assert nodes.files == {}
