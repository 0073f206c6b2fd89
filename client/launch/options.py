"""The options of `launch.py` and `dmlc-submit`, read into one record.

Options that this version cannot honour are an error that says what to use instead. Options that
mean nothing to the chosen launcher are named in `Options.notes`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from yarnps._errors import InputError

LAUNCHERS: Final = ("local", "ssh", "mpi", "sge", "yarn")
CLUSTER_VARIABLE: Final = "DMLC_SUBMIT_CLUSTER"
DEFAULT_MEMORY: Final = "1g"

_MIB: Final = 2**20
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAIR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[:=](.*)", re.DOTALL)
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([gm])", re.IGNORECASE)

# Parsed for the sake of their names: what they ask for does not exist here.
UNSUPPORTED: Final[Mapping[str, str]] = {
    "--yarn-app-classpath": "there is no Java ApplicationMaster of ours whose class path it was",
    "--yarn-app-dir": "there is no Java ApplicationMaster to be built",
    "--mesos-master": "Mesos is not among the launchers",
    "--slurm-worker-nodes": "Slurm is not among the launchers; `mpi` inside of `salloc` works",
    "--slurm-server-nodes": "Slurm is not among the launchers; `mpi` inside of `salloc` works",
    "--kube-namespace": "Kubernetes is not among the launchers",
    "--kube-worker-image": "Kubernetes is not among the launchers",
    "--kube-server-image": "Kubernetes is not among the launchers",
    "--kube-worker-template": "Kubernetes is not among the launchers",
    "--kube-server-template": "Kubernetes is not among the launchers",
    "--byteps-launch": "BytePS speaks a protocol of its own; start it with its own launcher",
    "--server-hostfile": "it belongs to BytePS, which has a launcher of its own",
    "--scheduler-ip": "it belongs to BytePS; --host-ip sets the scheduler's address",
    "--scheduler-port": "it belongs to BytePS; the scheduler takes a free port for each process",
}

# Option -> the launchers that use it; all others use every option.
_USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "hostfile": ("ssh", "mpi"),
    "sync_dst_dir": ("ssh",),
    "queue": ("yarn", "sge"),
    "jobname": ("yarn", "sge"),
    "worker_memory": ("yarn",),
    "server_memory": ("yarn",),
    "files": ("yarn",),
    "archives": ("yarn",),
    "auto_file_cache": ("yarn",),
    "hdfs_tempdir": ("yarn",),
    "ship_libcxx": ("yarn",),
    "sge_log_dir": ("sge",),
    "host_ip": ("local", "ssh", "mpi", "sge"),
}

P3: Final[Mapping[str, str]] = {"DMLC_PS_VAN_TYPE": "p3", "DMLC_PS_WATER_MARK": "10"}


@dataclass(frozen=True)
class RoleAsk:
    """What is asked for one role.

    Attributes
    ----------
    memory
        Bytes of a container; only YARN is asked for them.
    cores
        0: not said. Then YARN gives one and nothing limits a program's threads elsewhere.
    env
        Variables of this role; they go before those of all roles.
    """

    count: int
    cores: int
    memory: int
    env: Mapping[str, str] = field(default_factory=dict)


class Limits(NamedTuple):
    """Seconds that processes may wait for others.

    Attributes
    ----------
    start_s
        For all to come, from the first one on: a batch system may let all of them wait.
    barrier_s
        At a barrier.
    """

    start_s: float = 600.0
    barrier_s: float = 3600.0


@dataclass(frozen=True)
class Options:
    """One `yarnps launch`, checked."""

    launcher: str
    worker: RoleAsk
    server: RoleAsk
    command: tuple[str, ...]
    env: Mapping[str, str]
    host_file: str = ""
    host_ip: str = ""
    sync_dst_dir: str = ""
    queue: str = ""
    job_name: str = ""
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    ship_named_files: bool = True
    hdfs_tempdir: str = ""
    ship_libcxx: str = ""
    sge_log_dir: str = ""
    notes: tuple[str, ...] = ()

    def role(self, name: str) -> RoleAsk:
        """What is asked for "worker" or "server"."""
        return self.worker if name == "worker" else self.server

    @property
    def shell_command(self) -> str:
        """The command for a shell.

        One word that holds blanks is a line for a shell already: the old launchers joined all
        words and gave them to one, so people quoted the whole line.
        """
        if len(self.command) == 1 and re.search(r"\s", self.command[0]):
            return self.command[0]
        return shlex.join(self.command)

    @property
    def name(self) -> str:
        """The job's name, made of the command where none is given."""
        if self.job_name:
            return self.job_name
        words = shlex.split(self.shell_command)
        program = next((w for w in words if w.endswith((".py", ".sh"))), words[0])
        return f"dmlc-{program.rpartition('/')[2]}"


