"""`konverge crds`: CustomResourceDefinitions, printed or applied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from konverge.daemon.options import (
    chosen_build,
    load_settings,
    output_option,
    print_json,
    read_certificates,
    settings_options,
    target_argument,
)
from konverge.errors import Forbidden, KonvergeError, NotFound, TooManyRequests

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings
    from konverge.kinds import Kind
    from konverge.objects import Object

__all__ = ["apply_all", "crds", "manifests_of"]

ESTABLISHED_SECONDS = 30.0
_LOOK_SECONDS = 0.05


@click.command()
@target_argument
@click.option("--apply", "wanted", is_flag=True, help="Apply them to the cluster and wait until they are served.")
@click.option("--dry-run", is_flag=True, help="With --apply: let the API server check, change nothing.")
@click.option(
    "--cert-manager",
    "inject_from",
    metavar="NAMESPACE/NAME",
    default="",
    help="The Certificate of cert-manager that conversion webhooks have.",
)
@click.option("--ca", metavar="FILE", default=None, help="A file of PEM certificates of conversion webhooks to trust.")
@click.option(
    "--migrate-storage",
    "migrates",
    is_flag=True,
    help="Rewrite every object in the version that its definition stores.",
)
@click.option("--rights", is_flag=True, help="With --migrate-storage: print the rights that it needs, change nothing.")
@output_option("yaml", "json")
@settings_options
def crds(
    target: str | None,
    wanted: bool,
    dry_run: bool,
    inject_from: str,
    ca: str | None,
    migrates: bool,
    rights: bool,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print CustomResourceDefinitions, apply them, or migrate the stored objects.

    Without an argument the definitions of the installed families' kinds; with MODULE:BUILD the definitions of the kinds that your
    controllers reconcile and that you declared with @kv.resource. Running controllers that wait for a CRD start by themselves when it
    appears. The columns of pools and claims depend on the semantics in the settings (--set quota.semantics=v0.14). A kind with a
    conversion needs the address of the webhooks (--set webhooks.service=NAMESPACE/NAME).

    --migrate-storage rewrites every object of these kinds in the version that the cluster's definition stores, then removes the other
    versions from status.storedVersions. It may be interrupted and started again.
    """
    from konverge.crds import to_yaml

    settings = load_settings(target, file, assignments, flags).settings
    operator, build = chosen_build(target)
    if rights and not migrates:
        raise click.UsageError("--rights goes with --migrate-storage")
    if migrates and (wanted or dry_run):
        raise click.UsageError("--migrate-storage goes neither with --apply nor with --dry-run; apply first")
    # A migration reads the webhooks in the definitions of the cluster.
    manifests = manifests_of(build, settings, bundle=read_certificates(ca), inject_from=inject_from, plain=migrates)
    if not manifests:
        raise click.ClickException(f"no controller of {operator} is for a kind that was declared with @kv.resource")
    if migrates:
        from konverge.daemon.storage import migrate

        migrate(manifests, settings, operator, output, rights=rights)
    elif wanted:
        lines = asyncio.run(_apply(manifests, settings, dry_run))
        if output == "json":
            print_json([{"name": name, "result": result} for name, result in lines])
        else:
            for name, result in lines:
                click.echo(f"customresourcedefinition/{name} {result}{' (dry run)' if dry_run else ''}")
    elif dry_run:
        raise click.UsageError("--dry-run goes with --apply")
    elif output == "json":
        print_json(manifests[0] if len(manifests) == 1 else {"apiVersion": "v1", "kind": "List", "items": manifests})
    else:
        click.echo(to_yaml(*manifests), nl=False)


