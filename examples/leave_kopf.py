"""A script: remove the finalizer and the annotations that a kopf operator left (docs/guide/moving-from-kopf.md)."""

import asyncio

from page_operator import Page

import konverge as kv

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
PREFIX = "kopf.zalando.org/"


async def leave_kopf(client: kv.Client, namespace: str | None = None) -> int:
    """Return how many pages were changed; run it after kopf has ended, for it would add both again."""
    changed = 0
    async for objects in client.pages(Page, namespace):
        for page in objects:
            finalizers = [name for name in page.metadata.finalizers if name != FINALIZER]
            annotations = {name: None for name in page.metadata.annotations or {} if name.startswith(PREFIX)}
            if annotations or len(finalizers) < len(page.metadata.finalizers):
                patch = {"metadata": {"annotations": annotations, "finalizers": finalizers}}
                await client.patch(Page, patch=patch, style="merge", expect=page)
                changed += 1
    return changed


async def main() -> None:
    async with kv.Client(await kv.ClientConfig.load(), name="leave-kopf") as client:
        print(await leave_kopf(client), "pages were changed")


if __name__ == "__main__":
    asyncio.run(main())
