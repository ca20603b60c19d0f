"""The shell of a ring: this replica's own Lease, and its view of the other members' Leases.

    acquire   list the members, then create an own Lease and hold it
    join      annotate it, once every earlier member has renewed its Lease, released it, or died; from then on it owns objects
    lost      the fence closes: it could not be renewed in time, or was edited
    again     rejoin under a new name, since peers may have declared the old name dead
    release   after the last reconcile; other members then take its objects at once

Guarantees: a ring is a `Leadership` whose terms are the terms as a member. So the fence, the end of running reconciles and the order
of a stop are as in leader election. A member counts as dead only after a list of the Leases that was requested when the Lease was
overdue. A member that judges another member dead releases its Lease, by compare-and-swap: newcomers need not judge it again, and a
process that still renews that Lease stops. A member renews its own Lease when it sees a newcomer, which thus knows within a moment who
is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from konverge.client import Client, ClientConfig, Fence
from konverge.clock import wall_clock
from konverge.errors import KonvergeError, NotFound, NotLeading
from konverge.informers import Change, InformerSet, Selection
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Metadata, Object
from konverge.runtime.election.elector import LeaseElection
from konverge.runtime.election.record import LEASE, LeaseRecord
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.sharding.assignment import replica_name
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.hashing import Rendezvous
from konverge.runtime.sharding.lease_events import LeaseEvents
from konverge.runtime.sharding.members import MemberLease, Membership
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.runtime.sharding.stamp import host_in_name, member_name
from konverge.tasks import Broadcast
from konverge.words import Annotation, Label, LogKey

__all__ = ["Ring"]

_RETRY = 1.0
_OUTDATED = 60.0
"""Seconds after which the Lease of a released or dead member is deleted."""
_FORGOTTEN = 600.0
"""Seconds until a member whose Lease was deleted is forgotten; no stamp has its name then."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_RENEWALS_OF_A_DOUBLE = 2
"""Renewals that prove a live member of this replica's name: a single renewal may be the last of a former process."""


class _MemberFence:
    """The fence of the present term; closed between two terms."""

    def __init__(self) -> None:
        self.term: Fence | None = None

    def check(self) -> None:
        if self.term is None:
            raise NotLeading("not sent: this replica is not a member of its ring yet")
        self.term.check()