def read(given: Mapping[str, Any], environ: Mapping[str, str]) -> Options:
    """Check what was given.

    Parameters
    ----------
    given
        Option (as a Python name) to its value, None or empty where it was not given.
    environ
        The environment of the launcher.

    Raises
    ------
    InputError
        Something is missing, wrong or not supported.
    """
    refuse_unsupported(given)
    launcher = _launcher(given, environ)
    if not given["command"]:
        raise InputError(
            "there is no command to launch",
            "Give it after the options: yarnps launch -n 2 -s 1 --launcher local -- python "
            "train.py",
        )
    workers = given["num_workers"]
    servers = given["num_servers"]
    if servers is None:
        # Each of the two tools has a default of its own, and is known by its option's name.
        servers = workers if given["launcher"] or not given["cluster"] else 0
    if launcher == "ssh" and not given["hostfile"]:
        raise InputError("ssh needs to know the hosts", "Name a file of hosts with -H.")
    extra = P3 if given["p3"] else {}
    return Options(
        launcher=launcher,
        worker=_role("worker", workers, given, environ),
        server=_role("server", servers, given, environ),
        command=tuple(given["command"]),
        env={**extra, **pairs("--env", given["env"], environ)},
        host_file=given["hostfile"] or "",
        host_ip=given["host_ip"] or "",
        sync_dst_dir=given["sync_dst_dir"] or "",
        queue=given["queue"] or "",
        job_name=given["jobname"] or "",
        files=_several(given["files"]),
        archives=_several(given["archives"]),
        ship_named_files=given["auto_file_cache"] is not False,
        hdfs_tempdir=given["hdfs_tempdir"] or "",
        ship_libcxx=given["ship_libcxx"] or "",
        sge_log_dir=given["sge_log_dir"] or "",
        notes=tuple(_unused(given, launcher)),
    )


def limits_of(given: Mapping[str, str]) -> Limits:
    """The limits of the options `--start-timeout` and `--barrier-timeout`.

    Raises
    ------
    InputError
        One is no duration.
    """
    from yarnps.spec import parse_duration

    seconds = []
    for name in ("start_timeout", "barrier_timeout"):
        try:
            seconds.append(parse_duration(given[name]))
        except ValueError as error:
            raise InputError(f"--{name.replace('_', '-')} {given[name]}: {error}") from error
    return Limits(*seconds)


def refuse_unsupported(given: Mapping[str, Any]) -> None:
    """Raise InputError when an option is there that nothing here can honour; it names all."""
    found = [name for name in UNSUPPORTED if given.get(python_name(name))]
    if found:
        reasons = "\n".join(f"{name}: {UNSUPPORTED[name]}" for name in found)
        raise InputError(f"not supported: {', '.join(found)}", reasons)


def python_name(option: str) -> str:
    """`--host-file` -> `host_file`."""
    return option.lstrip("-").replace("-", "_")


def pairs(option: str, given: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `--env`.

    `K:V` and `K=V` set one, `K1:V1,K2:V2` several; `K` alone passes on the launcher's own.

    Raises
    ------
    InputError
        A text is none of these, or a variable to be passed on is not set.
    """
    found: dict[str, str] = {}
    for text in given:
        pieces = [piece for piece in text.split(",") if piece]
        if all(_PAIR.fullmatch(piece) for piece in pieces):
            found.update(_pair(piece) for piece in pieces)
        elif all(_NAME.fullmatch(piece) for piece in pieces):
            found.update((name, _present(option, name, environ)) for name in pieces)
        elif _PAIR.fullmatch(text):
            found.update([_pair(text)])  # commas belong to the value
        else:
            raise InputError(
                f"{option} {text}: neither NAME:VALUE nor a variable's name",
                f"Such as {option} OMP_NUM_THREADS:4; repeat {option} for more than one.",
            )
    return found


def memory(option: str, text: str) -> int:
    """Bytes of `1g` or `512m`; `g` and `m` are 2**30 and 2**20, as they were there."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{option} {text}: not a size of memory",
            "Give a number with g or m, such as 2g or 512m.",
        )
    scale = 1024 * _MIB if match[2].lower() == "g" else _MIB
    return int(float(match[1]) * scale)


def _launcher(given: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    asked = [given[name] for name in ("launcher", "cluster") if given[name]]
    if len(set(asked)) > 1:
        raise InputError(
            f"--launcher {asked[0]} and --cluster {asked[1]} contradict each other",
            "They are two names of the same option: give one.",
        )
    if asked:
        return str(asked[0])
    known = environ.get(CLUSTER_VARIABLE, "")
    if known and known not in LAUNCHERS:
        raise InputError(
            f"{CLUSTER_VARIABLE} is {known!r}: there is no such launcher",
            f"Known are {', '.join(LAUNCHERS)}.",
        )
    if known:
        return known
    if given["hostfile"]:
        return "ssh"  # what launch.py does
    raise InputError(
        "where to launch? Neither --launcher (or --cluster) nor a host file is given",
        f"Give --launcher with one of {', '.join(LAUNCHERS)}, or set {CLUSTER_VARIABLE}.",
    )


def _role(name: str, count: int, given: Mapping[str, Any], environ: Mapping[str, str]) -> RoleAsk:
    option = f"--{name}-memory"
    return RoleAsk(
        count=count,
        cores=given[f"{name}_cores"] or 0,
        memory=memory(option, given[f"{name}_memory"] or DEFAULT_MEMORY),
        env=pairs(f"--env-{name}", given[f"env_{name}"], environ),
    )


def _pair(text: str) -> tuple[str, str]:
    match = _PAIR.fullmatch(text)
    assert match is not None
    return match[1], match[2]


def _present(option: str, name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise InputError(
            f"{option} {name}: the variable is to be passed on, but it is not set here",
            f"Set it, or give a value: {option} {name}:VALUE.",
        )
    return environ[name]


def _several(given: Sequence[str]) -> tuple[str, ...]:
    """The values of a repeated option, each of which may be a list with commas."""
    return tuple(piece for text in given for piece in text.split(",") if piece)


def _unused(given: Mapping[str, Any], launcher: str) -> list[str]:
    return [
        f"--{name.replace('_', '-')} is not used: it means something to {' and '.join(by)} only"
        for name, by in _USED_BY.items()
        if launcher not in by and given.get(name) not in (None, (), "")
    ]
