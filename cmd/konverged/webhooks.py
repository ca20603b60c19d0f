"""`konverge webhooks`: the manifests that register admission webhooks with the API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
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
from konverge.errors import UsageError

if TYPE_CHECKING:
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings

__all__ = ["manifests_of", "webhooks"]


@click.command()
@target_argument
@click.option("--name", metavar="NAME", default=None, help="The operator's name; without, as `konverge run` has it.")
@click.option(
    "--service", metavar="NAMESPACE/NAME[:PORT]", default=None, help="The Service that leads to the operator."
)
@click.option(
    "--url", metavar="URL", default=None, help="Instead: where the API server reaches it outside of the cluster."
)
@click.option(
    "--cert-manager",
    "inject_from",
    metavar="NAMESPACE/NAME",
    default="",
    help="The Certificate of cert-manager to trust.",
)
@click.option("--ca", metavar="FILE", default=None, help="A file of PEM certificates to trust.")
@output_option("yaml", "json")
@settings_options
def webhooks(
    target: str | None,
    name: str | None,
    service: str | None,
    url: str | None,
    inject_from: str,
    ca: str | None,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print the manifests that register admission webhooks.

    A MutatingWebhookConfiguration and a ValidatingWebhookConfiguration; and, if neither --cert-manager nor --ca names the
    certificates to trust, the empty Secret that the running operator fills with its own. `konverge webhooks --service
    konverge/konverge-webhooks | kubectl apply -f -` registers them. Conversion webhooks are registered by what `konverge crds` prints.
    """
    from konverge.crds import to_yaml

    settings = load_settings(target, file, assignments, flags).settings
    operator, build = chosen_build(target)
    chosen = _chosen(settings, service, url)
    bundle = read_certificates(ca)
    documents = asyncio.run(manifests_of(build, chosen, name or operator, bundle=bundle, inject_from=inject_from))
    if not documents:
        raise click.ClickException(f"{name or operator} has no webhooks with these settings")
    if output == "json":
        print_json(documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents})
    else:
        click.echo(to_yaml(*documents), nl=False)


def _chosen(settings: Settings, service: str | None, url: str | None) -> Settings:
    """Return the settings with the values of the flags; bad values are wrong usage."""
    if service is None and url is None:
        return settings
    try:
        return settings.model_copy(
            update={"webhooks": replace(settings.webhooks, service=service or "", url=url or "")}
        )
    except UsageError as error:
        raise click.UsageError(str(error)) from error


async def manifests_of(
    build: Build | None, settings: Settings, name: str, *, bundle: bytes = b"", inject_from: str = ""
) -> list[dict[str, Any]]:
    """Return the manifests of an operator of this name, without starting it."""
    from konverge.daemon.engine import manager_settings
    from konverge.daemon.programs import fill
    from konverge.runtime import Manager
    from konverge.runtime.admission.configurations import empty_secret
    from konverge.runtime.admission.settings import place_of

    manager = Manager(name, settings=manager_settings(settings))
    await fill(manager, build, settings)
    configurations = manager.webhook_configurations(bundle=bundle, inject_from=inject_from)
    self_made = not (bundle or inject_from or settings.webhooks.certificates)
    if self_made and (configurations or manager.conversions):
        return [empty_secret(place_of(name, settings.webhooks), name), *configurations]
    return configurations
