"""Writes to the instance of a Nextcloud: its marks, the record of its former spec, and the tenant's fields.

Each write needs the result of the write before, and the Nextcloud copies the status from the last result, so no plan holds these writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.errors import BadRequest, Invalid, ObjectChanged, RetryAfter
from konverge.objects import Object
from konverge.reconcilers.pools.claims.decide import BlockedClaim, is_created
from konverge.reconcilers.pools.claims.drift import Corrections, drift_message, drifted_from
from konverge.reconcilers.pools.claims.observe import conflicts_of, former_spec, pool_of
from konverge.reconcilers.pools.claims.render import followed_intent, spec_text, tenant_spec
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import FieldsRefused, check_tenant, policy_of
from konverge.reconcilers.pools.words import InstanceReason, PoolsAnnotation, PoolsCondition, PoolsEvent
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["FollowedInstance", "InstanceWriter"]

_MARKS_OF_THE_END: Final = (PoolsAnnotation.RELEASED, PoolsAnnotation.ORPHANED_SINCE)


@dataclass(frozen=True, slots=True)
class FollowedInstance:
    """The instance of a Nextcloud after the writes of a reconcile."""

    instance: Object
    refused: BlockedClaim | None = None
    """Why the instance keeps its former spec."""
    drift: str | None = None
    """The last correction of a drift loop, "" without a drift loop, None if it was not looked for."""
    wait: timedelta | None = None
    """The time until the next correction is due, or until the drift loop may have ended."""


class InstanceWriter:
    """Writes the tenant's fields to instances, and remembers the corrections of drift."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._corrections = Corrections(
            settings.drift_limit,
            timedelta(seconds=settings.drift_window),
            timedelta(seconds=settings.drift_pause),
        )

    def forget(self, uid: str) -> None:
        """Forget the corrections of a Nextcloud's instance."""
        self._corrections.forget(uid)

    async def follow(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> FollowedInstance:
        """Write the tenant's fields, unless the instance is being deleted; a refusal leaves the former spec."""
        if instance.metadata.deleting:
            return FollowedInstance(instance)
        try:
            spec = instance.to_dict().get("spec") or {}
            check_tenant(tenant_spec(nextcloud), policy_of(spec, self._settings.instances))
            instance = await self._reset_marks(instance, ctx)
            instance = await self._record_former_spec(nextcloud, instance, ctx)
            return await self._apply(nextcloud, instance, ctx)
        except (BadRequest, Invalid) as error:  # of the merged spec: it holds the pool's fields too
            message = f"the API server refuses this spec for the instance, which keeps its former one: {error.message}"
            return FollowedInstance(instance, BlockedClaim(InstanceReason.INVALID, message))
        except FieldsRefused as problem:
            message = f"the instance keeps its former spec: {problem}"
            return FollowedInstance(instance, BlockedClaim(InstanceReason.FIELDS_REFUSED, message))

    async def _apply(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> FollowedInstance:
        """Apply the tenant's fields, unless a drift loop pauses the corrections."""
        uid, now, corrections = nextcloud.uid, ctx.now(), self._corrections
        intent = followed_intent(nextcloud, instance, pool=pool_of(nextcloud) or "", created=is_created(nextcloud))
        assigned = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
        in_force = assigned is not None and assigned.is_true and assigned.observed_generation == nextcloud.generation
        paths = drifted_from(intent, instance) if in_force else []
        loop = corrections.drift_loop(uid, now)
        if paths and loop is not None and loop.wait > timedelta(0):
            return FollowedInstance(instance, drift=loop.message, wait=loop.wait)
        message = drift_message(paths, await conflicts_of(intent, ctx), ctx.client.name) if paths else ""
        stored = await ctx.apply(intent, force=True)
        if paths:
            self._metrics.drift.inc()
            corrections.note(uid, now, message)
            ctx.event(PoolsEvent.DRIFT_CORRECTED, message, type_=EventType.WARNING)
            loop = corrections.drift_loop(uid, now)
        if loop is None:
            return FollowedInstance(stored, drift="")
        return FollowedInstance(stored, drift=loop.message, wait=timedelta(seconds=self._settings.drift_window))

    async def _reset_marks(self, instance: Object, ctx: Context[Nextcloud]) -> Object:
        """Remove marks of a release or of an orphan that another writer put on the instance: its release would be uninstalled."""
        marks = [mark for mark in _MARKS_OF_THE_END if mark in (instance.metadata.annotations or {})]
        if not marks:
            return instance
        reset = await _annotate(instance, dict.fromkeys(marks), ctx)
        message = f"set back {', '.join(marks)}: the Nextcloud has not let go of its instance"
        ctx.event(PoolsEvent.MARKS_CORRECTED, message, type_=EventType.WARNING)
        return reset

    async def _record_former_spec(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> Object:
        """Record the spec that an instance had before, if it was taken without that record: by an older version, or by hand."""
        if instance.metadata.annotation(PoolsAnnotation.SPEC_BEFORE) or is_created(nextcloud):
            return instance
        text = spec_text(former_spec(nextcloud, instance, ctx))
        return await _annotate(instance, {PoolsAnnotation.SPEC_BEFORE: text}, ctx) if text else instance


async def _annotate(instance: Object, annotations: Mapping[str, Any], ctx: Context[Nextcloud]) -> Object:
    try:
        return await ctx.patch(INSTANCE, expect=instance, patch={"metadata": {"annotations": dict(annotations)}})
    except ObjectChanged as error:
        message = f"NextcloudInstance {instance.metadata.path} changed; reading it again"
        raise RetryAfter(READ_AGAIN, message) from error
