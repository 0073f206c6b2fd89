"""The files in docker/ as far as they can be read without a Docker engine."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from yarnps._version import VERSION
from yarnps.client.sandbox._jars import HADOOP_VERSION, pom

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
DOCKERFILES = [DOCKER / "Dockerfile", DOCKER / "hadoop" / "Dockerfile"]
INSTRUCTIONS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN",
    "USER", "VOLUME", "WORKDIR",
}  # fmt: skip
each_file = pytest.mark.parametrize("path", DOCKERFILES, ids=["yarnps", "hadoop"])


class Step(NamedTuple):
    """An instruction of a Dockerfile."""

    name: str
    rest: str


def steps(path: Path) -> list[Step]:
    lines = [x for x in path.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Step(name, " ".join(rest[0].split()) if rest else "") for name, *rest in found]


@each_file
def test_a_dockerfile_has_only_known_instructions_and_starts_with_a_base(path: Path) -> None:
    found = steps(path)
    assert {step.name for step in found} <= INSTRUCTIONS
    first = next(step for step in found if step.name != "ARG")
    assert first.name == "FROM"


@each_file
def test_every_base_is_an_argument_with_a_default_or_an_earlier_stage(path: Path) -> None:
    arguments = {}
    for step in steps(path):
        if step.name == "ARG":
            name, equals, value = step.rest.partition("=")
            assert equals and value, step
            arguments[name] = value
        elif step.name == "FROM":
            base = step.rest.split()[0]
            assert base.startswith("${") and base[2:-1] in arguments, step


@each_file
def test_what_is_copied_is_in_the_repository_or_in_an_earlier_stage(path: Path) -> None:
    stages = {s.rest.split()[2] for s in steps(path) if s.name == "FROM" and " AS " in s.rest}
    for step in steps(path):
        if step.name != "COPY":
            continue
        *sources, _ = step.rest.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages, step
        else:
            assert all((ROOT / source).exists() for source in sources), step


@each_file
def test_the_image_runs_as_an_ordinary_user(path: Path) -> None:
    users = [step.rest for step in steps(path) if step.name == "USER"]
    assert users and users[-1] == "yarnps"


@each_file
def test_shell_steps_are_correct_shell(path: Path) -> None:
    for step in steps(path):
        if step.name == "RUN":
            done = subprocess.run(
                ["sh", "-n", "-c", step.rest], capture_output=True, text=True, timeout=20
            )
            assert done.returncode == 0, (step, done.stderr)


@each_file
def test_no_host_is_named(path: Path) -> None:
    text = "\n".join(f"{step.name} {step.rest}" for step in steps(path))
    assert re.findall(r"https?://\S+", text) == []


def test_every_package_of_ours_is_copied() -> None:
    copied = {s.rest.split()[0] for s in steps(DOCKERFILES[0]) if s.name == "COPY"}
    assert {"yarnps", "am", "client", "pyproject.toml"} <= copied


def test_the_hadoop_is_the_sandboxes() -> None:
    assert (DOCKER / "hadoop" / "pom.xml").read_text(encoding="utf-8") == pom(HADOOP_VERSION)


def test_compose_names_what_there_is() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    services, volumes = compose["services"], set(compose["volumes"])
    assert {"namenode", "datanode", "resourcemanager", "nodemanager"} <= set(services)
    script = (DOCKER / "hadoop" / "hadoop.sh").read_text(encoding="utf-8")
    for name, service in services.items():
        build = service["build"]
        assert (DOCKER / build["context"] / build["dockerfile"]).resolve() in DOCKERFILES, name
        assert set(service.get("depends_on", ())) <= set(services), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            there = (DOCKER / source).exists() if source.startswith(".") else source in volumes
            assert there, (name, volume)
        command = " ".join(service.get("command", ()))
        if service.get("hostname") or name == "nodemanager":
            assert f'"{command}")' in script, name
    assert services["yarnps"]["image"] == f"yarnps:{VERSION}"
    assert services["namenode"]["image"] == f"yarnps-hadoop:{HADOOP_VERSION}"


def test_the_configuration_names_hosts_of_compose() -> None:
    hosts = set(yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"])
    values = {}
    for path in (DOCKER / "hadoop" / "conf").glob("*.xml"):
        for entry in ET.parse(path).getroot().iter("property"):
            values[entry.findtext("name")] = entry.findtext("value") or ""
    assert re.fullmatch(r"hdfs://(\w+):\d+", values["fs.defaultFS"])[1] in hosts  # type: ignore[index]
    assert values["yarn.resourcemanager.hostname"] in hosts


def test_the_script_is_correct_shell() -> None:
    script = DOCKER / "hadoop" / "hadoop.sh"
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
