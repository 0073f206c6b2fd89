"""Push and pull of the engine, beside its peers and the limits of the machine, in one run.

``python -m bench.pushpull --servers 1 --workers 1 [--transport tcp|ipc] [--peers]``

Prints lines ``name value unit``: medians of the repetitions, then their spread (highest over
lowest). Every push is acknowledged; 4 calls are outstanding; the server adds into its table. With
``--peers`` the same is done with MXNet's kvstore, with raw pyzmq frames and no work on the server,
with the kernels alone in one process, and with memcpy: repetition by repetition in turn, so that
whatever else this machine does meets all of them. Ratios, ours over theirs, come last.
``--lines 'tiny_*,push_64KB'`` measures some of the lines only.

Lines ``cpu_…`` are the processor time of all processes together, per MB, call or million keys. On
a machine that others use they say more than the clock does: a ratio of theirs over ours above 1
is less work than the peer's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from bench.mxnet_store import mxnet
from bench.pushpull_lines import lines
from bench.pushpull_measuring import REPEATS, Figure, Peer, Repetition, measured, medians
from bench.pushpull_peers import kernels_alone, memcpy, raw_zmq
from bench.pushpull_processes import Workers, start_servers


def run(workers: Workers, servers: list[int], peers: dict[str, list[Peer]]) -> None:
    """All lines, each with its peers, then the ratios."""
    ratios = []
    for name, unit in workers.lines():
        ours = Peer(name, workers.once, workers.pids + servers)
        runners = [ours, *peers.get(name, [])]
        found: dict[str, list[Repetition]] = {runner.name: [] for runner in runners}
        for _ in range(1 + REPEATS):
            for runner in runners:
                found[runner.name].append(measured(runner))
        for repetitions in found.values():
            del repetitions[0]  # memory and kernels are warm from then on
        per = unit.partition("/")[0].removesuffix("s")
        for runner in runners:
            Figure(runner.name, [r.rate for r in found[runner.name]], unit).show()
            Figure(f"cpu_{runner.name}", [r.cpu_us for r in found[runner.name]], f"us/{per}").show()
        mine = medians(found[name])
        for runner in runners[1:]:
            theirs = medians(found[runner.name])
            ratios.append((f"ratio_{name}_to_{runner.name}", mine.rate / theirs.rate))
            ratios.append((f"cpu_ratio_{name}_to_{runner.name}", theirs.cpu_us / mine.cpu_us))
    for name, ratio in ratios:
        print(f"{name} {ratio:.3g} x", flush=True)


@contextmanager
def peers_of(transport: str, folder: Path, wanted: list[str]) -> Iterator[dict[str, list[Peer]]]:
    """Every peer that there is, by the name of our line."""
    found: dict[str, list[Peer]] = {}
    with ExitStack() as stack:
        sources = [kernels_alone(wanted), memcpy()]
        if not all(name.startswith("sparse_") for name in wanted):
            sources.append(stack.enter_context(mxnet(folder)))
            sources.append(stack.enter_context(raw_zmq(transport)))
        for source in sources:
            for line, peer in source:
                found.setdefault(line, []).append(peer)
        yield found


def chosen(patterns: str) -> list[str]:
    """The names of the lines that one of the patterns, with commas between them, is for.

    Raises
    ------
    SystemExit
        A pattern is for no line.
    """
    names = [line.name for line in lines()]
    for pattern in patterns.split(","):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SystemExit(f"no line is called {pattern}: there are {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, p) for p in patterns.split(","))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--transport", choices=["tcp", "ipc"], default="tcp")
    parser.add_argument("--peers", action="store_true", help="MXNet, pyzmq, kernels, memcpy")
    parser.add_argument("--lines", default="*", help="patterns of names, with commas between them")
    parser.add_argument("--data", type=Path, default=Path(".data"), help="where peers live")
    arguments = parser.parse_args()
    wanted = chosen(arguments.lines)
    with ExitStack() as stack:
        peers: dict[str, list[Peer]] = {}
        if arguments.peers:
            peers = stack.enter_context(peers_of(arguments.transport, arguments.data, wanted))
        servers: list[int] = []
        begin = start_servers(stack, arguments.servers, arguments.transport, servers)
        run(Workers(stack, begin, arguments.workers, wanted), servers, peers)


if __name__ == "__main__":
    main()
