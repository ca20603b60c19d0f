"""The client: its reads, its verbs for scripts and pods, and here its other writes (get_or_create, replace, patch, delete).

Guarantees: every method returns the server's response or raises an error of `konverge.errors`. A write with a `writer` is in the
ledger before its first byte is sent, and is settled there however the call ends; a cancellation takes effect at once and leaves
the write as "unknown".

Caveats: the client does not cache objects, does not notice their changes, and may read a state from before its own writes. Caches are
the informers' work, waiting for own writes is the runtime's.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from konverge.client import requests
from konverge.client.core import body_of
from konverge.client.guarded import expected_version, guarded_patch, object_changed
from konverge.client.ledger import PendingWrite
from konverge.client.pod_verbs import PodVerbs
from konverge.client.requests import Propagation, Style
from konverge.client.responses import decode_metadata, decode_object
from konverge.client.script_verbs import ScriptVerbs
from konverge.client.status import deleted_uid
from konverge.client.transport import Response
from konverge.errors import AlreadyExists, Conflict, NotFound, UsageError
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata

__all__ = ["Client"]

R = TypeVar("R", bound=Resource)


class Client(ScriptVerbs, PodVerbs):
    """A client of one API server, for one event loop.

    `name` is the default field manager and the User-Agent. `writer` on the writing methods identifies the writer in the ledger;
    without a writer a write is not recorded. `random` gives the jitter of the backoff. `tracing` gives each request a span, and the
    header `traceparent`. The client connects at first use; leaving `async with` closes the connections.

    >>> from konverge import Client, ClientConfig, kind
    >>> async def names(config: ClientConfig) -> list[str]:
    ...     async with Client(config, name="reader") as client:
    ...         return [node.name for node in await client.list(kind("v1", "Node"))]
    """

    async def get_or_create(self, obj: R, *, writer: Hashable | None = None) -> R:
        """Return the stored object of the kind, namespace and name of `obj`, which is created if it does not exist.

        An existing object is returned unchanged, whatever it contains: check whose it is before you use it.
        """
        kind: Kind[R] = kind_of(obj)
        while True:
            stored = await self.find(kind, obj.name, obj.namespace)
            if stored is not None:
                return stored
            with suppress(AlreadyExists):  # another client created it after the read
                return await self.create(obj, writer=writer)

    async def replace(
        self, obj: R, *, subresource: str = "", dry_run: bool = False, writer: Hashable | None = None
    ) -> R:
        """Replace the stored object by this object; raises Conflict if its resourceVersion is set and outdated."""
        kind: Kind[R] = kind_of(obj)
        info = await self._info(kind)
        request = requests.replace(
            info,
            body_of(obj),
            manager=self.name,
            subresource=subresource,
            dry_run=dry_run,
            validation=self.settings.field_validation,
        )
        response = await self._write(request, info, kind, obj.namespace, obj.name, writer, dry_run=dry_run)
        return kind.decode(decode_object(response.body))

    async def patch(
        self,
        kind: Kind[R] | type[R],
        name: str = "",
        namespace: str = "",
        *,
        patch: Mapping[str, Any] | Sequence[Any],
        style: Style,
        expect: Resource | Metadata | None = None,
        subresource: str = "",
        dry_run: bool = False,
        writer: Hashable | None = None,
    ) -> R:
        """Patch an object: a mapping for `merge` and `strategic` (built-in kinds only), a list of operations for `json`.

        With `expect`, an object or its metadata as it was read, the patch changes exactly that version of that object, else nothing.
        Raises NotFound; with `expect` ObjectChanged if the object was changed, deleted or recreated since.
        """
        target = kind_of(kind)
        if expect is not None:
            if not isinstance(patch, Mapping):
                raise UsageError(
                    "a JSON patch takes no expect=: begin it with a `test` operation, or send a merge patch"
                )
            expected = expected_version(expect)
            name, namespace, patch = expected.name, expected.namespace, guarded_patch(patch, expected)
        info = await self._info(target)
        request = requests.patch(
            info,
            namespace,
            name,
            patch,
            style=style,
            manager=self.name,
            subresource=subresource,
            dry_run=dry_run,
            # A JSON patch names places and not fields, and has to free an object that holds a field of an older schema.
            validation="" if style == "json" else self.settings.field_validation,
        )
        try:
            response = await self._write(request, info, target, namespace, name, writer, dry_run=dry_run)
        except (Conflict, NotFound) as error:
            if expect is None:
                raise
            raise object_changed(error) from error
        return target.decode(decode_object(response.body))

    async def delete(
        self,
        kind: Kind[Any] | type[Resource],
        name: str = "",
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        expect: Resource | Metadata | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
        writer: Hashable | None = None,
    ) -> bool:
        """Delete an object; returns False if it did not exist. Raises Conflict if the stored uid or version differs.

        Give the uid: the client repeats a deletion whose response was lost only with a uid, because it cannot delete a successor then.
        With `expect`, an object or its metadata as it was read, uid and version are the expected object's, and the error is ObjectChanged.
        """
        target = kind_of(kind)
        if expect is not None:
            expected = expected_version(expect)
            name, namespace = expected.name, expected.namespace
            uid, resource_version = expected.uid, expected.resource_version
        info = await self._info(target)
        request = requests.delete(
            info,
            namespace,
            name,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            dry_run=dry_run,
        )
        pending = self._begin_write(request, target, namespace, name, writer, dry_run=dry_run)
        call = self._sender.call(request)
        try:
            response = await self._send(call, info, pending)
        except NotFound:
            # An earlier attempt whose response was lost may have deleted it.
            return call.outcome_unknown
        except Conflict as error:
            if expect is None:
                raise
            raise object_changed(error) from error
        _settle_deletion(pending, response, uid)
        return True


def _settle_deletion(pending: PendingWrite | None, response: Response, uid: str) -> None:
    """Settle a deletion by its response: a Status, the deleted object, or the object that waits for its finalizers."""
    if pending is None:
        return
    gone = deleted_uid(response.body)
    if gone is not None:
        pending.deleted(gone or uid)
        return
    stored = decode_metadata(response.body)
    if stored.deleting:
        pending.settle(stored.resource_version, stored.uid)
    else:
        pending.deleted(stored.uid or uid)
