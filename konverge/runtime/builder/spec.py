"""The parts of a controller's description, which the verbs of the builder fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from konverge.dropped import DroppedFields
from konverge.keys import Key
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata, Object
from konverge.rbac import Rule
from konverge.runtime.builder.numbers import Numbers
from konverge.runtime.builder.pause import Pausable
from konverge.runtime.builder.predicates import Predicate
from konverge.runtime.builder.reconciler import FailureReport, Gate, Reconciles
from konverge.runtime.builder.sources import Source
from konverge.runtime.builder.watched import Indexed, Watched
from konverge.workqueue import Limiter

if TYPE_CHECKING:
    from konverge.runtime.cache.readers import Caches

__all__ = ["ControllerSpec", "Group", "Grouping"]

R = TypeVar("R", bound=Resource)

Group: TypeAlias = tuple[str, ...]
"""Values of the labels of a gauge, in their order."""


class Grouping(msgspec.Struct, frozen=True):
    """A gauge with the number of objects in each group; the groups of `always` exist from the start of the controller."""

    metric: str
    help: str
    labels: tuple[str, ...]
    by: Callable[[Object], Iterable[Group]]
    always: tuple[Group, ...] = ()


class ControllerSpec(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """The parts of a controller's description."""

    kind: Kind[R]
    name: str
    model: type[Any] | None = None
    reconciler: Reconciles[R] | None = None
    owned: tuple[Watched, ...] = ()
    watched: tuple[Watched, ...] = ()
    indexed: tuple[Indexed, ...] = ()
    sources: tuple[tuple[str, Source], ...] = ()
    """Sources of keys beside the watches, by name."""
    pausable_by: Pausable | None = None
    """The causes of pauses; None: objects are never paused."""
    finalizer_name: str = ""
    may_hold: Callable[[Metadata, Caches], bool] | None = None
    """Whether the finalizer may be added to an object now; None: always."""
    also_deleting: bool = False
    """Whether `reconcile` gets objects under deletion too."""
    invalid: tuple[str, str] | None = None
    failure_report: FailureReport | None = None
    conditions: tuple[str, ...] | None = None
    counted: tuple[str, ...] = ()
    """The condition types whose objects are counted by status."""
    groupings: tuple[Grouping, ...] = ()
    """Gauges with the numbers of objects by other labels."""
    predicate: Predicate | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    """Whether only the metadata of the primary objects is cached."""
    dropped: DroppedFields | None = None
    """The fields of the primary objects that the cache leaves out."""
    rules: tuple[Rule, ...] = ()
    live: tuple[Kind[Any], ...] | None = None
    """The kinds that are read live; None: any kind."""
    status_suffix: str = ""
    status_shared: bool = False
    statuses: tuple[tuple[Kind[Any], str], ...] = ()
    gate: Gate | None = None
    elected: bool = True
    """Whether the controller works only on the leader."""
    family: Callable[[Metadata], str] | None = None
    """Returns the sharding key of an object; None: replicas do not share objects."""
    outside: str = ""
    """The server outside Kubernetes that the reconciler calls; "" for none."""
    stand_in: Reconciles[R] | None = None
    """Reconciles in a plan, in place of a reconciler that calls something outside Kubernetes."""
    numbers: Numbers = Numbers()
    limiter: Callable[[], Limiter[Key]] | None = None
    """Returns the limiter of retries at each start; None: by the numbers."""
    priority: Callable[[Metadata, str], int] | None = None
    """Returns the priority of an object for a reason; None: 0."""
