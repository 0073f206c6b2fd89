"""What may be wrong on this machine and on the cluster: one function for each thing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from yarnps._errors import YarnpsError
from yarnps.client import clusters, hadoop_conf, interpreter, rm
from yarnps.client.driver import is_noexec, java
from yarnps.client.home import home
from yarnps.client.output import duration, size
from yarnps.client.yarn_job import queue_text

if TYPE_CHECKING:
    from yarnps.spec import Job

OK, NOTE, BAD = "ok", "note", "bad"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
COMMAND_LIMIT_S = 30.0
DAY_S = 86_400


@dataclass(frozen=True)
class Finding:
    """What one check has found; `level` is "ok", "note" or "bad"."""

    check: str
    level: str
    text: str
    remedy: str = ""


Check = Callable[[], Iterator[Finding]]


def this_machine() -> list[tuple[str, Check]]:
    """Checks that need no cluster."""
    return [("python", check_python), ("noexec", check_noexec), ("home", check_home)]


def hadoop(job: Job | None) -> list[tuple[str, Check]]:
    """Checks of the client's Hadoop and of the cluster behind it."""
    return [
        ("java", check_java),
        ("yarn", check_yarn),
        ("proxy", check_proxy),
        ("certificate", check_certificate),
        ("https", check_https),
        ("resource manager", check_rm),
        ("hdfs", check_hdfs),
        ("queue", lambda: check_queue(job)),
        ("limits", lambda: check_limits(job)),
        ("vcores", check_vcores),
    ]


def run(checks: list[tuple[str, Check]]) -> Iterator[Finding]:
    """All findings, one after the other; a check that cannot be made is a finding, too."""
    for name, check in checks:
        try:
            yield from check()
        except YarnpsError as error:
            yield Finding(name, BAD, error.what, error.remedy)
        except (OSError, ValueError, KeyError) as error:
            yield Finding(name, BAD, f"cannot be checked: {type(error).__name__}: {error}")


# ---------------------------------------------------------------- this machine


def check_python() -> Iterator[Finding]:
    """The interpreter that submits has all that a job needs."""
    found = interpreter.ask(sys.executable)
    version = ".".join(map(str, found.version))
    if found.missing:
        yield Finding(
            "python",
            BAD,
            f"packages are missing: {', '.join(found.missing)}",
            f"{sys.executable} -m pip install yarnps",
        )
    else:
        yield Finding("python", OK, f"Python {version} with all packages: {sys.executable}")


def check_noexec() -> Iterator[Finding]:
    """skein's native library is unpacked in /tmp and run from there."""
    if is_noexec("/tmp"):
        yield Finding(
            "noexec",
            NOTE,
            "/tmp is mounted noexec: skein's native library cannot run there",
            f"The client uses {home() / 'tmp'} instead. On nodes: set JDK_JAVA_OPTIONS="
            "-Djava.io.tmpdir=<folder> in master.env.",
        )
    else:
        yield Finding("noexec", OK, "programs may run from /tmp")


def check_home() -> Iterator[Finding]:
    """The client's own folder can be written."""
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        yield Finding("home", BAD, f"{folder} cannot be written: {reason}", "Set YARNPS_HOME.")
    else:
        yield Finding("home", OK, f"{folder} can be written")


# ---------------------------------------------------------------- the client's Hadoop


def check_java() -> Iterator[Finding]:
    """A Java runtime, for skein's driver."""
    path = java()
    done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
    first = (done.stderr or done.stdout).strip().splitlines()[:1]
    if done.returncode:
        yield Finding("java", BAD, f"{path} does not work: {' '.join(first)}", "Install another.")
    else:
        yield Finding("java", OK, f"{' '.join(first)}: {path}")


