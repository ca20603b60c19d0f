"""The kinds that a manager needs: the kinds whose CRDs the lab can generate from models, and the kinds that the API server does not serve.

The runtime waits for a missing CRD, because a cluster may install it later. A test would wait as long, and then report a timeout. So the
lab checks before the start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from konverge.client import Client
from konverge.errors import NotServed
from konverge.kinds import Kind
from konverge.runtime import Manager

if TYPE_CHECKING:
    from konverge_testing.memory_server import ApiServer

__all__ = ["is_served", "missing_words", "models_of", "needs_of"]


def needs_of(manager: Manager) -> dict[Kind[Any], str]:
    """Return each kind that the manager cannot work without, with the verb that declares it first; optional kinds are left out."""
    found = dict[Kind[Any], str]()
    for kind, words in _needs(manager):
        found.setdefault(kind, words)
    return found


def _needs(manager: Manager) -> Iterator[tuple[Kind[Any], str]]:
    yield from ((spec.kind, f"reconciled by controller {spec.name!r}") for spec in manager.controllers)
    for spec in manager.controllers:
        yield from ((one.kind, f"owned by controller {spec.name!r}") for one in spec.owned if not one.optional)
        yield from ((one.kind, f"watched by controller {spec.name!r}") for one in spec.watched if not one.optional)
    for webhook in manager.webhooks:
        yield webhook.kind, f"served by the webhook {webhook.path}"
        yield from ((one.kind, f"read by the webhook {webhook.path}") for one in webhook.read)


def models_of(manager: Manager, absent: Collection[Kind[Any]]) -> list[type[Any]]:
    """Return the models that a CRD can be generated from, without kinds that are absent on purpose.

    It is one model for each kind, or a model for each version that a conversion knows.
    """
    found = dict[Kind[Any], type[Any]]()
    for kind, _ in _needs(manager):
        # One controller may reconcile a kind by its model, while another controller watches it as thin views.
        if kind.model is not None and hasattr(kind.model, "__konverge_declaration__") and kind not in absent:
            found.setdefault(kind, kind.model)
    versions = {model: None for conversion in manager.conversions for model in conversion.models}
    return list(dict.fromkeys((*found.values(), *versions)))


async def is_served(kind: Kind[Any], client: Client, server: ApiServer | None) -> bool:
    """Return whether the API server serves a kind. Reads the in-memory server's state directly: a fault might disturb a request."""
    if server is not None:
        resources = server.registry.resources
        return any(one.kind == kind.kind and one.written_in(kind.api_version) is not None for one in resources)
    try:
        await client.resource(kind)
    except NotServed:
        client.forget_discovery(kind.api_version)
        try:
            await client.resource(kind)
        except NotServed:
            return False
    return True


def missing_words(missing: dict[Kind[Any], str], *, installs: bool = True) -> str:
    """Return an error text with the missing kinds and the remedy; `installs`: the lab may install CRDs."""
    option = (
        "" if installs else "run pytest with --lab-install-crds, which lets the lab install those of your models, and "
    )
    kinds = "".join(f"\n  - {kind.kind} in {kind.api_version}, {words}" for kind, words in missing.items())
    return (
        f"the API server of this test does not serve:{kinds}\n"
        f"{option}install their CRDs before lab.start: await install_crds(lab.client, [manifest, ...]) of konverge_testing.lab, with the "
        "manifests of their project or konverge.crds.crd_stub(KIND); or enter a stand-in that installs them. A test about an absent CRD "
        "names the kind: lab.start(build, absent=[KIND])"
    )
