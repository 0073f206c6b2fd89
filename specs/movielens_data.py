"""Makes the MovieLens task: how many stars does somebody give to a film?

    python specs/movielens_data.py FOLDER

takes the package recbole (its example data: 100,000 ratings of 1,682 films by 943 people) with pip
and writes libsvm files::

    FOLDER/train/part-0.svm … part-3.svm     90 % of the ratings: stars user:1 film:1
    FOLDER/test/part-0.svm                   10 %
    FOLDER/DONE                              the counts, as JSON

A user's feature has the user's number, a film's its number and `FILM_0`. Nothing of the package is
installed. A run on a finished folder changes nothing.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "recbole==1.2.1"
RATINGS = "recbole/dataset_example/ml-100k/ml-100k.inter"
FILM_0 = 10_000
TEST_SHARE = 0.1
TRAIN_FILES = 4
SEED = 13


def fetch(folder: Path) -> list[tuple[int, int, int]]:
    """User, film and stars of each rating, from the package's wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary"]
    command += [":all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    wheels = sorted(folder.glob("recbole-*.whl"))
    if not wheels:
        raise SystemExit(f"pip could not fetch {PACKAGE}:\n{done.stderr[-2000:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        lines = wheel.read(RATINGS).decode().splitlines()[1:]
    fields = [line.split("\t") for line in lines]
    return [(int(user), int(film), round(float(stars))) for user, film, stars, _ in fields]


def write(path: Path, ratings: list[tuple[int, int, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{stars} {user}:1 {FILM_0 + film}:1\n" for user, film, stars in ratings)
    path.write_text("".join(lines))


def make(folder: Path) -> dict[str, int]:
    """Write the task, unless it is there."""
    done = folder / "DONE"
    if done.exists():
        counts: dict[str, int] = json.loads(done.read_text())
        return counts
    with tempfile.TemporaryDirectory() as temporary:
        ratings = fetch(Path(temporary))
    random.Random(SEED).shuffle(ratings)
    tests = round(TEST_SHARE * len(ratings))
    train = ratings[tests:]
    write(folder / "test" / "part-0.svm", ratings[:tests])
    for number in range(TRAIN_FILES):
        write(folder / "train" / f"part-{number}.svm", train[number::TRAIN_FILES])
    counts = {"train": len(train), "test": tests}
    done.write_text(json.dumps(counts) + "\n")
    return counts


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(make(Path(sys.argv[1])))
