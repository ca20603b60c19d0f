"""The smallest operator with an effect: it copies each ConfigMap `source...` into a Secret."""

import asyncio

from replicas import NAMESPACE, Replicas
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv


async def copied(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    if object_.name.startswith("source"):
        value = object_.data["data"]["value"]
        await ctx.own(SECRET.new(f"copy-of-{object_.name}", object_.namespace, stringData={"value": value}))
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(CONFIG_MAP).owns(SECRET).reconciled_by(By(copied)))


async def source(replicas: Replicas, name: str = "source", value: str = "1") -> None:
    await replicas.client.apply(CONFIG_MAP, CONFIG_MAP.new(name, NAMESPACE, data={"value": value}).data, force=True)


async def copy_of(replicas: Replicas, name: str = "source", within: float = 60.0) -> kv.Object:
    async with asyncio.timeout(within):
        while True:
            try:
                return await replicas.client.get(SECRET, f"copy-of-{name}", NAMESPACE)
            except kv.errors.NotFound:
                await asyncio.sleep(0.05)