def manifests_of(
    build: Build | None, settings: Settings, *, bundle: bytes = b"", inject_from: str = "", plain: bool = False
) -> list[dict[str, Any]]:
    """Return the definitions of the families' kinds, or of the kinds of a user's controllers; sorted by name.

    `bundle` and `inject_from` are the certificates of conversion webhooks, as in `konverge webhooks`; `plain` definitions have no webhook.
    Raises UsageError for a conversion without an address in the settings.
    """
    from konverge.crds import crd_manifests
    from konverge.daemon.programs import models_of
    from konverge.runtime import Manager, ManagerSettings
    from konverge.words import Annotation

    if build is None:
        from konverge.daemon.families import DaemonSettings, check_kinds, definitions_of

        assert isinstance(settings, DaemonSettings)
        check_kinds(settings.families)
        manifests = [
            manifest
            for hosted in settings.families
            for manifest in definitions_of(hosted.family, settings, bundle=bundle, plain=plain)
        ]
        manifests.sort(key=lambda manifest: str(manifest["metadata"]["name"]))
    else:

        async def filled() -> Manager:
            manager = Manager("crds", settings=ManagerSettings(webhooks=settings.webhooks))
            build(manager)
            return manager

        # On a loop, because a build may expect a running one.
        manager = asyncio.run(filled())
        clients = {} if plain else manager.conversion_clients(bundle=bundle)
        manifests = crd_manifests(models_of(manager), webhooks=clients)
    if inject_from:
        for manifest in manifests:
            if "conversion" in manifest["spec"]:
                manifest["metadata"]["annotations"] = {Annotation.INJECT_CA_FROM: inject_from}
    return manifests


async def _apply(manifests: list[dict[str, Any]], settings: Settings, dry_run: bool) -> list[tuple[str, str]]:
    from konverge.client import Client
    from konverge.daemon.engine import client_config

    async with Client(await client_config(settings), name="konverge-crds") as client:
        return await apply_all(client, manifests, dry_run=dry_run)


async def apply_all(client: Client, manifests: list[dict[str, Any]], *, dry_run: bool = False) -> list[tuple[str, str]]:
    """Apply definitions and wait until each is served; returns for each whether it was created, changed or unchanged."""
    results = [(manifest["metadata"]["name"], await _apply_one(client, manifest, dry_run)) for manifest in manifests]
    if not dry_run:
        for manifest in manifests:
            await _served(client, manifest)
    return results


def _crd_kind() -> Kind[Object]:
    from konverge.kinds import kind

    return kind(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions"
    )


async def _apply_one(client: Client, manifest: dict[str, Any], dry_run: bool) -> str:
    kind, name = _crd_kind(), manifest["metadata"]["name"]
    before = await client.find(kind, name)
    if before is not None and _loses_webhook(before, manifest):
        # An apply would leave the CA bundle, which the operator owns, and the server refuses a bundle without a webhook. The versions
        # change in the same write, because until then objects in the other versions have to be converted.
        spec = {**manifest["spec"], "conversion": {"strategy": "None", "webhook": None}}
        await client.patch(kind, name, patch={"spec": spec}, style="merge", dry_run=dry_run)
        if dry_run:
            return "configured"
    stored = await client.apply(kind, manifest, force=True, dry_run=dry_run)
    if before is None:
        return "created"
    return "unchanged" if stored.metadata.resource_version == before.metadata.resource_version else "configured"


def _loses_webhook(stored: Object, manifest: dict[str, Any]) -> bool:
    """Whether the cluster's definition has a conversion webhook, and the new definition has none."""
    return "conversion" not in manifest["spec"] and stored.get("spec", "conversion", "webhook") is not None


async def _served(client: Client, manifest: dict[str, Any]) -> None:
    """Wait until the API server serves the kind; raises KonvergeError with the cause after the timeout."""
    name = manifest["metadata"]["name"]
    missing = "the API server has not processed it yet"
    try:
        async with asyncio.timeout(ESTABLISHED_SECONDS):
            while True:
                missing = await _missing(client, manifest)
                if not missing:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise KonvergeError(
            f"{name} was applied and is not served after {ESTABLISHED_SECONDS:g} s: {missing}"
        ) from None


async def _missing(client: Client, manifest: dict[str, Any]) -> str:
    """Return why the kind is not served yet, "" if it is.

    A definition is established a while before its objects can be listed: until then the server responds with 404, or 429.
    """
    definition = await client.get(_crd_kind(), manifest["metadata"]["name"])
    refused, established = definition.find_condition("NamesAccepted"), definition.find_condition("Established")
    if refused is not None and refused.is_false:
        return refused.message
    if established is None or not established.is_true:
        return "it is not established"
    spec = manifest["spec"]
    version = next(version["name"] for version in spec["versions"] if version["served"])
    try:
        await client.raw("GET", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}", params={"limit": "1"})
    except Forbidden:
        return ""  # it is served; this user may not list it
    except (NotFound, TooManyRequests) as error:
        return str(error)
    return ""
