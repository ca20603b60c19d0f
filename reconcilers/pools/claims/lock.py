"""The write that locks an instance to a Nextcloud. The Nextcloud copies the status from the locked instance.

Guarantees
- The write names the version of the instance for which the claim chose it. A version that the cache got after the choice may have the
  claim of another Nextcloud, and a write that names that version would replace the claim.
- Before that write the record is read live and has to be unchanged: the cache of a new leader may be behind the last write of the
  former leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import Nextcloud, NominatedInstance
from konverge.errors import ObjectChanged, RetryAfter
from konverge.objects import Object
from konverge.reconcilers.pools.claims.observe import policy_of_pool, recorded_instance
from konverge.reconcilers.pools.claims.render import lock_patch, spec_text, tenant_spec
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD
from konverge.reconcilers.pools.members import is_taken
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import check_tenant, policy_of
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["confirm_record", "count_wait", "take_instance"]


async def confirm_record(nextcloud: Nextcloud, nominated: NominatedInstance, ctx: Context[Nextcloud]) -> None:
    """Raise RetryAfter unless the API server has the same record of the same Nextcloud."""
    stored = await ctx.live(NEXTCLOUD).find(nextcloud.namespace, nextcloud.name)
    record = None if stored is None else stored.get("status", "nominatedInstance", default=None)
    if (
        stored is None
        or stored.metadata.uid != nextcloud.uid
        or stored.metadata.deleting
        or stored.get("status", "instanceRef", default=None)
        or record is None
        or NominatedInstance.model_validate(record) != nominated
    ):
        raise RetryAfter(READ_AGAIN, "the Nextcloud changed; reading it again")


async def take_instance(
    nextcloud: Nextcloud,
    nominated: NominatedInstance,
    instance: Object | None,
    settings: PoolSettings,
    metrics: PoolMetrics,
    ctx: Context[Nextcloud],
) -> Object | None:
    """Take the recorded instance; None if another writer was faster: another claim, a trim, or the instance itself.

    `instance` is the cached object at the time of the choice. Raises FieldsRefused if the tenant sets fields that the instance's pool
    keeps, and RetryAfter while the cache lacks the instance, or has the claim of another Nextcloud that the choice did not see.
    """
    if instance is None or instance.metadata.uid != nominated.uid:
        raise RetryAfter(READ_AGAIN, "the recorded instance is not in the cache yet; reading it again")
    if is_taken(instance):
        raise RetryAfter(READ_AGAIN, "the recorded instance was taken meanwhile; reading it again")
    spec = instance.to_dict().get("spec") or {}
    check_tenant(tenant_spec(nextcloud), policy_of(spec, settings.instances))
    patch = lock_patch(nextcloud, instance.metadata, policy_of_pool(nominated.pool or "", ctx), spec_text(spec))
    try:
        taken = await ctx.patch(INSTANCE, expect=instance, patch=patch)
    except ObjectChanged:
        metrics.conflicts.inc()
        return await recorded_instance(nextcloud, nominated, ctx)
    count_wait(nextcloud, metrics, ctx)
    return taken


def count_wait(nextcloud: Nextcloud, metrics: PoolMetrics, ctx: Context[Nextcloud]) -> None:
    """Count the wait of a claim at the write that ends the wait: later steps may be repeated."""
    created = nextcloud.metadata.created
    if created is not None:
        metrics.wait.observe(max(0.0, (ctx.now() - created).total_seconds()))
