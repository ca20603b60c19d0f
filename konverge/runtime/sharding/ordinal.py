"""Sharding by the ordinals of a StatefulSet: `crc32(uid) % spec.replicas == ordinal`. No Lease, no stamp, no hand-over.

    pod `operator-2`            the StatefulSet `operator`, the share 2 (less `spec.ordinals.start`)
    spec.replicas, watched      the number of shares; a change enqueues what this replica gains, and drops what it loses
    a running reconcile         continues, even if another replica has the object now

Caveats: two replicas reconcile an object while they see different counts; while a pod is missing its share has no owner; from 3 to 4
replicas three quarters of the objects change their owner. Nothing is fenced. The mode `hash` has none of this.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final
from zlib import crc32

from konverge.client import ClientConfig, Fence
from konverge.errors import NotLeading, UsageError
from konverge.informers import Change, InformerSet, Selection
from konverge.keys import Key
from konverge.kinds import kind
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.runtime.builder.families import family_of
from konverge.runtime.hooks.object_gate import Owned
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.interface import Claim
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.tasks import Broadcast
from konverge.words import LogKey

__all__ = ["STATEFUL_SET", "OrdinalRing", "OrdinalShares", "ordinal_of", "share_of"]

STATEFUL_SET: Final = kind("apps/v1", "StatefulSet", namespaced=True, plural="statefulsets")
_POD: Final = re.compile(r"(.+)-([0-9]{1,9})")


def ordinal_of(host: str) -> tuple[str, int]:
    """Return the StatefulSet and the ordinal of a pod, by its name. Raises UsageError for a name without an ordinal.

    >>> ordinal_of("operator-2")
    ('operator', 2)
    """
    match = _POD.fullmatch(host.partition(".")[0])
    if match is None:
        raise UsageError(
            f"sharding.mode=ordinal takes the pods of a StatefulSet, whose names end in their ordinal; this host is {host[:100]!r}: "
            "deploy a StatefulSet, or set sharding.mode=hash"
        )
    return match[1], int(match[2])


def share_of(uid: str, replicas: int) -> int:
    """Return which of so many shares an object belongs to.

    >>> share_of("0b9ee9a4-6f2e-4a4b-9c93-0d1c7f1e6f35", 3)
    1
    """
    return crc32(uid.encode()) % replicas


class _OpenFence:
    """Refuses nothing once the count is known: this mode does not fence."""

    def __init__(self) -> None:
        self.open = False

    def check(self) -> None:
        if not self.open:
            raise NotLeading("not sent: the number of replicas is not known yet")


class OrdinalRing:
    """A replica's view of its StatefulSet; a `Leadership` that is never lost."""

    def __init__(
        self, config: ClientConfig, settings: ShardingSettings, *, name: str, host: str, metrics: Metrics
    ) -> None:
        self.set_name, self._ordinal = ordinal_of(host)
        self.namespace = settings.namespace or config.namespace or "default"
        self.settings = settings
        self.name = settings.ring_of(name)
        self.replicas = 0
        """The number of shares; 0 before it is known."""
        self.epoch = 0
        """The generation of the StatefulSet, which grows with each change of the number."""
        self.draining = False
        self.changed = Broadcast()
        self.generation = 0
        self._start = 0
        self._known = asyncio.Event()
        self._fence = _OpenFence()
        self._members = metrics.shard_members.labels(name=name, state=MemberState.READY.value)
        self._log = get_logger("konverge.sharding").bind(
            **{LogKey.NAMESPACE: self.namespace, LogKey.NAME: self.set_name}
        )

    @property
    def member(self) -> str:
        """The name of this pod."""
        return f"{self.set_name}-{self._ordinal}"

    def desired(self, key: str) -> str:
        """Return the pod whose share a key belongs to; "" without pods."""
        return f"{self.set_name}-{share_of(key, self.replicas) + self._start}" if self.replicas else ""

    @asynccontextmanager
    async def following(self, informers: InformerSet) -> AsyncIterator[None]:
        """Follow the StatefulSet."""
        informer = informers.acquire(Selection(STATEFUL_SET, self.namespace, fields=f"metadata.name={self.set_name}"))
        registration = informer.add_handler("shard ordinals", self._on_set)
        try:
            yield
        finally:
            registration.remove()
            informers.release(informer)

    def _on_set(self, change: Change) -> None:
        if change.new is None:
            return  # its pods are about to end; until then the last number is valid
        stateful_set = change.new.decode(STATEFUL_SET)
        replicas, start = (
            stateful_set.get("spec", "replicas", default=1),
            stateful_set.get("spec", "ordinals", "start", default=0),
        )
        if self._known.is_set() and (replicas, start) == (self.replicas, self._start):
            return
        self.replicas, self._start, self.epoch = replicas, start, max(1, stateful_set.metadata.generation or 1)
        self._log.info("the number of shares changed", **{LogKey.MEMBERS: replicas})
        self._members.set(replicas)
        self._known.set()
        self.generation += 1
        self.changed.notify()

    @property
    def fence(self) -> Fence:
        """Refuses writes before the number of replicas is known, and none after that."""
        return self._fence

    async def acquire(self) -> None:
        """Return once the number of replicas is known."""
        self._log.warning(
            "sharding by ordinals: an object can have two owners while replicas see different counts, and none while a pod is missing; "
            "sharding.mode=hash has neither",
            **{LogKey.IDENTITY: self.member},
        )
        await self._known.wait()
        self._fence.open = True
        self.generation += 1
        self.changed.notify()

    async def lost(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """Begin no further reconcile."""
        self.draining = True

    async def release(self) -> None:
        """Refuse further writes."""
        self._fence.open = False

    def problem(self) -> str:
        """Return that the StatefulSet is missing; "" if it is known."""
        if self._known.is_set():
            return ""
        return f"the StatefulSet {self.namespace}/{self.set_name} was not seen: is there one, and may this process watch it?"

    def holder(self) -> str:
        """Return the name of this pod."""
        return self.member


class OrdinalShares:
    """The objects of one ordinal."""

    def __init__(self, ring: OrdinalRing) -> None:
        self.ring = ring

    @property
    def selector(self) -> str:
        """The empty selector: each replica sees every object."""
        return ""

    def is_mine(self, metadata: Metadata) -> bool:
        """Return whether an object belongs to this share."""
        return self.owns(metadata).owner == self.ring.member

    def desired(self, metadata: Metadata, family: str) -> str:  # noqa: ARG002  # the interface's
        """Return the pod whose share an object belongs to."""
        return self.ring.desired(family)

    def owns(self, metadata: Metadata) -> Owned:
        """Return the pod whose share an object belongs to; the epoch is the generation of the StatefulSet."""
        return Owned(self.ring.desired(family_of(metadata)), self.ring.epoch)

    def concerns(self, metadata: Metadata, family: str) -> bool:  # noqa: ARG002  # the interface's
        """Return whether an object belongs to this share."""
        return self.ring.desired(family) == self.ring.member

    def changes(self, metadata: Metadata, family: str) -> bool:
        """Return whether an object belongs to this share: the number of replicas may have changed."""
        return not self.ring.draining and self.concerns(metadata, family)

    async def admit(self, key: Key, metadata: Metadata, family: str, writer: Hashable) -> Claim:  # noqa: ARG002  # the interface's
        """Return whether an object belongs to this share."""
        return Claim(self.ring.epoch if self.changes(metadata, family) else 0)

    def leave(self, uid: str) -> None:
        """Do nothing: this mode hands nothing over."""

    def observe(self, key: Key, old: Metadata | None, new: Metadata | None, writer: Hashable) -> bool:  # noqa: ARG002  # the interface's
        """Return False: no change of an object changes its share."""
        return False

    async def close(self) -> None:
        """Do nothing."""
