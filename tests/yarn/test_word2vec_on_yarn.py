"""`specs/word2vec.yaml` on real YARN and HDFS: the pass before the first epoch, and the files."""

from __future__ import annotations

import random

import pytest
from hdfs_input import ROOT
from yarn_run import LIMIT_S, Run, yarnps

from yarnps.client.sandbox import Sandbox
from yarnps.files import open_files

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

SPEC = ROOT / "specs" / "word2vec.yaml"
LINES = 3000


def test_word2vec(hadoop: Sandbox) -> None:
    draw = random.Random(2)
    topics = draw.choices(("sea", "sky"), k=LINES)
    lines = (" ".join(f"{topic}{draw.randrange(9)}" for _ in range(8)) for topic in topics)
    files, text = open_files("word2vec-text/part-0")
    files.write_bytes(text, "\n".join(lines).encode() + b"\n")
    small = ("dim=16", "sample=0", "alpha=0.05", "block_words=500")
    sets = [
        *(f"params.{value}" for value in small),
        "train.batch_rows=300",
        f"data.train={files.address(text)}",
        "data.split_size=32 KiB",
        "model.path=word2vec-model",
    ]
    with Run(hadoop, SPEC, [f"yarnps.{value}" for value in sets], "-o", "json") as run:
        done = run.wait()
        assert done.code == 0, run.report()
        final = done.json()
        assert final["rows"] == 3 * LINES
        phases = [event.data["phase"] for event in run.events("epoch")]
        assert phases == ["prepare", "train", "train", "train"]
        files, path = open_files(final["model"])
        names = {info.path.rpartition("/")[2] for info in files.list(path)}
        assert {"vectors.bin", "vectors.txt", "manifest.json"} <= names
        nearest = yarnps("nearest", final["model"], "sea4", "-n", "3", "-o", "json")
        assert {found["word"][:3] for found in nearest.json()} == {"sea"}
