"""Why a container or a process ended, from what the cluster, the agent and the role say.

What YARN writes is found in the NodeManager's and the schedulers' messages; skein passes a
container's diagnostics on, except for a positive exit status, which it replaces by one fixed
sentence, and for the memory limits, of which it keeps "1.2 GB of 1 GB physical memory used".
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from yarnps._signals import signal_name
from yarnps.causes import Cause

# From this share of the limit on, an end by SIGKILL is put down to memory.
NEAR_LIMIT = 0.9

# skein's words for every positive exit status.
SKEIN_FAILED = "Container failed during execution"

MEMORY_REMEDY = "give the role more memory, or let it try again with more: yarnps.retry_memory"
ENVIRONMENT_REMEDY = (
    "pack the environment with the job (yarnps.environment: venv:///path, conda://name or an "
    "archive), or name an interpreter that every node has"
)


@dataclass(frozen=True)
class Ending:
    """How something ended.

    Attributes
    ----------
    cause, text
        The code, and a sentence for people; the text holds the remedy, where there is one.
    certain
        The same again would end the same way: do not spend restarts on it.
    traceback
        Of the role's program.
    exit_code
        Of the role's process, as a shell gives it: 128 + n after signal n. None: it is not known,
        or has not failed.
    """

    cause: Cause
    text: str
    certain: bool = False
    traceback: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Memory:
    """What is known of a container's or process's memory, in bytes."""

    limit: int | None = None
    peak: int | None = None

    @property
    def near_limit(self) -> bool:
        """Whether it has been seen close to its limit."""
        return bool(self.limit and self.peak and self.peak >= NEAR_LIMIT * self.limit)

    def __str__(self) -> str:
        if not self.peak:
            return "memory in use not known"
        used = format_bytes(self.peak)
        return f"{used} of {format_bytes(self.limit)} in use" if self.limit else f"{used} in use"


def format_bytes(size: float) -> str:
    """Such as ``512 MiB`` or ``1.2 GiB``."""
    if size < 1 << 30:
        return f"{size / (1 << 20):.0f} MiB"
    return f"{size / (1 << 30):.1f} GiB".replace(".0 ", " ")


# ---------------------------------------------------------------- containers

_MEMORY_USED = re.compile(
    r"([\d.]+ ?[KMGT]?B) of ([\d.]+ ?[KMGT]?B) (physical|virtual) memory used"
)
_EXIT_CODE = re.compile(r"(?i)exit ?(?:code|status)\s*(?:is|:)?\s*(-?\d+)")

_Make = Callable[[re.Match[str], str], Ending]


def _plain(cause: Cause, text: str, *, certain: bool = False) -> _Make:
    """A maker for endings whose sentence does not depend on the message."""
    return lambda match, message: Ending(cause, text, certain=certain)


def _over_memory(match: re.Match[str], message: str) -> Ending:
    used = _MEMORY_USED.search(message)
    if used is None:
        text = "the container went over its memory limit and YARN killed it"
    elif used[3] == "virtual":
        # The limit on virtual memory says little about use; the remedy is another one.
        return Ending(
            Cause.MEMORY,
            f"YARN killed the container for virtual memory: {used[1]} of {used[2]} used; ask the "
            "cluster's administrator to switch off yarn.nodemanager.vmem-check-enabled, or give "
            "the role more memory",
        )
    else:
        text = f"YARN killed the container for memory: {used[1]} of {used[2]} used"
    return Ending(Cause.MEMORY, f"{text}; {MEMORY_REMEDY}")


def _changed_file(match: re.Match[str], message: str) -> Ending:
    return Ending(
        Cause.LOCALISATION,
        f"the node could not fetch a file that has changed since submission: {match[1]}; "
        "submit again, and leave the job's files alone while it runs",
        certain=True,
    )


def _not_fetched(match: re.Match[str], message: str) -> Ending:
    return Ending(
        Cause.LOCALISATION,
        f"the node could not fetch the container's files: {first_line(message, match.start())}",
    )


def _not_launched(match: re.Match[str], message: str) -> Ending:
    return Ending(Cause.LAUNCH, f"the container did not start: {first_line(message)}")


# In this order: the first that matches. More special messages come before those they contain.
_MESSAGES: tuple[tuple[re.Pattern[str], _Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"(?i)preempted", _plain(Cause.PREEMPTED, "the scheduler took the container back")),
        (
            r"(?i)released on a \*?lost\*? node|node .*(?:lost|decommissioned|out of sync)",
            _plain(Cause.NODE_LOST, "the container's node was lost"),
        ),
        (
            r"(?i)disks? (?:have |has )?failed|(?:local|log)-dirs (?:are|have) (?:gone )?bad",
            _plain(Cause.DISK_FAILED, "the disks of the container's node have failed"),
        ),
        (
            r"running beyond (?:the '?)?\w* ?'?memory limits?|running beyond the '\w+' limit"
            r"|[KMGT]?B of [\d.]+ ?[KMGT]?B (?:physical|virtual) memory used"
            r"|exceed\w* (?:its |their )?(?:physical |virtual )?memory limits?"
            r"|under oom",
            _over_memory,
        ),
        (r"Resource (\S+) changed on src filesystem", _changed_file),
        (
            r"FileNotFoundException|Unable to download|Download and unpack failed|Cannot unpack"
            r"|(?i:localiz\w+ (?:has )?failed)|LOCALIZATION_FAILED|not publicly accessible"
            r"|File does not exist|Failed to download",
            _not_fetched,
        ),
        (
            r"(?i)killed by (?:the )?application ?master|released by application"
            r"|killed by user request|killed by application master",
            _plain(Cause.OUR_KILL, "ended by the ApplicationMaster"),
        ),
        (
            r"(?i)killed by (?:the )?resource ?manager",
            _plain(Cause.PREEMPTED, "the resource manager took the container back"),
        ),
        (
            r"(?i)expired since it was unused|expired since it unused",
            _plain(Cause.LAUNCH, "the container's node did not start it in time"),
        ),
        (
            r"Failed to start, exception raised|Failed to launch|launch failed"
            r"|terminated before launch|killed before being launched",
            _not_launched,
        ),
    )
)


# YARN's own exit statuses (ContainerExitStatus, and 154: lost by the node manager's restart), where
# a message has nothing else.
YARN_CODES: dict[int | None, tuple[Cause, str]] = {
    -100: (Cause.NODE_LOST, "YARN gave the container up (aborted)"),
    -101: (Cause.DISK_FAILED, "the disks of the container's node have failed"),
    -102: (Cause.PREEMPTED, "the scheduler took the container back"),
    -103: (Cause.MEMORY, "YARN killed the container for virtual memory"),
    -104: (Cause.MEMORY, f"YARN killed the container for memory; {MEMORY_REMEDY}"),
    -105: (Cause.OUR_KILL, "ended by the ApplicationMaster"),
    -106: (Cause.PREEMPTED, "the resource manager took the container back"),
    -107: (Cause.OUR_KILL, "ended with the application"),
    -108: (Cause.PREEMPTED, "the node's scheduler made room for another container"),
    -1000: (Cause.LAUNCH, "the container did not start"),
    154: (Cause.NODE_LOST, "the node manager lost the container at its restart"),
}


def container_ended(message: str, memory: Memory | None = None, tail: str = "") -> Ending:
    """Decode a container's end.

    Parameters
    ----------
    message
        The cluster's words (``ContainerInfo.exit_message``).
    memory
        What its agent has reported last.
    tail
        The last lines of its output, where the caller could get them.
    """
    memory = memory or Memory()
    # What the container itself has printed must not be taken for YARN's words.
    words, _, printed = message.partition("Last 4096 bytes of")
    for pattern, make in _MESSAGES:
        match = pattern.search(words)
        if match:
            return make(match, words)
    if "Completed successfully" in message:
        return Ending(Cause.EXIT, "the container ended by itself, with exit status 0")
    missing = _missing_package(tail or printed)
    if missing:
        return missing
    code = exit_code(words)
    if code in YARN_CODES:
        return Ending(*YARN_CODES[code])
    if code is not None:
        return process_ended(code, tail or printed, memory)
    if SKEIN_FAILED in message or not message.strip():
        return _unexplained(memory)
    if "container-launch" in message:
        return Ending(Cause.LAUNCH, f"the container did not start: {first_line(message)}")
    return Ending(Cause.UNKNOWN, f"the container ended: {first_line(message)}")


def exit_code(message: str) -> int | None:
    """The exit status that a message of YARN names, signals as 128 + n."""
    found = re.search(r"(?i)non-zero exit code (-?\d+)", message) or _EXIT_CODE.search(message)
    return int(found[1]) if found else None


def _unexplained(memory: Memory) -> Ending:
    if memory.near_limit:
        return _probably_memory("the container failed", memory)
    return Ending(
        Cause.EXIT,
        f"the container failed and YARN does not say why ({memory}); its log tells more",
    )


# ---------------------------------------------------------------- processes

_MODULE = re.compile(r"(?:ModuleNotFoundError: )?No module named '?([\w.]+)'?")
_LIBRARY = re.compile(
    r"ImportError: (lib\S+: cannot open shared object file.*|.*GLIBC\S* not found.*)"
)
_SHELL_MISSING = re.compile(r"(\S+): (?:command not found|No such file or directory)")


def process_ended(code: int, tail: str, memory: Memory | None = None) -> Ending:
    """Decode a process's exit status (negative or 128 + n: signal n) and its last output."""
    memory = memory or Memory()
    missing = _missing_package(tail)
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if missing and not number:
        return missing
    if code in (126, 127):
        return _no_interpreter(code, tail)
    if number:
        return _by_signal(number, memory)
    text = f"the process ended with exit status {code}"
    last = last_line(tail)
    return Ending(Cause.EXIT, f"{text}: {last}" if last else text, traceback=traceback_of(tail))


