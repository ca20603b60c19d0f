"""The process under test as two replicas that elect one, and the faults of their lease.

Guarantees: both run the same `build`; the second replica starts when the first is ready. If a replica writes
while the other leads, the run has a finding.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from konverge.client import Client
from konverge.errors import NotFound
from konverge.runtime import ElectionSettings, Manager, ManagerSettings
from konverge.runtime.election.record import LEASE
from konverge_testing.apiserver.faults import Faults
from konverge_testing.apiserver.faults.rules import Rule
from konverge_testing.lab.plans import Lease
from konverge_testing.lab.process import WIRE, Wire
from konverge_testing.loop import CLOCK_ERROR

__all__ = ["PAUSE", "SLOW", "LeaseFaults", "Replica", "elected", "wrong_clock"]

_LEASE, _RENEW, _RETRY = 120.0, 80.0, 20.0
"""The times of the election, longer than the defaults: a run lasts hours, and each renewal is a request."""
PAUSE: Final = 240.0
SLOW: Final = 240.0
_DELAY: Final = 100.0
"""Seconds of a slow request: longer than the leader may take to renew."""
_DAY: Final = 86400.0
_NAMESPACE: Final = "kube-system"
"""The namespace of the leases: not the objects' namespace, which plans delete."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the replicas."""

    manager: Manager
    wire: Wire | None


def elected(settings: ManagerSettings, name: str, instance: str) -> ManagerSettings:
    """Return the settings of a replica that takes part in the election of a manager of this name."""
    election = ElectionSettings(
        enabled=True, name=name, namespace=_NAMESPACE, lease_seconds=_LEASE, renew_seconds=_RENEW, retry_seconds=_RETRY
    )
    return replace(settings, instance=instance, election=election)


@contextlib.contextmanager
def wrong_clock(faults: Sequence[Lease]) -> Iterator[None]:
    """Shift the clock of tasks that start in this block by a day, if the plan has that fault."""
    token = CLOCK_ERROR.set(-_DAY if any(one.do == "apart" for one in faults) else 0.0)
    try:
        yield
    finally:
        CLOCK_ERROR.reset(token)


class LeaseFaults:
    """Injects a plan's faults into the lease of the process under test."""

    def __init__(self, client: Client, faults: Faults, replicas: Callable[[], Sequence[Replica]]) -> None:
        self._client = client
        self._faults = faults
        self._replicas = replicas

    async def act(self, fault: Lease) -> float:
        """Inject a fault; returns its duration in seconds."""
        leaders = [one for one in self._replicas() if one.manager.leads]
        if not leaders:
            return 0.0
        match fault.do:
            case "lose" | "apart":
                await self._edit(leaders[0], {"holderIdentity": "another-replica"})
            case "empty":
                await self._edit(leaders[0], {"holderIdentity": ""})
            case "delete":
                await self._client.delete(LEASE, leaders[0].manager.name, _NAMESPACE)
            case "slow":
                return self._slow_down(fault.seconds or SLOW)
            case "pause" | "twins":
                return self._pause(leaders[0].wire, fault.seconds or PAUSE)
        return 0.0

    async def _edit(self, leader: Replica, spec: dict[str, Any]) -> None:
        with contextlib.suppress(NotFound):
            await self._client.patch(LEASE, leader.manager.name, _NAMESPACE, patch={"spec": spec}, style="merge")

    def _slow_down(self, seconds: float) -> float:
        agents = {one.manager.name for one in self._replicas()}
        for agent in agents:
            rule = Rule.from_json(
                {
                    "match": {"resources": ["leases.coordination.k8s.io"], "user_agent": f"{agent} *"},
                    "fault": {"type": "delay", "seconds": _DELAY},
                }
            )
            self._faults.add(rule)
            asyncio.get_running_loop().call_later(seconds, self._faults.remove, rule)
        return seconds

    def _pause(self, wire: Wire | None, seconds: float) -> float:
        if wire is not None:
            wire.pause()
            asyncio.get_running_loop().call_later(seconds, wire.resume)
        return seconds

    def other_leaders(self) -> list[str]:
        """Return a problem for each other replica that leads while this replica writes."""
        wire = WIRE.get()
        return [
            f"{one.manager.name}: two replicas write, the second one leads at {asyncio.get_running_loop().time():g} s"
            for one in self._replicas()
            if one.wire is not wire and one.manager.leads
        ]
