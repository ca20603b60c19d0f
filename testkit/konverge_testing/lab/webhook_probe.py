"""The wait until a real API server acts on a stored webhook configuration.

kube-apiserver reads configurations by a watch of its own, a moment after they were written, and does not report that it has. So the lab
adds a probe beside the webhooks under test: it selects only ConfigMaps with one label, and its path does not exist. Once the server rejects
a dry run of such a ConfigMap because that path was not found, it has read the configuration, and it reaches and trusts our server.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from konverge.client import Client
from konverge.errors import Conflict, ServerFailure
from konverge.kinds import Kind, kind
from konverge.objects import Object

__all__ = ["wait_until_called"]

_CONFIG_MAP: Final[Kind[Object]] = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
_LABEL: Final = "konverge.dev/lab-probe"
_NAME: Final = "probe.lab.konverge.dev"
_FOUND: Final = "could not find the requested resource"
_LOOK: Final = 0.02


async def wait_until_called(
    client: Client, what: Kind[Object], name: str, *, url: str, namespace: str, timeout: float
) -> None:
    """Wait until the API server acts on a configuration as it is now; raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while not await _put(client, what, name, url):
            await asyncio.sleep(_LOOK)
        probe = _CONFIG_MAP.new("probe", namespace, labels={_LABEL: what.kind})
        while True:
            try:
                await client.create(probe, dry_run=True)
            except ServerFailure as error:
                if _FOUND in error.message and _NAME in error.message:
                    return
            await asyncio.sleep(_LOOK)


async def _put(client: Client, what: Kind[Object], name: str, url: str) -> bool:
    """Put the probe beside the webhooks, with the certificates that they trust; False after a concurrent write."""
    found = await client.get(what, name)
    webhooks: list[dict[str, Any]] = found.data["webhooks"]
    if any(entry["name"] == _NAME for entry in webhooks):
        return True
    webhooks.append({**_PROBE, "clientConfig": {**webhooks[0]["clientConfig"], "url": f"{url}/lab-probe"}})
    webhooks[-1]["objectSelector"] = {"matchLabels": {_LABEL: what.kind}}
    try:
        await client.replace(found)
    except Conflict:
        return False
    return True


_PROBE: Final[dict[str, Any]] = {
    "name": _NAME,
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Fail",
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    "sideEffects": "None",
    "timeoutSeconds": 5,
}
