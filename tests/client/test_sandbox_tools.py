"""Java and the jars: found, fetched once, and named when they are missing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from yarnps.client.sandbox import SandboxError, ToolMissing
from yarnps.client.sandbox import _java as javas
from yarnps.client.sandbox._jars import HADOOP_VERSION, Hadoop, fetch_hadoop, pom
from yarnps.client.sandbox._java import find_java, read_java


def install_java(home: Path, version: str | None) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25-ea", 25), (None, 8)],
)
def test_major_version(tmp_path: Path, version: str | None, major: int) -> None:
    java = read_java(install_java(tmp_path, version))
    assert java is not None
    assert java.major == major


def test_a_java_that_is_too_new_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install_java(tmp_path / "new", "25.0.1")))
    good = install_java(tmp_path / "good", "17.0.1")
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert find_java().home == good


def test_no_usable_java_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install_java(tmp_path / "new", "25.0.1")
    monkeypatch.setattr(javas, "_candidates", lambda: iter([tmp_path / "none", home]))
    with pytest.raises(ToolMissing, match=r"25\.0\.1 in .*/new") as raised:
        find_java()
    assert "apt-get install openjdk" in raised.value.remedy
    monkeypatch.setattr(javas, "_candidates", lambda: iter([]))
    with pytest.raises(ToolMissing, match="no Java found"):
        find_java()


def fake_maven(folder: Path, script: str) -> None:
    folder.mkdir()
    mvn = folder / "mvn"
    mvn.write_text(f"#!/bin/sh\n{script}\n")
    mvn.chmod(0o755)


# Does what the copy goal does, with one jar that is enough for the rest; records each call.
COPIES = """
for a in "$@"; do case "$a" in -DoutputDirectory=*) out="${a#*=}" ;; esac; done
echo call >> "$CALLS"
mkdir -p "$out"
cd "$out" && "$PYTHON" -c '
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as jar:
    jar.writestr("webapps/static/yarn.css", "body {}")
    jar.writestr("org/Other.class", "")
' "hadoop-yarn-common-$VERSION.jar"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    monkeypatch.setenv("YARNPS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("VERSION", HADOOP_VERSION)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{os.environ['PATH']}")
    return tmp_path / "cache"


def test_two_at_once_fetch_once(cache: Path, tmp_path: Path) -> None:
    fake_maven(tmp_path / "tools", COPIES)
    found: list[Hadoop] = []
    lines: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch_hadoop(lines.append))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 2
    assert found[0] == found[1]
    assert (tmp_path / "calls").read_text() == "call\n"
    classes = found[0].classes / "webapps"
    assert (classes / "static" / "yarn.css").read_text() == "body {}"
    assert (classes / "hdfs").is_dir()
    assert not (found[0].classes / "org").exists()
    left = [entry.name for entry in cache.iterdir() if not entry.name.endswith(".lock")]
    assert left == [f"hadoop-{HADOOP_VERSION}"]
    # Cached: no Maven is needed any more.
    (tmp_path / "tools" / "mvn").unlink()
    assert fetch_hadoop(lines.append) == found[0]


def test_a_failing_maven_is_quoted_and_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    fake_maven(tmp_path / "tools", "echo '[INFO] hello'; echo '[ERROR] no route to host'; exit 1")
    with pytest.raises(SandboxError, match=r"\[ERROR\] no route to host") as raised:
        fetch_hadoop(lambda line: None)
    assert "hello" not in str(raised.value)
    assert [entry.name for entry in cache.iterdir() if not entry.name.endswith(".lock")] == []


def test_no_maven_is_named_with_what_to_install(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="no mvn") as raised:
        fetch_hadoop(lambda line: None)
    assert "apt-get install maven" in raised.value.remedy
    assert not cache.exists()


def test_the_pom_names_no_repository() -> None:
    text = pom("3.4.2")
    assert "hadoop-yarn-server-nodemanager</artifactId><version>3.4.2<" in text
    assert "repositor" not in text
