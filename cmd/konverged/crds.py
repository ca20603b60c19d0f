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
@output_option("yaml", "json")
@settings_options
def crds(
    target: str | None,
    wanted: bool,
    dry_run: bool,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print CustomResourceDefinitions, or apply them.

    Without an argument the definitions of the installed families' kinds; with MODULE:BUILD the definitions of the kinds that your
    controllers reconcile and that you declared with @kv.resource. Running controllers that wait for a CRD start by themselves when it
    appears. The columns of pools and claims depend on the semantics in the settings (--set quota.semantics=v0.14).
    """
    from konverge.crds import to_yaml

    settings = load_settings(target, file, assignments, flags).settings
    operator, build = chosen_build(target)
    manifests = manifests_of(build, settings)
    if not manifests:
        raise click.ClickException(f"no controller of {operator} is for a kind that was declared with @kv.resource")
    if wanted:
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


def manifests_of(build: Build | None, settings: Settings) -> list[dict[str, Any]]:
    """Return the definitions of the families' kinds, or of the kinds of a user's controllers; sorted by name."""
    from konverge.crds import crd_manifests
    from konverge.runtime import Manager

    if build is None:
        from konverge.daemon.families import DaemonSettings, definitions_of

        assert isinstance(settings, DaemonSettings)
        manifests = [manifest for hosted in settings.families for manifest in definitions_of(hosted.family, settings)]
        return sorted(manifests, key=lambda manifest: str(manifest["metadata"]["name"]))

    async def filled() -> list[Any]:
        manager = Manager("crds")
        build(manager)
        parts: list[Any] = [*manager.controllers, *manager.webhooks]
        return [part.model for part in parts if hasattr(part.model, "__konverge_declaration__")]

    # On a loop, because a build may expect a running one.
    return crd_manifests(dict.fromkeys(asyncio.run(filled())))


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
    try:
        before = (await client.get_metadata(kind, name)).resource_version
    except NotFound:
        before = ""
    stored = await client.apply(kind, manifest, force=True, dry_run=dry_run)
    if not before:
        return "created"
    return "unchanged" if stored.metadata.resource_version == before else "configured"


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
