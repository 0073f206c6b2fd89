"""A finished model on the way to its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from little_job import config

from yarnps._errors import DataError
from yarnps.am.shell.chores import place_model


def model(folder: Path, application: str, what: str) -> str:
    """A whole model; returns its address."""
    folder.mkdir()
    (folder / "part-0").write_text(what)
    (folder / "manifest.json").write_text(json.dumps({"application": application}))
    return str(folder)


def placed(folder: Path) -> str:
    return (folder / "model" / "part-0").read_text()


def folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("model*"))


def test_a_model_is_moved_to_its_place(tmp_path: Path) -> None:
    place_model(config(tmp_path), model(tmp_path / "model.new", "app_1", "new"))
    assert (placed(tmp_path), folders(tmp_path)) == ("new", ["model"])


def test_another_job_s_model_is_replaced_only_where_the_job_file_says_so(tmp_path: Path) -> None:
    model(tmp_path / "model", "app_0", "old")
    made = model(tmp_path / "model.new", "app_1", "new")
    with pytest.raises(DataError, match="exists already"):
        place_model(config(tmp_path), made)
    assert (placed(tmp_path), folders(tmp_path)) == ("old", ["model", "model.new"])
    place_model(config(tmp_path, model={"overwrite": True}), made)
    assert (placed(tmp_path), folders(tmp_path)) == ("new", ["model"])


def test_a_process_that_died_before_it_could_tell_places_the_model_again(tmp_path: Path) -> None:
    """Also one of the next attempt, which has had the model written once more."""
    made = model(tmp_path / "model.new", "app_1", "new")
    place_model(config(tmp_path), made)
    place_model(config(tmp_path), made)  # the best one: it is moved and not written again
    assert (placed(tmp_path), folders(tmp_path)) == ("new", ["model"])
    place_model(config(tmp_path), model(tmp_path / "model.new", "app_1", "again"))
    assert (placed(tmp_path), folders(tmp_path)) == ("again", ["model"])


def test_what_was_put_aside_by_a_process_that_died_is_removed(tmp_path: Path) -> None:
    model(tmp_path / "model.app_1.old", "app_0", "old")
    made = config(tmp_path, model={"overwrite": True})
    place_model(made, model(tmp_path / "model.new", "app_1", "new"))
    assert (placed(tmp_path), folders(tmp_path)) == ("new", ["model"])


def test_a_model_that_does_not_say_whose_it_is_stays(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").write_text("not JSON")
    with pytest.raises(DataError, match="exists already"):
        place_model(config(tmp_path), model(tmp_path / "model.new", "app_1", "new"))
