"""The texts of a lab's failures: the state of an object and of the managers, and the keys that are reconciled without a pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import wall_clock
from konverge.keys import Key
from konverge.kinds import Kind, Resource
from konverge.runtime import Manager
from konverge.runtime.observability.record import ReconcileRecord
from konverge_testing.lab.changes import changed_values

if TYPE_CHECKING:
    from konverge_testing.memory_server import ApiServer

__all__ = ["busiest_keys", "managers_story", "object_story"]

_AGAIN: Final = 5
"""Reconciles of one key at one moment; from this number on the key counts as reconciled without a pause."""
_LINES: Final = 6
_WRITES: Final = 3


def object_story(last: Resource | None) -> list[str]:
    """Return the lines about the awaited object: its version, its deletion and its conditions."""
    if last is None:
        return ["  it does not exist"]
    metadata = last.metadata
    lines = [f"  generation {metadata.generation}, version {metadata.resource_version}"]
    if metadata.deleting:
        held = ", ".join(metadata.finalizers) or "no finalizer: its removal is a matter of the API server"
        lines.append(f"  deletionTimestamp {metadata.deletion_timestamp}, held by {held}")
    elif metadata.finalizers:
        lines.append(f"  finalizers {', '.join(metadata.finalizers)}")
    lines += [
        f"  {c.type}={c.status} {c.reason}: {c.message} (generation {c.observed_generation})"
        for c in getattr(last, "conditions", ())
    ]
    return lines


def managers_story(managers: Iterable[tuple[Manager, bool]], what: Kind[Any] | None, key: Key | None) -> list[str]:
    """Return the lines about the managers, each with whether it is up: reports, queues that are busy, and the last reconciles."""
    lines = []
    for manager, up in managers:
        lines.append(f"  manager {manager.name}: {manager.report()}")
        for spec in manager.controllers if up else ():
            runner = manager.runner(spec.name)
            queue = runner.queue.statistics()
            if key is None:
                lines.append(f"  the queue of {spec.name}: {queue}")
            own = key is not None and spec.kind == what
            records = runner.history.of(key) if own and key is not None else runner.history.recent()[-3:]
            lines += [f"  {spec.name} {_record(record)}; next {record.next_run}" for record in records]
    return lines


def _record(record: ReconcileRecord) -> str:
    outcome = " ".join(filter(None, (record.outcome, record.error)))
    wrote = ", ".join(record.writes) or "nothing"
    return f"{record.key}: {outcome} because of {', '.join(record.reasons)}; wrote {wrote}"


def busiest_keys(managers: Iterable[Manager], server: ApiServer | None) -> list[str]:
    """Return the keys that keep the loop busy: keys in a reconcile, and keys that were reconciled repeatedly at the present moment.

    The repeated keys have the reasons of the last request and the writes of the last reconcile.
    """
    now, again, lines = wall_clock(), [], []
    for manager in managers:
        for spec in manager.controllers:
            runner = manager.runner(spec.name)
            lines += [f"{spec.name} is within a reconcile of {key}" for key in runner.events.held_back]
            records = [one for one in runner.history.recent() if one.started == now]
            for key, times in Counter(record.key for record in records).most_common(2):
                if times >= _AGAIN:
                    last = [record for record in records if record.key == key][-1]
                    again.append(f"{spec.name} is reconciled again and again without a pause: {_record(last)}")
    return [*lines[:_LINES], *again, *(_last_changes(server) if again and server is not None else ())]


def _last_changes(server: ApiServer) -> list[str]:
    """Return the values that the last writes of each object changed."""
    lines: list[str] = []
    store = server.store
    for resource in store.resources():
        events = [
            one for one in store.since(resource, max(store.floor, store.version - 20)) if one.previous is not None
        ]
        for key in dict.fromkeys(event.entry.key for event in events):
            last = [one for one in events if one.entry.key == key][-_WRITES:]
            changed = [
                change
                for event in last
                if event.previous is not None
                for change in changed_values(event.previous.object(), event.entry.object())
            ]
            lines.append(f"the last writes of {resource[1]} {key} changed {'; '.join(changed[:_LINES]) or 'nothing'}")
    return lines[:_LINES]
