"""The contestant on kopf: PEER_VARIANT "change" (on.create and on.update) or "event" (on.event, its fastest form).

The handlers send the same apply as the bare loop does, by a session of ours. kopf has no owned objects: with PEER_MODE=owners the
variant "event" creates the children on the events of their owner, and restores each child on its own events.
"""

import asyncio
import logging
import os
from typing import Any

import aiohttp
import kopf
import msgspec
from baselines.peer import CHILDREN, GROUP, KIND, PLURAL, VERSION, Item, Told, answering, apply, due, ready

IDLE = 0.01


class Handlers:
    def __init__(self, told: Told, session: aiohttp.ClientSession) -> None:
        self.told, self.session, self.errors = told, session, 0

    async def converge(self, body: kopf.Body, type: str | None = None, **_: Any) -> None:  # noqa: A002  # the name is kopf's
        item = msgspec.convert(dict(body), Item)
        if type == "DELETED" or (intent := due(item)) is None:
            return
        try:
            if self.told.owners:
                for number in range(CHILDREN):
                    await self.child(f"{item.metadata.name}-{number:02}", dict(body))
            await apply(self.session, f"{self.told.items}/{item.metadata.name}/status", intent)
        except Exception:
            self.errors += 1
            raise

    async def restore(self, name: str, body: kopf.Body, type: str | None = None, **_: Any) -> None:  # noqa: A002  # the name is kopf's
        if type == "DELETED" or dict(body.get("data") or {}) != {"value": name}:
            owner = body["metadata"]["ownerReferences"][0]
            await self.child(name, {"metadata": {"name": owner["name"], "uid": owner["uid"]}})

    async def child(self, name: str, owner: dict[str, Any]) -> None:
        reference = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {"name": name, "ownerReferences": [reference]}
        intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": name}}
        await apply(self.session, f"{self.told.maps}/{name}", msgspec.json.encode(intent))


def is_owned(meta: kopf.Meta, **_: Any) -> bool:
    return bool(meta.get("ownerReferences"))


def registry_of(handlers: Handlers, variant: str, settings: dict[str, Any]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def begin(**_: Any) -> None:
        ready(settings, "kopf", "aiohttp", "msgspec", synced=False)

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    if variant == "change":
        kopf.on.create(GROUP, VERSION, PLURAL, registry=registry)(handlers.converge)
        kopf.on.update(GROUP, VERSION, PLURAL, registry=registry)(handlers.converge)
    else:
        kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(handlers.converge)
        if handlers.told.owners:
            kopf.on.event("v1", "configmaps", registry=registry, when=is_owned)(handlers.restore)
    return registry


async def main() -> None:
    told, variant = Told.from_environment(), os.environ["PEER_VARIANT"]
    logging.basicConfig(level=logging.WARNING)  # the output of a line per handler would be measured too
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # A worker of kopf belongs to one object and keeps its place while it idles, 5 s by default: ten places would then be two objects a
    # second. Idle workers end at once, so that the limit is on work and not on waiting.
    settings.queueing.worker_limit = told.workers
    settings.queueing.idle_timeout = IDLE
    settings.scanning.disabled = True
    shown = {
        "handlers": "on.create, on.update" if variant == "change" else "on.event",
        "queueing.worker_limit": told.workers,
        "queueing.idle_timeout": IDLE,
        "posting.enabled": False,
        "scanning.disabled": True,
        "log level": "warning",
        "persistence": "annotations (default)",
        "limiter": "none",
    }
    async with told.session() as session:
        handlers = Handlers(told, session)
        async with answering(lambda: handlers.errors) as stop:
            flag = asyncio.create_task(
                kopf.operator(
                    registry=registry_of(handlers, variant, shown),
                    settings=settings,
                    namespaces=[told.namespace],
                    standalone=True,
                    stop_flag=stop,
                )
            )
            await flag


if __name__ == "__main__":
    asyncio.run(main())
