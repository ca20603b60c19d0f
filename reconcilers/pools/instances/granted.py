"""Reads of Secrets that a spec names: a Secret that a tenant named is read only if its label lets the tenant use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.objects import Object
from konverge.reconcilers.pools.instances.secrets import SECRET
from konverge.reconcilers.pools.tenant_fields import grants

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["granted_secret", "tenant_of"]


def tenant_of(instance: NextcloudInstance) -> str:
    """Return the namespace of the Nextcloud that has the instance, "" without a Nextcloud."""
    claim = instance.spec.claim_ref
    return "" if claim is None else claim.namespace


async def granted_secret(
    instance: NextcloudInstance, field: str, name: str, ctx: Context[NextcloudInstance]
) -> Object | None:
    """Return the Secret that a field of the spec names; None if it does not exist, or if its label does not allow the tenant."""
    secret = await ctx.live(SECRET).find(instance.namespace, name)
    by_tenant = field in (instance.spec.tenant_fields or ())
    return None if by_tenant and not grants(secret, tenant_of(instance)) else secret
