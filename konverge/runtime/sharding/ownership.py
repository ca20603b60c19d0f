"""The objects of one replica: it claims and clears their stamps, as `decide` returns.

Guarantees: one table serves all controllers of a manager, so two controllers of one kind share an object's stamp, and it is cleared
only when neither reconciles the object. A stamp counts as held once the API server has confirmed it, until a clear is sent. A new term
as a member begins with an empty table. A name without a Lease in a stamp delays only its own object: a forged stamp costs no time or
memory of other objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from konverge.client import Client
from konverge.errors import Conflict, KonvergeError, NotFound, NotLeading
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Metadata, reached
from konverge.runtime.events.core import Regarding
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.hooks.object_gate import Owned
from konverge.runtime.sharding.decision import (
    MemberState,
    ShardAction,
    ShardDecision,
    ShardView,
    decide,
    former_after,
)
from konverge.runtime.sharding.forgeries import Forgeries
from konverge.runtime.sharding.interface import Claim
from konverge.runtime.sharding.ring import Ring
from konverge.runtime.sharding.stamp import Stamp, annotation_of, read_stamp
from konverge.words import EventType, LogKey, Reason

__all__ = ["Ownership"]

_AGAIN = 0.05
"""Seconds after a conflict, until the cache shows the other write, or the barrier of own writes puts the reconcile off."""
_AFTER_FAILURE = 1.0


@dataclass(slots=True)
class _Object:
    held: int = 0
    version: str = ""
    """The resourceVersion that the write of the held stamp created."""
    inherited: bool = False
    running: int = 0
    writing: bool = False
    former: Stamp | None = None
    former_until: float = 0.0
    wanted_since: float | None = None
    unknown: Mapping[str, float] | None = None
    """Since when names without a Lease, in the present and the former stamp, keep the object waiting."""

    @property
    def empty(self) -> bool:
        return not (self.held or self.running or self.writing or self.former or self.wanted_since is not None)


class Ownership:
    """Which objects this replica owns."""

    def __init__(self, ring: Ring, client: Client, events: EventRecorder, metrics: Metrics, *, manager: str) -> None:
        self.ring = ring
        self.annotation = annotation_of(ring.name)
        self._client = client
        self._events = events
        self._now = asyncio.get_running_loop().time
        self._objects: dict[str, _Object] = {}
        self._member = ""
        self._forgeries = Forgeries(ring.settings.lease_seconds)
        self._tasks: set[asyncio.Task[object]] = set()
        self._manager = manager
        self._metrics = metrics
        metrics.shard_objects.labels(name=manager).set_function(self._count)
        metrics.shard_orphan_age.labels(name=manager).set_function(self._orphan_age)
        self._replaced = metrics.shard_replaced.labels(name=manager)
        self._double = metrics.shard_double_owners.labels(name=manager)
        self._handover = metrics.shard_handover.labels(name=manager)
        self._log = get_logger("konverge.sharding").bind(**{LogKey.NAME: ring.name})
        for result in ("claimed", "cleared", "conflict", "failed"):
            metrics.shard_writes.labels(name=manager, result=result)

    def _count(self) -> float:
        return float(sum(bool(entry.held) for entry in self._objects.values()))

    def _orphan_age(self) -> float:
        waits = (entry.wanted_since for entry in self._objects.values() if entry.wanted_since is not None)
        return max((self._now() - since for since in waits), default=0.0)

    # --- questions -----------------------------------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        """The empty selector: each replica sees every object."""
        return ""

    def desired(self, metadata: Metadata, family: str) -> str:  # noqa: ARG002  # of other modes
        """Return the member that should own an object; "" if none is known."""
        return self.ring.desired(family)

    def owns(self, metadata: Metadata) -> Owned:
        """Return the owner that the stamp in the cache names."""
        stamp = read_stamp(metadata.annotations, self.annotation, metadata.resource_version)
        return Owned("", 0) if stamp is None else Owned(stamp.owner, stamp.epoch)

    def is_mine(self, metadata: Metadata) -> bool:
        """Return whether this replica owns this version of an object: its stamp names it, or the stamp was edited while this replica held
        it.
        """
        return self._holds(metadata) or bool(self.ring.member and self.owns(metadata).owner == self.ring.member)

    def concerns(self, metadata: Metadata, family: str) -> bool:
        """Return whether an object needs work on this replica."""
        return self.desired(metadata, family) == self.ring.member or self.is_mine(metadata)

    def _holds(self, metadata: Metadata) -> bool:
        entry = self._objects.get(metadata.uid)
        return entry is not None and bool(entry.held)

    def changes(self, metadata: Metadata, family: str) -> bool:
        """Return whether this replica is to claim an object or to hand it over."""
        if self.ring.draining:
            return False
        desired, held = self.desired(metadata, family) == self.ring.member, self._holds(metadata)
        if desired or held:
            return desired != held
        return self.owns(metadata).owner == self.ring.member

    def _decide(self, metadata: Metadata, family: str, entry: _Object) -> ShardDecision:
        version = metadata.resource_version
        view = ShardView(
            me=self.ring.member,
            desired=self.desired(metadata, family),
            stamp=read_stamp(metadata.annotations, self.annotation, version),
            version=version,
            held=entry.held,
            current=_is_current(version, entry),
            former=entry.former if self._now() < entry.former_until else None,
            running=entry.running > 0,
        )
        unknown: dict[str, float] = {}
        decision = decide(view, lambda member: self._state_of(member, entry.unknown or {}, unknown))
        wanted = decision.action in (ShardAction.WAIT, ShardAction.CLAIM) and view.desired == view.me
        if not wanted:
            entry.wanted_since = None
        elif entry.wanted_since is None:
            entry.wanted_since = self._now()
        entry.unknown = unknown if wanted and unknown else None
        return decision

    def _state_of(self, member: str, known: Mapping[str, float], unknown: dict[str, float]) -> MemberState:
        """Return the state of a member; `unknown` gets the time since which it is unknown, if it is."""
        state = self.ring.state_of(member)
        if state is not MemberState.UNKNOWN:
            return state
        since = known.get(member, self._now())
        if self.ring.is_absent(member, since):
            return MemberState.DEAD
        unknown[member] = since
        return state

    # --- actions -------------------------------------------------------------------------------------------------------------

    async def admit(self, key: Key, metadata: Metadata, family: str, writer: Hashable) -> Claim:
        """Claim or clear an object as its stamp requires; after a claim `leave` follows."""
        if self.ring.draining:
            return Claim()
        self._begin_term()
        entry = self._objects.setdefault(metadata.uid, _Object())
        try:
            if entry.writing:
                return Claim(again=_AGAIN)
            decision = self._decide(metadata, family, entry)
            if decision.action is ShardAction.KEEP:
                if not _is_current(metadata.resource_version, entry):
                    return Claim(again=_AGAIN)
                entry.running += 1
                return Claim(decision.epoch, inherited=entry.inherited)
            if decision.action in (ShardAction.CLAIM, ShardAction.CLEAR):
                if wait := self._forgeries.wait(metadata.uid, self._now()):
                    return Claim(again=wait)
                return Claim(again=await self._write(key, metadata, entry, decision, writer))
            return Claim(again=self._look_again(entry))
        finally:
            if entry.empty:
                self._objects.pop(metadata.uid, None)

    def _look_again(self, entry: _Object) -> float | None:
        """Return after how many seconds to check an object again that this replica waits for; None if another should own it."""
        if entry.wanted_since is None:
            return None
        now = self._now()
        waits = [max(_AGAIN, entry.former_until - now)] if entry.former is not None else []
        if entry.unknown:
            due = max(self.ring.await_absence(since) for since in entry.unknown.values())
            waits.append(due - now + _AGAIN if due > now else _AFTER_FAILURE)
        return min(waits, default=None)

    def leave(self, uid: str) -> None:
        """Record the end of a reconcile."""
        entry = self._objects.get(uid)
        if entry is not None and entry.running:
            entry.running -= 1
            if entry.empty:
                del self._objects[uid]

    def observe(self, key: Key, old: Metadata | None, new: Metadata | None, writer: Hashable) -> bool:
        """Record a change of an object; returns whether its stamp changed."""
        if new is None:
            gone = None if old is None else self._objects.get(old.uid)
            if old is not None and gone is not None and gone.running:
                # With a coordinator it may return before its reconcile has ended.
                self._objects[old.uid] = _Object(running=gone.running)
            elif old is not None:
                self._objects.pop(old.uid, None)
            return False
        after = read_stamp(new.annotations, self.annotation, new.resource_version)
        before = None if old is None else read_stamp(old.annotations, self.annotation, old.resource_version)
        if old is None or (before == after and self.annotation not in (new.annotations or {}) and before is None):
            return False
        entry = self._objects.get(new.uid)
        former = former_after(None if entry is None else entry.former, before, after)
        if former is not None and former.owner == self.ring.member:
            former = None
        if former is not None or (entry is not None and entry.former is not None):
            entry = self._objects.setdefault(new.uid, _Object())
            if entry.former != former:
                entry.former_until = self._now() + 2 * self.ring.settings.lease_seconds
            entry.former = former
        # After the loss of the Lease other members take the objects, as they should.
        if entry is not None and entry.held and _is_current(new.resource_version, entry) and self.ring.holds:
            mine = Stamp(self.ring.member, entry.held)
            if after != mine and not entry.writing and before == mine:
                self._complain(key, new, after)
                if entry.running and not self._forgeries.wait(new.uid, self._now()):
                    self._spawn(self._stamp_again(key, new, entry, writer))
        elif before != after and self.owns(new).owner == self.ring.member and (entry is None or not entry.writing):
            self._forgeries.note(new.uid, self._now())  # a late write of this member, or forged
        return before != after

    async def _stamp_again(self, key: Key, metadata: Metadata, entry: _Object, writer: Hashable) -> None:
        """Write the stamp again while a reconcile runs, so that no other member takes the object for unowned."""
        decision = decide(
            ShardView(
                me=self.ring.member,
                desired=self.ring.member,
                stamp=read_stamp(metadata.annotations, self.annotation, metadata.resource_version),
                version=metadata.resource_version,
                held=entry.held,
                running=True,
            ),
            self.ring.state_of,
        )
        await self._write(key, metadata, entry, decision, writer)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work, name=f"konverge stamp {self.ring.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the writes in progress."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        self._objects.clear()

    def _begin_term(self) -> None:
        if self._member != self.ring.member:
            self._member = self.ring.member
            self._objects.clear()

    async def _write(
        self, key: Key, metadata: Metadata, entry: _Object, decision: ShardDecision, writer: Hashable
    ) -> float | None:
        """Write a stamp by compare-and-swap; returns after how many seconds to check again."""
        claims = decision.action is ShardAction.CLAIM
        member = self.ring.member
        stamp = Stamp(member if claims else "", decision.epoch)
        change = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "annotations": {self.annotation: str(stamp)},
            }
        }
        before = read_stamp(metadata.annotations, self.annotation, metadata.resource_version)
        inherited = entry.inherited if entry.held else before is not None or entry.former is not None
        if not claims:
            entry.held = 0  # whatever the response is: an abandoned write may still arrive
        entry.writing = True
        self._forgeries.wrote(metadata.uid)
        result = "failed"
        again: float | None = _AFTER_FAILURE
        try:
            written = await self._client.patch(
                key.kind, key.name, key.namespace, patch=change, style="merge", writer=writer
            )
            result, again = ("claimed", 0.0) if claims else ("cleared", None)
            if claims and self._member == member:
                entry.held, entry.version = decision.epoch, written.metadata.resource_version
                entry.inherited = inherited
                entry.former = None
                if entry.wanted_since is not None:
                    self._handover.observe(self._now() - entry.wanted_since)
                entry.wanted_since = None
        except Conflict:
            result, again = "conflict", _AGAIN
        except (NotFound, NotLeading):
            again = None
        except KonvergeError as error:
            self._log.debug("a stamp could not be written", **{LogKey.KEY: key.path, LogKey.ERROR: str(error)})
        finally:
            entry.writing = False
            self._metrics.shard_writes.labels(name=self._manager, result=result).inc()
        return again

    def _complain(self, key: Key, metadata: Metadata, stamp: Stamp | None) -> None:
        self._replaced.inc()
        foreign = "" if stamp is None or stamp.owner == self.ring.member else stamp.owner
        if foreign and self.ring.state_of(foreign).alive:
            self._double.inc()
        count = self._forgeries.note(metadata.uid, self._now())
        if not count:
            return
        cause = _cause_of(stamp, present=self.annotation in (metadata.annotations or {}))
        note = f"another writer changed the annotation {self.annotation} while {self.ring.member} owned this object; it is written again"
        self._log.warning(
            "an ownership stamp was changed by another writer",
            **{LogKey.KEY: key.path, LogKey.CAUSE: cause, LogKey.COUNT: count},
        )
        regarding = Regarding(key.kind, key.namespace, key.name, metadata.uid, metadata.resource_version)
        self._events.record(regarding, Reason.SHARD_STAMP_REPLACED, note, EventType.WARNING, "Shard")


def _cause_of(stamp: Stamp | None, *, present: bool) -> str:
    if stamp is not None:
        return f"replaced by {stamp}"
    return "replaced by a stamp that no member of the ring writes" if present else "removed"


def _is_current(version: str, entry: _Object) -> bool:
    return not entry.version or reached(version, entry.version) is not False
