"""The conversion webhooks of a manager on a real API server: the certificates that its definitions trust.

Definitions belong to the whole cluster and outlive a lab, so they may trust the authority of an earlier lab.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from konverge.client import Client
from konverge.errors import Conflict, Invalid
from konverge.runtime import Manager
from konverge.runtime.admission.configurations import DEFINITION

__all__ = ["paths_of", "serves", "wait_until_trusted", "without_bundles"]

_LOOK: Final = 0.02
_BUNDLE: Final = "/spec/conversion/webhook/clientConfig/caBundle"


def serves(manager: Manager) -> bool:
    """Return whether a manager serves a webhook, of admission or of conversion."""
    return bool(manager.webhooks or manager.conversions)


def paths_of(manager: Manager) -> tuple[str, ...]:
    """Return the paths of all webhooks of a manager."""
    paths = [webhook.path for webhook in manager.webhooks]
    return (*paths, *(conversion.path for conversion in manager.conversions))


async def without_bundles(client: Client, definitions: Iterable[str]) -> None:
    """Remove the certificates that these definitions trust."""
    for name in definitions:
        while await _bundle_of(client, name):
            patch = [{"op": "remove", "path": _BUNDLE}]
            try:
                await client.patch(DEFINITION, name, patch=patch, style="json")
            except (Conflict, Invalid):
                await asyncio.sleep(_LOOK)


async def wait_until_trusted(client: Client, definitions: Mapping[str, Any], *, timeout: float) -> None:
    """Wait until each of these definitions trusts certificates; raises TimeoutError."""
    async with asyncio.timeout(timeout):
        for name in definitions:
            while not await _bundle_of(client, name):
                await asyncio.sleep(_LOOK)


async def _bundle_of(client: Client, name: str) -> str:
    definition = await client.get(DEFINITION, name)
    return str(definition.get("spec", "conversion", "webhook", "clientConfig", "caBundle", default=""))
