"""A real sshd and a real Grid Engine, started by tests on ports of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from waiting import until

LIMIT_S = 30.0
SGE_FILES = Path("/usr/share/gridengine")
# What differs from the engine's defaults: any user may run jobs, and nothing waits for a period.
SGE_GLOBAL = {"min_uid": "0", "min_gid": "0", "load_report_time": "00:00:02"}
SGE_SCHEDULER = {
    "schedule_interval": "0:0:2",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "job_load_adjustments": "NONE",
    "load_adjustment_decay_time": "0:0:0",
}
SGE_QUEUE = {
    "qname": "all.q",
    "hostlist": "@allhosts",
    "load_thresholds": "NONE",
    "slots": "8",
    "pe_list": "orte",
}
SGE_PARALLEL = {
    "pe_name": "orte",
    "slots": "8",
    "user_lists": "NONE",
    "xuser_lists": "NONE",
    "start_proc_args": "NONE",
    "stop_proc_args": "NONE",
    "allocation_rule": "$pe_slots",
    "control_slaves": "FALSE",
    "job_is_first_task": "TRUE",
    "urgency_slots": "min",
    "qsort_args": "NONE",
    "accounting_summary": "FALSE",
}
SGE_HOST = ("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects")
SGE_HOST += ("xprojects", "usage_scaling", "report_variables")


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def need(*programs: str) -> None:
    """Fail where a program is missing, with the Debian packages that have them all."""
    missing = [p for p in programs if not shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin")]
    assert not missing, (
        f"{missing}: apt-get install openssh-server rsync openmpi-bin gridengine-master "
        "gridengine-exec gridengine-client"
    )


@contextmanager
def running(argv: list[str], env: Mapping[str, str], log: Path) -> Iterator[None]:
    """A daemon in the foreground, for as long as the block lasts."""
    with log.open("w") as out:
        process = subprocess.Popen(argv, env=dict(env), stdout=out, stderr=out)
    try:
        yield
    finally:
        process.kill()  # there is nothing that it should put in order
        process.wait(LIMIT_S)


@contextmanager
def sshd(folder: Path) -> Iterator[dict[str, str]]:
    """An sshd on loopback that takes one new key.

    Gives the environment in which `ssh` presents that key; `hosts` in the folder names the host.
    """
    need("ssh", "sshd", "ssh-keygen", "rsync")
    for name in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, timeout=LIMIT_S)
    port = free_port()
    server = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        # The default's kind of limit, but without chance: the sixth who is not past the key
        # exchange is refused.
        "MaxStartups": "5:100:5",
    }
    client = {
        "IdentityFile": folder / "user",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": folder / "known_hosts",
    }
    (folder / "sshd_config").write_text(settings(server))
    (folder / "ssh_config").write_text(settings(client))
    (folder / "hosts").write_text(f"# one host\n127.0.0.1:{port}\n")
    (folder / "bin").mkdir()
    program = folder / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    program.chmod(0o755)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd asks for it, and it goes with a reboot
    path = str(shutil.which("sshd", path="/usr/sbin:/usr/local/sbin"))
    log = folder / "sshd.log"
    with running([path, "-D", "-e", "-f", str(folder / "sshd_config")], os.environ, log):
        until(lambda: "listening" in log.read_text(), "sshd listens", LIMIT_S, report=log.read_text)
        yield {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


@contextmanager
def grid_engine(root: Path) -> Iterator[dict[str, str]]:
    """A Grid Engine of one host with eight slots. Gives the environment of its commands."""
    need("qsub", "qconf", "sge_qmaster", "sge_execd")
    env = {
        **os.environ,
        "SGE_ROOT": str(root),
        "SGE_CELL": "default",
        "SGE_QMASTER_PORT": str(free_port()),
        "SGE_EXECD_PORT": str(free_port()),
        "SGE_ND": "1",  # the daemons stay in the foreground
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            words, env=env, check=False, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    _lay_out(root)
    files = _Files(root)
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    run("/usr/share/gridengine/scripts/init_cluster", str(root), "default", f"{root}/db", user)
    master, node = root / "qmaster.log", root / "execd.log"
    with running(["/usr/sbin/sge_qmaster"], env, master):
        until(lambda: _answers(env), "the queue master answers", LIMIT_S, report=master.read_text)
        changed = {**SGE_GLOBAL, "execd_spool_dir": f"{root}/execd"}
        text = (SGE_FILES / "default-configuration").read_text()
        run("qconf", "-Mconf", files.write("global", with_values(text, changed)))
        run(
            "qconf",
            "-Msconf",
            files.write("sched", with_values(run("qconf", "-ssconf"), SGE_SCHEDULER)),
        )
        run("qconf", "-as", "localhost")
        host = {"hostname": "localhost", **dict.fromkeys(SGE_HOST, "NONE")}
        run("qconf", "-Ae", files.write("host", settings(host)))
        group = {"group_name": "@allhosts", "hostlist": "localhost"}
        run("qconf", "-Ahgrp", files.write("group", settings(group)))
        run("qconf", "-Ap", files.write("pe", settings(SGE_PARALLEL)))
        run("qconf", "-Aq", files.write("queue", with_values(run("qconf", "-sq"), SGE_QUEUE)))
        with running(["/usr/sbin/sge_execd"], env, node):
            until(lambda: "lx-" in run("qhost", "-h", "localhost"), "the node reports", LIMIT_S)
            yield env


def _lay_out(root: Path) -> None:
    """The folders and files that the engine's own installer would make."""
    root.chmod(0o755)
    for name in ("default/common", "master/job_scripts", "db", "execd"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "utilbin", "lib"):
        (root / name).symlink_to(Path("/var/lib/gridengine") / name)
    (root / "util").symlink_to(SGE_FILES / "util")
    common = root / "default" / "common"
    changed = {
        "admin_user": "none",
        "spooling_params": f"{root}/db",
        "qmaster_spool_dir": f"{root}/master",
    }
    text = (SGE_FILES / "default-bootstrap").read_text()
    (common / "bootstrap").write_text(with_values(text, changed))
    # The machine's name and its address's name may differ, and the engine compares them.
    (common / "act_qmaster").write_text("localhost\n")
    (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")


def _answers(env: Mapping[str, str]) -> bool:
    words = ["qconf", "-sconf"]
    done = subprocess.run(words, env=dict(env), check=False, capture_output=True, timeout=LIMIT_S)
    return done.returncode == 0


class _Files:
    """Small files for commands that take their settings from files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, text: str) -> str:
        path = self._folder / name
        path.write_text(text)
        return str(path)


def settings(values: Mapping[str, object]) -> str:
    """A file with a word and its value on each line."""
    return "".join(f"{name} {value}\n" for name, value in values.items())


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The lines of such a file, some of them with other values; comments are left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = [line.split(None, 1)[0] for line in lines]
    assert set(values) <= set(known), (values, known)
    return "".join(
        f"{name} {values[name]}\n" if name in values else f"{line}\n"
        for name, line in zip(known, lines, strict=True)
    )