def check_yarn() -> Iterator[Finding]:
    """The `yarn` command and the class path that it prints."""
    command = clusters.need_yarn(os.environ)
    yield Finding("yarn", OK, f"`yarn` is {command}")
    try:
        done = subprocess.run(
            [command, "classpath", "--glob"],
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding(
            "class path",
            BAD,
            f"`yarn classpath --glob` fails: {error}",
            "Run it by hand: the client installation of Hadoop is broken.",
        )
        return
    entries = [entry for entry in done.stdout.strip().split(":") if entry]
    missing = [e for e in entries if not e.endswith("*") and not Path(e).exists()]
    if not any("hadoop-yarn-client" in entry for entry in entries):
        yield Finding(
            "class path",
            BAD,
            f"`yarn classpath --glob` has {len(entries)} entries, and no hadoop-yarn-client",
            "Install Hadoop's YARN client on this machine.",
        )
    else:
        text = f"{len(entries)} entries"
        if missing:
            text += f", {len(missing)} of them are not there (such as {missing[0]})"
        yield Finding("class path", OK, text)


def check_proxy() -> Iterator[Finding]:
    """Proxies that would be asked for connections inside the cluster."""
    there = [v for v in os.environ if v.lower() in PROXIES and os.environ[v]]
    options = os.environ.get("JAVA_TOOL_OPTIONS", "") + os.environ.get("_JAVA_OPTIONS", "")
    if "proxyHost" in options:
        there.append("JAVA_TOOL_OPTIONS")
    if there:
        yield Finding(
            "proxy",
            NOTE,
            f"proxies are set: {', '.join(sorted(there))}",
            "yarnps goes around them for its own connections; other programs (plain skein: "
            "`Unable to connect to driver`) need no_proxy=127.0.0.1,localhost and the nodes.",
        )
    else:
        yield Finding("proxy", OK, "no proxy variables")


def check_certificate() -> Iterator[Finding]:
    """skein's own pair, which plain skein programs use, is valid for a year only."""
    folder = Path(os.environ.get("SKEIN_CONFIG", str(Path.home() / ".skein")))
    path = folder / "skein.crt"
    if not path.exists():
        yield Finding("certificate", OK, "each job gets a pair of its own; skein has no other here")
        return
    from cryptography import x509

    ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
    days = int((ends - time.time()) // DAY_S)
    if days < 14:
        when = f"ends in {days} days" if days >= 0 else f"ended {-days} days ago"
        yield Finding(
            "certificate",
            NOTE,
            f"skein's certificate {when}: {path}",
            "Jobs of yarnps have their own. For plain skein: `skein config gencerts --force`.",
        )
    else:
        yield Finding("certificate", OK, f"skein's own is valid for {days} days; jobs have others")


def check_https() -> Iterator[Finding]:
    """Clusters whose web services speak TLS, or want Kerberos."""
    conf = hadoop_conf.load()
    policies = {k: conf.get(k, "HTTP_ONLY") for k in ("yarn.http.policy", "dfs.http.policy")}
    strict = [name for name, value in policies.items() if value == "HTTPS_ONLY"]
    if strict:
        yield Finding(
            "https",
            NOTE,
            f"web services speak https only: {', '.join(strict)}",
            "If their certificates are the cluster's own, set SSL_CERT_FILE to its authority's.",
        )
    else:
        yield Finding("https", OK, "web services speak http")
    if conf.secure:
        ticket = subprocess.run(["klist", "-s"], timeout=30) if shutil.which("klist") else None
        good = ticket is not None and ticket.returncode == 0
        yield Finding(
            "kerberos",
            OK if good else BAD,
            "there is a valid ticket" if good else "the cluster wants Kerberos: no valid ticket",
            "" if good else "kinit",
        )


# ---------------------------------------------------------------- the cluster


def _manager() -> rm.ResourceManager:
    return rm.ResourceManager.of(hadoop_conf.load())


def check_rm() -> Iterator[Finding]:
    """The resource manager answers and has nodes."""
    manager = _manager()
    try:
        nodes = manager.nodes()
    except rm.RmRefused as error:
        yield Finding("resource manager", NOTE, error.what, error.remedy)
        return
    if not nodes:
        yield Finding(
            "resource manager",
            BAD,
            f"{manager.addresses[0]} answers, and has no running node",
            "Look at the node managers.",
        )
        return
    free, memory = sum(n.free_memory for n in nodes), sum(n.memory for n in nodes)
    vcores, free_vcores = sum(n.vcores for n in nodes), sum(n.free_vcores for n in nodes)
    yield Finding(
        "resource manager",
        OK,
        f"{manager.addresses[0]}: {len(nodes)} nodes, {size(free)} of {size(memory)} free, "
        f"{free_vcores} of {vcores} vcores free",
    )


def check_hdfs() -> Iterator[Finding]:
    """The default file system answers, and the user may write to the home folder."""
    from yarnps.files import home_address, open_files

    address = home_address()
    files, path = open_files(address)
    started = time.monotonic()
    probe = f"{path.rstrip('/')}/.yarnps/.probe-{os.getpid()}"
    files.mkdirs(f"{path.rstrip('/')}/.yarnps")
    files.write_bytes(probe, b"", overwrite=True)
    files.delete(probe)
    took = duration(time.monotonic() - started)
    yield Finding("hdfs", OK, f"{address} can be written ({took})")


def check_queue(job: Job | None) -> Iterator[Finding]:
    """The job's queue (or `default`) is there, and has room for an ApplicationMaster."""
    name = (job.queue if job else "") or "default"
    queues = _manager().queues()
    queue = rm.find_queue(queues, name)
    if queue is None:
        there = ", ".join(sorted(q.name for q in queues))
        yield Finding("queue", BAD, f"there is no queue {name!r}", f"There are: {there}")
    elif queue.state != "RUNNING":
        yield Finding("queue", BAD, f"the queue {name!r} is {queue.state}", "Choose another one.")
    else:
        yield Finding("queue", OK, f"{name}: {queue_text(queue)}")
        limit, used = queue.am_limit_memory, queue.am_used_memory
        least = 1 << 30
        if limit is not None and used is not None and limit - used < least:
            yield Finding(
                "queue",
                NOTE,
                f"ApplicationMasters may have {size(limit)} in {name}, and use {size(used)}: "
                "a job will be accepted and wait",
                "Raise yarn.scheduler.capacity.maximum-am-resource-percent, use another queue, or "
                "lower master.resources.memory.",
            )


def check_limits(job: Job | None) -> Iterator[Finding]:
    """What the job asks for against what a container may have and the nodes can hold."""
    from yarnps.client.submission import yarn_limits

    manager, conf = _manager(), hadoop_conf.load()
    limits = yarn_limits(manager, conf)
    text = f"a container may have {size(limits.max_memory)} and {limits.max_vcores} vcores"
    if job is None:
        yield Finding("limits", OK, text)
        return
    from yarnps.spec import needs

    needed = needs(job, limits)
    for problem in needed.problems:
        yield Finding("limits", BAD, str(problem), f"On this cluster {text}.")
    for warning in needed.warnings:
        yield Finding("limits", NOTE, warning)
    nodes = manager.nodes()
    memory, free = sum(n.memory for n in nodes), sum(n.free_memory for n in nodes)
    largest = max((n.memory for n in nodes), default=0)
    for ask in needed.asks:
        if limits.max_memory >= ask.granted_memory > largest:
            yield Finding(
                "limits",
                BAD,
                f"no node can hold the {ask.name}: {size(ask.granted_memory)} asked for, the "
                f"largest node has {size(largest)}",
                f"Lower services.{ask.name}.resources.memory.",
            )
    if needed.memory > memory:
        yield Finding(
            "limits",
            BAD,
            f"the job asks for {size(needed.memory)}, all nodes together have {size(memory)}",
            "Ask for fewer or smaller containers.",
        )
    elif needed.memory > free:
        yield Finding(
            "limits",
            NOTE,
            f"the job asks for {size(needed.memory)}, {size(free)} are free now: it will wait",
        )
    elif not needed.problems:
        yield Finding("limits", OK, f"the job's {size(needed.memory)} fit; {text}")


def check_vcores() -> Iterator[Finding]:
    """Whether the scheduler counts vcores, by its configuration where that is on this machine."""
    value = hadoop_conf.scheduler_property("yarn.scheduler.capacity.resource-calculator")
    if value is None:
        yield Finding(
            "vcores",
            OK,
            "whether the scheduler counts vcores is not to be seen from here; --probe tries it",
        )
    else:
        yield vcores_finding("Dominant" in value)


def vcores_finding(counted: bool) -> Finding:
    """What it means that vcores are counted or not."""
    if counted:
        return Finding("vcores", OK, "the scheduler counts vcores")
    return Finding(
        "vcores",
        NOTE,
        "the scheduler looks at memory only: every container gets 1 vcore on paper",
        "Processes may use more than they were given. To count vcores, the cluster needs "
        "yarn.scheduler.capacity.resource-calculator = DominantResourceCalculator.",
    )