def _missing_package(tail: str) -> Ending | None:
    """An ending for output that ends in a failed import; it is the last words that count."""
    end = "\n".join(tail.strip().splitlines()[-3:])
    module = _MODULE.search(end)
    if module:
        name = module[1].partition(".")[0]
        what = (
            f"the environment of the containers lacks the package {name} (a module of your own "
            "goes into the service's files)"
        )
    else:
        library = _LIBRARY.search(end)
        if library is None:
            return None
        what = f"the environment of the containers does not work on this node: {library[1]}"
    return Ending(
        Cause.ENVIRONMENT,
        f"{what}; {ENVIRONMENT_REMEDY}",
        certain=True,
        traceback=traceback_of(tail),
    )


def _no_interpreter(code: int, tail: str) -> Ending:
    missing = _SHELL_MISSING.search(tail)
    what = f"{missing[1]} is not there" if missing else "a command was not found"
    if code == 126:
        what = "a command is there but cannot be run"
    return Ending(
        Cause.ENVIRONMENT,
        f"the node cannot run the job's interpreter or script (exit status {code}): {what}; "
        f"{ENVIRONMENT_REMEDY}",
        certain=True,
    )


def _by_signal(number: int, memory: Memory) -> Ending:
    text = f"ended by signal {number} ({signal_name(number)})"
    if number == signal.SIGKILL and memory.near_limit:
        return _probably_memory(text, memory)
    if number == signal.SIGKILL:
        text += f", not ordered by the ApplicationMaster ({memory})"
    elif number == signal.SIGILL:
        text += ": the program was built for another kind of processor"
    return Ending(Cause.SIGNAL, text)


