"""What a worker asks for, and when it asks again."""

from __future__ import annotations

from yarnps.protocol import control_pb2 as pb
from yarnps.worker.leases import Leases


def granted(leases: Leases, *splits: int) -> None:
    grant = pb.Grant()
    for split in splits:
        grant.leases.add(epoch=1, phase="train", split=pb.SplitInfo(id=split), token=split + 1)
    leases.granted(grant)


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    leases = Leases()
    assert leases.want() == pb.WantLeases(count=2, idle=True)
    assert leases.want() is None
    granted(leases, 0)
    assert leases.want() is None  # the second one comes by itself
    granted(leases, 1)
    assert leases.want() is None
    leases.drop(leases.held[0])
    assert leases.want() == pb.WantLeases(count=1, idle=False)


def test_having_nothing_to_do_is_said() -> None:
    leases = Leases()
    leases.want()
    granted(leases, 0, 1)
    leases.drop(leases.held[0])
    assert leases.want() == pb.WantLeases(count=1, idle=False)
    leases.drop(leases.held[0])
    assert leases.want() == pb.WantLeases(count=2, idle=True)
    assert leases.want() is None


def test_a_restarted_application_master_is_asked_anew() -> None:
    leases = Leases()
    leases.want()
    leases.forget_asked()
    assert leases.want() == pb.WantLeases(count=2, idle=True)