class Ring:
    """One replica's part in a ring. Use it with `async with`, and `following` within it."""

    def __init__(
        self,
        config: ClientConfig,
        client: Client,
        settings: ShardingSettings,
        *,
        name: str,
        host: str,
        metrics: Metrics,
        random: Random,
    ) -> None:
        self.settings = settings
        self.name = settings.ring_of(name)
        self.namespace = settings.namespace or config.namespace or "default"
        self.member = ""
        """The name of this replica in the present term, and of its Lease; "" before the first term."""
        self.changed = Broadcast()
        """Notified when `generation` has grown."""
        self.generation = 0
        """The number of changes of the members that may move objects."""
        self._fence = _MemberFence()
        self._config = config
        self._client = client
        self._manager = name
        self.replica = replica_name(host, random.getrandbits(40)) if settings.mode == "coordinator" else ""
        """The name of this process in the labels of objects and of its Lease; "" in a mode without a coordinator."""
        self._replicas: dict[str, str] = {}
        self._former: set[str] = set()
        """The names of this process in all its terms."""
        self._release_due: dict[str, float] = {}
        """Dead members whose Leases still name a holder, and the latest time for this replica to release them."""
        self._retry_at = math.inf
        self._greeted: set[str] = set()
        """Newcomers that have seen this member renew its Lease."""
        self._doubles: dict[str, tuple[str, int]] = {}
        """Other members of this replica's name: the time of the last renewal, and the number of renewals since it was first seen."""
        self._host = host_in_name(host)
        self._metrics = metrics
        self._random = random
        self._now = asyncio.get_running_loop().time
        self._membership = Membership(settings)
        self._live: tuple[str, ...] = ()
        self._sharing = Rendezvous()
        self._deciding: set[tuple[str, MemberState]] = set()
        self._states: dict[str, MemberState] = {}
        self.draining = False
        """Whether this replica stops: it takes no further object, and its release gives back its objects."""
        self._term: LeaseElection | None = None
        self.lease_events = LeaseEvents(self.name, self.namespace, lambda: self.holds)
        self._generation = metrics.shard_ring_generation.labels(name=name)
        self._news = asyncio.Event()
        self._problem = ""
        self._log = get_logger("konverge.sharding").bind(**{LogKey.NAMESPACE: self.namespace, LogKey.NAME: self.name})

    # --- the members ---------------------------------------------------------------------------------------------------------

    def desired(self, key: str) -> str:
        """Return the member that should own a key; "" if none is known. With a coordinator: among the members that see its labels."""
        return self._sharing.owner_of(key)

    def replica_of(self, member: str) -> str:
        """Return the replica of a member; "" for a member without labels."""
        return self._replicas.get(member, "")

    def state_of(self, member: str) -> MemberState:
        """Return the state of a member; UNKNOWN for a name without a Lease; nothing is kept of it."""
        return self._states.get(member, MemberState.UNKNOWN)

    def is_absent(self, member: str, since: float) -> bool:
        """Return whether it is proved that a name that is unknown since `since` belongs to no live member."""
        return self._membership.is_absent(member, since)

    def await_absence(self, since: float) -> float:
        """Request the proof that a name that is unknown since `since` belongs to no live member; returns when the proof is due."""
        if self._membership.await_absence(since):
            self._news.set()
        return self._membership.absence_due(since)

    @asynccontextmanager
    async def following(self, informers: InformerSet) -> AsyncIterator[None]:
        """Follow the Leases of the ring."""
        informer = informers.acquire(Selection(LEASE, self.namespace, labels=self._labels))
        registration = informer.add_handler("shard ring", self._on_lease)
        task = asyncio.create_task(self._follow(), name=f"konverge ring {self.name}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            registration.remove()
            informers.release(informer)

    @property
    def _labels(self) -> str:
        return f"{Label.SHARD_RING}={self.name}"

    def _on_lease(self, change: Change) -> None:
        if change.new is not None:
            lease = change.new.decode(LEASE)
            self._observe(lease, initial=not self.member and lease.name not in self._former)
            self._note_double(change.name, LeaseRecord.of(lease.data.get("spec")))
        else:
            self._membership.note_deletion(change.name)
        self._news.set()

    def _observe(self, lease: Object, *, initial: bool = False) -> None:
        self._note_replica(lease)
        if lease.name == self.member:
            alone = self._membership.is_alone(self.member)
            self._membership.observe(lease.name, _read(lease), self._now(), alone=alone)
            return
        seen = _read(lease)
        self._membership.observe(lease.name, seen, self._now(), initial=initial)
        if self._term is not None and not seen.joined and not self._membership.state_of(lease.name).gone:
            self._greet(lease.name)

    def _greet(self, newcomer: str) -> None:
        """Renew the own Lease, once for each newcomer: from then on the newcomer counts this member as alive."""
        if newcomer not in self._greeted:
            self._greeted.add(newcomer)
            assert self._term is not None
            self._term.renew_soon()

    def _note_replica(self, lease: Object | Metadata) -> None:
        assert isinstance(lease, Object)
        replica = (lease.metadata.labels or {}).get(Label.SHARD_REPLICA, "")
        # A label that was removed or replaced by hand has no effect: the replica's selector keeps the first name.
        if replica:
            self._replicas.setdefault(lease.name, replica)

    def _note_double(self, member: str, record: LeaseRecord) -> None:
        """Report once that another process has the name of this replica, if that process renews its Lease."""
        bare = member.rpartition("-")[0]
        if not self.member or member in self._former or bare != f"{self.name}-{self._host}" or record.released:
            return
        renewed, count = self._doubles.get(member, (record.renewed, 0))
        if renewed != record.renewed:
            count += 1
            if count == _RENEWALS_OF_A_DOUBLE:
                self.lease_events.has_double(member)
        self._doubles[member] = record.renewed, count

    def _forget(self, member: str) -> None:
        self._doubles.pop(member, None)
        self._greeted.discard(member)
        self._release_due.pop(member, None)
        self._replicas.pop(member, None)

    async def _follow(self) -> None:
        while True:
            self._settle()
            self._retry_at = math.inf
            await self._release_dead()
            if await self._join():
                self._settle()
            due = self._membership.look_at(self._now())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(due, self._retry_at)):
                    await self._news.wait()
            self._news.clear()
            if self._now() >= due and not await self._look():
                await asyncio.sleep(_RETRY)
            await self._delete_outdated()

    async def _look(self) -> bool:
        """List the Leases; returns whether that succeeded."""
        asked = self._now()
        try:
            leases = await self._client.list(LEASE, self.namespace, labels=self._labels)
        except KonvergeError as error:
            if not self._problem:
                self._log.warning("the leases of the ring cannot be listed", **{LogKey.ERROR: str(error)})
            self._problem = str(error)
            return False
        self._problem = ""
        for lease in leases:
            self._note_replica(lease)
        self._membership.observe_all({lease.name: _read(lease) for lease in leases}, asked=asked, now=self._now())
        return True

    async def _release_dead(self) -> None:
        """Release the Leases of dead members, so that no replica has to judge them again."""
        now = self._now()
        for name, lease in self._membership.unreleased().items():
            # Of the joined members, the owner of the name by the hash writes first. Another member follows if that owner is dead too.
            due = self._release_due.setdefault(name, now + self.settings.retry_seconds)
            follows = self._membership.has_joined(self.member) and self.desired(name) not in ("", self.member)
            if follows and now < due:
                self._retry_at = min(self._retry_at, due)
                continue
            record = lease.record.given_back(wall_clock())
            await self._write(name, {"metadata": {"resourceVersion": lease.version}, "spec": record.to_spec()})

    async def _join(self) -> bool:
        """Annotate the own Lease if every other member is judged, or if the annotation was lost; returns whether it was written."""
        if not self.holds or self.draining or self._membership.is_marked(self.member):
            return False
        if not (self._membership.has_judged_all() or self._membership.has_joined(self.member)):
            return False
        return await self._write(self.member, {"metadata": {"annotations": {Annotation.SHARD_JOINED: "true"}}})

    async def _write(self, name: str, change: dict[str, Any]) -> bool:
        """Write to a Lease, and record the result; returns whether that succeeded."""
        try:
            async with asyncio.timeout(self.settings.retry_seconds):
                self._observe(await self._client.patch(LEASE, name, self.namespace, patch=change, style="merge"))
        except (KonvergeError, TimeoutError):
            self._retry_at = min(self._retry_at, self._now() + _RETRY)
            return False
        return True

    def _settle(self) -> None:
        """Apply the observed membership, and notify if it changed."""
        live = self._membership.live(self._now())
        if self.draining:
            live = tuple(member for member in live if member != self.member)
        states = self._membership.states()
        if live != self._live:
            self._log.info("the members of the ring changed", **{LogKey.MEMBERS: list(live)})
        for state in MemberState:
            if state is MemberState.UNKNOWN:
                continue  # a name without a Lease is not a member
            count = sum(present is state for present in states.values())
            self._metrics.shard_members.labels(name=self._manager, state=state.value).set(count)
        sharing = tuple(member for member in live if member in self._replicas) if self.replica else live
        # Expiry and recovery move no object, so a look at each object would be in vain.
        deciding = {(member, state) for member, state in states.items() if state.gone or state is MemberState.DRAINING}
        news = live != self._live or sharing != self._sharing.members or not deciding <= self._deciding
        self._live, self._states, self._deciding = live, states, deciding
        if sharing != self._sharing.members:
            self._sharing = Rendezvous(sharing)
        if news:
            self._turn_over()

    def _turn_over(self) -> None:
        self.generation += 1
        self._generation.set(self.generation)
        self.changed.notify()

    async def _delete_outdated(self) -> None:
        for name in self._membership.outdated(self._now(), _OUTDATED):
            if self.desired(name) != self.member:
                continue
            try:
                await self._client.delete(LEASE, name, self.namespace)
            except NotFound:
                pass
            except KonvergeError:
                continue
            self._membership.note_deletion(name)
        for name in self._membership.forget_gone(self._now(), _FORGOTTEN):
            self._forget(name)

    # --- the own Lease -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    @property
    def fence(self) -> Fence:
        """Refuses the writes of this process unless it is a member."""
        return self._fence

    @property
    def holds(self) -> bool:
        """Whether this process is a member now; if not, others may own its objects."""
        try:
            self._fence.check()
        except NotLeading:
            return False
        return True

    async def acquire(self) -> None:
        """Return once this replica is a member, under a name that was never used before."""
        await self.release()
        if not self.member:
            while not await self._look_first():
                await asyncio.sleep(_RETRY)
        # The name is new in each term: others may have declared the former member dead, which is final.
        name = member_name(self.name, self._host, self._random.getrandbits(40))
        self._former.add(name)
        settings = self.settings
        self._term = await LeaseElection(
            self._config,
            ElectionSettings(
                enabled=True,
                name=name,
                namespace=self.namespace,
                identity=self._host,
                lease_seconds=settings.lease_seconds,
                renew_seconds=settings.renew_seconds,
                retry_seconds=settings.retry_seconds,
            ),
            name=f"{self._manager}-shard",
            host=self._host,
            metrics=self._metrics,
            random=self._random,
            labels={
                Label.SHARD_RING: self.name,
                Label.SHARD_STOPS_AFTER: f"{math.ceil(settings.renew_seconds)}",
                **({Label.SHARD_REPLICA: self.replica} if self.replica else {}),
            },
            witness=self.lease_events,
        ).__aenter__()
        await self._term.acquire()
        self.member, self._fence.term = name, self._term.fence
        self.lease_events.joined(name)
        self._news.set()
        self._turn_over()
        self._log.info("this replica is a member of the ring", **{LogKey.IDENTITY: name})

    async def _look_first(self) -> bool:
        """Record the earlier members: they are counted at once."""
        try:
            leases = await self._client.list(LEASE, self.namespace, labels=self._labels)
        except KonvergeError as error:
            self._problem = str(error)
            return False
        for lease in leases:
            self._observe(lease, initial=True)
        self._problem = ""
        self._news.set()
        return True

    async def lost(self) -> None:
        """Return once this replica has ceased to be a member, after the fence has closed."""
        assert self._term is not None
        await self._term.lost()

    async def drain(self) -> None:
        """Announce that this member takes no further object; others take its objects once it has released its Lease."""
        self.draining = True
        self._settle()
        if self.member:
            with contextlib.suppress(KonvergeError, TimeoutError):
                async with asyncio.timeout(_RETRY):
                    mark = {"metadata": {"annotations": {Annotation.SHARD_DRAINING: "true"}}}
                    await self._client.patch(LEASE, self.member, self.namespace, patch=mark, style="merge")

    async def release(self) -> None:
        """Release the Lease, if this replica holds it."""
        term, self._term, self._fence.term = self._term, None, None
        if term is not None:
            await term.__aexit__(None, None, None)

    def problem(self) -> str:
        """Return why this replica cannot be a member, or cannot see the others; "" without a problem."""
        return self._problem or ("" if self._term is None else self._term.problem())

    def holder(self) -> str:
        """Return the name of this member."""
        return self.member


def _read(lease: Object | Metadata) -> MemberLease:
    assert isinstance(lease, Object)
    labels = lease.metadata.labels or {}
    stops_after = labels.get(Label.SHARD_STOPS_AFTER, "")
    return MemberLease(
        LeaseRecord.of(lease.data.get("spec")),
        draining=bool(lease.metadata.annotation(Annotation.SHARD_DRAINING)),
        # Replicas of versions before the label have no annotation either, and join at once.
        joined=bool(lease.metadata.annotation(Annotation.SHARD_JOINED)) or not stops_after,
        stops_after=int(stops_after) if _SECONDS.fullmatch(stops_after) else 0,
        version=lease.metadata.resource_version,
    )
