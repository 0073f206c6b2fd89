"""What no single field can tell: rules over several keys of a job file.

They look at the plain data, each rule only at what has the right type, so that they all speak up
even when other parts of the file are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from yarnps._errors import Problem
from yarnps.pslite.contract import PROGRAM_SETUP

from . import _runtimes as runtimes
from ._params import APPS
from ._problems import place_of, problems_of, spoken
from ._units import MIB, format_size, parse_size
from ._walk import ROLE_NAMES, nearest
from ._yaml import Path, Place, format_path

ROLE_MIN_BYTES: Final = 320 * MIB  # a Python process with one numba kernel is 150 MB
AM_MIN_BYTES: Final = 400 * MIB  # skein's Java AM is 215 MB, ours with its supervisor 170 MB
RETRY_SUFFIX: Final = "-retry"
PACKAGE_FOLDER: Final = "yarnps_pkg"
JOB_FILE: Final = "yarnps-job.json"
_RESERVED: Final = (
    PACKAGE_FOLDER,
    JOB_FILE,
    PROGRAM_SETUP,
    ".skein.crt",
    ".skein.pem",
    ".skein.sh",
)
APP_METRICS: Final = {
    "ftrl": ("test_auc", "test_logloss"),
    "fm": ("test_auc", "test_logloss", "test_rmse", "test_mae"),
}
_LABELLED_APPS: Final = ("ftrl", "fm")
_COLUMN_FORMATS: Final = ("csv", "parquet")
_FORMATS: Final = ("libsvm", "text", "custom", *_COLUMN_FORMATS)


class Checker:
    """The plain data of a job file, and the problems that rules have found in it."""

    def __init__(self, data: Mapping[str, Any], places: Mapping[Path, Place]) -> None:
        self.data = data
        self.places = places
        self.problems: list[Problem] = []

    def get(self, *path: str) -> Any:
        """The value at a path; None when there is none, or something above is no mapping."""
        here: Any = self.data
        for step in path:
            if not isinstance(here, Mapping):
                return None
            here = here.get(step)
        return here

    def mapping(self, *path: str) -> Mapping[str, Any]:
        """The mapping at a path; an empty one when there is none."""
        value = self.get(*path)
        return value if isinstance(value, Mapping) else {}

    def number(self, *path: str, default: int) -> int:
        """The whole number at a path."""
        value = self.get(*path)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def size(self, *path: str) -> int | None:
        """Bytes of a `memory`; None when it is not one (its own check says so)."""
        try:
            return parse_size(self.get(*path), unit=MIB)
        except ValueError:
            return None

    def add(self, path: Path, message: str, near: str = "") -> None:
        """Note a problem."""
        place = place_of(path, self.places)
        self.problems.append(Problem(place.line, format_path(path), message, near, place.source))


def cross_checks(data: Mapping[str, Any], places: Mapping[Path, Place]) -> list[Problem]:
    """All problems of these rules."""
    checker = Checker(data, places)
    _dependencies(checker)
    if "yarnps" in data:
        _master(checker)
        _roles(checker)
        _scripts(checker, but=ROLE_NAMES)
        if runtimes.native(checker):
            _native(checker)
        elif checker.get("yarnps", "runtime") == "dmlc":
            runtimes.dmlc(checker)
        elif checker.get("yarnps", "runtime") == "xgboost":
            runtimes.xgboost(checker)
            _input(checker)
    else:
        _plain(checker)
        _scripts(checker, but=())
    return checker.problems


def _native(c: Checker) -> None:
    """Rules of what yarnps' own servers and workers go by."""
    if c.get("services", "server", "script"):
        c.add(
            ("services", "server", "script"),
            "the servers' program is yarnps' own: take the script out",
        )
    _shards(c)
    _program(c)
    if isinstance(c.get("yarnps"), Mapping) and c.get("yarnps", "data") is None:
        c.add(("yarnps", "data"), "missing: The input")
    _input(c)
    _stop(c)
    _sync(c)
    _not_yet(c)
    runtimes.only_dmlc(c)