def _probably_memory(text: str, memory: Memory) -> Ending:
    return Ending(Cause.MEMORY, f"{text}, probably for memory ({memory}); {MEMORY_REMEDY}")


# Our own exceptions that tell of a mistake; their sentence needs no traceback.
_USER_ERRORS = {
    "DataError": Cause.DATA,
    "InputError": Cause.INPUT,
    "JobFileError": Cause.INPUT,
    "ServerRefused": Cause.INPUT,
}


def program_failed(error: str, traceback: str, *, user_error: bool) -> Ending:
    """Decode an exception that a role has reported before it ended."""
    missing = _missing_package(traceback) or _missing_package(error)
    if missing:
        return missing
    kind, _, rest = first_line(error).partition(": ")
    if user_error and rest and kind.rpartition(".")[2] in _USER_ERRORS:
        return Ending(_USER_ERRORS[kind.rpartition(".")[2]], rest, certain=True)
    text = f"the program raised an exception: {first_line(error)}"
    return Ending(Cause.SCRIPT, text, certain=user_error, traceback=traceback)


# ---------------------------------------------------------------- pieces of text


def traceback_of(tail: str) -> str:
    """The last Python traceback in some output, or nothing."""
    start = tail.rfind("Traceback (most recent call last):")
    return tail[start:].strip() if start >= 0 else ""


def first_line(text: str, near: int = 0) -> str:
    """The first line of `text` with something in it, or the line that holds position `near`."""
    start = text.rfind("\n", 0, near) + 1
    line = next((part for part in text[start:].splitlines() if part.strip()), "")
    return line.strip()[:300]


def last_line(text: str) -> str:
    """The last line of `text` with something in it."""
    line = next((part for part in reversed(text.splitlines()) if part.strip()), "")
    return line.strip()[:300]
