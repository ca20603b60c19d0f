"""One of konverge's own families inside another operator, beside that operator's controller."""

import asyncio

from backup_operator import build

import konverge as kv
from konverge.reconcilers import apps


async def main() -> None:
    manager = kv.Manager("shop-operator")
    build(manager)
    apps.install(manager, apps.Settings())
    async with manager:  # in any asyncio program
        report = await manager.ready(timeout=60)  # per controller: ready, or why not
        print(report)
        await manager.wait()


if __name__ == "__main__":
    asyncio.run(main())
