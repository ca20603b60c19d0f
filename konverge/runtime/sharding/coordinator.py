"""The coordinator of a ring: the replica that the election chose gives each object to a replica by a label.

    an object is new, changed, or was given back      decide on it
    the members of the ring changed                   decide on every object
    the write conflicts with another write            decide on the new version of the object
    another writer changed label or mark              decide on it, after a growing pause if that happens again and again

Guarantees: each label is written by compare-and-swap on the object that was decided on. The coordinator reads only metadata. It decides on
nothing before its replica is a member, thus knows all others. While no coordinator runs, objects stay with their owners.

Source of the protocol, with a webhook instead of the watch:
https://github.com/timebertt/kubernetes-controller-sharding/blob/main/docs/design.md
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from konverge.client import Client
from konverge.errors import Conflict, KonvergeError, NotFound, NotLeading
from konverge.informers import Cached, Change, Informer, InformerSet, Selection
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.runtime.sharding.assignment import Assignment, assign, drain_mark_of, label_of, read_assignment
from konverge.runtime.sharding.decision import former_after
from konverge.runtime.sharding.forgeries import Forgeries
from konverge.runtime.sharding.ring import Ring
from konverge.runtime.sharding.stamp import Stamp, annotation_of, read_stamp
from konverge.words import LogKey, Why
from konverge.workqueue import ItemExponential, WorkQueue

__all__ = ["Coordinator"]

_WORKERS = 16
_AGAIN = 0.05
"""Seconds after a conflict, until the cache shows the other write."""
_KEYS_AT_ONCE = 500
_LONGEST_DELAY = 30.0
_REMEMBERED = 4096


class Coordinator:
    """Assigns the objects of these selections, which are shared by the families that the functions return, while `run` runs."""

    def __init__(
        self,
        ring: Ring,
        selections: Mapping[Selection, Callable[[Metadata], str]],
        *,
        client: Client,
        informers: InformerSet,
        metrics: Metrics,
    ) -> None:
        self._ring = ring
        self._selections = selections
        self._client = client
        self._informers = informers
        self._label, self._mark = label_of(ring.name), drain_mark_of(ring.name)
        self._stamp = annotation_of(ring.name)
        self._queue: WorkQueue[tuple[Selection, Key]] = WorkQueue(
            limiter=ItemExponential(base=_AGAIN, cap=_LONGEST_DELAY)
        )
        self._caches: dict[Selection, Informer] = {}
        self._former: dict[str, tuple[Stamp, float]] = {}
        """By uid: a replaced stamp whose owner may not know yet of the replacement, and until when it counts."""
        self._now = asyncio.get_running_loop().time
        self._forgeries = Forgeries(ring.settings.lease_seconds)
        self._sent: OrderedDict[str, Assignment] = OrderedDict()
        """By uid: the last assignment that this coordinator wrote; bounded, the oldest writes are dropped."""
        self._unowned: dict[str, float] = {}
        """By uid: since when this coordinator has seen the object without a live owner."""
        self._failures: dict[str, tuple[str, int]] = {}
        """By uid: the last write error, and how many times in a row."""
        metrics.shard_unowned.labels(name=client.name).set_function(lambda: float(len(self._unowned)))
        metrics.shard_unowned_age.labels(name=client.name).set_function(self._unowned_age)
        self._results = {
            result: metrics.shard_assignments.labels(name=client.name, result=result)
            for result in ("assigned", "drained", "conflict", "failed")
        }
        self._log = get_logger("konverge.sharding").bind(**{LogKey.NAME: ring.name})

    async def run(self) -> None:
        """Assign until it is cancelled, or until this replica no longer leads."""
        while not self._ring.member:
            await self._ring.changed.wait()
        self._log.info("this replica assigns the objects of the ring", **{LogKey.IDENTITY: self._ring.member})
        registrations = []
        try:
            for selection in self._selections:
                informer = self._caches[selection] = self._informers.acquire(selection)
                registrations.append(informer.add_handler("shard coordinator", self._handler(selection)))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_ring())
                for _ in range(_WORKERS):
                    tasks.create_task(self._work())
        finally:
            for registration in registrations:
                registration.remove()
            for informer in self._caches.values():
                self._informers.release(informer)
            self._caches.clear()
            self._unowned.clear()
            self._failures.clear()
            self._queue.shut_down()

    def _unowned_age(self) -> float:
        return max((self._now() - since for since in self._unowned.values()), default=0.0)

    def _handler(self, selection: Selection) -> Callable[[Change], None]:
        def on_change(change: Change) -> None:
            self._note_former(change)
            self._note_forgery(change)
            if change.new is not None:
                key = Key("", selection.kind, change.namespace, change.name)
                self._queue.add((selection, key), reason=Why.CHANGED)

        return on_change

    def _note_forgery(self, change: Change) -> None:
        if change.old is None or change.new is None:
            return
        uid, present = change.new.metadata.uid, self._assignment_of(change.new)
        if present != self._assignment_of(change.old) and present != self._sent.get(uid):
            self._forgeries.note(uid, self._now())

    def _assignment_of(self, cached: Cached) -> Assignment:
        return read_assignment(cached.metadata.labels, cached.metadata.annotations, self._label, self._mark)

    def _note_former(self, change: Change) -> None:
        if change.new is None:
            if change.old is not None:
                self._former.pop(change.old.metadata.uid, None)
                self._unowned.pop(change.old.metadata.uid, None)
                self._failures.pop(change.old.metadata.uid, None)
            return
        if change.old is None:
            return
        uid = change.new.metadata.uid
        known = self._former.get(uid)
        former = former_after(known and known[0], self._stamp_of(change.old), self._stamp_of(change.new))
        if former is None:
            self._former.pop(uid, None)
        elif known is None or known[0] != former:
            self._former[uid] = (former, self._now() + 2 * self._ring.settings.lease_seconds)

    def _stamp_of(self, cached: Cached) -> Stamp | None:
        metadata = cached.metadata
        return read_stamp(metadata.annotations, self._stamp, metadata.resource_version)

    async def _follow_ring(self) -> None:
        ring = self._ring
        while True:
            seen = ring.generation
            for selection, informer in self._caches.items():
                for number, (namespace, name) in enumerate(informer.store.keys(), start=1):
                    self._queue.add((selection, Key("", selection.kind, namespace, name)), reason=Why.OWNER_CHANGED)
                    if number % _KEYS_AT_ONCE == 0:
                        await asyncio.sleep(0)
            while ring.generation == seen:
                await ring.changed.wait()

    async def _work(self) -> None:
        async for item in self._queue:
            try:
                await self._assign(*item.key)
            finally:
                self._queue.done(item.key)

    async def _assign(self, selection: Selection, key: Key) -> None:
        cached = self._caches[selection].store.get(key.namespace, key.name)
        if cached is None:
            self._queue.forget((selection, key))
            return
        metadata = cached.metadata
        present = self._assignment_of(cached)
        stamp = self._stamp_of(cached)
        if stamp is not None and stamp.owner and self._ring.state_of(stamp.owner).alive:
            self._unowned.pop(metadata.uid, None)
        else:
            self._unowned.setdefault(metadata.uid, self._now())
        former = self._former.get(metadata.uid)
        wanted = assign(
            present,
            desired=self._ring.desired(self._selections[selection](metadata)),
            stamp=stamp,
            former=former[0] if former is not None and self._now() < former[1] else None,
            state_of=self._ring.state_of,
            replica_of=self._ring.replica_of,
        )
        if wanted != present and (pause := self._forgeries.wait(metadata.uid, self._now())):
            self._queue.add_after((selection, key), pause, reason=Why.OWNER_CHANGED)
        elif wanted != present:
            await self._write(selection, key, metadata, wanted)
        else:
            self._queue.forget((selection, key))
        if former is not None and self._now() < former[1]:
            self._queue.add_after((selection, key), former[1] - self._now(), reason=Why.OWNER_CHANGED)

    async def _write(self, selection: Selection, key: Key, metadata: Metadata, wanted: Assignment) -> None:
        change: dict[str, Any] = {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "labels": {self._label: wanted.replica},
            "annotations": {self._mark: wanted.drain or None},
        }
        self._forgeries.wrote(metadata.uid)
        self._sent[metadata.uid] = wanted
        self._sent.move_to_end(metadata.uid)
        if len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)
        result = "failed"
        try:
            await self._client.patch(
                key.kind, key.name, key.namespace, patch={"metadata": change}, style="merge", writer="shard coordinator"
            )
            result = "drained" if wanted.drain else "assigned"
            self._queue.forget((selection, key))
            self._note_success(key, metadata.uid)
        except Conflict:
            result = "conflict"
            self._queue.add_after((selection, key), _AGAIN, reason=Why.OWNER_CHANGED)
        except NotFound:
            result = "conflict"
        except NotLeading:
            pass  # the term ends, and this work with it
        except KonvergeError as error:
            self._note_failure(key, metadata.uid, error)
            self._queue.add_rate_limited((selection, key), reason=Why.RETRY)
        finally:
            self._results[result].inc()

    def _note_failure(self, key: Key, uid: str, error: KonvergeError) -> None:
        """Log once for each object and error that the assignment failed; it is retried until it succeeds."""
        cause = type(error).__name__
        before, times = self._failures.get(uid, ("", 0))
        times = times + 1 if before == cause else 1
        self._failures[uid] = cause, times
        if times == 1:
            self._log.warning(
                "an object could not be assigned, and is tried again without further lines",
                **{LogKey.KEY: key.path, LogKey.ERROR: str(error)},
            )

    def _note_success(self, key: Key, uid: str) -> None:
        cause, times = self._failures.pop(uid, ("", 0))
        if times:
            self._log.info(
                "an object that could not be assigned is assigned",
                **{LogKey.KEY: key.path, LogKey.CAUSE: cause, LogKey.COUNT: times},
            )
