"""Prediction from model folders on this machine."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from model_folders import write_model, write_part

from yarnps._errors import DataError, InputError
from yarnps.apps._features import BIAS
from yarnps.apps.predict import predict
from yarnps.data import hash64
from yarnps.protocol.tables import TableSpec

WEIGHTS = [{1: 0.5, 9: -1.0}, {BIAS: 0.25, -4: 2.0, 7: 0.0}]
ROWS = "1 1:1 9:2\n0 7:5\n\n1 -4:1 1:2 # a comment\n0 12:1\n"
LOGITS = [0.25 + 0.5 - 2.0, 0.25, 0.25 + 2.0 + 1.0, 0.25]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_model(tmp_path / "model", WEIGHTS)
    return tmp_path / "model"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "scores.txt"


def put(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def scores(out: Path) -> list[float]:
    return [float(line) for line in out.read_text().splitlines()]


def expected(logits: list[float]) -> list[float]:
    return [1 / (1 + math.exp(-x)) for x in logits]


def test_one_score_a_record_in_order(model: Path, out: Path, tmp_path: Path) -> None:
    done = predict(str(model), put(tmp_path / "in.svm", ROWS), out=str(out))
    assert scores(out) == pytest.approx(expected(LOGITS), abs=1e-7)
    assert (done.rows, done.files, done.bad) == (4, 1, 0)
    assert done.out == f"file://{out}"
    assert done.metrics["auc"] == 0.5  # 0, 1 before, half of, after both negatives
    assert done.as_json()["metrics"] == dict(done.metrics)
    assert list(out.parent.iterdir()) == [out]


def test_standard_output(model: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture) -> None:  # type: ignore[type-arg]
    predict(str(model), put(tmp_path / "in.svm", ROWS))
    lines = capfdbinary.readouterr().out.decode().split()
    assert [float(line) for line in lines] == pytest.approx(expected(LOGITS), abs=1e-7)


def test_more_rows_than_a_batch(model: Path, out: Path, tmp_path: Path) -> None:
    count = 20_001
    predict(
        str(model),
        put(tmp_path / "in.svm", "".join(f"0 1:{i}\n" for i in range(count))),
        out=str(out),
    )
    wanted = expected([0.25 + 0.5 * i for i in range(40)])
    assert len(scores(out)) == count
    assert scores(out)[:40] == pytest.approx(wanted, abs=1e-7)
    assert scores(out) == sorted(scores(out))


def test_compressed_and_several_files_by_name(model: Path, out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "b.svm.gz").write_bytes(gzip.compress(b"0 9:1\n"))
    (folder / "a.svm").write_text("1 1:1\n1 1:2")  # no line end at the end
    (folder / "_SUCCESS").write_text("")
    done = predict(str(model), str(folder), out=str(out))
    assert done.files == 2
    assert scores(out) == pytest.approx(expected([0.75, 1.25, -0.75]), abs=1e-7)


def test_another_format_than_the_job_had(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "model"
    write_model(folder, [{BIAS: 1.0, hash64("size"): 0.5, hash64("town=Ulm"): -3.0}])
    file = put(tmp_path / "in.csv", "town;size\nUlm;2\nBonn;4\nUlm;\n")
    how = {"format": "csv", "csv.delimiter": ";", "label": "late", "features": ["town", "size"]}
    done = predict(str(folder), file, how, str(out))
    assert scores(out) == pytest.approx(expected([-1.0, 3.0, -2.0]), abs=1e-7)
    assert done.metrics == {}  # it has no labels
    assert done.note == ""


def test_parquet_without_labels(tmp_path: Path, out: Path) -> None:
    from pyarrow import parquet, table

    write_model(
        tmp_path / "model",
        [{hash64("size"): 0.5, hash64("town=Ulm"): -3.0}],
        data={"train": ["x"], "format": "parquet", "label": "late"},
        params={"bias": False},
    )
    rows = table({"town": ["Ulm", "Bonn"] * 3000, "size": [2.0, 4.0] * 3000})
    parquet.write_table(rows, tmp_path / "in.parquet", row_group_size=1000)
    done = predict(str(tmp_path / "model"), str(tmp_path / "in.parquet"), out=str(out))
    assert done.rows == 6000
    assert scores(out) == pytest.approx(expected([-2.0, 2.0]) * 3000, abs=1e-7)


def test_hashed_features_are_hashed_again(tmp_path: Path, out: Path) -> None:
    write_model(tmp_path / "model", [{0: 5.0}], params={"hash_buckets": 1, "bias": False})
    predict(str(tmp_path / "model"), put(tmp_path / "in.svm", "1 77:1 -3:1\n"), out=str(out))
    assert scores(out) == pytest.approx(expected([10.0]), abs=1e-7)


def test_a_bad_record_would_shift_the_scores(model: Path, out: Path, tmp_path: Path) -> None:
    file = put(tmp_path / "in.svm", "1 1:1\n0 1:x\n0 9:1\n")
    out.parent.mkdir()
    out.write_text("older\n")
    with pytest.raises(DataError, match=r"1 records cannot be read as libsvm") as caught:
        predict(str(model), file, out=str(out))
    assert f"{file}:2:" in str(caught.value)
    assert out.read_text() == "older\n"  # nothing half done is left
    assert list(out.parent.iterdir()) == [out]
    done = predict(str(model), file, {"max_bad_records": 1}, str(out))
    assert (done.rows, done.bad) == (2, 1)
    assert scores(out) == pytest.approx(expected([0.75, -0.75]), abs=1e-7)


def test_overrides_are_checked(model: Path, tmp_path: Path) -> None:
    file = put(tmp_path / "in.svm", ROWS)
    with pytest.raises(InputError, match="delimitr"):
        predict(str(model), file, {"csv.delimitr": ";"})
    with pytest.raises(InputError, match="format"):
        predict(str(model), file, {"format": "libsvn"})


def test_text_is_not_rows(model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the records are not rows of features"):
        predict(str(model), put(tmp_path / "in.txt", "hello\n"), {"format": "text"})


def test_no_input(model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the input matches nothing"):
        predict(str(model), str(tmp_path / "nothing-*"))


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it does not exist"):
        predict(str(tmp_path / "nowhere"), "in")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"it has no manifest\.json") as caught:
        predict(str(tmp_path / "folder"), "in")
    assert caught.value.exit_code == 2 and caught.value.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is of the format None"),
        ('{"format": "yarnps-model-9"}', "is of the format yarnps-model-9, not yarnps-model-1"),
        ('{"format": "yarnps-model-1"}', "the manifest of the model has no params"),
    ],
)
def test_a_broken_manifest(tmp_path: Path, text: str, message: str) -> None:
    put(tmp_path / "manifest.json", text)
    with pytest.raises(DataError, match=message):
        predict(str(tmp_path), "in")


def test_a_model_of_another_program(tmp_path: Path) -> None:
    write_model(tmp_path / "model", WEIGHTS, app="")
    with pytest.raises(InputError, match="by a program of its own"):
        predict(str(tmp_path / "model"), "in")


def test_a_part_is_missing(model: Path, tmp_path: Path) -> None:
    (model / "part-1.safetensors").unlink()
    with pytest.raises(DataError, match=r"part-1\.safetensors"):
        predict(str(model), put(tmp_path / "in.svm", ROWS))


def test_a_part_of_another_model(model: Path, tmp_path: Path) -> None:
    write_part(model / "part-0.safetensors", {1: 1.0})
    with pytest.raises(DataError, match="has 1 rows of table w, its manifest says 2"):
        predict(str(model), put(tmp_path / "in.svm", ROWS))
    write_part(model / "part-0.safetensors", {1: 1.0, 2: 2.0}, TableSpec("u", "sparse", (1,)))
    with pytest.raises(DataError, match="not a part of this model"):
        predict(str(model), put(tmp_path / "in.svm", ROWS))


def test_a_part_is_cut_off(model: Path, tmp_path: Path) -> None:
    part = model / "part-0.safetensors"
    part.write_bytes(part.read_bytes()[:-4])
    with pytest.raises(DataError, match="it ends too early"):
        predict(str(model), put(tmp_path / "in.svm", ROWS))


def test_parameters_of_another_version(tmp_path: Path) -> None:
    write_model(tmp_path / "model", WEIGHTS, params={"gamma": 1})
    with pytest.raises(DataError, match="not those of ftrl"):
        predict(str(tmp_path / "model"), put(tmp_path / "in.svm", ROWS))


def test_a_table_that_got_no_row(tmp_path: Path, out: Path) -> None:
    write_model(tmp_path / "model", [{}, {}])
    predict(str(tmp_path / "model"), put(tmp_path / "in.svm", ROWS), out=str(out))
    assert scores(out) == [0.5] * 4


def test_out_is_a_folder(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is a folder"):
        predict(str(model), put(tmp_path / "in.svm", ROWS), out=str(tmp_path))


def test_the_manifest_of_a_job_is_understood(tmp_path: Path, out: Path) -> None:
    """All fields of `data:` and `params:` as the ApplicationMaster writes them."""
    from yarnps.spec import Block, FtrlParams

    block = Block.model_validate(
        {
            "data": {
                "train": "x/*",
                "format": "csv",
                "label": "late",
                "features": ["town"],
                "max_bad_records": "1%",
                "csv": {"delimiter": "tab"},
            },
            "params": {},
        }
    )
    data = json.loads(block.data.model_dump_json())
    params = FtrlParams().model_dump(mode="json")
    write_model(tmp_path / "model", [{hash64("town=Ulm"): 1.0}], data=data, params=params)
    file = put(tmp_path / "in.csv", "late\ttown\n1\tUlm\n0\tBonn\n")
    done = predict(str(tmp_path / "model"), file, out=str(out))
    assert scores(out) == pytest.approx(expected([1.0, 0.0]), abs=1e-7)
    assert done.metrics["auc"] == 1.0
