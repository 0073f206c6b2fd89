"""Bring a sandbox up, and take one away."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from yarnps.client.sandbox._archive import make_archive
from yarnps.client.sandbox._conf import write_conf
from yarnps.client.sandbox._core import (
    READY_LIMIT_S,
    DaemonDied,
    Sandbox,
    current_user,
    end_with_children,
    find_running,
    wait_ready,
)
from yarnps.client.sandbox._daemons import start_daemon
from yarnps.client.sandbox._errors import AlreadyRunning, SandboxError, SandboxInputError
from yarnps.client.sandbox._image import place_image
from yarnps.client.sandbox._jars import Hadoop, Report, fetch_hadoop
from yarnps.client.sandbox._java import Java, find_java
from yarnps.client.sandbox._processes import containers_of, daemons_of, marked
from yarnps.client.sandbox._ready import HdfsRefused, make_hdfs_folder
from yarnps.client.sandbox._scripts import write_scripts
from yarnps.client.sandbox._state import (
    MAX_NODES,
    Layout,
    Settings,
    State,
    choose_ports,
    claim_home,
    daemon_names,
    locked_home,
    read_state,
    remove_home,
    remove_run,
    resolve_home,
    write_state,
)

PORT_ATTEMPTS = 4
PORT_TAKEN = ("Address already in use", "Port in use")


def start(
    home: Path | None = None,
    nodes: int = 2,
    *,
    report: Report = lambda line: None,
    node_memory_mb: int = 6144,
    node_vcores: int = 8,
    am_expiry_s: int = 20,
    hide: Sequence[Path] = (),
    node_env: Mapping[str, str] | None = None,
    limit_s: float = READY_LIMIT_S,
) -> Sandbox:
    """Start a Hadoop of its own on this machine and wait until it works.

    Parameters
    ----------
    home : Path, optional
        Folder of everything that this sandbox writes; $YARNPS_SANDBOX_HOME or ~/.yarnps/sandbox.
    nodes : int
        Number of nodes, each a data node and a node manager on a loopback address of its own.
    report : callable
        Takes a line on what is being done.
    node_memory_mb, node_vcores : int
        What each node offers to containers.
    am_expiry_s : int
        An ApplicationMaster that is silent this long is lost. The time from its launch to its
        registration counts too, with the copying of its files to the node.
    hide : sequence of Path
        Paths that node managers and their containers see as empty folders. Needs root.
    node_env : mapping
        More environment for node managers and their containers. HOME is what containers get as
        theirs; otherwise it is YARN's own default, a folder that does not exist.
    limit_s : float
        How long to wait for the daemons to be ready.

    Raises
    ------
    AlreadyRunning
        One runs in this home, or is being started.
    SandboxInputError
        An argument is wrong.
    ToolMissing
        No usable Java; or no Maven while the jars are not cached.
    SandboxError
        A daemon did not come up. What was started is stopped again.
    """
    layout = Layout(resolve_home(home))
    settings = Settings(
        nodes=nodes,
        node_memory_mb=node_memory_mb,
        node_vcores=node_vcores,
        am_expiry_s=am_expiry_s,
        hide=tuple(str(Path(path).resolve()) for path in hide),
        node_env=dict(node_env or {}),
    )
    _check(settings)
    return _bring_up(layout, settings, report, limit_s)


def stop(home: Path | None = None) -> bool:
    """Stop the sandbox in this home, and remove its folders; the jar cache stays.

    Returns
    -------
    bool
        Whether there was anything to stop or to remove.
    """
    layout = Layout(resolve_home(home))
    if not layout.home.is_dir():
        return False
    if read_state(layout) is None and not daemons_of(layout.home):
        return False
    with locked_home(layout):
        _end_run(layout)
        remove_home(layout)
    return True


def _bring_up(layout: Layout, settings: Settings, report: Report, limit_s: float) -> Sandbox:
    """Start one in this home, in the place of what an earlier one left behind."""
    _refuse_second(layout)
    claim_home(layout)
    java = find_java()
    hadoop = fetch_hadoop(report)
    _check_hidden(settings, (layout.home, hadoop.folder, java.home))
    with locked_home(layout):
        _refuse_second(layout)
        if read_state(layout) is not None or daemons_of(layout.home):
            report("removing what an earlier sandbox left behind")
        _end_run(layout)
        try:
            return _start_with_ports(layout, settings, hadoop, java, report, limit_s)
        except BaseException:
            # Also after Ctrl-C: nothing of a start that failed stays.
            _end_run(layout)
            remove_home(layout)
            raise


def _check(settings: Settings) -> None:
    if not 1 <= settings.nodes <= MAX_NODES:
        raise SandboxInputError(f"a sandbox has 1 to {MAX_NODES} nodes, not {settings.nodes}")
    if settings.node_memory_mb < 256 or settings.node_vcores < 1:
        raise SandboxInputError(
            "a node needs at least 256 MB and 1 vcore, not "
            f"{settings.node_memory_mb} MB and {settings.node_vcores} vcores"
        )


def _check_hidden(settings: Settings, needed: Sequence[Path]) -> None:
    if not settings.hide:
        return
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise SandboxInputError(
            "only root can hide folders from node managers (with unshare, of util-linux)"
        )
    for path in map(Path, settings.hide):
        if not path.is_dir():
            raise SandboxInputError(f"this folder cannot be hidden, it does not exist: {path}")
        for other in needed:
            if other.resolve().is_relative_to(path):
                raise SandboxInputError(
                    f"this folder cannot be hidden, node managers need what is in it: {path}",
                    f"They need {other}.",
                )


def _refuse_second(layout: Layout) -> None:
    running = find_running(layout.home)
    if running is not None:
        raise AlreadyRunning(
            f"a sandbox runs in {layout.home} already: {running.rm_page}",
            "Use it, stop it with `yarnps sandbox stop`, or name another home with --home.",
        )


def _start_with_ports(
    layout: Layout,
    settings: Settings,
    hadoop: Hadoop,
    java: Java,
    report: Report,
    limit_s: float,
) -> Sandbox:
    for attempt in range(1, PORT_ATTEMPTS + 1):
        try:
            return _start_once(layout, settings, hadoop, java, report, limit_s)
        except DaemonDied as error:
            taken = any(sign in error.log_tail for sign in PORT_TAKEN)
            if not taken or attempt == PORT_ATTEMPTS:
                raise
            report("another program took one of the ports: starting again with others")
            _end_run(layout)
    raise AssertionError("unreachable")


def _start_once(
    layout: Layout,
    settings: Settings,
    hadoop: Hadoop,
    java: Java,
    report: Report,
    limit_s: float,
) -> Sandbox:
    began = time.monotonic()
    state = State(
        settings=settings,
        ports=choose_ports(settings.nodes),
        hadoop=str(hadoop.folder),
        java_home=str(java.home),
    )
    write_state(layout, state)
    write_conf(layout, state)
    write_scripts(layout, state, java)
    names = daemon_names(settings.nodes)
    report(f"starting {len(names)} daemons in {layout.home}")
    place_image(layout, state, java, report)
    for name in names:
        daemons = {**state.daemons, name: start_daemon(layout, state, java, name)}
        state = replace(state, daemons=daemons)
        # At once: whoever ends this start has to know of each daemon that there is.
        write_state(layout, state)
    wait_ready(
        layout,
        state,
        names,
        limit_s=limit_s,
        on_ready=lambda name: report(f"{name} is ready ({time.monotonic() - began:.1f} s)"),
    )
    _make_folders(state)
    state = replace(state, ready=True)
    write_state(layout, state)
    make_archive(layout, state, java)
    return Sandbox(layout.home, state)


def _make_folders(state: State) -> None:
    user = current_user()
    try:
        for path, mode in (("/tmp", "1777"), ("/user", "755"), (f"/user/{user}", "700")):
            make_hdfs_folder(state.ports, path, user=user, mode=mode)
    except HdfsRefused as error:
        raise SandboxError(f"the name node refused a folder: {error}") from None


def _end_run(layout: Layout) -> None:
    state = read_state(layout)
    recorded = state.daemons.values() if state is not None else ()
    # Those of a start that was killed may not be recorded, and one that is just being executed
    # cannot be found by its command line: neither way alone finds all.
    end_with_children(
        {*recorded, *marked(layout.home)},
        lambda: [*marked(layout.home), *containers_of(layout.home / "nodes")],
    )
    remove_run(layout)
