"""A cut of a BSP job: all servers save when they have closed the same steps.

The ApplicationMaster asks every server to stop after the step it is at; the highest answer is the
step that all of them save at. No server closes a further step until its shards are copied, so
training waits for the copies, not for the disk.
"""

from __future__ import annotations

import time

from yarnps.protocol import control_pb2 as pb
from yarnps.server.saving import Task
from yarnps.server.service import Service

# A server that was stopped and hears nothing more goes on: the order to save has got lost, and
# the ApplicationMaster gives the cut up by itself.
HOLD_LIMIT_S = 30.0


class StepCut:
    """One cut at a time, from the order to stop to the copies' end."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._order: pb.Save | None = None
        self._until: float | None = None
        self._task: Task | None = None
        self._stays = False

    def hold(self, hold: pb.Hold) -> pb.FromRole | None:
        """Stop at the present step, and say which that is; or go on."""
        steps = self._service.steps
        if steps is None:
            return None
        if hold.release:
            self.release()
            return None
        self._order = None
        self._until = time.monotonic() + HOLD_LIMIT_S
        steps.stop_at(steps.epoch, steps.closed)
        held = pb.StepHeld(cut=hold.cut, epoch=steps.epoch, step=steps.closed)
        return pb.FromRole(step_held=held)

    def save(self, order: pb.Save) -> str:
        """Save when the step is reached; returns why that cannot be."""
        steps = self._service.steps
        if steps is None or (order.epoch, order.step) < (steps.epoch, steps.closed):
            return f"step {order.step} of epoch {order.epoch} has passed"
        self._order, self._stays = order, order.stay
        self._until = time.monotonic() + HOLD_LIMIT_S
        steps.stop_at(order.epoch, order.step)
        self._service.close_steps()
        return ""

    def due(self) -> pb.Save | None:
        """The order, once its step is reached: to be carried out now."""
        steps = self._service.steps
        if self._order is None or steps is None or not steps.at_limit:
            return None
        order, self._order, self._until = self._order, None, None
        return order

    def copying(self, task: Task) -> None:
        """The order is being carried out."""
        self._task = task

    def check(self) -> None:
        """Go on when the shards are copied, or when nothing comes of the cut."""
        copied = self._task is not None and (self._task.copied or self._task.finished)
        if copied and self._stays:
            self._task = None
        elif copied or (self._until is not None and time.monotonic() >= self._until):
            self.release()

    def release(self) -> None:
        """The shards are copied, or there will be no cut: close what is complete by now."""
        self._order = self._until = self._task = None
        if self._service.steps is not None:
            self._service.steps.go_on()
            self._service.close_steps()
