"""The input and the files on a real HDFS."""

from __future__ import annotations

import gzip
import os
import random
import signal
import threading

import pytest

from yarnps._errors import ClusterError, DataError
from yarnps.client.sandbox import Sandbox
from yarnps.data import DataSettings, Rows, hash64, list_input, read_batches
from yarnps.files import Files, best_hosts, default_fs, open_files

MIB = 1 << 20


@pytest.fixture
def folder(on_sandbox: Sandbox, request: pytest.FixtureRequest) -> tuple[Files, str]:
    """An empty folder in HDFS."""
    files, home = open_files("hdfs:///tmp")
    path = f"{home}/{request.node.name.split('[')[0]}-{random.getrandbits(32):x}"
    files.mkdirs(path, mode=0o700)
    return files, path


def test_write_read_list_rename_delete(folder: tuple[Files, str]) -> None:
    files, root = folder
    data = random.Random(1).randbytes(3 * MIB + 5)
    files.write_bytes(f"{root}/deep/er/a b%", data)
    assert files.read_bytes(f"{root}/deep/er/a b%") == data
    assert b"".join(files.stream(f"{root}/deep/er/a b%", MIB + 1)) == data[MIB + 1 :]
    with files.open(f"{root}/deep/er/a b%", "rb") as file:
        file.seek(2 * MIB)
        assert file.read(10) == data[2 * MIB : 2 * MIB + 10]
        file.seek(-3, 2)
        assert file.read() == data[-3:]
    with files.open(f"{root}/b", "wb") as file:
        file.write(b"x" * (2 * MIB))
    assert files.info(f"{root}/b").size == 2 * MIB
    assert files.info(f"{root}/b").modified_ms > 1_700_000_000_000
    assert [(info.path, info.is_dir) for info in files.list(root)] == [
        (f"{root}/b", False),
        (f"{root}/deep", True),
    ]
    files.write_bytes(f"{root}/b", b"new")
    assert files.read_bytes(f"{root}/b") == b"new"
    assert len(files.list(root)) == 2  # nothing is left beside it
    files.rename(f"{root}/deep", f"{root}/moved/deep")
    assert files.exists(f"{root}/moved/deep/er/a b%")
    assert not files.exists(f"{root}/deep")
    with pytest.raises(DataError, match=r"exists already: hdfs://.*/b"):
        files.rename(f"{root}/moved", f"{root}/b")
    with pytest.raises(DataError, match=r"no such file: hdfs://.*/nope"):
        files.rename(f"{root}/nope", f"{root}/c")
    assert files.delete(f"{root}/moved", recursive=True)
    assert not files.delete(f"{root}/moved")
    assert default_fs() is not None
    assert files.address("/x") == f"{default_fs()}/x"


def test_of_many_that_create_one_wins(folder: tuple[Files, str]) -> None:
    files, root = folder
    start = threading.Barrier(6)
    won: list[int] = []

    def create(number: int) -> None:
        start.wait(30)
        if files.write_new(f"{root}/marker", b"%d" % number, mode=0o600):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    assert files.read_bytes(f"{root}/marker") == b"%d" % won[0]


def test_what_is_missing_is_named(folder: tuple[Files, str]) -> None:
    files, root = folder
    for call in (files.info, files.list, files.read_bytes):
        with pytest.raises(DataError, match=r"no such file: hdfs://.*/nope"):
            call(f"{root}/nope")
    with pytest.raises(DataError, match=r"matches nothing: .*/\*\.svm"):
        list_input(files.address(f"{root}/*.svm"), DataSettings(), workers=1)


