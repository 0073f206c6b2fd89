"""The command line of `launch.py` and `dmlc-submit`, as one record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from yarnps._errors import InputError
from yarnps.client import main
from yarnps.client.cmd_launch import command
from yarnps.client.launch import options
from yarnps.client.launch.options import LAUNCHERS, UNSUPPORTED, Options
from yarnps.client.launch.ssh import Host, read_hosts

GIB = 2**30


def read(line: str, **environ: str) -> Options:
    """The options of a command line without quotes."""
    context = command.make_context("launch", line.split())
    given: dict[str, Any] = {k: v for k, v in context.params.items() if k not in ("show",)}
    return options.read(given, environ)


@pytest.mark.parametrize(
    ("line", "environ", "launcher"),
    [
        ("--launcher local -n 1 x", {}, "local"),
        ("--cluster sge -n 1 x", {}, "sge"),
        ("--cluster mpi --launcher mpi -n 1 x", {}, "mpi"),
        ("-n 1 x", {"DMLC_SUBMIT_CLUSTER": "yarn"}, "yarn"),
        ("-n 1 -H hosts x", {}, "ssh"),
    ],
)
def test_which_launcher(line: str, environ: dict[str, str], launcher: str) -> None:
    assert read(line, **environ).launcher == launcher


@pytest.mark.parametrize(
    ("line", "servers"),
    [
        ("--launcher local -n 3 x", 3),  # launch.py: as many as workers
        ("--cluster local -n 3 x", 0),  # dmlc-submit: none
        ("--cluster local --num-workers 3 --num-servers 2 x", 2),
    ],
)
def test_servers_that_are_not_asked_for(line: str, servers: int) -> None:
    assert read(line).server.count == servers


def test_everything_of_both_tools() -> None:
    line = (
        "-n 4 -s 2 --cluster yarn --queue q --worker-cores 2 --worker-memory 2g --server-cores 3 "
        "--server-memory 512m --jobname job --files a,b --files c#d --archives e.zip "
        "--env A:1,B:2 --env C=x:y --env-server D:1 --env-worker E:1 --hdfs-tempdir /tmp "
        "--ship-libcxx /lib --log-level DEBUG --log-file log --auto-file-cache 0 --p3 "
        "python train.py --env F:1 -n 7"
    )
    got = read(line)
    assert (got.worker.count, got.worker.cores, got.worker.memory) == (4, 2, 2 * GIB)
    assert (got.server.count, got.server.cores, got.server.memory) == (2, 3, GIB // 2)
    p3 = {"DMLC_PS_VAN_TYPE": "p3", "DMLC_PS_WATER_MARK": "10"}
    assert got.env == {"A": "1", "B": "2", "C": "x:y", **p3}
    assert (got.server.env, got.worker.env) == ({"D": "1"}, {"E": "1"})
    assert got.files == ("a", "b", "c#d") and got.archives == ("e.zip",)
    assert (got.queue, got.name, got.hdfs_tempdir, got.ship_libcxx) == ("q", "job", "/tmp", "/lib")
    assert not got.ship_named_files and not got.notes
    # What follows the command is the command's.
    assert got.command == ("python", "train.py", "--env", "F:1", "-n", "7")


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["A:1"], {"A": "1"}),
        (["A=1", "B:2"], {"A": "1", "B": "2"}),
        (["A:1,B:2"], {"A": "1", "B": "2"}),
        (["P:/a:/b"], {"P": "/a:/b"}),
        (["A:x,y"], {"A": "x,y"}),  # no list of pairs: the comma is the value's
        (["HOME"], {"HOME": "/root"}),
        (["HOME,LANG"], {"HOME": "/root", "LANG": "C"}),
        (["A:"], {"A": ""}),
    ],
)
def test_variables(texts: list[str], found: dict[str, str]) -> None:
    assert options.pairs("--env", texts, {"HOME": "/root", "LANG": "C"}) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [("NOT_SET", "is not set here"), ("1A:2", "neither NAME:VALUE nor"), (":", "neither")],
)
def test_wrong_variables(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        options.pairs("--env", [text], {})


@pytest.mark.parametrize(
    ("text", "size"), [("1g", GIB), ("1.5G", 3 * GIB // 2), ("256m", GIB // 4)]
)
def test_memory(text: str, size: int) -> None:
    assert options.memory("--worker-memory", text) == size


@pytest.mark.parametrize("text", ["1024", "1k", "g", "-1g", ""])
def test_wrong_memory_is_named(text: str) -> None:
    with pytest.raises(InputError, match="--worker-memory"):
        options.memory("--worker-memory", text)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_is_refused_by_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = [] if name == "--byteps-launch" else ["1"]
    line = ["launch", "--launcher", "local", "-n", "1", name, *value, "true"]
    assert main.run(line) == 2
    error = capsys.readouterr().err
    assert f"error: not supported: {name}" in error and UNSUPPORTED[name] in error


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "--launcher local -n 1 --queue q x",
            "--queue is not used: it means something to yarn and",
        ),
        ("--launcher mpi -n 1 --worker-memory 1g x", "--worker-memory is not used"),
        ("--launcher sge -n 1 --files a x", "--files is not used"),
        ("--cluster yarn -n 1 --sync-dst-dir d x", "--sync-dst-dir is not used"),
    ],
)
def test_options_without_a_meaning_here_are_named(line: str, note: str) -> None:
    (found,) = read(line).notes
    assert found.startswith(note)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--launcher local -n 1", "no command"),
        ("-n 1 x", "where to launch"),
        ("--launcher ssh -n 1 x", "ssh needs to know the hosts"),
        ("--launcher ssh --cluster mpi -n 1 x", "contradict"),
    ],
)
def test_what_is_missing(line: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(line)


def test_an_unknown_launcher_of_the_environment() -> None:
    with pytest.raises(InputError, match="DMLC_SUBMIT_CLUSTER is 'mesos'"):
        read("-n 1 x", DMLC_SUBMIT_CLUSTER="mesos")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("python", "a b.py"), "python 'a b.py'"),
        (("cd x && python a.py",), "cd x && python a.py"),
        (("true",), "true"),
    ],
)
def test_the_command_for_a_shell(words: tuple[str, ...], line: str) -> None:
    ask = options.RoleAsk(1, 0, GIB)
    assert Options("local", ask, ask, words, {}).shell_command == line


def test_print_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["launch", "--launcher", "local", "-n", "1", "-s", "1", "--print", "--", "false", "-x"]
    assert main.run(line) == 0
    out = capsys.readouterr().out
    assert "server 0: false -x" in out and "worker 0: false -x" in out
    assert "  DMLC_PS_ROOT_PORT=<a free port>" in out


def test_what_the_launcher_says_goes_to_a_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    words = ["--log-file", str(log), "--queue", "q", "--print", "true"]
    assert main.run(["launch", "--launcher", "local", "-n", "1", *words]) == 0
    assert "note: --queue is not used" in capsys.readouterr().err
    assert "INFO note: --queue is not used" in log.read_text()


def test_every_launcher_is_offered() -> None:
    where = {p.name: p.type for p in command.params}
    assert tuple(where["launcher"].choices) == LAUNCHERS  # type: ignore[attr-defined]


def test_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# ours\nnode1\nme@node2:2222 slots=4\n\n10.0.0.3 # last\n")
    hosts = read_hosts(str(path))
    assert hosts == [Host("node1", None), Host("me@node2", 2222), Host("10.0.0.3", None)]
    assert hosts[1].bare == "node2"
    assert hosts[1].argv("true")[-4:] == ["-p", "2222", "me@node2", "true"]


@pytest.mark.parametrize(
    ("text", "words"), [("", "names no host"), ("a:b\n", "hosts:1: not a host: a:b")]
)
def test_wrong_host_files(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_hosts(str(path))
    with pytest.raises(InputError, match="cannot be read"):
        read_hosts(str(tmp_path / "none"))
