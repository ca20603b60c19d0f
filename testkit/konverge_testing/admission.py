"""Webhooks in tests: a handler called with one write, without a server; and a manager's webhooks behind the in-memory API server.

    answer = await admit(webhook, Backup.new("nightly", spec=...), user="jane")
    assert not answer.allowed
    assert answer.message == "..."

Guarantees: the call takes the path of a served request: the write becomes an AdmissionReview, and the result is read from the review's
response, patch applied. A handler's error is raised to the caller; a server would contain it (see `konverge.runtime.admission.handler`).
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import jsonpatch
import msgspec

from konverge.errors import UsageError
from konverge.informers import Cached
from konverge.informers.effect_handler import Staging, StoreWriter
from konverge.informers.messages import Change
from konverge.informers.settings import Selection
from konverge.informers.store import Store
from konverge.kinds import Kind, Resource, kind_of
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.rbac import plural_of
from konverge.runtime.admission import Operation, Webhook
from konverge.runtime.admission.handler import WebhookServices
from konverge.runtime.admission.router import WebhookRouter
from konverge.runtime.cache.readers import Caches
from konverge_testing.apiserver.admission.calling import refused
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["Admitted", "admit", "handler_of"]

R = TypeVar("R", bound=Resource)

_UID = "3f0c6c1e-0000-4000-8000-000000000001"


@dataclass(frozen=True, slots=True)
class Admitted(Generic[R]):
    """The outcome of a webhook for one write. `object` is what would be stored, with the patch applied; None if the write is denied or
    a deletion.
    """

    allowed: bool
    object: R | None
    message: str = ""
    code: int = 0
    reason: str = ""
    fields: Mapping[str, str] | None = None
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] | None = None
    patch: tuple[dict[str, Any], ...] = ()


async def admit(
    webhook: Webhook[R],
    new: R | None = None,
    *,
    old: R | None = None,
    user: str = "jane",
    groups: Iterable[str] = ("system:authenticated",),
    dry_run: bool = False,
    options: Mapping[str, Any] | None = None,
    cache: Iterable[Resource] = (),
) -> Admitted[R]:
    """Call a webhook with one write: a creation (`new`), an update (`new` and `old`) or a deletion (`old`).

    `cache` are the objects that `request.cache(...)` shows. Raises what the handler raises, and UsageError for a write that
    the webhook's rules do not match.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.admission import Deny
    >>> webhook = Webhook.validating(kind("v1", "Secret")).handled_by(lambda request: Deny("no"))
    >>> import asyncio
    >>> asyncio.run(admit(webhook, kind("v1", "Secret").new("target", "web"))).message
    'no'
    """
    operation = _operation(new, old)
    if operation not in webhook.operations:
        raise UsageError(f"{webhook.path} is not asked about {operation}, only about {', '.join(webhook.operations)}")
    shown = new if new is not None else old
    if shown is None or kind_of(shown) != webhook.kind:
        raise UsageError(f"{webhook.path} is about {webhook.kind.group_kind}; give it an object of that kind")
    review = _review(webhook, operation, new, old, user, tuple(groups), dry_run, options or {})
    services = WebhookServices(caches=_caches(webhook, cache))
    door = WebhookRouter([webhook], services, Metrics())
    answer = await door.answer(webhook.path, _reading(msgspec.json.encode(review)))
    if answer.error is not None:
        raise answer.error
    return _admitted(webhook, None if new is None else new.to_dict(), msgspec.json.decode(answer.body)["response"])


def _operation(new: Resource | None, old: Resource | None) -> Operation:
    if new is None:
        return "DELETE"
    return "CREATE" if old is None else "UPDATE"


def _review(
    webhook: Webhook[Any],
    operation: str,
    new: Resource | None,
    old: Resource | None,
    user: str,
    groups: tuple[str, ...],
    dry_run: bool,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    kind, about = webhook.kind, new if new is not None else old
    assert about is not None
    named = {"group": kind.group, "version": kind.version}
    what, where = {**named, "kind": kind.kind}, {**named, "resource": plural_of(kind)}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": _UID,
            "kind": what,
            "resource": where,
            "subResource": webhook.subresource,
            "requestKind": what,
            "requestResource": where,
            "requestSubResource": webhook.subresource,
            "name": about.name,
            "namespace": about.namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": list(groups)},
            "object": None if new is None else new.to_dict(),
            "oldObject": None if old is None else old.to_dict(),
            "dryRun": dry_run,
            "options": dict(options),
        },
    }


def _admitted(webhook: Webhook[R], raw: dict[str, Any] | None, response: dict[str, Any]) -> Admitted[R]:
    allowed, status = bool(response["allowed"]), response.get("status") or {}
    patch = msgspec.json.decode(base64.b64decode(response["patch"])) if "patch" in response else []
    result = None
    if allowed and raw is not None:
        result = webhook.kind.decode(cast("dict[str, Any]", jsonpatch.apply_patch(raw, patch)))
    causes = (status.get("details") or {}).get("causes")
    return Admitted(
        allowed,
        result,
        message=status.get("message", ""),
        code=status.get("code", 0),
        reason=status.get("reason", ""),
        fields={cause["field"]: cause["message"] for cause in causes} if causes else None,
        warnings=tuple(response.get("warnings") or ()),
        audit=response.get("auditAnnotations"),
        patch=tuple(patch),
    )


class _Given:
    """Replaces an informer: a store that the test fills."""

    synced = True

    def __init__(self, kind: Kind[Any], *, metadata_only: bool) -> None:
        self.selection = Selection(kind, metadata_only=metadata_only)
        self.objects: list[Resource] = []
        self.store = Store()

    def fill(self) -> None:
        staging = Staging(self.store)
        staging.take([self._change(item) for item in self.objects])
        StoreWriter(self.store).swap(staging, "1")

    def _change(self, resource: Resource) -> Change:
        data = resource.to_dict()
        metadata = msgspec.convert(data["metadata"], Metadata, strict=False)
        body = b"" if self.selection.metadata_only else msgspec.json.encode(data)
        return Change(metadata.namespace, metadata.name, None, Cached(metadata, body))


def _caches(webhook: Webhook[Any], objects: Iterable[Resource]) -> Caches:
    given = {item.kind: _Given(item.kind, metadata_only=item.metadata_only) for item in webhook.read}
    for item in objects:
        kind = kind_of(item)
        if kind not in given:
            raise UsageError(f"{webhook.path} does not read {kind.group_kind}: add .reads(...) to it")
        given[kind].objects.append(item)
    for each in given.values():
        each.fill()
    return Caches(webhook.path, cast("Any", given))


def _reading(body: bytes) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        return body

    return read


def handler_of(
    door: Callable[[], WebhookRouter | None], path: str, failed: Callable[[str, BaseException], None] | None = None
) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Return a handler for the in-memory API server (`ApiServer.webhooks`) that passes each review to the router that `door` returns then.

    None means that the process does not run: the API server sees a refused connection. `failed` gets the path and the exception of a failed
    handler.
    """

    async def handle(review: dict[str, Any]) -> dict[str, Any]:
        present = door()
        if present is None:
            raise StatusError(503, "", "dial tcp: connect: connection refused")
        answer = await present.answer(path, _reading(msgspec.json.encode(review)))
        if failed is not None and answer.error is not None:
            failed(path, answer.error)
        if answer.status != 200:
            raise StatusError(answer.status, "", refused(answer.status, None, answer.body))
        return cast("dict[str, Any]", msgspec.json.decode(answer.body))

    return handle