def params_of(app: str | None, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the program's defaults filled in (they have been checked)."""
    if app is None:
        return dict(params)
    return APPS[app].model_validate(dict(params)).model_dump()


def _plain(c: Checker) -> None:
    services = c.mapping("services")
    if not services and not c.get("master", "script"):
        c.add(("services",), "missing: at least one service, or master.script")


def _scripts(c: Checker, *, but: tuple[str, ...]) -> None:
    for name, service in c.mapping("services").items():
        if name not in but and isinstance(service, Mapping) and not service.get("script"):
            c.add(("services", name, "script"), "missing: the bash script of the service")


def _dependencies(c: Checker) -> None:
    services = c.mapping("services")
    edges: dict[str, list[str]] = {}
    for name, service in services.items():
        depends = service.get("depends") if isinstance(service, Mapping) else None
        edges[name] = (
            [d for d in depends if isinstance(d, str)] if isinstance(depends, list) else []
        )
        for other in edges[name]:
            if other not in services:
                known = tuple(services)
                c.add(
                    ("services", name, "depends"),
                    f"there is no service {other!r}",
                    nearest(other, known),
                )
    for cycle in _cycles(edges):
        c.add(("services", cycle[0], "depends"), f"a circle: {' -> '.join((*cycle, cycle[0]))}")


def _cycles(edges: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """One circle for each group of services that wait for one another."""
    done: set[str] = set()
    for start in edges:
        trail: list[str] = []
        here: str | None = start
        while here is not None and here not in done:
            if here in trail:
                yield trail[trail.index(here) :]
                break
            trail.append(here)
            here = next((d for d in edges[here] if d in edges and d not in done), None)
        done.update(trail)


def _master(c: Checker) -> None:
    if c.get("master", "script"):
        c.add(
            ("master", "script"),
            "not with a yarnps block, which runs its own program there: use services.worker.script",
        )
    if c.get("master", "security") is not None:
        c.add(
            ("master", "security"),
            "not with a yarnps block: each job gets a key pair of its own",
        )

    path = ("master", "resources", "memory")
    memory = c.size(*path)
    if memory is not None and 0 < memory < AM_MIN_BYTES:
        least = format_size(AM_MIN_BYTES)
        c.add(path, f"{format_size(memory)} is too small for the AM: expected at least {least}")
    for holder in (("master",), ("services", "server"), ("services", "worker")):
        for target in c.mapping(*holder, "files"):
            if target.removeprefix("./") in _RESERVED:
                c.add((*holder, "files", target), "yarnps itself brings a file of this name")


def _roles(c: Checker) -> None:
    for role in ROLE_NAMES:
        _role(c, role)
    for name in c.mapping("services"):
        depends = c.get("services", name, "depends")
        for role in depends if name not in ROLE_NAMES and isinstance(depends, list) else ():
            if role in ROLE_NAMES:
                c.add(
                    ("services", name, "depends"),
                    f"a service beside the job cannot wait for {role!r}: yarnps starts that itself",
                )


def _role(c: Checker, role: str) -> None:
    services = c.mapping("services")
    service = services.get(role)
    if service is None and role == "server" and c.get("yarnps", "runtime") == "xgboost":
        return
    if service is None:
        near = nearest(role, tuple(name for name in services if name not in ROLE_NAMES))
        also = f" (there is a service {near!r})" if near else ""
        c.add(("services", role), f"missing: the {role}s' instances and resources{also}")
        return
    if not isinstance(service, Mapping):
        return
    instances = c.number("services", role, "instances", default=1)
    if instances < 1:
        c.add(("services", role, "instances"), f"expected at least 1, found {instances}")
    _role_memory(c, role)
    retry = role + RETRY_SUFFIX
    if retry in services and c.get("yarnps", "retry_memory") is not None:
        c.add(
            ("services", retry),
            f"the name is taken: with yarnps.retry_memory, yarnps makes a service {retry}",
        )


def _shards(c: Checker) -> None:
    processes = c.number("services", "server", "instances", default=1) * c.number(
        "services", "server", "resources", "vcores", default=1
    )
    shards = c.number("yarnps", "server", "shards", default=256)
    if shards & (shards - 1) == 0 and 0 < shards < 4 * processes:
        least = 1 << (4 * processes - 1).bit_length()
        c.add(
            ("yarnps", "server", "shards"),
            f"{shards} shards are too few for {processes} server processes "
            f"(instances x vcores): expected at least {least}",
        )


def _role_memory(c: Checker, role: str) -> None:
    path = ("services", role, "resources", "memory")
    memory = c.size(*path) or 0
    vcores = c.number("services", role, "resources", "vcores", default=1)
    processes = max(1, vcores) if role == "server" and runtimes.native(c) else 1
    if 0 < memory < ROLE_MIN_BYTES:
        c.add(
            path,
            f"{format_size(memory)} is too small for a {role}: expected at least "
            f"{format_size(ROLE_MIN_BYTES)}",
        )
    elif processes > 1 and memory < processes * ROLE_MIN_BYTES / 2:
        c.add(
            path,
            f"{format_size(memory)} is too small for {processes} server processes (one for each "
            f"vcore): expected at least {format_size(processes * ROLE_MIN_BYTES // 2)}",
        )


def _program(c: Checker) -> None:
    app, script = c.get("yarnps", "app"), c.get("services", "worker", "script")
    params = c.get("yarnps", "params")
    if app is None and not script:
        c.add(
            ("yarnps", "app"), f"missing: a built-in program ({_known()}) or services.worker.script"
        )
    if app is not None and script:
        c.add(("yarnps", "app"), "given together with services.worker.script: expected one of them")
    if isinstance(app, str) and app and app not in APPS:
        known = tuple(APPS)
        c.add(("yarnps", "app"), f"unknown program {app!r}: known: {_known()}", nearest(app, known))
    elif isinstance(app, str) and app and isinstance(params, (Mapping, type(None))):
        try:
            APPS[app].model_validate(dict(params or {}))
        except ValidationError as error:
            c.problems += [
                _params_near(problem, app)
                for problem in problems_of(error, c.places, root=("yarnps", "params"))
            ]
    elif isinstance(params, Mapping):
        try:
            json.dumps(params, allow_nan=False)
        except ValueError:
            c.add(("yarnps", "params"), "expected finite numbers, found .inf or .nan")


def _params_near(problem: Problem, app: str) -> Problem:
    if problem.message != "unknown key":
        return problem
    known = tuple(APPS[app].model_fields)
    key = problem.path.removeprefix("yarnps.params.")
    message = f"unknown parameter of {app}: known: {', '.join(known)}"
    return problem._replace(message=message, near=nearest(key, known))


def _known() -> str:
    return ", ".join(APPS)


def _input(c: Checker) -> None:
    data = c.mapping("yarnps", "data")
    form = data.get("format") or "libsvm"
    if form not in _FORMATS:
        return  # the field's own check says so
    at = ("yarnps", "data")
    if form == "custom" and not data.get("parse"):
        c.add((*at, "parse"), "missing: format custom needs a function, module:function")
    if data.get("parse") and form != "custom":
        c.add((*at, "parse"), f"only with format custom, found {spoken(form)}")
    for key in ("label", "features"):
        if data.get(key) is not None and form not in _COLUMN_FORMATS:
            c.add((*at, key), f"only with format csv or parquet, found {spoken(form)}")
    if data.get("csv") is not None and form != "csv":
        c.add((*at, "csv"), f"only with format csv, found {spoken(form)}")
    label, features = data.get("label"), data.get("features")
    if isinstance(label, str) and isinstance(features, list) and label in features:
        c.add(
            (*at, "features"), f"holds the label {label!r}: the model would only learn to copy it"
        )
    app = c.get("yarnps", "app")
    if app == "word2vec" and form not in ("text", "custom"):
        c.add((*at, "format"), f"word2vec needs lines of words: expected text, found {form}")
    if app == "word2vec" and c.get("yarnps", "sync", "mode") == "bsp":
        # A step would take the mean of its parts' changes, and a word is in few of them.
        message = "word2vec's workers add to the vectors as they go: expected ssp or asp, found bsp"
        c.add(("yarnps", "sync", "mode"), message)
    if app in _LABELLED_APPS:
        if form in _COLUMN_FORMATS and label is None:
            c.add((*at, "label"), f"missing: {app} needs the label's column with format {form}")
        if form == "text":
            c.add((*at, "format"), f"{app} needs labels and features: expected any but text")


def _stop(c: Checker) -> None:
    metric = c.get("yarnps", "stop", "metric")
    if not isinstance(metric, str):
        if c.get("yarnps", "stop", "patience") is not None and metric is None:
            c.add(("yarnps", "stop", "patience"), "only with a metric: give stop.metric, too")
        return
    app = c.get("yarnps", "app")
    known = APP_METRICS.get(app, ()) if isinstance(app, str) else ()
    if known and metric not in known:
        c.add(
            ("yarnps", "stop", "metric"),
            f"{app} has no metric {metric!r}: known: {', '.join(known)}",
            nearest(metric, known),
        )
    elif metric.startswith("test_") and c.get("yarnps", "data", "test") is None:
        c.add(("yarnps", "stop", "metric"), f"{metric} needs test input: give data.test")


def _sync(c: Checker) -> None:
    sync = ("yarnps", "sync")
    if c.get(*sync, "mode") != "bsp":
        for key in ("parts", "spare"):
            if c.get(*sync, key):
                c.add((*sync, key), "only with sync.mode bsp")
        return
    on_loss = c.get("yarnps", "server", "on_loss")
    if on_loss in ("replay", "patch"):
        c.add(
            ("yarnps", "server", "on_loss"),
            f"{on_loss} is for ssp and asp: the steps of bsp are the same for all servers, "
            "expected rollback",
        )
    workers = c.number("services", "worker", "instances", default=1)
    parts = c.number(*sync, "parts", default=workers)
    spare = c.number(*sync, "spare", default=0)
    if spare >= max(parts, 1):
        c.add((*sync, "spare"), f"expected less than the {parts} parts of a step, found {spare}")


def _not_yet(c: Checker) -> None:
    if c.get("yarnps", "server", "replicas") == 2:
        c.add(("yarnps", "server", "replicas"), "2 is not available in this version: use 1")
