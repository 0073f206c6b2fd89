"""Messages of YARN, skein, shells and Python, and what they mean."""

from __future__ import annotations

import pytest

from yarnps.am.resources.decode import (
    Memory,
    container_ended,
    format_bytes,
    process_ended,
    program_failed,
)
from yarnps.causes import Cause

GIB = 1 << 30

MEMORY_FULL = (
    "[2025-06-01 10:00:00.123]Container [pid=71,containerID=container_1_0001_01_000003] is running "
    "140MB beyond the 'PHYSICAL' memory limit. Current usage: 1.2 GB of 1 GB physical memory used; "
    "2.9 GB of 2.1 GB virtual memory used. Killing container.\nDump of the process-tree for ..."
)
CHANGED = (
    "Resource hdfs://nn:8020/user/me/.skein/a.zip changed on src filesystem - expected: "
    '"2025-01-01T00:00:00.000+0000", was: "2025-01-02T00:00:00.000+0000", current time: "…"'
)
NOT_FOUND = (
    "[2025-06-01 10:00:00]File does not exist: hdfs://nn:8020/user/me/.skein/a.zip\n"
    "java.io.FileNotFoundException: File does not exist: hdfs://nn:8020/user/me/.skein/a.zip\n"
    "\tat org.apache.hadoop.hdfs.DistributedFileSystem.getFileStatus(Unknown)"
)
PRELAUNCH = (
    "[2025-06-01 10:00:00]Exception from container-launch.\nContainer id: container_1_0001_01_02\n"
    "Exit code: {code}\n\n[2025-06]Container exited with a non-zero exit code {code}. Error file:"
    " prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n{tail}"
)


@pytest.mark.parametrize(
    ("message", "cause", "says"),
    [
        (MEMORY_FULL, Cause.MEMORY, "1.2 GB of 1 GB used"),
        ("1.2 GB of 1 GB physical memory used", Cause.MEMORY, "1.2 GB of 1 GB used"),
        ("2.9 GB of 2.1 GB virtual memory used", Cause.MEMORY, "vmem-check-enabled"),
        ("Container killed by YARN for exceeding memory limits", Cause.MEMORY, "memory limit"),
        (
            "container_1_2_3 is under oom because it exceeded its physical memory limit",
            Cause.MEMORY,
            "memory limit",
        ),
        ("Container preempted by scheduler", Cause.PREEMPTED, "took the container back"),
        ("Container released on a *lost* node", Cause.NODE_LOST, "node was lost"),
        ("Most of the disks failed. 1/1 local-dirs are bad: /d1", Cause.DISK_FAILED, "disks"),
        (CHANGED, Cause.LOCALISATION, "changed since submission: hdfs://nn:8020/user/me"),
        (NOT_FOUND, Cause.LOCALISATION, "File does not exist: hdfs://nn:8020"),
        ("Download and unpack failed", Cause.LOCALISATION, "could not fetch"),
        ("Container killed by the ApplicationMaster.", Cause.OUR_KILL, "by the Application"),
        ("Container killed by the ApplicationMaster. Exit code is 143", Cause.OUR_KILL, "ended by"),
        ("Container released by application", Cause.OUR_KILL, "ended by"),
        ("Killed by user request.", Cause.OUR_KILL, "ended by"),
        ("killed by application master", Cause.OUR_KILL, "ended by"),
        ("Container Killed by ResourceManager", Cause.PREEMPTED, "resource manager"),
        ("Container expired since it was unused", Cause.LAUNCH, "did not start it in time"),
        ("Failed to start, exception raised: Unauthorized", Cause.LAUNCH, "Unauthorized"),
        ("Container killed on request. Exit code is 143", Cause.SIGNAL, "15 (SIGTERM)"),
        (PRELAUNCH.format(code=1, tail=""), Cause.EXIT, "exit status 1"),
        (
            PRELAUNCH.format(
                code=127, tail="launch.sh: line 9: /opt/py/bin/python: No such file or directory"
            ),
            Cause.ENVIRONMENT,
            "/opt/py/bin/python is not there",
        ),
        (PRELAUNCH.format(code=134, tail=""), Cause.SIGNAL, "SIGABRT"),
        ("Container exited with a non-zero exit code 137.", Cause.SIGNAL, "SIGKILL"),
        ("Container exited with a non-zero exit code 154.", Cause.NODE_LOST, "node manager lost"),
        ("Exit status: -102.", Cause.PREEMPTED, "took the container back"),
        ("Container failed during execution, see logs for more information.", Cause.EXIT, "log"),
        ("", Cause.EXIT, "does not say why"),
        ("Completed successfully.", Cause.EXIT, "exit status 0"),
        ("something new of Hadoop 5", Cause.UNKNOWN, "something new of Hadoop 5"),
    ],
)
def test_a_container_s_end(message: str, cause: Cause, says: str) -> None:
    ending = container_ended(message)
    assert ending.cause is cause
    assert says in ending.text


def test_only_what_repeats_itself_is_certain() -> None:
    assert container_ended(CHANGED).certain
    assert not container_ended(NOT_FOUND).certain
    assert container_ended(PRELAUNCH.format(code=127, tail="")).certain
    assert not container_ended(MEMORY_FULL).certain


