"""The local back end, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from yarnps._errors import ClusterError
from yarnps.am.clusters import _forks
from yarnps.am.clusters import _processes as processes
from yarnps.am.clusters._folders import LocalRole
from yarnps.am.clusters.base import AM_KEY, ContainerInfo
from yarnps.am.clusters.local import LocalCluster

LIMIT_S = 15

# Stands for an agent: does what its first argument says.
PROGRAM = """
import os, signal, subprocess, sys
what = os.environ["WHAT"]
def wait():
    signal.pause()
if what == "exit":
    sys.exit(int(os.environ["CODE"]))
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what == "leaves":
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("child", "w").write(str(child.pid))
if what == "tells":
    open("env", "w").write("\\n".join(f"{k}={v}" for k, v in os.environ.items()))
open("ready", "w").close()
wait()
"""


def cluster_in(folder: Path, **more: object) -> LocalCluster:
    return LocalCluster(
        folder,
        "local_1_0001",
        command=[sys.executable, "-c", PROGRAM],
        **more,  # type: ignore[arg-type]
    )


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    cluster = cluster_in(tmp_path, roles={"worker": LocalRole(env={"OF_ROLE": "yes"})})
    await cluster.open()
    yield cluster
    await cluster.finish("KILLED", "the test is over")
    await cluster.close()


async def until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), LIMIT_S)


async def ended(cluster: LocalCluster, container: str) -> ContainerInfo:
    async def wait() -> ContainerInfo:
        while (info := await find(cluster, container)).state != "ended":
            await asyncio.sleep(0.01)
        return info

    return await asyncio.wait_for(wait(), LIMIT_S)


async def find(cluster: LocalCluster, container: str) -> ContainerInfo:
    return next(c for c in await cluster.containers() if c.id == container)


async def start(cluster: LocalCluster, what: str, **env: str) -> str:
    container = await cluster.request("worker", {"WHAT": what, **env})
    await until((cluster.folder_of(container) / "ready").exists)
    return container


async def test_ids_count_up_and_retry_containers_are_of_the_same_role(
    cluster: LocalCluster,
) -> None:
    ids = [await cluster.request("worker", {"WHAT": "exit", "CODE": "0"}) for _ in range(2)]
    ids.append(await cluster.request("server", {"WHAT": "exit", "CODE": "0"}))
    ids.append(await cluster.request("worker", {"WHAT": "exit", "CODE": "0"}, retry_memory=True))
    assert ids == ["worker_0", "worker_1", "server_0", "worker-retry_0"]
    assert (await find(cluster, "worker-retry_0")).role == "worker"


async def test_containers_are_spread_over_the_nodes(cluster: LocalCluster) -> None:
    ids = [await start(cluster, "waits") for _ in range(4)]
    nodes = [(await find(cluster, i)).node for i in ids]
    assert sorted(nodes) == ["local-1", "local-1", "local-2", "local-2"]
    assert await cluster.nodes() == {"local-1": "/local", "local-2": "/local"}


async def test_environment_of_a_container(cluster: LocalCluster, tmp_path: Path) -> None:
    container = await start(cluster, "tells", OF_AM="1")
    folder = cluster.folder_of(container)
    env = dict(
        line.split("=", 1) for line in (folder / "env").read_text().splitlines() if "=" in line
    )
    assert env["OF_ROLE"] == "yes"
    assert env["OF_AM"] == "1"
    assert env["YARNPS_CONTAINER"] == "worker_0"
    assert env["YARNPS_APPLICATION"] == "local_1_0001"
    assert env["YARNPS_NODE"] == "local-1"
    assert env["YARNPS_LOOKUP"] == f"file:{tmp_path}/published"
    assert env["LOG_DIRS"] == str(folder)


async def test_certificate_and_files_are_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".skein.crt").write_text("certificate")
    (tmp_path / ".skein.pem").write_text("key")
    (tmp_path / "train.py").write_text("program")
    shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path, "train.py")
    role = LocalRole(
        files={"program.py": str(tmp_path / "train.py")},
        archives={"unpacked": str(tmp_path / "packed.tar.gz")},
    )
    cluster = cluster_in(tmp_path / "job", roles={"worker": role}, certificate=tmp_path)
    await cluster.open()
    folder = cluster.folder_of(await start(cluster, "waits"))
    assert (folder / ".skein.pem").read_text() == "key"
    assert (folder / ".skein.pem").stat().st_mode & 0o777 == 0o600
    assert (folder / ".skein.crt").read_text() == "certificate"
    assert (folder / "program.py").read_text() == "program"
    assert (folder / "unpacked" / "train.py").read_text() == "program"
    await cluster.finish("SUCCEEDED", "")


@pytest.mark.parametrize(
    ("code", "message"), [("0", ""), ("3", "Container exited with a non-zero exit code 3.")]
)
async def test_exit_codes(cluster: LocalCluster, code: str, message: str) -> None:
    container = await cluster.request("worker", {"WHAT": "exit", "CODE": code})
    info = await ended(cluster, container)
    assert info.exit_message == message
    assert info.started is not None and info.ended is not None
    assert info.ended >= info.started


async def test_an_agent_killed_from_outside(cluster: LocalCluster) -> None:
    container = await start(cluster, "waits")
    (agent,) = [
        pid
        for pid in processes.marked(str(cluster.folder_of(container)))
        if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    ]
    os.kill(agent, signal.SIGKILL)
    info = await ended(cluster, container)
    assert info.exit_message == "Container exited with a non-zero exit code 137."


@pytest.mark.parametrize("what", ["waits", "stubborn"])
async def test_release_ends_a_container(
    cluster: LocalCluster, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.clusters.local.GRACE_S", 0.2)
    container = await start(cluster, what)
    await cluster.release(container)
    info = await ended(cluster, container)
    assert info.exit_message.startswith("Container killed by the ApplicationMaster.")
    await cluster.release(container)  # again: nothing happens
    await until(lambda: processes.marked(str(cluster.folder_of(container))) == [])


async def test_what_a_container_left_behind_is_killed(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.clusters.local.LEFTOVER_S", 0.1)
    container = await start(cluster, "leaves")
    child = int((cluster.folder_of(container) / "child").read_text())
    assert processes.start_ticks(child) > 0
    await cluster.release(container)
    await until(lambda: processes.start_ticks(child) == 0)


async def test_containers_are_found_again(cluster: LocalCluster, tmp_path: Path) -> None:
    """As after the death of the ApplicationMaster: with states, nodes, and how they ended."""
    alive = await start(cluster, "waits")
    over = await cluster.request("worker", {"WHAT": "exit", "CODE": "7"})
    before = await ended(cluster, over)

    second = cluster_in(tmp_path)
    await second.open()
    assert [(c.id, c.state) for c in await second.containers()] == [
        (alive, "running"),
        (over, "ended"),
    ]
    assert (await find(second, over)).exit_message == before.exit_message
    assert (await find(second, alive)).node == (await find(cluster, alive)).node
    assert await second.request("worker", {"WHAT": "exit", "CODE": "0"}) == "worker_2"
    await second.release(alive)
    assert "killed by the ApplicationMaster" in (await ended(second, alive)).exit_message
    await second.finish("SUCCEEDED", "")


async def test_a_pid_that_is_used_again_is_not_our_container(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    container = await start(cluster, "waits")
    path = cluster.folder_of(container) / "container.json"
    record = path.read_text()
    pid_started = cluster._records[container].pid_started
    path.write_text(record.replace(str(pid_started), str(pid_started + 1)))
    second = cluster_in(tmp_path)
    await second.open()
    assert (await find(second, container)).state == "ended"
    for task in list(second._tasks):  # it would kill what belongs to the ended container
        task.cancel()


async def test_output_of_a_container(cluster: LocalCluster) -> None:
    container = await cluster.request("worker", {})
    assert (await ended(cluster, container)).state == "ended"
    assert (await cluster.output(container)).endswith("KeyError: 'WHAT'\n")


async def test_unknown_container(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="no such container: worker_9"):
        await cluster.release("worker_9")


async def test_published_values_are_files(cluster: LocalCluster, tmp_path: Path) -> None:
    await cluster.publish(AM_KEY, "127.0.0.1:1")
    await cluster.publish(AM_KEY, "127.0.0.1:2")
    assert (tmp_path / "published" / AM_KEY).read_text() == "127.0.0.1:2"
    assert await cluster.add_page(8080, "secret") == "http://127.0.0.1:8080/secret/"


async def test_finish_leaves_nothing(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    await cluster.open()
    folders = [str(cluster.folder_of(await start(cluster, "waits"))) for _ in range(3)]
    await cluster.finish("SUCCEEDED", "")
    assert [processes.marked(f) for f in folders] == [[], [], []]
    assert {c.state for c in await cluster.containers()} == {"ended"}


async def test_what_cannot_be_killed_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("yarnps.am.clusters.local.END_LIMIT_S", 0.2)
    monkeypatch.setattr("yarnps.am.clusters.local.GRACE_S", 0.05)
    cluster = cluster_in(tmp_path)
    await cluster.open()
    container = await start(cluster, "waits")
    with monkeypatch.context() as patched:
        patched.setattr(processes, "signal_group", lambda *_: None)
        await asyncio.wait_for(cluster.finish("FAILED", ""), LIMIT_S)
    assert f"left alone: ['{container}']" in caplog.text
    os.killpg(cluster._records[container].pid, signal.SIGKILL)
    await ended(cluster, container)
    await cluster.close()


@pytest.mark.parametrize("silent", [True, False])
async def test_a_fork_server_that_is_lost_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """Whether it has ended or does not answer: then it is ended, for it still might."""
    monkeypatch.setattr(_forks, "ANSWER_LIMIT_S", 0.05)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not silent:
        theirs.close()
    with theirs, subprocess.Popen(["sleep", "600"]) as server:
        cluster = cluster_in(tmp_path, forks=_forks.Forks(ours, server.pid))
        await cluster.open()
        env = {"WHAT": "exit", "CODE": "3"}
        ids = await asyncio.gather(*(cluster.request("worker", env) for _ in range(2)))
        assert ids == ["worker_0", "worker_1"]
        assert [(await ended(cluster, c)).exit_message[-2:] for c in ids] == ["3."] * 2
        assert server.wait(LIMIT_S) == -signal.SIGKILL
        await cluster.close()


async def test_a_container_that_is_being_started_ends_with_the_application(tmp_path: Path) -> None:
    """Nobody waits for it any more when the fork server answers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    loop = asyncio.get_running_loop()
    theirs.setblocking(False)
    sleep = ["sleep", "600"]
    with theirs, subprocess.Popen(sleep) as server:
        cluster = cluster_in(tmp_path, forks=_forks.Forks(ours, server.pid))
        await cluster.open()
        asked = asyncio.ensure_future(cluster.request("worker", {}))
        container, folder, _ = json.loads(await loop.sock_recv(theirs, 1 << 20))
        asked.cancel()
        late = asyncio.ensure_future(cluster.request("worker", {}))
        finish = asyncio.ensure_future(cluster.finish("KILLED", ""))
        await asyncio.sleep(0)
        assert not finish.done()
        with subprocess.Popen(sleep, cwd=folder, start_new_session=True) as leader:
            await loop.sock_sendall(theirs, json.dumps([container, leader.pid, ""]).encode())
            await asyncio.wait_for(finish, LIMIT_S)
            assert leader.wait(LIMIT_S) == -signal.SIGTERM
        with pytest.raises(ClusterError, match="is ending"):
            await late
        assert asked.cancelled()
        await cluster.close()
        assert server.wait(LIMIT_S) == -signal.SIGKILL
