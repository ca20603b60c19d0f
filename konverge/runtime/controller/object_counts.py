"""How many objects of a controller are in each group, for gauges: by condition and its status, or by a function of the controller.

Guarantees: a scrape reads sums and decodes nothing; an event of the primary kind costs two reads of the object. The series that are named
at the start exist from then on, 0 included. When the controller ends, its objects are no longer counted.

If replicas share the objects, each member counts the objects that it owns, and a replica outside of the ring counts none: the sum over
the replicas counts all.

Caveats: a standby replica counts its objects, too, so a query about objects that are not shared takes `max by` the labels before it
adds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import Gauge

from konverge.conditions import STATUSES, condition_entries
from konverge.dropped import PartialObject
from konverge.errors import UsageError
from konverge.logs import get_logger
from konverge.objects import MetadataObject, Object
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.spec import Group, Grouping
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.informers import Cached, Change
    from konverge.informers.delivery import Handler
    from konverge.informers.store import Store
    from konverge.metrics import Metrics
    from konverge.objects import Metadata

__all__ = ["ObjectCounts", "OwnObjects", "condition_counts", "counted_conditions", "counts_of", "group_counts"]

_LOG = get_logger("konverge.controller")
_NONE: Final[frozenset[Group]] = frozenset()
_OBJECTS_AT_ONCE: Final = 500


class OwnObjects(NamedTuple):
    """Which of the shared objects a replica counts."""

    is_mine: Callable[[Metadata], bool]
    """Whether it owns this version of an object."""
    counts: Callable[[], bool]
    """Whether it owns objects at all now."""


def counted_conditions(status: Mapping[str, Any], types: frozenset[str]) -> set[Group]:
    """Return type and status of the conditions of these types in a stored status, of every writer.

    A status that is none of True, False and Unknown is Unknown.

    >>> counted_conditions({"conditions": [{"type": "Ready", "status": "odd"}, "none"]}, frozenset({"Ready"}))
    {('Ready', 'Unknown')}
    """
    counted: dict[str, str] = {}
    for entry in condition_entries(status.get("conditions")):
        type_, value = entry["type"], entry.get("status")
        if isinstance(type_, str) and type_ in types:
            counted.setdefault(type_, value if value in STATUSES else "Unknown")
    return set(counted.items())


def condition_counts(
    metrics: Metrics, controller: str, types: tuple[str, ...], own: OwnObjects | None = None
) -> ObjectCounts:
    """Return the counts for `konverge_status_conditions`: only named condition types, so that other writers of a status add no series."""
    chosen = frozenset(types)
    return ObjectCounts(
        metrics,
        metrics.status_conditions,
        lambda cached: counted_conditions(cached.status(), chosen),
        [(type_, status) for type_ in sorted(chosen) for status in STATUSES],
        prefix=(controller,),
        own=own,
    )


def group_counts(
    metrics: Metrics, grouping: Grouping, spec: Controller[Any], own: OwnObjects | None = None
) -> ObjectCounts:
    """Return the counts of a grouping of a controller's objects, in a gauge that is registered on first use."""
    key = (Grouping, grouping.metric)
    gauge = metrics.shared.get(key)
    if gauge is None:
        gauge = metrics.shared[key] = Gauge(grouping.metric, grouping.help, grouping.labels, registry=metrics.registry)
    whole = not spec.metadata_only and spec.dropped is None

    def groups(cached: Cached) -> list[Group]:
        return _groups(grouping, Object(cached.data()) if whole else _view(cached, spec))

    return ObjectCounts(metrics, gauge, groups, grouping.always, own=own)


def _view(cached: Cached, spec: Controller[Any]) -> Object:
    """Return an object that refuses to read what the cache of its kind leaves out."""
    if spec.dropped is not None:
        return PartialObject(cached.data(), spec.dropped)
    return MetadataObject.of(spec.kind.api_version, spec.kind.kind, cached.metadata)


