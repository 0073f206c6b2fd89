"""The command `yarnps`: one file per verb, imported when it is asked for.

Every error of the user's ends as one message with what to do and the exit status of its class; an
error of ours ends as one line that names the file with the traceback.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from yarnps._errors import YarnpsError

# Verb -> the line in `yarnps --help`. Kept here, so that help needs no verb's module.
VERBS = {
    "submit": "Submit a job file and follow the job.",
    "launch": "Start a ps-lite program as launch.py and dmlc-submit did.",
    "attach": "Follow a job that runs already.",
    "status": "Say how a job is doing, or how it ended.",
    "list": "List jobs.",
    "logs": "Print the output of a job's containers.",
    "kill": "End a job.",
    "validate": "Check a job file, and its input with --data.",
    "render": "Print the skein specification that a job file becomes.",
    "schema": "Print the JSON schema of job files, for editors.",
    "clean": "Remove what jobs left that ended long ago.",
    "predict": "Score a file with a model.",
    "nearest": "Show the words nearest to one, in a model of word2vec.",
    "sandbox": "Start, stop and look at a Hadoop on this machine.",
    "doctor": "Find out what is wrong with the cluster or its setup.",
}

EXIT_STATUS = """\b
Exit status: 0 succeeded, 1 failed, 2 wrong input, 3 cluster not reachable or sight lost,
4 ended with skips, 5 killed, 6 did not start in time."""


class Verbs(click.Group):
    """A group whose commands are imported by name only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"yarnps.client.cmd_{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `yarnps {near[0]}`?" if near else "`yarnps --help` lists them"
            raise click.UsageError(f"there is no verb {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    epilog=EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(package_name="yarnps", prog_name="yarnps")
def cli(debug: bool) -> None:
    """Parameter-server training on Hadoop YARN."""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    args = list(argv)
    debug = "--debug" in args or bool(os.environ.get("YARNPS_DEBUG"))
    args = [a for a in args if a != "--debug"]
    try:
        result: Any = cli.main(args, prog_name="yarnps", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        return 130
    except YarnpsError as error:
        if debug:
            traceback.print_exc()
        print_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell anything.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last resort: a user sees one line
        if debug:
            traceback.print_exc()
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"  {_keep_traceback(args)}", file=sys.stderr)
        return 1


def print_error(error: YarnpsError) -> None:
    """The message on stderr: what happened, then what to do."""
    print(f"error: {error.what}", file=sys.stderr)
    for line in error.remedy.splitlines():
        print(f"  {line}", file=sys.stderr)


def _keep_traceback(args: list[str]) -> str:
    """Write the traceback at hand to a file and say where it is."""
    from yarnps.client.home import home

    text = f"yarnps {' '.join(args)}\nPython {sys.version}\n\n{traceback.format_exc()}"
    path = home() / "logs" / f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        return f"This is a mistake in yarnps; --debug shows where ({path.parent}: {error.strerror})"
    return f"This is a mistake in yarnps; where it happened is in {path}"


def main() -> NoReturn:
    """Entry point of the command `yarnps`."""
    code = run(sys.argv[1:])
    if any(thread.daemon for thread in threading.enumerate()):
        # Such as a driver that was starting when the job file turned out to be wrong. Python ends
        # such threads in the middle of what they do, and in C++ that is an abort.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
