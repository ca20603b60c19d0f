"""An operator whose objects replicas share: it copies each ConfigMap `source...` into a Secret, and reports the begin and end to the API
server.

It patches ConfigMaps that do not exist, `begin-<source>-<epoch>`, `hold-...` and `end-...`, so the audit log is the record. It sends
patches instead of reads, since the fence rejects the late writes of a paused replica, but lets reads through.

The data of a ConfigMap set the length of its reconcile: `seconds`, and `held` until the cache shows the ConfigMap without it.
"""

import asyncio
import contextlib

from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.errors import NotFound


async def tell(ctx: kv.Context[kv.Object], word: str, object_: kv.Object) -> None:
    with contextlib.suppress(NotFound):
        await ctx.client.patch(
            CONFIG_MAP, f"{word}-{object_.name}-{ctx.epoch}", object_.namespace, patch={"data": {}}, style="merge"
        )


def held(ctx: kv.Context[kv.Object], object_: kv.Object) -> bool:
    cached = ctx.cache(CONFIG_MAP).find(object_.namespace, object_.name)
    return cached is not None and "held" in cached.data["data"]


async def copied(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    if object_.name.startswith("source"):
        await tell(ctx, "begin", object_)
        data = object_.data["data"]
        await asyncio.sleep(float(data.get("seconds", 0)))
        if "held" in data:
            await tell(ctx, "hold", object_)
            while held(ctx, object_):
                await asyncio.sleep(0.5)
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
