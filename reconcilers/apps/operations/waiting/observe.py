"""The observation of an Operation that has not started, in two parts: caches first, and live reads only if the first part lets it start.

Guarantees: decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations.engine_request import Engines, target_of
from konverge.reconcilers.apps.operations.engines.engine import Edit, EngineBlocked, Refused, Rendered
from konverge.reconcilers.apps.operations.engines.registry import EngineRow
from konverge.reconcilers.apps.operations.indexes import ACTIVE, ENDED, target_key
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.waiting.conflicts import Contestant, contestant_of

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ObservedNeeds", "ObservedTarget", "observe_needs", "observe_target"]


@dataclass(frozen=True, slots=True)
class ObservedTarget:
    """The target and its Operations, from caches. Each call of `active` and `ended` reads the cache as it is then."""

    instance: Object | None
    mine: Contestant
    active: Callable[[], Iterable[Contestant]]
    ended: Callable[[], Iterable[Contestant]]


@dataclass(frozen=True, slots=True)
class ObservedNeeds:
    """The object to create or the edit to send, or why there is none; and the annotations of the namespace."""

    rendered: Rendered | Edit | Refused | EngineBlocked
    namespace: Mapping[str, str] = field(default_factory=dict)


def observe_target(operation: Operation, ctx: Context[Operation]) -> ObservedTarget:
    """Read the caches."""
    name, views = operation.spec.target_ref.name, ctx.cache(VIEW)
    key = target_key(operation.namespace, name)
    return ObservedTarget(
        instance=ctx.cache(INSTANCE).find(operation.namespace, name),
        mine=contestant_of(Object(operation.to_dict())),
        active=lambda: map(contestant_of, views.by_index(ACTIVE, key)),
        ended=lambda: map(contestant_of, views.by_index(ENDED, key)),
    )


async def observe_needs(
    operation: Operation, row: EngineRow, instance: Object, engines: Engines, ctx: Context[Operation]
) -> ObservedNeeds:
    """Have the engine render the Operation, and read the namespace; raises API errors of the reads."""
    rendered = await engines.render(operation, row, target_of(instance), ctx)
    if isinstance(rendered, (Rendered, Edit)):
        rendered = engines.check_edit(rendered, instance) or rendered
    if isinstance(rendered, (Refused, EngineBlocked)):
        return ObservedNeeds(rendered)
    return ObservedNeeds(rendered, await _namespace_annotations(operation.namespace, engines, ctx))


async def _namespace_annotations(namespace: str, engines: Engines, ctx: Context[Operation]) -> Mapping[str, str]:
    """Read the annotations of a namespace live: a watch would need rights on the namespaces of the whole cluster."""
    stored = await ctx.live(NAMESPACE).find("", namespace) if engines.settings.namespace_policy else None
    return {} if stored is None else dict(stored.metadata.annotations or {})
