"""The choice of the cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from yarnps._errors import ClusterError
from yarnps.client import clusters


def a_yarn(folder: Path) -> str:
    """A folder with an executable `yarn` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "yarn").write_text("#!/bin/sh\n")
    (folder / "yarn").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("asked", ["yarn", "sandbox", "local"])
def test_what_is_asked_for_wins(asked: str) -> None:
    chosen = clusters.decide(asked, {"HADOOP_CONF_DIR": "/etc/hadoop"})
    assert chosen.kind == asked
    assert chosen.sentence() == f"cluster: {asked} (--cluster {asked})"


def test_a_configuration_means_yarn() -> None:
    chosen = clusters.decide(None, {"HADOOP_CONF_DIR": "/some/conf", "PATH": ""})
    assert chosen == clusters.Cluster("yarn", "HADOOP_CONF_DIR is /some/conf")


def test_a_yarn_command_means_yarn(tmp_path: Path) -> None:
    folder = a_yarn(tmp_path / "bin")
    chosen = clusters.decide(None, {"PATH": folder})
    assert chosen == clusters.Cluster("yarn", f"there is a `yarn` command: {folder}/yarn")


def test_hadoop_home_holds_a_yarn_command(tmp_path: Path) -> None:
    folder = a_yarn(tmp_path / "bin")
    assert clusters.find_yarn({"PATH": "", "HADOOP_HOME": str(tmp_path)}) == f"{folder}/yarn"


def test_nothing_names_the_others() -> None:
    with pytest.raises(ClusterError) as caught:
        clusters.decide(None, {"PATH": ""})
    assert caught.value.exit_code == 3
    assert "--cluster sandbox" in caught.value.remedy
    assert "--cluster local" in caught.value.remedy


def test_a_local_job_is_known_by_its_id() -> None:
    assert clusters.choose_for_job("local_1_2", None).local


def test_conf_is_found_beside_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_yarn(tmp_path / "bin")
    conf = tmp_path / "etc" / "hadoop"
    conf.mkdir(parents=True)
    (conf / "yarn-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HADOOP_CONF_DIR", "")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    clusters.choose(None, report=lambda line: None)
    assert os.environ["HADOOP_CONF_DIR"] == str(conf)


def test_a_conf_folder_without_yarn_site_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(ClusterError, match="HADOOP_CONF_DIR: "):
        clusters.choose("yarn", report=lambda line: None)


def test_submitting_without_a_yarn_command() -> None:
    with pytest.raises(ClusterError, match="no `yarn` command"):
        clusters.need_yarn({"PATH": "", "HADOOP_CONF_DIR": "/some/conf"})
