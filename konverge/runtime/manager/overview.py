"""The overview of a manager: its parts, its objects that are not ready, and the owners of shared objects.

Guarantees: of an object's content only the condition Ready is shown, which is written for people. The scan of the caches yields to the
event loop.

Caveats: an object without the condition Ready is listed only if its last reconcile failed. A controller that caches only the metadata of
its objects does not see their conditions.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

from konverge.clock import rfc3339, wall_clock
from konverge.conditions import condition_entries
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import Metadata
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.hooks.object_gate import Owned
from konverge.runtime.manager.explain import plain
from konverge.runtime.observability.readiness import Report
from konverge.runtime.observability.record import ReconcileRecord

__all__ = ["Unready", "overview", "unready"]

_LISTED: Final = 200
_OBJECTS_AT_ONCE: Final = 100


class Unready(NamedTuple):
    """Why an object is not ready, and since when; `status` is the status of Ready, "" without the condition."""

    since: str
    status: str
    reason: str
    message: str
    error: str


def unready(content: Mapping[str, Any], records: Iterable[ReconcileRecord] = ()) -> Unready | None:
    """Return why an object is not ready; None if its condition Ready is not False or Unknown, and its last reconcile did not fail.

    `records` are its last reconciles, oldest first. A failing object has been failing since the first of its last failures that is kept.

    >>> unready({"conditions": [{"type": "Ready", "status": "False", "reason": "NoBucket"}]}).reason
    'NoBucket'
    """
    ready = next((entry for entry in condition_entries(content.get("conditions")) if entry["type"] == "Ready"), {})
    failures = list(takewhile(lambda record: record.error, reversed(list(records))))
    true = ready.get("status", "True") == "True"
    if true and not failures:
        return None
    since = rfc3339(failures[-1].started) if true else str(ready.get("lastTransitionTime", ""))
    status, reason, message = (str(ready.get(word, "")) for word in ("status", "reason", "message"))
    return Unready(since, status, reason, message, failures[0].error if failures else "")


class _Scan:
    """The objects of some controllers: the unready objects, and the number of shared objects by owner."""

    def __init__(self, owner_of: Callable[[Metadata], Owned] | None) -> None:
        self._owner_of = owner_of
        self.unready: list[tuple[str, int, Key]] = []
        self.owners: Counter[tuple[str, str]] = Counter()

    async def add(self, number: int, runner: ControllerRunner) -> None:
        """Scan the objects of one controller; yields to the event loop in between."""
        informer = runner.caches.informer(runner.spec.kind)
        for count, (namespace, name) in enumerate(() if informer is None else informer.store.keys(), start=1):
            key = Key("", runner.spec.kind, namespace, name)
            cached = _cached(runner, key)
            if cached is not None:
                if (state := _state(runner, key, cached)) is not None:
                    self.unready.append((state.since, number, key))
                if self._owner_of is not None and runner.spec.family is not None:
                    self.owners[runner.spec.name, self._owner_of(cached.metadata).owner] += 1
            if count % _OBJECTS_AT_ONCE == 0:
                await asyncio.sleep(0)


def _cached(runner: ControllerRunner, key: Key) -> Cached | None:
    informer = runner.caches.informer(key.kind)
    return None if informer is None else informer.store.get(key.namespace, key.name)


def _state(runner: ControllerRunner, key: Key, cached: Cached) -> Unready | None:
    try:
        status = cached.status()
    except RecursionError:  # nested deeper than the decoder follows: the reconcile reports it
        status = {}
    return unready(status, runner.history.of(key))


async def overview(
    *,
    name: str,
    instance: str,
    leads: bool,
    report: Report,
    runners: tuple[ControllerRunner, ...],
    owner_of: Callable[[Metadata], Owned] | None,
) -> dict[str, Any]:
    """Return the overview as plain data; it lists the 200 objects that have been unready for longest."""
    scan = _Scan(owner_of)
    for number, runner in enumerate(runners):
        await scan.add(number, runner)
    oldest = heapq.nsmallest(_LISTED, scan.unready, key=lambda entry: (entry[0], entry[1], entry[2].path))
    return {
        "name": name,
        "instance": instance,
        "now": rfc3339(wall_clock()),
        "leads": leads,
        "parts": [
            {"name": part.name, "ready": part.ready, "note": part.note or part.why}
            for part in report.parts
            if part.name not in {runner.spec.name for runner in runners}
        ],
        "unready": list(_rows((runners[number], key) for _, number, key in oldest)),
        "leftOut": len(scan.unready) - len(oldest),
        "owners": [
            {"controller": controller, "owner": owner, "objects": objects}
            for (controller, owner), objects in sorted(scan.owners.items())
        ],
    }


def _rows(chosen: Iterable[tuple[ControllerRunner, Key]]) -> Iterator[dict[str, Any]]:
    """Yield the chosen objects as they are now; an object may have become ready during the scan."""
    for runner, key in chosen:
        cached = _cached(runner, key)
        state = None if cached is None else _state(runner, key, cached)
        if state is None:
            continue
        waiting = runner.queue.why(key)
        yield {
            "controller": runner.spec.name,
            "kind": key.kind.group_kind,
            "namespace": key.namespace,
            "name": key.name,
            **state._asdict(),
            "waits": None if waiting is None else plain(waiting),
        }
