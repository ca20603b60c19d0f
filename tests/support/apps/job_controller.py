"""Plays the Job controller and a kubelet on the in-memory API server: a Job runs for a while, then succeeds or fails; suspension ends its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import ClassVar

from apps.operations import JOB, completed, failed, suspended

from konverge.client import ClientConfig
from konverge.clock import from_rfc3339, rfc3339, wall_clock
from konverge.kinds import Kind
from konverge.objects import Object
from konverge_testing.standin import Json, StandIn

ENDS = frozenset({"Complete", "Failed"})


def ended(job: Object) -> bool:
    """Whether a Job has a terminal condition."""
    return any(one.type in ENDS and one.is_true for one in job.conditions)


def at_work(job: Object) -> bool:
    """Whether a Job has not ended, and is not suspended without a pod."""
    rests = any(one.type == "Suspended" and one.is_true for one in job.conditions) and not job.status.get("active")
    return not ended(job) and not (job.spec.get("suspend") and rests)


class JobController(StandIn):
    """Plays all Jobs of a namespace, until its `async with` ends. `fails` decides by the name of a Job."""

    NAME = "job-controller"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = {"Job": JOB}

    def __init__(
        self,
        config: ClientConfig,
        namespace: str | None,
        *,
        seconds: float = 5.0,
        fails: Callable[[str], bool] = lambda _: False,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, random=random)
        self._lasts = timedelta(seconds=seconds)
        self._fails = fails

    async def story(self, made: Json) -> None:
        while (found := await self.read(made)) is not None:
            job = Object(found)
            if ended(job) or job.metadata.deleting:
                return
            start, now = job.status.get("startTime"), wall_clock()
            if job.spec.get("suspend"):
                if at_work(job):
                    await self._put(made, {key: value for key, value in suspended().items() if value is not None})
                await self.until(lambda: not self._is_suspended(made))
            elif start is None:
                await self._put(made, {"startTime": rfc3339(now), "active": 1, "ready": 1, "terminating": 0})
            elif (left := from_rfc3339(start) + self._lasts - now) > timedelta(0):
                await self.until(lambda: self._is_suspended(made), timeout=left.total_seconds())
            else:
                end = failed() if self._fails(job.name) else completed()
                await self._put(made, {**end, "startTime": start})
            await self.sleep(0.1)

    def _is_suspended(self, made: Json) -> bool:
        found = self.present(made)
        return found is None or bool(found["spec"].get("suspend"))

    async def _put(self, made: Json, status: Json) -> None:
        await self.write(made, lambda job: job.update(status=status), subresource="status")
