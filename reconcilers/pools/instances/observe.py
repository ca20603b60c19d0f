"""Reads about an instance and its parts. A Secret that a tenant named is read only if its label lets the tenant use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import AppliedS3Config, NextcloudInstance, NextcloudVersionMap
from konverge.errors import NotServed
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketRequest
from konverge.reconcilers.pools.instances.access import access_from, bucket_named_by, uses_path_style
from konverge.reconcilers.pools.instances.names import bucket_name, claim_name, cluster_name
from konverge.reconcilers.pools.instances.ownership import controls
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER, application_secret
from konverge.reconcilers.pools.instances.secrets import NeededSecret, needed_secrets
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.versions import VersionTable
from konverge.reconcilers.pools.kinds import SECRET
from konverge.reconcilers.pools.tenant_fields import grants, secrets_of_tenant
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "ObservedSecrets",
    "bucket_request",
    "chart_of",
    "granted_secret",
    "has_application_secret",
    "observe_secrets",
    "stored_cluster",
    "stored_release",
    "tenant_of",
    "version_table",
]


@dataclass(frozen=True, slots=True)
class ObservedSecrets:
    """The Secrets that an instance needs, in their order."""

    ungranted: str = ""
    """The first Secret that the tenant names and may not use, "" without such a Secret; the others are not read then."""
    stored: tuple[tuple[NeededSecret, Object | None], ...] = ()
    """The needed Secrets, up to the first missing Secret that its author creates."""
    was_ready: bool = False
    """Whether the release knows the content of the generated Secrets: the instance was ready, or its release exists."""


def tenant_of(instance: NextcloudInstance) -> str:
    """Return the namespace of the Nextcloud that has the instance, "" without a Nextcloud."""
    claim = instance.spec.claim_ref
    return "" if claim is None else claim.namespace


async def observe_secrets(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> ObservedSecrets:
    """Read the Secrets of an instance; the release is read only if a generated Secret is missing."""
    secrets, namespace, tenant = ctx.live(SECRET), instance.namespace, tenant_of(instance)
    for name in secrets_of_tenant(instance.spec):
        if not grants(await secrets.find(namespace, name), tenant):
            return ObservedSecrets(ungranted=name)
    stored: list[tuple[NeededSecret, Object | None]] = []
    for needed in needed_secrets(instance.name, instance.spec):
        stored.append((needed, await secrets.find(namespace, needed.name)))
        if stored[-1][1] is None and not needed.generated:
            break
    is_missing = any(secret is None and needed.generated for needed, secret in stored)
    was_ready = bool(instance.status.ready_at) or (is_missing and await stored_release(instance, ctx) is not None)
    return ObservedSecrets(stored=tuple(stored), was_ready=was_ready)


async def granted_secret(
    instance: NextcloudInstance, field: str, name: str, ctx: Context[NextcloudInstance]
) -> Object | None:
    """Return the Secret that a field of the spec names; None if it does not exist, or if its label does not allow the tenant."""
    secret = await ctx.live(SECRET).find(instance.namespace, name)
    by_tenant = field in (instance.spec.tenant_fields or ())
    return None if by_tenant and not grants(secret, tenant_of(instance)) else secret


async def stored_release(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the HelmRelease that the instance controls."""
    try:
        release = await ctx.live(HELM_RELEASE).find(instance.namespace, instance.name)
    except NotServed:
        return None
    return release if release is not None and controls(instance, release) else None


async def stored_cluster(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the Cluster with the name of the instance's database, of any owner."""
    return await ctx.live(CNPG_CLUSTER).find(instance.namespace, cluster_name(instance.name))


async def has_application_secret(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> bool:
    """Whether CloudNativePG has created the Secret for the connection of Nextcloud."""
    name = application_secret(cluster_name(instance.name))
    return await ctx.live(SECRET).find(instance.namespace, name) is not None


async def bucket_request(
    instance: NextcloudInstance, applied: AppliedS3Config, settings: MaterialSettings, ctx: Context[NextcloudInstance]
) -> BucketRequest:
    """Return the request for the bucket that the status names, with the account from the Secret of the spec."""
    access, spec = None, instance.spec
    if settings.bucket_provider == "s3" and spec.s3 is not None and spec.s3.credentials_secret:
        secret = await granted_secret(instance, "s3.credentialsSecret", spec.s3.credentials_secret, ctx)
        style, named_by = uses_path_style(spec, settings), bucket_named_by(spec, applied, settings)
        access = access_from(secret, applied, settings, path_style=style, named_by=named_by)
    return BucketRequest(
        name=applied.bucket or bucket_name(instance.name, instance.uid),
        owner=instance.uid,
        namespace=instance.namespace,
        object_name=claim_name(instance.name),
        access=access,
    )


def version_table(settings: MaterialSettings, ctx: Context[NextcloudInstance]) -> VersionTable:
    """Return the first NextcloudVersionMap by name, or the built-in map without such an object."""
    maps = ctx.cache(NextcloudVersionMap).list() if ctx.serves(NextcloudVersionMap) else []
    if not maps:
        return VersionTable(
            charts=settings.versions, images={}, aliases=settings.aliases, fallback=settings.chart_version
        )
    spec = min(maps, key=lambda stored: stored.name).spec
    return VersionTable(
        charts={entry.version: entry.chart_version for entry in spec.versions},
        images={entry.version: entry.image for entry in spec.versions if entry.image},
        aliases=spec.aliases,
        fallback=settings.chart_version,
    )


def chart_of(release: Object, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the HelmChart that Flux created for the release; its status names it."""
    chart = release.get("status", "helmChart")
    namespace, _, name = chart.rpartition("/") if isinstance(chart, str) else ("", "", "")
    return ctx.cache(HELM_CHART).find(namespace, name) if namespace and ctx.serves(HELM_CHART) else None
