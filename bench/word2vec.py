"""word2vec beside gensim on real English: speed in one run, or quality over seeds.

``python -m bench.word2vec speed [--files N] [--repeats R] [--algorithm skipgram|cbow]``
``python -m bench.word2vec quality [--seeds 1,2,3,4,5] [--epochs E] [--algorithm …] [--folder DIR]
[--unmixed] [--workers W]``

The text is that of `specs/english_data.py`, made when it is not there: 14 M words in 8 files. Both
sides have the same settings: dim 100, window 5, 5 negative samples, min count 5, sample 1e-3.

**Speed**: gensim with 2 threads on `corpus_file`, and a whole local job with 2 workers and one
server, in turn. Words per second count all words of the text: gensim's from the call of `train` to
its return, ours from the first lease of a training split to the last one's end. Processor time is
that of all threads in this time, of gensim's process or of all processes of our job.
Prints lines ``name value unit``: medians, their spread (highest over lowest), the ratios last.

**Quality**: for each seed a job's vectors and gensim's are judged by WordSim-353, SimLex-999
(Spearman's rho) and the analogies among the most frequent 30,000 words (share of right answers).
Gensim has one thread for this: of n threads on a `corpus_file` each lets its learning rate fall by
its own words only, so not to `min_alpha`, and the settings would not be the same. It learns the
text as it is, and (`gensim_mixed`) its lines in a random order, as a job mixes its input when it
is not told otherwise; with `--unmixed` our job goes through the text as it is, too. Vectors are
kept in the folder: a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import jobs
from bench.jobs import show
from specs.english_data import FOLDER, make

LIMIT_S = 3600.0
THREADS = 2
RESTRICT = 30_000
SAME: dict[str, Any] = {"window": 5, "negative": 5, "min_count": 5, "sample": 0.001}
DIM = 100
JOB = """
name: word2vec
services:
  server: {{instances: 1, resources: {{memory: 2 GiB, vcores: 1}}}}
  worker: {{instances: {workers}, resources: {{memory: 2 GiB, vcores: 1}}}}
yarnps:
  app: word2vec
  params: {params}
  data: {{train: [{train}], format: text, split_size: 1 MiB, shuffle: {shuffle}}}
  train: {{epochs: {epochs}, batch_rows: {batch_rows}, seed: {seed}}}
  model: {{path: {model}, overwrite: true}}
"""
# Run in a process of its own, so that its processor time is all its own.
PEER_PROGRAM = """
import json, resource, sys, time
from gensim.models import Word2Vec
text, out, settings = sys.argv[1:]
settings = json.loads(settings)
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
whole = time.perf_counter()
model = Word2Vec(**settings)
model.build_vocab(corpus_file=text)
begun, before = time.perf_counter(), cpu()
model.train(corpus_file=text, total_words=model.corpus_total_words,
            total_examples=model.corpus_count, epochs=model.epochs)
