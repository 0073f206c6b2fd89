"""The doctor's findings, each made to appear."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from yarnps.client import credentials, doctor, main


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path / "home"))


def only(check: doctor.Check) -> doctor.Finding:
    (finding,) = doctor.run([("it", check)])
    return finding


def test_this_machine_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["doctor", "--cluster", "local", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {f["check"] for f in found} == {"python", "noexec", "home", "cluster"}
    assert {f["level"] for f in found} <= {"ok", "note"}


def test_no_cluster_is_bad_and_says_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_YARN_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("YARNPS_SANDBOX_HOME", str(tmp_path))
    assert main.run(["doctor"]) == 3
    told = capsys.readouterr().out
    assert "bad   cluster: " in told
    assert "--cluster sandbox" in told


def test_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower() in doctor.PROXIES:
            monkeypatch.delenv(name)
    assert only(doctor.check_proxy).level == doctor.OK
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    finding = only(doctor.check_proxy)
    assert finding.level == doctor.NOTE
    assert "HTTPS_PROXY" in finding.text
    assert "no_proxy" in finding.remedy


def test_an_old_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEIN_CONFIG", str(tmp_path))
    assert only(doctor.check_certificate).level == doctor.OK
    monkeypatch.setattr(credentials, "VALID", timedelta(days=3))
    (tmp_path / "skein.crt").write_bytes(credentials.new_credentials().certificate)
    finding = only(doctor.check_certificate)
    assert finding.level == doctor.NOTE
    assert "ends in 2 days" in finding.text


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = only(doctor.check_java)
    assert finding.level == doctor.BAD
    assert str(tmp_path) in finding.text


@pytest.mark.parametrize(
    ("prints", "told"),
    [
        ("echo /a/hadoop-common.jar", "no hadoop-yarn-client"),
        ("exit 3", "`yarn classpath --glob` fails"),
    ],
)
def test_a_broken_class_path(
    prints: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yarn").write_text(f"#!/bin/sh\n{prints}\n")
    (tmp_path / "yarn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    findings = list(doctor.run([("yarn", doctor.check_yarn)]))
    assert [f.level for f in findings] == [doctor.OK, doctor.BAD]
    assert told in findings[1].text


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path / "file" / "below"))
    finding = only(doctor.check_home)
    assert (finding.level, finding.remedy) == (doctor.BAD, "Set YARNPS_HOME.")


def test_vcores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert "--probe" in only(doctor.check_vcores).text
    (tmp_path / "capacity-scheduler.xml").write_text("<configuration/>")
    assert only(doctor.check_vcores).level == doctor.NOTE
    (tmp_path / "capacity-scheduler.xml").write_text(
        "<configuration><property><name>yarn.scheduler.capacity.resource-calculator</name>"
        "<value>org.apache.DominantResourceCalculator</value></property></configuration>"
    )
    assert only(doctor.check_vcores).text == "the scheduler counts vcores"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_noexec_folder(tmp_path: Path) -> None:
    program = f"from yarnps.client.driver import is_noexec; print(is_noexec({str(tmp_path)!r}))"
    mounted = f'mount -t tmpfs -o noexec none "{tmp_path}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"


def test_our_certificates_are_valid_on_nodes_whose_clocks_are_behind() -> None:
    from cryptography import x509

    for rsa in (False, True):
        pair = credentials.new_credentials(rsa=rsa)
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        now = datetime.now(timezone.utc)
        assert certificate.not_valid_before_utc < now - timedelta(hours=12)
        assert certificate.not_valid_after_utc > now + timedelta(days=360)
        assert "key=" not in repr(pair)