def test_a_failure_without_a_word_near_the_limit_is_probably_memory() -> None:
    message = "Container failed during execution, see logs for more information."
    ending = container_ended(message, Memory(limit=GIB, peak=int(0.97 * GIB)))
    assert ending.cause is Cause.MEMORY
    assert "probably for memory (993 MiB of 1 GiB in use)" in ending.text
    far = container_ended(message, Memory(limit=GIB, peak=GIB // 2))
    assert far.cause is Cause.EXIT
    assert "512 MiB of 1 GiB in use" in far.text


def test_a_container_s_output_explains_what_yarn_does_not() -> None:
    ending = container_ended(
        "Container failed during execution, see logs for more information.",
        tail="/usr/bin/python3: Error while finding module specification for 'yarnps.agent' "
        "(ModuleNotFoundError: No module named 'grpc')",
    )
    assert ending.cause is Cause.ENVIRONMENT
    assert "lacks the package grpc" in ending.text
    assert "yarnps.environment" in ending.text
    assert ending.certain


TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    {line}\n"
    "{error}\n"
)


@pytest.mark.parametrize(
    ("code", "tail", "cause", "says"),
    [
        (1, "", Cause.EXIT, "exit status 1"),
        (3, "loading\ncannot go on\n\n", Cause.EXIT, "exit status 3: cannot go on"),
        (-9, "", Cause.SIGNAL, "signal 9 (SIGKILL), not ordered by the ApplicationMaster"),
        (137, "", Cause.SIGNAL, "signal 9 (SIGKILL)"),
        (199, "", Cause.SIGNAL, "signal 71 (unknown signal 71)"),
        (-11, "", Cause.SIGNAL, "SIGSEGV"),
        (-4, "", Cause.SIGNAL, "another kind of processor"),
        (127, "bash: python3.9: command not found", Cause.ENVIRONMENT, "python3.9 is not there"),
        (126, "", Cause.ENVIRONMENT, "cannot be run"),
        (
            1,
            TRACEBACK.format(
                line="import numpy", error="ModuleNotFoundError: No module named 'numpy'"
            ),
            Cause.ENVIRONMENT,
            "lacks the package numpy",
        ),
        (
            1,
            "ImportError: libgomp.so.1: cannot open shared object file: No such file or directory",
            Cause.ENVIRONMENT,
            "libgomp.so.1",
        ),
        (
            1,
            "/usr/bin/python3: No module named yarnps.worker",
            Cause.ENVIRONMENT,
            "lacks the package yarnps",
        ),
    ],
)
def test_a_process_s_end(code: int, tail: str, cause: Cause, says: str) -> None:
    ending = process_ended(code, tail)
    assert ending.cause is cause
    assert says in ending.text


def test_a_kill_near_the_limit_is_probably_memory() -> None:
    near = process_ended(-9, "", Memory(limit=GIB, peak=GIB))
    assert near.cause is Cause.MEMORY
    assert "probably" in near.text
    assert process_ended(-9, "", Memory(limit=GIB, peak=GIB // 2)).cause is Cause.SIGNAL
    # A segmentation fault has other reasons, however full the memory is.
    assert process_ended(-11, "", Memory(limit=GIB, peak=GIB)).cause is Cause.SIGNAL


def test_what_a_container_printed_is_not_yarn_s_word() -> None:
    tail = "2 GB of 1 GB physical memory used, preempted, FileNotFoundException"
    ending = container_ended(PRELAUNCH.format(code=1, tail=tail))
    assert ending.cause is Cause.EXIT
    assert ending.text.endswith(tail)


def test_a_mentioned_module_is_no_missing_one() -> None:
    tail = "warning: No module named 'foo', going on without\n1\n2\n3\n4\nfailed\n"
    assert process_ended(1, tail).cause is Cause.EXIT


def test_an_exception_of_the_program() -> None:
    text = TRACEBACK.format(line="1 / 0", error="ZeroDivisionError: division by zero")
    ending = program_failed("ZeroDivisionError: division by zero", text, user_error=False)
    assert ending.cause is Cause.SCRIPT
    assert "division by zero" in ending.text
    assert ending.traceback == text
    assert not ending.certain
    assert program_failed("ValueError: x", text, user_error=True).certain


def test_wrong_data_is_named_so() -> None:
    ending = program_failed("DataError: a.libsvm:3: not a number", "", user_error=True)
    assert ending.cause is Cause.DATA
    assert ending.text == "a.libsvm:3: not a number"
    assert ending.certain


def test_the_traceback_of_some_output() -> None:
    text = TRACEBACK.format(line="f()", error="KeyError: 'x'")
    ending = process_ended(1, f"epoch 1\n{text}")
    assert ending.traceback == text.strip()
    assert "KeyError: 'x'" in ending.text


def test_sizes_for_people() -> None:
    assert [format_bytes(n) for n in (512 << 20, GIB, int(1.25 * GIB))] == [
        "512 MiB",
        "1 GiB",
        "1.2 GiB",
    ]
