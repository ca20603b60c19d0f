"""The verbs of a client for scripts and tests: follow, wait_until, wait_until_deleted, delete_collection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from konverge.client import requests
from konverge.client.follow import ObjectEvent, follow, wait_until, wait_until_deleted
from konverge.client.read_verbs import ReadVerbs
from konverge.client.requests import Propagation
from konverge.client.resources import Listing, ListQuery
from konverge.client.responses import decode_object, decode_page
from konverge.kinds import Kind, Resource, kind_of
from konverge.selectors import LabelSelector

__all__ = ["ScriptVerbs"]

R = TypeVar("R", bound=Resource)


class ScriptVerbs(ReadVerbs):
    """Watches and waits without a manager, and the deletion of many objects."""

    def follow(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[ObjectEvent[R]]:
        """Yield ADDED for each existing object, then each change, without end: a watch that survives interruptions.

        For scripts and tests; a reconciler declares `.watches`. The caveats are in `konverge.client.follow`. Raises an ApiError that a
        retry does not mend (Forbidden, BadRequest), NotServed, and UsageError for a malformed label selector.
        """
        return follow(self, kind, namespace, labels=labels, fields=fields)

    async def wait_until(
        self,
        kind: Kind[R] | type[R],
        name: str,
        predicate: Callable[[R], bool],
        namespace: str = "",
        *,
        timeout: float = 60.0,
    ) -> R:
        """Return the first state of an object that fulfils the predicate; the object need not exist yet.

        Raises TimeoutError, with the last known state, after `timeout` seconds. The rights are `list` and `watch` of the kind.
        """
        return await wait_until(self, kind, name, predicate, namespace, timeout=timeout)

    async def wait_until_deleted(
        self, kind: Kind[Any] | type[Any], name: str, namespace: str = "", *, uid: str = "", timeout: float = 60.0
    ) -> None:
        """Return as soon as the object does not exist, or with `uid` as soon as another object has the name.

        Raises TimeoutError, with the last known state, after `timeout` seconds. The rights are `list` and `watch` of the kind.
        """
        await wait_until_deleted(self, kind, name, namespace, uid=uid, timeout=timeout)

    async def delete_collection(
        self,
        kind: Kind[R] | type[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> Listing[R]:
        """Delete the selected objects of one namespace, or of a cluster-scoped kind; returns them as the server saw them last.

        An object with finalizers is returned too, and ends later. Without selectors every object of the kind is deleted. The server
        deletes one object after the other, so after an error some may be deleted. The right is `deletecollection`.

        Caveats: no ledger records the deletions, so a reconcile that uses this may run again before the caches show them. A request whose
        response was lost is not repeated. Raises UsageError for a namespaced kind without a namespace.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"deletecollection of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace or None, labels=labels, fields=fields)
        request = requests.delete_collection(info, query, propagation=propagation, dry_run=dry_run)
        if not dry_run:
            self._announce(request)
        page = await decode_page((await self._read(request, info)).body)
        items = [target.decode(decode_object(raw)) for raw in page.items]
        return Listing(items=items, resource_version=page.resource_version)
