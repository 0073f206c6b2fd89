"""Rules of job files whose programs know nothing of yarnps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yarnps.pslite.contract import OURS
from yarnps.rabit import contract as rabit

from ._walk import ROLE_NAMES

if TYPE_CHECKING:
    from ._checks import Checker

# What only yarnps' own servers and workers go by.
_NATIVE: Final = ("app", "params", "data", "train", "server", "checkpoint", "model", "stop")


# Of these, what XGBoost's workers find with `yarnps.shard()`.
_SHARED: Final = ("data",)


def native(c: Checker) -> bool:
    """Whether the programs are yarnps' own, or call it."""
    return c.get("yarnps", "runtime") in (None, "native")


def only_dmlc(c: Checker) -> None:
    """With yarnps' own runtime: what belongs to the other one."""
    if c.mapping("yarnps", "dmlc"):
        c.add(("yarnps", "dmlc"), "only with runtime: dmlc")


def dmlc(c: Checker) -> None:
    """Rules of `runtime: dmlc`."""
    for key in _NATIVE:
        if c.get("yarnps", key) is not None:
            text = "only with runtime: native; a program of ps-lite brings its own"
            c.add(("yarnps", key), text)
    if c.get("yarnps", "sync", "staleness") is not None:
        c.add(("yarnps", "sync", "staleness"), "only with runtime: native")
    if not c.get("services", "worker", "script"):
        c.add(("services", "worker", "script"), "missing: the program, which all roles run")
    alone = c.get("yarnps", "dmlc", "restart") == "worker"
    if alone and c.get("yarnps", "sync", "mode") != "asp":
        text = "worker is only for programs that train asynchronously: say so with sync.mode: asp"
        c.add(("yarnps", "dmlc", "restart"), text)
    for role in ROLE_NAMES:
        if c.get("services", role, "allow_failures"):
            text = "not with runtime: dmlc, where all processes wait for all others"
            c.add(("services", role, "allow_failures"), text)
        for name in c.mapping("services", role, "env"):
            if name in OURS:
                c.add(("services", role, "env", name), "yarnps sets this variable itself")


def xgboost(c: Checker) -> None:
    """Rules of `runtime: xgboost`."""
    for key in (*(key for key in _NATIVE if key not in _SHARED), "sync", "dmlc"):
        if c.get("yarnps", key) is not None:
            c.add(("yarnps", key), "not with runtime: xgboost, whose program brings its own")
    if c.get("services", "server") is not None:
        c.add(("services", "server"), "XGBoost has no servers: take the service out")
    if not c.get("services", "worker", "script"):
        c.add(("services", "worker", "script"), "missing: the program")
    if c.get("services", "worker", "allow_failures"):
        text = "not with runtime: xgboost, where all workers wait for all others"
        c.add(("services", "worker", "allow_failures"), text)
    for name in c.mapping("services", "worker", "env"):
        if name in rabit.OURS:
            c.add(("services", "worker", "env", name), "yarnps sets this variable itself")
