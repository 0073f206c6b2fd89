from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pytest
import zstandard
from reading import Write, read_all

from yarnps._errors import DataError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
}
LINES = [f"line {number} " + "abc" * (number % 50) for number in range(20_000)]


@pytest.mark.parametrize("ending", COMPRESS)
def test_all_members_are_read_as_one_split(write: Write, ending: str) -> None:
    compress = COMPRESS[ending]
    text = "\n".join(LINES).encode()
    # The seams are within lines, and one member is empty.
    parts = [text[:1000], text[1000:400_001], b"", text[400_001:]]
    path = write(f"a.txt.{ending}", b"".join(compress(part) for part in parts))
    read = read_all(path, format="text", split_size=1000, batch_rows=1000)
    assert read.items == LINES
    assert len(read.batches) == 20
    assert read.batches[-1].bytes_read == path.stat().st_size


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_file_that_is_cut_off_or_broken_is_named(write: Write, ending: str) -> None:
    data = COMPRESS[ending]("\n".join(LINES).encode())
    path = write(f"cut.{ending}", data[:-20])
    with pytest.raises(DataError, match=rf"cannot decompress the file: .*cut\.{ending}: .*cut off"):
        read_all(path, format="text")
    path = write(f"broken.{ending}", b"this is not compressed at all")
    with pytest.raises(DataError, match=rf"cannot decompress the file: .*broken\.{ending}"):
        read_all(path, format="text")


def test_line_numbers_in_a_compressed_file(write: Write) -> None:
    lines = ["1 1:1"] * 1000
    lines[700] = "bad"
    path = write("a.gz", gzip.compress("\n".join(lines).encode()))
    assert [bad.line for bad in read_all(path, split_size=100).bad] == [701]
