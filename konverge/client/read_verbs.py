"""The reading verbs of a client: get, find, get_metadata, list, pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from msgspec.structs import replace

from konverge.client import requests
from konverge.client.core import ClientCore
from konverge.client.pages import all_pages, pages
from konverge.client.resources import Listing, ListQuery
from konverge.client.responses import decode_metadata, decode_object
from konverge.errors import Expired, NotFound
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata
from konverge.selectors import LabelSelector

__all__ = ["ReadVerbs"]

R = TypeVar("R", bound=Resource)


class ReadVerbs(ClientCore):
    """One object, or all objects of a kind."""

    async def get(self, kind: Kind[R] | type[R], name: str, namespace: str = "") -> R:
        """Return an object; raises NotFound."""
        target = kind_of(kind)
        info = await self._info(target)
        response = await self._read(requests.get(info, namespace, name), info)
        return target.decode(decode_object(response.body))

    async def find(self, kind: Kind[R] | type[R], name: str, namespace: str = "") -> R | None:
        """Return an object, None if it does not exist."""
        try:
            return await self.get(kind, name, namespace)
        except NotFound:
            return None

    async def get_metadata(self, kind: Kind[Any] | type[Resource], name: str, namespace: str = "") -> Metadata:
        """Return an object's metadata without fetching its body; raises NotFound."""
        info = await self._info(kind_of(kind))
        response = await self._read(requests.get(info, namespace, name, metadata_only=True), info)
        return decode_metadata(response.body)

    async def list(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Listing[R]:
        """Return all objects of a kind, of one namespace or (None) of all; the client fetches them page by page.

        All pages show one version. If the server forgets that version half way (410), the list is requested again without paging.
        Raises UsageError for a malformed label selector.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"list of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace, labels=labels, fields=fields, limit=self.settings.page_size)
        try:
            return await all_pages(self, target, info, query)
        except Expired:
            return await all_pages(self, target, info, replace(query, limit=0))

    async def pages(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listing[R]]:
        """Yield the objects of a kind page by page, for lists that are too long for memory.

        `ClientSettings.page_size` is the size of a page. All pages show one version. Raises Expired if the server forgets that version
        (after about five minutes) before the last page: iterate again. Raises UsageError for a malformed label selector.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"list of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace, labels=labels, fields=fields, limit=self.settings.page_size)
        async for page in pages(self, target, info, query):
            yield page
