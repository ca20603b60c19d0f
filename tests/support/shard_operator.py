"""An operator whose objects replicas share: it copies each ConfigMap `source...` into a Secret, and tells the API server when it begins and ends.

It patches ConfigMaps that do not exist, `begin-<source>-<epoch>` and `end-<source>-<epoch>`: so the audit log is the record. Patches, since
the fence holds back what a replica that was paused would send on waking, and lets reads through.
"""

from __future__ import annotations

import asyncio
import contextlib

from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.errors import NotFound

__all__ = ["build"]


async def tell(ctx: kv.Context[kv.Object], word: str, object_: kv.Object) -> None:
    with contextlib.suppress(NotFound):
        await ctx.client.patch(
            CONFIG_MAP, f"{word}-{object_.name}-{ctx.epoch}", object_.namespace, patch={"data": {}}, style="merge"
        )


async def copied(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    if object_.name.startswith("source"):
        await tell(ctx, "begin", object_)
        data = object_.data["data"]
        await asyncio.sleep(float(data.get("seconds", 0)))
        await ctx.own(SECRET.new(f"copy-of-{object_.name}", object_.namespace, stringData={"value": data["value"]}))
        await tell(ctx, "end", object_)
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(CONFIG_MAP)
        .owns(SECRET)
        .reads_live(CONFIG_MAP)
        .sharded()
        .with_(concurrency=50)
        .reconciled_by(By(copied))
    )
