"""`--launcher yarn`: the options become a job file, which is submitted like any other."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from yarnps._errors import ClusterError, InputError
from yarnps.client import exits
from yarnps.client.launch.options import Limits, Options, RoleAsk

MIB: Final = 2**20
LIBCXX: Final = "libstdc++.so.6"
NO_CLUSTER: Final = (
    "Set HADOOP_CONF_DIR to the folder with the cluster's yarn-site.xml and put `yarn` on PATH.\n"
    "Without one: --launcher local; or --print, which shows a job file that `yarnps submit` runs "
    "in other places, too."
)

# Programs that the nodes have; an interpreter is of no use without its library anyway.
_OF_THE_NODES: Final = ("/bin/", "/sbin/", "/usr/", "/lib")
_INTERPRETER: Final = re.compile(r"python[\d.]*|perl|ruby|Rscript|bash|sh|env|java")
_ARCHIVE: Final = re.compile(r"(.+?)(\.tar\.gz|\.tgz|\.zip|\.tar\.bz2|\.tar\.xz|\.tar|\.jar)")

# An archive's content lies beside the program, as the old launcher unpacked it; it is linked,
# because all containers of a node share what YARN has unpacked.
_UNPACK: Final = 'for f in {folder}/*; do [ -e "${{f##*/}}" ] || ln -s "$f" .; done'


class Shipped:
    """The files that go with a job: names in the containers and where they are here."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.folders: list[str] = []  # of archives
        self.notes: list[str] = []

    def add(self, path: Path, name: str = "") -> str:
        """Ship a file; returns its name in the containers.

        Raises
        ------
        InputError
            There is no such file, or another one has its name already.
        """
        if not path.is_file():
            raise InputError(
                f"cannot be shipped: {path}: there is no such file", "Correct the path."
            )
        return self._put(path, name or path.name, f"file://{path.absolute()}")

    def add_archive(self, path: Path) -> None:
        """Ship an archive, to be unpacked.

        Raises
        ------
        InputError
            It is none that YARN can unpack, is not there, or its name is taken.
        """
        match = _ARCHIVE.fullmatch(path.name)
        if match is None or match[2] not in (".tar.gz", ".tgz", ".zip", ".tar", ".jar"):
            raise InputError(
                f"not an archive that YARN unpacks: {path}", "Make it a .zip or a .tar.gz."
            )
        if not path.is_file():
            raise InputError(f"there is no such archive: {path}", "Correct --archives.")
        source = {"source": f"file://{path.absolute()}", "type": "archive"}
        self.folders.append(self._put(path, match[1], source))

    def _put(self, path: Path, name: str, source: Any) -> str:
        if self.files.setdefault(name, source) != source:
            raise InputError(
                f"two files would have the same name in the containers: {name} (one is {path})",
                "Rename one, or ship it under another name: --files PATH#NAME.",
            )
        return name


def command_of(options: Options, shipped: Shipped) -> str:
    """The command for the containers; the files that it names are shipped, and found there.

    Words that are files here become files of the container's folder. What a line for a shell
    names, the user has to ship with `--files`.
    """
    if len(options.command) == 1 and re.search(r"\s", options.command[0]):
        return options.command[0]
    words = []
    for word in options.command:
        path = Path(word)
        if not options.ship_named_files or not path.is_file():
            words.append(word)
        elif word.startswith(_OF_THE_NODES) or _INTERPRETER.fullmatch(path.name):
            shipped.notes.append(f"{word} is not shipped: the nodes have to have it")
            words.append(word)
        else:
            words.append(f"./{shipped.add(path)}")
    return shlex.join(words)


def job_file(options: Options, limits: Limits | None = None) -> tuple[dict[str, Any], list[str]]:
    """The job file of a launch as plain data, and notes for the user.

    Raises
    ------
    InputError
        A file cannot be shipped.
    """
    shipped = Shipped()
    command = command_of(options, shipped)
    for given in options.files:
        path, _, name = given.partition("#")
        shipped.add(Path(path), name)
    for given in options.archives:
        shipped.add_archive(Path(given))
    lines = [_UNPACK.format(folder=shlex.quote(folder)) for folder in shipped.folders]
    if options.ship_libcxx:
        shipped.add(Path(options.ship_libcxx) / LIBCXX)
        lines.append('export LD_LIBRARY_PATH="$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"')
    script = "\n".join([*lines, command, ""])
    services = {
        role: _service(options, options.role(role), shipped, script)
        for role in ("server", "worker")
        if options.role(role).count
    }
    block: dict[str, Any] = {"runtime": "dmlc" if options.server.count else "xgboost"}
    limits, usual = limits or Limits(), Limits()
    if limits.start_s != usual.start_s:
        block["start_timeout"] = f"{limits.start_s:g} s"
    if limits.barrier_s != usual.barrier_s and options.server.count:
        block["dmlc"] = {"barrier_limit": f"{limits.barrier_s:g} s"}
    if options.hdfs_tempdir:
        block["job_dir"] = f"{options.hdfs_tempdir.rstrip('/')}/yarnps-{{app}}"
    job: dict[str, Any] = {"name": options.name}
    if options.queue:
        job["queue"] = options.queue
    return {**job, "services": services, "yarnps": block}, shipped.notes


def _service(options: Options, ask: RoleAsk, shipped: Shipped, script: str) -> dict[str, Any]:
    service: dict[str, Any] = {
        "instances": ask.count,
        "resources": {"memory": f"{-(-ask.memory // MIB)} MiB", "vcores": max(1, ask.cores)},
    }
    if env := {**options.env, **ask.env}:
        service["env"] = dict(env)
    if shipped.files:
        service["files"] = dict(shipped.files)
    return {**service, "script": script}


def as_text(job: dict[str, Any]) -> str:
    """A job file as text."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as such, and everything in full."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def lines(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, lines)
    return yaml.dump(job, Dumper=Dumper, sort_keys=False, width=100)


def launch(options: Options, limits: Limits, say: Callable[..., None], *, show: bool) -> int:
    """Submit the job of a launch and follow it; returns its exit status.

    Parameters
    ----------
    show
        Print the job file instead.

    Raises
    ------
    YarnpsError
        As from `yarnps submit`.
    """
    job, notes = job_file(options, limits)
    for note in notes:
        say(f"note: {note}")
    text = as_text(job)
    if show:
        print(text, end="")
        return exits.SUCCEEDED
    from yarnps.client import clusters, submission
    from yarnps.client.watch import watch
    from yarnps.spec import load

    try:
        chosen = clusters.choose(clusters.YARN, report=say)
    except ClusterError as error:
        raise ClusterError(error.what, NO_CLUSTER) from error
    say(chosen.sentence())
    with tempfile.TemporaryDirectory(prefix="yarnps-launch-") as folder:
        path = Path(folder) / "launch.yaml"
        path.write_text(text)
        view = submission.submit(load(path), say)
    assert view is not None
    try:
        end = watch(view, kill_on_exit=False).end
    finally:
        view.close()
    say(end.sentence)
    program = end.outcome.exit_code if end.outcome is not None else None
    return program or end.code