found = {"seconds": time.perf_counter() - begun, "cpu": cpu() - before}
model.wv.save_word2vec_format(out, binary=True)
print(json.dumps({**found, "whole": time.perf_counter() - whole}))
"""


@dataclass(frozen=True)
class Task:
    """What both sides train."""

    files: tuple[Path, ...]
    algorithm: str
    epochs: int
    seed: int = 1
    mixed: bool = True  # by our job

    @property
    def words(self) -> int:
        """Of all epochs."""
        return self.epochs * sum(len(path.read_bytes().split()) for path in self.files)


@dataclass(frozen=True)
class Run:
    """Seconds of the training, processor seconds in it, and seconds from the start to the end.

    `parts`: processor seconds by kind of process.
    """

    seconds: float
    cpu: float
    whole: float
    parts: dict[str, float] = field(default_factory=dict)


def run_peer(
    task: Task, folder: Path, out: Path, threads: int = THREADS, *, mixed: bool = False
) -> Run:
    """Gensim on the same text; `mixed`: on its lines in a random order."""
    text = folder / "text"
    lines = [line for path in task.files for line in path.read_bytes().splitlines(keepends=True)]
    if mixed:
        random.Random(task.seed).shuffle(lines)
    text.write_bytes(b"".join(lines))
    settings = {
        **SAME,
        "vector_size": DIM,
        "sg": int(task.algorithm == "skipgram"),
        "workers": threads,
        "epochs": task.epochs,
        "seed": task.seed,
    }
    done = subprocess.run(
        [sys.executable, "-c", PEER_PROGRAM, str(text), str(out), json.dumps(settings)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return Run(**json.loads(done.stdout))


# ---------------------------------------------------------------------- ours


def run_ours(
    task: Task, folder: Path, model: Path, workers: int = THREADS, batch_rows: int = 4096
) -> Run:
    """A whole local job."""
    spec = folder / "word2vec.yaml"
    params = {**SAME, "dim": DIM, "algorithm": task.algorithm}
    spec.write_text(
        JOB.format(
            workers=workers,
            params=json.dumps(params),
            train=", ".join(str(path) for path in task.files),
            epochs=task.epochs,
            batch_rows=batch_rows,
            seed=task.seed,
            shuffle=json.dumps({"splits": task.mixed, "buffer": 10_000 if task.mixed else 0}),
            model=model,
        )
    )
    ran = jobs.run(spec)
    training = ran.training()
    return Run(training.seconds, training.cpu, ran.whole, training.parts)


# ---------------------------------------------------------------------- speed


def speed(options: argparse.Namespace, folder: Path) -> None:
    """Both in turn; prints the figures."""
    files = text_files()[: options.files]
    task = Task(files, options.algorithm, options.epochs)
    words = task.words
    run_ours(Task(files[:1], options.algorithm, 1), folder, folder / "model")  # compiles kernels
    peers, ours = [], []
    for _ in range(options.repeats):
        peers.append(run_peer(task, folder, folder / "peer.bin"))
        ours.append(run_ours(task, folder, folder / "model", options.workers, options.batch_rows))
    for name, runs in (("gensim", peers), ("word2vec", ours)):
        show(f"{name}_words", [words / run.seconds for run in runs], "words/s")
        show(f"{name}_words_per_cpu", [words / run.cpu for run in runs], "words/CPU-s")
        show(f"{name}_whole", [run.whole for run in runs], "s")
    for kind in sorted(ours[0].parts):
        show(f"word2vec_cpu_{kind}", [run.parts.get(kind, 0.0) for run in ours], "CPU-s")
    pairs = list(zip(ours, peers, strict=True))
    show("word2vec_over_gensim_per_cpu", [peer.cpu / run.cpu for run, peer in pairs], "ratio")
    show("word2vec_over_gensim", [peer.seconds / run.seconds for run, peer in pairs], "ratio")
    show("word2vec_over_gensim_whole", [peer.whole / run.whole for run, peer in pairs], "ratio")


# ---------------------------------------------------------------------- quality


def quality(options: argparse.Namespace, folder: Path) -> None:
    """All three for each seed; prints the metrics, then how far the means are apart."""
    found: dict[str, list[dict[str, float]]] = {}
    for seed in options.seeds:
        files, mixed = text_files()[: options.files], not options.unmixed
        task = Task(files, options.algorithm, options.epochs, seed, mixed)
        name = f"{task.algorithm}-{task.epochs}-{len(task.files)}-{seed}"
        sides = {"gensim": folder / f"gensim-{name}.bin"}
        if mixed:
            sides["gensim_mixed"] = folder / f"mixed-{name}.bin"
        for side, path in sides.items():
            if not path.exists():
                run_peer(task, folder, path, threads=1, mixed=side == "gensim_mixed")
        order = "mixed" if mixed else "unmixed"
        sides["word2vec"] = folder / f"yarnps-{order}-{options.workers}-{name}"
        if not (sides["word2vec"] / "manifest.json").exists():
            run_ours(task, folder, sides["word2vec"], options.workers, options.batch_rows)
        for side, path in sides.items():
            found.setdefault(side, []).append(metrics_of(path))
            print(side, "seed", seed, json.dumps(found[side][-1]), flush=True)
    for metric in found["word2vec"][0]:
        values = {side: [run[metric] for run in runs] for side, runs in found.items()}
        mine = values.pop("word2vec")
        print(f"{metric} word2vec {statistics.mean(mine):.4f} ({spread_of(mine)})")
        for side, theirs in values.items():
            deviation = statistics.stdev(theirs) if len(theirs) > 1 else float("nan")
            apart = (statistics.mean(mine) - statistics.mean(theirs)) / deviation
            print(
                f"{metric} {side} {statistics.mean(theirs):.4f} ({spread_of(theirs)}): "
                f"word2vec is {apart:+.1f} of its standard deviations away"
            )


def spread_of(values: list[float]) -> str:
    return f"sd {statistics.stdev(values):.4f}" if len(values) > 1 else "one seed"


def metrics_of(vectors: Path) -> dict[str, float]:
    """The three test sets, which come with gensim."""
    from gensim.test.utils import datapath

    from yarnps.apps.word2vec import _evaluate
    from yarnps.apps.word2vec.vectors import read

    loaded = read(str(vectors))
    frequent = _evaluate.Vectors(loaded.words[:RESTRICT], loaded.rows[:RESTRICT])
    every = _evaluate.Vectors(loaded.words, loaded.rows)
    found = {}
    for name, metric, words in (
        ("wordsim353.tsv", "wordsim353_spearman", every),
        ("simlex999.txt", "simlex999_spearman", every),
        ("questions-words.txt", "questions-words", frequent),
    ):
        path = Path(datapath(name))
        value, weight = _evaluate.judged(path.stem, path.read_text().split("\n"), words)[metric]
        found[metric] = value / weight
    return found


def text_files() -> tuple[Path, ...]:
    """The files of English; made when they are not there."""
    if not (FOLDER / "DONE").exists():
        make(FOLDER)
    return tuple(sorted(FOLDER.glob("part-*.txt")))


def main() -> int:
    """Measure one of them."""
    parser = argparse.ArgumentParser(prog="python -m bench.word2vec", description=__doc__)
    parser.add_argument("what", choices=("speed", "quality"))
    parser.add_argument("--algorithm", choices=("skipgram", "cbow"), default="skipgram")
    parser.add_argument("--files", type=int, default=8, help="of the 8")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-rows", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=THREADS, help="of our job")
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--folder", type=Path, help="keeps vectors")
    parser.add_argument("--unmixed", action="store_true", help="our job, too")
    options = parser.parse_args()
    options.seeds = options.seeds or [1, 2, 3, 4, 5]
    with tempfile.TemporaryDirectory(prefix="yarnps-word2vec-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (speed if options.what == "speed" else quality)(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
