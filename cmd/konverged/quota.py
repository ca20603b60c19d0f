"""`konverge quota migrate`: from a Capsule tenant's ResourceQuotas to pools and claims, printed or applied."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from konverge.daemon.options import load_settings, output_option, print_json
from konverge.errors import KonvergeError, NotFound, NotServed

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.crds import CustomResource
    from konverge.daemon.settings import Settings
    from konverge.objects import Object
    from konverge.reconcilers.quota.migrate import Migration, TenantState

__all__ = ["apply_migration", "in_order", "migrate", "print_migration", "quota", "tenant_seen"]

MANAGER = "konverge-quota-migrate"
_MOST_PERCENT = 1000
# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP = """Turn the ResourceQuotas of a Capsule tenant into pools and claims.

One ResourcePool for each item of the tenant's spec.resourceQuotas, and for each namespace a ResourcePoolClaim of what it uses now,
taken from the ResourceQuotas that Capsule created. Nothing is changed without --apply; what is printed may be edited first:

\b
    konverge quota migrate --tenant solar --headroom 20 >solar.yaml
    kubectl apply -f solar.yaml

When every claim is Bound, take spec.resourceQuotas.items out of the tenant, and Capsule removes the old quotas.
"""


@click.group("quota")
def quota() -> None:
    """Resource pools and their claims."""


@quota.command(help=_HELP, short_help="Print pools and claims for a tenant, or apply them.")
@click.option("--tenant", required=True, metavar="NAME", help="The Capsule tenant.")
@click.option(
    "--headroom",
    type=click.FloatRange(0, _MOST_PERCENT),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="How much more than it uses now each namespace claims, for instance for rolling updates.",
)
@click.option("--prefix", default="", metavar="NAME", help="What the names of the pools begin with; else the tenant.")
@click.option("--apply", "wanted", is_flag=True, help="Apply the claims, then the pools.")
@click.option("--dry-run", is_flag=True, help="With --apply: let the API server check, change nothing.")
@output_option("yaml", "json")
@click.option("--kubeconfig", metavar="FILE", default=None, help="The kubeconfig; else as for konverge run.")
@click.option("--context", metavar="NAME", default=None, help="The context of the kubeconfig.")
def migrate(
    tenant: str,
    headroom: float,
    prefix: str,
    wanted: bool,
    dry_run: bool,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print pools and claims for a tenant, or apply them."""
    if dry_run and not wanted:
        raise click.UsageError("--dry-run goes with --apply")
    settings = load_settings(None, None, (), {"kubeconfig": kubeconfig, "context": context}).settings
    part = Fraction(str(headroom)) / 100
    migration, lines = asyncio.run(_migrate(settings, tenant, part, prefix, wanted, dry_run))
    for note in migration.notes:
        click.echo(f"note: {note}", err=True)
    if not wanted:
        print_migration(migration, tenant, output)
    elif output == "json":
        print_json([{"name": name, "result": result} for name, result in lines])
    else:
        for name, result in lines:
            click.echo(f"{name} {result}{' (dry run)' if dry_run else ''}")


def print_migration(migration: Migration, tenant: str, output: str) -> None:
    """Print the claims and pools, in the order of their application."""
    from konverge.crds import to_yaml

    documents = [resource.to_dict() for resource in in_order(migration)]
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})
        return
    comment = (
        f"The quotas of tenant {tenant} as pools and claims, by konverge quota migrate; notes are on standard error."
    )
    click.echo(to_yaml(*documents, comment=comment), nl=False)


async def _migrate(
    settings: Settings, tenant: str, headroom: Fraction, prefix: str, wanted: bool, dry_run: bool
) -> tuple[Migration, list[tuple[str, str]]]:
    from konverge.client import Client
    from konverge.daemon.engine import client_config
    from konverge.reconcilers.quota.migrate import plan

    async with Client(await client_config(settings), name=MANAGER) as client:
        migration = plan(await tenant_seen(client, tenant), headroom=headroom, prefix=prefix)
        return migration, await apply_migration(client, migration, dry_run=dry_run) if wanted else []


async def tenant_seen(client: Client, tenant: str) -> TenantState:
    """Read a tenant, its namespaces and their quotas; raises KonvergeError if one is missing."""
    from konverge.kinds import kind
    from konverge.reconcilers.quota.migrate import read_tenant
    from konverge.reconcilers.quota.words import Capsule

    stored = await _tenant(client, tenant)
    namespaces = await client.list(kind("v1", "Namespace", namespaced=False), labels=f"{Capsule.TENANT_LABEL}={tenant}")
    names = [namespace.metadata.name for namespace in namespaces]
    quotas: list[Object] = []
    for name in names:
        quotas += await client.list(kind("v1", "ResourceQuota"), name)
    return read_tenant(stored.data, names, [quota.data for quota in quotas])


async def _tenant(client: Client, name: str) -> Object:
    from konverge.kinds import kind

    tenants = kind("capsule.clastix.io/v1beta2", "Tenant", namespaced=False, plural="tenants")
    try:
        return await client.get(tenants, name)
    except NotServed:
        raise KonvergeError(
            f"the cluster serves no {tenants.kind} in {tenants.api_version}: Capsule, whose quotas this moves, is not installed there"
        ) from None
    except NotFound:
        known = ", ".join(sorted(tenant.metadata.name for tenant in await client.list(tenants))) or "none"
        raise KonvergeError(f"there is no Tenant {name} (tenants: {known})") from None


async def apply_migration(client: Client, migration: Migration, *, dry_run: bool = False) -> list[tuple[str, str]]:
    """Apply the claims, then the pools; returns for each whether it was created, changed or unchanged.

    Claims precede pools: a pool allows its namespaces nothing until they have claimed.
    """
    return [(_named(resource), await _apply(client, resource, dry_run)) for resource in in_order(migration)]


def in_order(migration: Migration) -> tuple[CustomResource[Any, Any], ...]:
    """Return claims and pools in the order of their application."""
    return (*migration.claims, *migration.pools)


def _named(resource: CustomResource[Any, Any]) -> str:
    kind = resource.kind_of_resource().kind.lower()
    return f"{kind}/{resource.name}" + (f" in {resource.namespace}" if resource.namespace else "")


async def _apply(client: Client, resource: CustomResource[Any, Any], dry_run: bool) -> str:
    kind = resource.kind_of_resource()
    try:
        before = (await client.get_metadata(kind, resource.name, resource.namespace)).resource_version
    except NotFound:
        before = ""
    stored = await client.apply(kind, resource.to_dict(), manager=MANAGER, dry_run=dry_run)
    if not before:
        return "created"
    return "unchanged" if stored.metadata.resource_version == before else "configured"
