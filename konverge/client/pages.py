"""Lists in pages, each decoded on arrival, so that a long list neither blocks the loop nor stays in memory as bytes.

The version of a list is the first page's. Pages that follow a token are served at the version that the token names (API concepts,
"Continue Token, Exact"); if a server breaks this, a watch from the first page's version still misses nothing.

Sources: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/365-paginated-lists and, from the watch cache,
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4988-snapshottable-api-server-cache
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from konverge.client.resources import Listing, ListQuery, ResourceInfo
from konverge.client.responses import decode_object
from konverge.kinds import Kind, Resource

if TYPE_CHECKING:
    from konverge.client.core import ClientCore

__all__ = ["all_pages", "pages"]

R = TypeVar("R", bound=Resource)


async def pages(client: ClientCore, kind: Kind[R], info: ResourceInfo, query: ListQuery) -> AsyncIterator[Listing[R]]:
    """Yield each page as a list of decoded objects with the version of the first page."""
    version = ""
    while True:
        page = await client.list_page(info, query)
        version = version or page.resource_version
        yield Listing(items=[kind.decode(decode_object(raw)) for raw in page.items], resource_version=version)
        if not page.continue_:
            return
        query = replace(query, continue_=page.continue_)


async def all_pages(client: ClientCore, kind: Kind[R], info: ResourceInfo, query: ListQuery) -> Listing[R]:
    """Return all pages as one list."""
    items: list[R] = []
    version = ""
    async for page in pages(client, kind, info, query):
        items += page.items
        version = page.resource_version
    return Listing(items=items, resource_version=version)
