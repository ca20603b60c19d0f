"""The requests to engines, with the related objects that they need: from the cache, or read live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.decide import request_for
from konverge.reconcilers.apps.operations.engines.engine import (
    Edit,
    EngineBlocked,
    EngineRequest,
    ObjectRef,
    Refused,
    Related,
    Rendered,
    Target,
)
from konverge.reconcilers.apps.operations.engines.registry import EngineRow, row_of
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import (
    BlockedReason,
)

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Engines", "not_served"]

_ROUNDS: Final = 4
"""How often an engine may name further related objects."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that there are, and the settings that they are asked with."""

    settings: OperationSettings
    rows: tuple[EngineRow, ...]
    cluster_id: str

    def row(self, operation: Operation) -> EngineRow | None:
        """Return the row of an Operation's type and engine."""
        return row_of(operation.spec.type, operation.spec.engine, self.rows)

    async def render(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Any]
    ) -> Rendered | Edit | Refused | EngineBlocked:
        """Have the engine translate the Operation; raises API errors of the reads."""
        request = await self.request(operation, row, target, ctx, live=True)
        if isinstance(request, EngineBlocked):
            return request
        kind = row.engine.kind(request)
        return row.engine.render(request) if ctx.serves(kind) else not_served(kind)

    async def request(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Any], *, live: bool
    ) -> EngineRequest | EngineBlocked:
        """Return the request with the related objects; those that are read live are left out if `live` is False."""
        request = request_for(operation, target, self.settings, ctx.now())
        objects: dict[ObjectRef, Mapping[str, Any] | None] = {}
        for _ in range(_ROUNDS):
            missing = [ref for ref in row.engine.needs(request) if ref not in objects and (live or not ref.live)]
            if not missing:
                break
            for ref in missing:
                if not ref.live and not ctx.serves(ref.kind):
                    return not_served(ref.kind)
                if ref.live:
                    found = await ctx.live(ref.kind).find(ref.namespace, ref.name)
                else:
                    found = ctx.cache(ref.kind).find(ref.namespace, ref.name)
                objects[ref] = None if found is None else found.to_dict()
            request = replace(request, related=Related(dict(objects)))
        return request


def not_served(kind: Kind[Object]) -> EngineBlocked:
    """Return the blockade of an Operation whose engine is not installed."""
    return EngineBlocked(
        BlockedReason.DEPENDENCY_MISSING,
        f"the cluster does not serve {kind.group_kind} {kind.version}; install the engine, and the Operation starts",
    )
