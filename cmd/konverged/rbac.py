"""`konverge rbac`: the rights that the chosen controllers need, as manifests."""

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
    settings_options,
    target_argument,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings
    from konverge.runtime import Rule

__all__ = ["binding", "manifests", "rbac"]


@click.command()
@target_argument
@click.option("--name", metavar="NAME", default=None, help="The name of the role; without, the operator's.")
@click.option(
    "--service-account", metavar="NAMESPACE/NAME", default=None, help="Also print a binding to this ServiceAccount."
)
@output_option("yaml", "json")
@settings_options
def rbac(
    target: str | None,
    name: str | None,
    service_account: str | None,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print the RBAC rules that the chosen controllers need.

    A ClusterRole, or with --namespace a Role there, and a Role in each namespace that a setting narrows rights to. --controllers and
    settings that change watches are considered. No cluster is contacted. With --set election.enabled=true also the rights on the Lease, in
    the namespace of the election or of the ServiceAccount, with --sharding=hash or coordinator the rights on the Leases of the members and
    on the objects with stamps; with --set metrics_secure=true the rights to review callers. `konverge rbac --service-account
    konverge/konverge | kubectl apply -f -` grants them.
    """
    from konverge.crds import to_yaml

    settings = load_settings(target, file, assignments, flags).settings
    operator, build = chosen_build(target)
    home = (service_account or "").partition("/")[0]
    if home:  # a pod keeps its Leases in its own namespace
        election, sharding = settings.election, settings.sharding
        placed = {
            "election": replace(election, namespace=election.namespace or home),
            "sharding": replace(sharding, namespace=sharding.namespace or home),
        }
        settings = settings.model_copy(update=placed)
    if home and build is None:  # and the families read their Secrets there
        from konverge.daemon.families import DaemonSettings, at_home

        assert isinstance(settings, DaemonSettings)
        settings = at_home(settings, home)
    rules = asyncio.run(rules_for(build, settings, operator))
    documents = manifests(name or operator, rules, settings.namespace, service_account)
    if output == "json":
        print_json(documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents})
    else:
        click.echo(to_yaml(*documents), nl=False)


async def rules_for(build: Build | None, settings: Settings, name: str = "rbac") -> tuple[Rule, ...]:
    """Return the rules of the controllers that these settings choose, in a manager of this name, without starting it."""
    from konverge.daemon.programs import fill
    from konverge.runtime import Manager, ManagerSettings

    chosen = ManagerSettings(webhooks=settings.webhooks, election=settings.election, sharding=settings.sharding)
    manager = Manager(name, settings=chosen)
    await fill(manager, build, settings)
    return manager.rules()


def manifests(name: str, rules: Iterable[Rule], namespace: str, service_account: str | None) -> list[dict[str, Any]]:
    """Return the roles, and with a ServiceAccount their bindings. Raises click.UsageError for a malformed account."""
    from konverge.runtime.manager.roles import roles_for

    roles = roles_for(name, rules, namespace)
    if service_account is None:
        return roles
    home, slash, account = service_account.partition("/")
    if not (home and slash and account):
        raise click.UsageError(f"--service-account {service_account}: write namespace/name")
    return [document for role in roles for document in (role, binding(role, home, account))]


def binding(role: dict[str, Any], namespace: str, account: str) -> dict[str, Any]:
    """Return the binding of a role to a ServiceAccount."""
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
