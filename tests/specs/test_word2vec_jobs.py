"""`specs/word2vec.yaml` on a small made text: metrics, formats, nearest words, and a warm start."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from jobs import Done, submit, yarnps

TOPICS = ("sea", "sky")
WORDS = [f"{topic}{number}" for topic in TOPICS for number in range(10)]
# Spearman's coefficient of 10 pairs at the one end and 20 at the other, in any order within.
APART = 50 / np.sqrt(50 * (30**2 - 1) / 12)
SMALL = [
    *(f"params.{name}" for name in ("dim=16", "sample=0", "alpha=0.05", "block_words=500")),
    "data.split_size=32 KiB",
    "train.batch_rows=500",
]


def text(topics: tuple[str, ...], lines: int) -> str:
    """Sentences, each about one topic: words of a topic are alike, and of two are not."""
    draw = random.Random(1)
    return "".join(
        " ".join(f"{topic}{draw.randrange(10)}" for _ in range(8)) + "\n"
        for topic in draw.choices(topics, k=lines)
    )


def judgements() -> str:
    """A similarity file: pairs of one topic are alike; in capitals, since case does not count."""
    lines = ["word 1,word 2,people"]
    for i in range(10):
        lines += [f"SEA{i},sea{(i + 1) % 10},9", f"sky{i},Sky{(i + 3) % 10},9", f"sea{i},sky{i},1"]
    return "\n".join([*lines, "sea0,unheard,5", ""])


@pytest.fixture(scope="module")
def trained(specs: Path) -> Done:
    (specs / "english").mkdir()
    (specs / "english" / "part-0").write_text(text(TOPICS, 4000))
    (specs / "topics.csv").write_text(judgements())
    (specs / "pairs.txt").write_text(": topics\nsea0 sea1 sky0 sky1\nsea0 sea1 sky0 nothing\n")
    sets = [*SMALL, "data.test=[topics.csv, pairs.txt]", "stop.metric=test_topics_spearman"]
    return submit(specs / "word2vec.yaml", sets)


def test_it_learns_and_the_files_are_judged_once(trained: Done) -> None:
    assert trained.outcome["state"] == "SUCCEEDED"
    assert trained.outcome["rows"] == 3 * 4000
    metrics = trained.metrics
    # All pairs of one topic are nearer than any of two.
    assert metrics["test_topics_spearman"] == pytest.approx(APART)
    assert metrics["test_topics_pearson"] > 0.8
    assert metrics["test_topics_unknown"] == pytest.approx(1 / 31)
    assert metrics["test_pairs"] in (0.0, 1.0)  # of two questions one could be asked
    first = trained.per_epoch("train_loss")
    assert not first or first[0] < 6 * np.log(2) + 0.1


def test_vectors_are_read_by_gensim_and_by_nearest(trained: Done) -> None:
    binary = KeyedVectors.load_word2vec_format(str(trained.model / "vectors.bin"), binary=True)
    plain = KeyedVectors.load_word2vec_format(str(trained.model / "vectors.txt"))
    assert binary.index_to_key == plain.index_to_key
    assert sorted(binary.index_to_key) == sorted(WORDS)
    assert (binary.vectors == plain.vectors).all()
    listed = yarnps("nearest", str(trained.model), "sea3", "-n", "5", "-o", "json")
    found = json.loads(listed.stdout)
    theirs = binary.most_similar("sea3", topn=5)
    assert [n["word"] for n in found] == [word for word, _ in theirs]
    assert {n["word"][:3] for n in found} == {"sea"}
    unknown = yarnps("nearest", str(trained.model), "see3", status=2)
    assert "Did you mean sea3" in unknown.stderr


def test_another_text_goes_on_from_the_same_words(specs: Path, trained: Done) -> None:
    """With a learning rate of next to nothing, a known word's vector is the old one."""
    (specs / "more").mkdir()
    (specs / "more" / "part-0").write_text(text(("sky", "land"), 200))
    done = submit(
        specs / "word2vec.yaml",
        [
            *SMALL,
            "data.train=more/part-*",
            f"model.init_from={trained.model}",
            "model.path=more/model",
            "params.alpha=1e-9",
            "params.min_alpha=0",
            "train.epochs=1",
        ],
    )
    old = KeyedVectors.load_word2vec_format(str(trained.model / "vectors.bin"), binary=True)
    new = KeyedVectors.load_word2vec_format(str(done.model / "vectors.bin"), binary=True)
    assert {word[:3] for word in new.index_to_key} == {"sky", "lan"}
    for word in WORDS[10:]:
        np.testing.assert_allclose(new[word], old[word], atol=1e-6)


def test_the_wrong_format_is_said_before_anything_starts(specs: Path) -> None:
    file = str(specs / "word2vec.yaml")
    done = yarnps("validate", file, "--set", "yarnps.data.format=libsvm", status=2)
    assert "word2vec needs lines of words: expected text, found" in done.stderr
