"""The requests to engines, with the related objects that they need: from the cache, or read live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import RetryAfter
from konverge.informers import RestartCause
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.rbac import plural_of
from konverge.reconcilers.apps.operations.edits import edit_refusal
from konverge.reconcilers.apps.operations.engines.engine import (
    Edit,
    EngineBlocked,
    EngineRequest,
    ObjectKey,
    ObjectRef,
    Refused,
    Related,
    Rendered,
    Target,
)
from konverge.reconcilers.apps.operations.engines.registry import EngineRow, row_of
from konverge.reconcilers.apps.operations.pods import account_missing
from konverge.reconcilers.apps.operations.report import rbac_profile_missing
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import BlockedReason
from konverge.reconcilers.apps.settings import Settings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Engines", "absent", "denied", "not_served", "request_for", "target_of"]

_ROUNDS: Final = 4
"""How often an engine may name further related objects."""
_UNKNOWN: Final = timedelta(seconds=10)
"""The delay until an Operation checks again whether a kind is served, if that is unknown; discovery enqueues it earlier."""


def target_of(instance: Object) -> Target:
    """Return the target, from an ApplicationInstance as it is stored."""
    metadata = instance.metadata
    return Target(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        release=str(instance.get("spec", "release", "name", default="") or ""),
        catalog_id=str(instance.get("spec", "appRef", "catalogId", default="") or ""),
        annotations=dict(metadata.annotations or {}),
    )


def request_for(
    operation: Operation, target: Target, settings: OperationSettings, now: datetime, related: Related | None = None
) -> EngineRequest:
    """Return the request of an Operation to its engine."""
    return EngineRequest(
        operation=ObjectKey(operation.namespace, operation.name),
        uid=operation.metadata.uid,
        created=operation.metadata.created or now,
        type=operation.spec.type,
        parameters=operation.spec.parameters,
        target=target,
        settings=settings,
        related=related or Related(),
    )


@dataclass(frozen=True, slots=True)
class Engines:
    """The existing engines, and the settings of their requests."""

    settings: OperationSettings
    rows: tuple[EngineRow, ...]
    cluster_id: str
    namespace: str = ""
    """The namespace of the operator, of the Leases; "" for the client's own."""
    instances: Settings = field(default_factory=Settings)
    """The settings of the targets, which check an edit before it is sent."""

    def home(self, ctx: Context[Operation]) -> str:
        """Return the namespace of the Leases."""
        return self.namespace or ctx.client.config.namespace or "default"

    def row(self, operation: Operation) -> EngineRow | None:
        """Return the row of an Operation's type and engine."""
        return row_of(operation.spec.type, operation.spec.engine, self.rows)

    async def render(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Operation]
    ) -> Rendered | Edit | Refused | EngineBlocked:
        """Have the engine translate the Operation; raises API errors of the reads."""
        request = await self.request(operation, row, target, ctx, live=True)
        if isinstance(request, EngineBlocked):
            return request
        unusable = unwatched(row.engine.kind(request), ctx)
        if unusable is not None:
            return unusable
        rendered = row.engine.render(request)
        lacking = await account_missing(rendered.object, ctx) if isinstance(rendered, Rendered) else None
        return lacking or rendered

    def check_edit(self, rendered: Rendered | Edit, instance: Object) -> Refused | None:
        """Return the refusal of an edit that the target's own checks would refuse."""
        message = edit_refusal(instance, rendered, self.instances) if isinstance(rendered, Edit) else ""
        return Refused(message) if message else None

    async def request(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Operation], *, live: bool
    ) -> EngineRequest | EngineBlocked:
        """Return the request with the related objects; `live` False leaves out the objects that are read live."""
        request = request_for(operation, target, self.settings, ctx.now())
        objects: dict[ObjectRef, Mapping[str, Any] | None] = {}
        for _ in range(_ROUNDS):
            missing = [ref for ref in row.engine.needs(request) if ref not in objects and (live or not ref.live)]
            if not missing:
                break
            for ref in missing:
                unusable = None if ref.live else unwatched(ref.kind, ctx) if live else absent(ref.kind, ctx)
                if unusable is not None:
                    return unusable
                if ref.live:
                    stored = await ctx.live(ref.kind).find(ref.namespace, ref.name)
                else:
                    stored = ctx.cache(ref.kind).find(ref.namespace, ref.name)
                objects[ref] = None if stored is None else stored.to_dict()
            request = replace(request, related=Related(dict(objects)))
        return request


def absent(kind: Kind[Object], ctx: Context[Operation]) -> EngineBlocked | None:
    """Return the blockade of an Operation whose engine is not installed, or may not be listed; None if the kind has a cache.

    Raises RetryAfter while that is unknown: objects of the kind may exist.
    """
    if ctx.serves(kind):
        return None
    problem = ctx.cache(kind).problem
    if problem is not None and problem.cause == RestartCause.NOT_SERVED:
        return not_served(kind)
    blocked = denied(kind, ctx)
    if blocked is None:
        raise RetryAfter(_UNKNOWN, f"the first list of {kind.group_kind} is not complete yet; looking again")
    return blocked


def unwatched(kind: Kind[Object], ctx: Context[Operation]) -> EngineBlocked | None:
    """Return the blockade of an Operation that needs an up-to-date cache of a kind; None if there is a cache, as far as is known."""
    return denied(kind, ctx) or absent(kind, ctx)


def denied(kind: Kind[Object], ctx: Context[Operation]) -> EngineBlocked | None:
    """Return the blockade of an Operation if the operator lacks the right to watch a kind, so that its cache is out of date."""
    problem = ctx.cache(kind).problem
    if problem is None or problem.cause != RestartCause.FORBIDDEN:
        return None
    return rbac_profile_missing(("list", "watch"), (plural_of(kind),), kind.group, "the Operation goes on")


def not_served(kind: Kind[Object]) -> EngineBlocked:
    """Return the blockade of an Operation whose engine is not installed."""
    return EngineBlocked(
        BlockedReason.DEPENDENCY_MISSING,
        f"the cluster does not serve {kind.group_kind} {kind.version}; install the engine, and the Operation starts",
    )
