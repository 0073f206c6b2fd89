"""The machines that a job is made of, as its job file wants them."""

from __future__ import annotations

from collections.abc import MutableSequence

from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.resources.decisions import Limits, RolePlan, Settings
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure
from yarnps.am.resources.services import OtherServices
from yarnps.spec import Block, Role


def members_of(config: Config) -> Members:
    """The ranks of the job's roles; servers are asked for first."""
    block = config.block
    limits = Limits(
        start_timeout=block.start_timeout,
        silence=block.silence,
        batch=block.train.batch_limit,
    )
    settings = Settings(config.version, config.derived("nonces"), limits)
    roles = {"server": config.server, "worker": config.worker}
    return Members({name: _plan(role, block) for name, role in roles.items()}, settings)


def _plan(role: Role, block: Block) -> RolePlan:
    """What the members need to know of a role."""
    retry_memory, ours = block.retry_memory, block.runtime == "native"
    if ours:
        joins = "has not called yarnps.connect()"
    else:
        joins = "has not joined the others"
    return RolePlan(
        instances=role.instances,
        processes=role.processes,
        max_restarts=role.max_restarts,
        allow_failures=role.allow_failures,
        memory=role.memory,
        retry_memory=round(role.memory * retry_memory) if retry_memory else None,
        own_program=ours and (role.name == "server" or not role.script),
        by_order=not ours,
        needed=not ours and (role.name == "server" or block.dmlc.restart != "worker"),
        joins=joins,
    )


def services_of(config: Config, failures: MutableSequence[Failure]) -> OtherServices:
    """The services beside servers and workers; what may end the job is put into `failures`."""
    services = config.job.skein.get("services") or {}
    others = {name: keys for name, keys in services.items() if name not in config.job.roles}
    return OtherServices(others, failures)


def programs_of(config: Config, members: Members, failures: list[Failure]) -> Programs | None:
    """The programs of a runtime that is not ours; None: servers and workers are ours."""
    # Each only where it is wanted: a start waits for every import.
    if config.block.runtime == "dmlc":
        from yarnps.am.programs.dmlc import Dmlc

        return Dmlc(config, members, failures)
    if config.block.runtime == "xgboost":
        from yarnps.am.programs.xgboost import Xgboost

        return Xgboost(config, members, failures)
    return None
