"""The upper limit of one process's writes: it lists once, then only sends status applies, beside one watch.

It decides nothing and keeps nothing; it reads the watch and drops the events, so that the server has the same work as with a controller.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
from baselines.peer import Item, Told, answering, apply, due, ready


class Page(msgspec.Struct):
    items: list[Item]
    metadata: dict[str, object]


async def main() -> None:
    told, errors = Told.from_environment(), 0
    async with told.session() as session, answering(lambda: errors) as stop:
        async with session.get(told.items, raise_for_status=True) as answer:
            page = msgspec.json.decode(await answer.read(), type=Page)
        ready({"workers": told.workers, "cache": "none", "limiter": "none"}, "aiohttp", "msgspec")
        bodies = iter([(item.metadata.name, body) for item in page.items if (body := due(item))])

        async def watch() -> None:
            query = f"{told.items}?watch=true&resourceVersion={page.metadata['resourceVersion']}&timeoutSeconds=3600"
            async with session.get(query, raise_for_status=True) as answer:
                async for _ in answer.content.iter_any():
                    pass

        async def work() -> None:
            nonlocal errors
            for name, body in bodies:
                try:
                    await apply(session, f"{told.items}/{name}/status", body)
                except Exception as error:
                    print(f"{name}: {error!r}", file=sys.stderr)
                    errors += 1

        tasks = [asyncio.create_task(each()) for each in (watch, *[work] * told.workers)]
        await stop.wait()
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
