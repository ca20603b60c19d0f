"""Pages as a kopf operator, for comparison with page_operator.py (docs/guide/moving-from-kopf.md).

Run it with `kopf run page_kopf.py` from this folder.
"""

from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes_asyncio import client, config

SEARCH: set[str] = set()
"""The search engine that lists the published pages; a service outside Kubernetes."""


@kopf.on.startup()
async def connect(**_: Any) -> None:
    await config.load_kube_config()


@kopf.on.create("example.com", "v1", "pages")
async def create(spec: Mapping[str, Any], name: str, namespace: Any, patch: kopf.Patch, **_: Any) -> None:
    body: Any = {"metadata": {"name": name}, "data": {"index.html": spec["text"]}}
    kopf.adopt(body)
    async with client.ApiClient() as api:
        await client.CoreV1Api(api).create_namespaced_config_map(namespace, body)
    SEARCH.add(name)
    patch.status["characters"] = len(spec["text"])


@kopf.on.update("example.com", "v1", "pages", field="spec.text")
async def update(new: Any, name: str, namespace: Any, patch: kopf.Patch, **_: Any) -> None:
    async with client.ApiClient() as api:
        await client.CoreV1Api(api).patch_namespaced_config_map(name, namespace, {"data": {"index.html": new}})
    patch.status["characters"] = len(new)


@kopf.on.delete("example.com", "v1", "pages")
async def delete(name: str, **_: Any) -> None:
    SEARCH.discard(name)


@kopf.timer("example.com", "v1", "pages", interval=60)
async def announce(name: str, **_: Any) -> None:
    SEARCH.add(name)