@pytest.mark.parametrize("split_size", [100_000, None])
def test_every_record_of_the_input_is_read_once(
    folder: tuple[Files, str], split_size: int | None
) -> None:
    files, root = folder
    rng = random.Random(2)
    expected = []
    for part in range(3):
        lines = []
        for row in range(20_000):
            number = part * 20_000 + row
            expected.append(number)
            lines.append(f"{number} 1:1 {rng.randrange(10**12)}:0.5\n")
        content = "".join(lines).encode()
        if part == 2:
            files.write_bytes(f"{root}/in/part-2.gz", gzip.compress(content))
        else:
            files.write_bytes(f"{root}/in/part-{part}", content)
    files.write_bytes(f"{root}/in/_SUCCESS", b"")
    settings = DataSettings(split_size=split_size)
    listing = list_input(files.address(f"{root}/in"), settings, workers=2)
    assert listing.files == 3
    assert [path.rpartition("/")[2] for path, _ in listing.skipped] == ["_SUCCESS"]
    assert listing.notes == ()
    got: list[float] = []
    for split in listing.splits:
        assert set(split.hosts) <= {"127.0.0.11", "127.0.0.12"}
        assert split.hosts
        for batch in read_batches(split, settings, epoch=0):
            assert isinstance(batch.rows, Rows)
            got += batch.rows.labels.tolist()
            assert batch.bad_total == 0
    assert sorted(got) == expected


def test_hosts_of_a_part_of_a_file(folder: tuple[Files, str]) -> None:
    files, root = folder
    files.write_bytes(f"{root}/a", b"x" * 1000)
    hosts = files.block_hosts(f"{root}/a", 10, 20)
    assert hosts
    assert set(hosts) <= {"127.0.0.11", "127.0.0.12"}
    blocks = files.blocks(f"{root}/a", 1000)
    assert sum(block.length for block in blocks) == 1000
    assert best_hosts(blocks, 0, 1000) == hosts


def test_csv_and_parquet(folder: tuple[Files, str]) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    files, root = folder
    files.write_bytes(f"{root}/csv/day=1/a.csv", b"y,c\n1,UA\n0,AA\n")
    table = pa.table({"y": [1, 0], "c": ["UA", "AA"]})
    with files.open(f"{root}/parquet/day=1/a.parquet", "wb") as file:
        pq.write_table(table, file)
    for kind in ("csv", "parquet"):
        settings = DataSettings(format=kind, label="y", shuffle_buffer=0)
        (split,) = list_input(f"{root}/{kind}", settings, workers=1).splits
        (batch,) = read_batches(split, settings, epoch=0)
        assert isinstance(batch.rows, Rows)
        assert batch.rows.labels.tolist() == [1, 0]
        day, first, second = hash64("day"), hash64("c=UA"), hash64("c=AA")
        assert batch.rows.keys.tolist() == [first, day, second, day]


def test_another_user_is_refused_by_name(
    folder: tuple[Files, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = folder
    files.write_bytes(f"{root}/a", b"secret")
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    theirs, path = open_files(files.address(f"{root}/a"))
    assert theirs.home() == "/user/mallory"
    with pytest.raises(DataError, match=r"no permission: hdfs://.*/a"):
        theirs.read_bytes(path)


def test_a_port_where_nothing_listens(on_sandbox: Sandbox) -> None:
    files, path = open_files("hdfs://127.0.0.1:1/x")
    with pytest.raises(ClusterError, match=r"HDFS cannot be reached: hdfs://127\.0\.0\.1:1"):
        files.info(path)


def test_data_nodes_that_do_not_answer(
    sandbox: Sandbox, folder: tuple[Files, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = folder
    data = b"x" * MIB
    files.write_bytes(f"{root}/a", data)
    monkeypatch.setattr("yarnps.files._hdfs_io.BLOCK_S", 2.0)
    stopped = [
        process.pid for name, process in sandbox.daemons().items() if name.startswith("datanode")
    ]
    assert len(stopped) == 2
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        for read in (files.read_bytes, lambda path: files.open(path, "rb").read(10)):
            with pytest.raises(ClusterError, match=r"no (data|answer) within 2 s: .*/a"):
                read(f"{root}/a")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr("yarnps.files._hdfs_io.BLOCK_S", 60.0)
    again, path = open_files(files.address(f"{root}/a"))
    assert again.read_bytes(path) == data
