from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from yarnps._errors import DataError, InputError
from yarnps.files import BlockHosts, Files, best_hosts, open_files


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A file system and an empty folder on it."""
    address = f"file://{tmp_path}/root" if request.param == "file" else f"memory://{tmp_path}/root"
    files, path = open_files(address)
    files.mkdirs(path)
    return files, path


def test_write_read_list_delete(place: tuple[Files, str]) -> None:
    files, root = place
    files.write_bytes(f"{root}/sub/b", b"hello")
    files.write_bytes(f"{root}/a", b"")
    files.write_bytes(f"{root}/a", b"xy")
    listed = [(info.path.rpartition("/")[2], info.is_dir) for info in files.list(root)]
    assert listed == [("a", False), ("sub", True)]
    assert files.info(f"{root}/a").size == 2
    assert files.info(f"{root}/a").modified_ms > 1_700_000_000_000
    assert files.read_bytes(f"{root}/sub/b") == b"hello"
    assert b"".join(files.stream(f"{root}/sub/b", 2)) == b"llo"
    with files.open(f"{root}/c", "wb") as file:
        file.write(b"c")
    assert files.exists(f"{root}/c")
    assert [info.path for info in files.glob(f"{root}/**/b")] == [f"{root}/sub/b"]
    assert files.delete(f"{root}/sub", recursive=True)
    assert not files.exists(f"{root}/sub")
    assert not files.delete(f"{root}/sub")
    again, path = open_files(files.address(f"{root}/a"))
    assert again.read_bytes(path) == b"xy"


def test_new_files_and_renames_respect_what_is_there(place: tuple[Files, str]) -> None:
    files, root = place
    assert files.write_new(f"{root}/a", b"1")
    assert not files.write_new(f"{root}/a", b"2")
    with pytest.raises(DataError, match=r"exists already: .*/a"):
        files.write_bytes(f"{root}/a", b"2", overwrite=False)
    files.write_bytes(f"{root}/b", b"b")
    with pytest.raises(DataError, match=r"exists already: .*/a"):
        files.rename(f"{root}/b", f"{root}/a")
    assert files.read_bytes(f"{root}/a") == b"1"
    files.rename(f"{root}/b", f"{root}/c")
    assert files.read_bytes(f"{root}/c") == b"b"
    assert not files.exists(f"{root}/b")


def test_what_is_missing_is_named(place: tuple[Files, str]) -> None:
    files, root = place
    for call in (files.info, files.list, files.read_bytes):
        with pytest.raises(DataError, match=r"no such file: \w+://.*/nope"):
            call(f"{root}/nope")


def test_folders_and_files_for_the_owner_only(tmp_path: Path) -> None:
    files, _ = open_files("/")
    files.mkdirs(f"{tmp_path}/d", mode=0o700)
    assert files.write_new(f"{tmp_path}/d/a", b"1", mode=0o600)
    files.write_bytes(f"{tmp_path}/d/b", b"1", mode=0o600)
    assert os.stat(tmp_path / "d").st_mode & 0o777 == 0o700
    assert {os.stat(tmp_path / "d" / name).st_mode & 0o777 for name in "ab"} == {0o600}
    assert sorted(os.listdir(tmp_path / "d")) == ["a", "b"]


def test_of_many_that_create_one_wins(tmp_path: Path) -> None:
    files, _ = open_files("/")
    start = threading.Barrier(8)
    won: list[int] = []

    def create(number: int) -> None:
        start.wait(10)
        if files.write_new(f"{tmp_path}/marker", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(won) == 1
    assert files.read_bytes(f"{tmp_path}/marker") == b"%d" % won[0]


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a%20b c").write_text("x")
    for address in ("a%20b c", f"{tmp_path}/a%20b c", f"file:{tmp_path}/a%20b c"):
        files, path = open_files(address)
        assert files.read_bytes(path) == b"x"
        assert files.address(path) == f"file://{tmp_path}/a%20b c"
    with pytest.raises(InputError, match="nosuch://x/y"):
        open_files("nosuch://x/y")


def test_the_hosts_with_most_bytes_come_first() -> None:
    blocks = [BlockHosts(0, 100, ("a", "b")), BlockHosts(100, 100, ("b", "c"))]
    assert best_hosts(blocks, 0, 200) == ["b", "a", "c"]
    assert best_hosts(blocks, 90, 100) == ["b", "c", "a"]
    assert best_hosts(blocks, 0, 50) == ["a", "b"]
    assert best_hosts([], 0, 50) == []