def _groups(grouping: Grouping, object_: Object) -> list[Group]:
    groups = [tuple(map(str, group)) for group in grouping.by(object_)]
    if any(len(group) != len(grouping.labels) for group in groups):
        raise UsageError(
            f"{grouping.metric}: `by` returns one value for each of the labels {', '.join(grouping.labels)}"
        )
    return groups


def counts_of(spec: Controller[Any], metrics: Metrics, own: OwnObjects | None = None) -> tuple[ObjectCounts, ...]:
    """Return everything that a controller counts; `own` if replicas share its objects."""
    conditions = (condition_counts(metrics, spec.name, spec.counted, own),) if spec.counted else ()
    return (*conditions, *(group_counts(metrics, grouping, spec, own) for grouping in spec.groupings))


class ObjectCounts:
    """The counts of one controller, from `open` to `close`; the counts of one gauge and prefix add up if they share their metrics."""

    def __init__(
        self,
        metrics: Metrics,
        gauge: Gauge,
        groups: Callable[[Cached], Iterable[Group]],
        always: Iterable[Group],
        *,
        prefix: Group = (),
        own: OwnObjects | None = None,
    ) -> None:
        self._gauge = gauge
        self._groups = groups
        self._always = tuple(always)
        self._prefix = prefix
        self._counts: Counter[Group] = Counter()
        self._own = own
        self._counted: dict[tuple[str, str], frozenset[Group]] = {}
        """The groups of each shared object that this replica owns. The owner may change without an event of the object."""
        self._failed = False
        self._together: list[ObjectCounts] = metrics.shared.setdefault((ObjectCounts, id(gauge), prefix), [])
        self._shown: set[Group] = metrics.shared.setdefault((ObjectCounts, id(gauge), prefix, "shown"), set())

    def open(self, handler: Handler) -> Handler:
        """Begin to count; return the handler that counts before it passes a change on."""
        self._together.append(self)
        for group in self._always:
            self._show(group)

        def counting(change: Change) -> None:
            self.take(change)
            handler(change)

        return counting

    def take(self, change: Change) -> None:
        """Replace an object's groups before the change by its groups after it."""
        if self._own is None:
            self._replace(self._found(change.old), self._found(change.new))
        else:
            self._take_shared((change.namespace, change.name), change.new, self._own)

    async def recount(self, store: Store) -> None:
        """Count what this replica owns now, after the ring has changed; yields to the event loop in between."""
        if self._own is None:
            return
        for number, path in enumerate(store.keys(), start=1):  # no dict
            cached = store.get(*path)
            if cached is not None and self._own.is_mine(cached.metadata) != (path in self._counted):
                self._take_shared(path, cached, self._own)
            if number % _OBJECTS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _take_shared(self, path: tuple[str, str], cached: Cached | None, own: OwnObjects) -> None:
        before, now = self._counted.pop(path, _NONE), _NONE
        if cached is not None and not cached.metadata_only and own.is_mine(cached.metadata):
            now = self._counted[path] = self._found(cached)
        self._replace(before, now)

    def _replace(self, before: frozenset[Group], now: frozenset[Group]) -> None:
        self._counts.subtract(before - now)
        self._counts.update(now - before)
        for group in now - self._shown:
            self._show(group)

    def _show(self, group: Group) -> None:
        self._shown.add(group)
        self._gauge.labels(*self._prefix, *group).set_function(partial(_total, self._together, group))

    def _found(self, cached: Cached | None) -> frozenset[Group]:
        try:
            return _NONE if cached is None else frozenset(self._groups(cached))
        except RecursionError:  # nested deeper than the decoder follows: the reconcile reports it
            return _NONE
        except Exception as error:  # noqa: BLE001  # containment: a failing count function blocks no reconcile
            if not self._failed:
                self._failed = True
                _LOG.error(
                    "objects are not counted",
                    **{LogKey.NAME: next(iter(self._gauge.describe())).name, LogKey.ERROR: repr(error)},
                )
            return _NONE

    def close(self) -> None:
        """Count nothing any more."""
        if self in self._together:
            self._together.remove(self)


def _total(together: list[ObjectCounts], group: Group) -> float:
    return sum(counts._counts[group] for counts in together if counts._own is None or counts._own.counts())
