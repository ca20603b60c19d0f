"""One request to one webhook: from the bytes of the request to the bytes of the response. The thin shell around handlers.

    decode the review -> decode the objects -> call the handler, within the time -> verdict -> patch -> response

Guarantees
-  The API server gets a response in time, whatever a handler does. A handler that raises, takes too long, or returns anything but a verdict
  has failed. If the webhook declares Fail, the response is HTTP 500, which is not an admission response: the API server applies the
  configuration's failurePolicy, and if that is Fail shows the writer our message (it would not for a 504). If the webhook declares
  Ignore, the write is allowed unchanged and the writer is warned. controller-runtime denies the request after a panic (RecoverPanic),
  which no failurePolicy can override.
- The exception of a handler is logged with its trace and counted (`controller_runtime_webhook_panics_total`); the response names
  only its type, since the message of an exception may hold a secret.
- An object that does not fit its model is not shown to a mutating handler: it passes unchanged, and the API server's own validation,
  which follows, reports the fault. A validating webhook refuses it with 422 and the path, unless it is being deleted: the removal of
  its finalizers must not be blocked.
- The time limit is the `timeout` of the API server's request (`timeout=10s`), at most the webhook's own; less a tenth for the
  network, at least a quarter of a second.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from konverge.errors import InvalidObject, UsageError, stack_of
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime.admission.patching import carried_over, json_patch, with_metadata
from konverge.runtime.admission.request import AdmissionRequest
from konverge.runtime.admission.responding import AdmissionResponse, Responder, plain
from konverge.runtime.admission.review import (
    NoReview,
    ReviewRequest,
    decode_review,
    encode_review,
    flattened_review,
    nests_deeply,
    object_of,
    request_of,
    too_deep,
)
from konverge.runtime.admission.verdicts import Allow, Deny, Verdict
from konverge.runtime.admission.webhook import Webhook
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime.cache.readers import Caches

__all__ = ["ReviewHandler", "WebhookGate", "WebhookServices"]

_MARGIN: Final = 0.1
_LEAST_MARGIN: Final = 0.25


class WebhookGate:
    """The condition that a request awaits before the handler is called; this class is always open."""

    async def open(self, webhook: Webhook[Any]) -> None:
        """Return when the handler of a webhook may be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookServices:
    """The services that a webhook's handler may use."""

    client: Client | None = None
    caches: Caches | None = None
    gate: WebhookGate = WebhookGate()  # noqa: RUF009  # without state, so all webhooks share it


def limit_of(seconds: float) -> float:
    """Return the time limit of a handler for the API server's timeout: the server's clock began with the connection, ours with the body.

    >>> limit_of(10), limit_of(1), limit_of(0.2)
    (9.0, 0.75, 0.1)
    """
    return max(seconds - max(seconds * _MARGIN, _LEAST_MARGIN), seconds / 2)


class ReviewHandler(Responder):
    """Responds for one admission webhook."""

    def __init__(self, webhook: Webhook[Any], services: WebhookServices, metrics: Metrics) -> None:
        if webhook.handler is None:
            raise UsageError(f"webhook {webhook.path} has no handler; end its sentence with .handled_by(...)")
        super().__init__(webhook.path, metrics)
        self.webhook = webhook
        self._services = services

    async def _respond(self, body: bytes, seconds: float | None) -> AdmissionResponse:
        request = decode_review(body)
        limit = limit_of(min(seconds or self.webhook.timeout, self.webhook.timeout))
        try:
            async with asyncio.timeout(limit) as timer:
                try:
                    return await self._call_handler(request)
                except RecursionError:
                    if not nests_deeply(request):
                        raise
                    return await self._call_handler(flattened_review(request))
        except NoReview:
            raise
        except Exception as error:  # containment: an exception of a handler becomes a response
            if isinstance(error, RecursionError) and nests_deeply(request):
                raise too_deep() from error
            if timer.expired():
                return self._failed(request, f"did not answer within {limit:g} s", error)
            self._metrics.webhook_panics.inc()
            return self._failed(request, f"raised {type(error).__name__}", error)

    async def _call_handler(self, request: ReviewRequest) -> AdmissionResponse:
        await self._services.gate.open(self.webhook)
        seen = self._seen(request)
        if not isinstance(seen, AdmissionRequest):
            return AdmissionResponse(200, encode_review(request.uid, seen))
        handler = self.webhook.handler
        assert handler is not None
        result: Any = handler(seen)
        if inspect.isawaitable(result):
            result = await result
        verdict = self._checked(result)
        patch = self._patch(request, seen, verdict) if isinstance(verdict, Allow) else []
        return AdmissionResponse(200, encode_review(request.uid, verdict, patch))

    def _seen(self, request: ReviewRequest) -> AdmissionRequest[Any] | Verdict:
        """Return the handler's request; a verdict if the object does not fit its model."""
        raw, old = object_of(request.object), object_of(request.old_object)
        try:
            new = None if raw is None else self._decoded(raw)
        except InvalidObject as error:
            if self.webhook.mutates or Object(raw or {}).metadata.deleting:
                return Allow()
            return Deny(str(error), code=422, fields={error.field: error.problem})
        return request_of(
            request,
            new=new,
            old=None if old is None else self._lenient(old),
            webhook=self.webhook.path,
            effects=self.webhook.effects,
            caches=self._services.caches,
            access=self._services.client,
        )

    def _decoded(self, data: dict[str, Any]) -> Any:
        return self.webhook.kind.decode(data)

    def _lenient(self, data: dict[str, Any]) -> Any:
        """Decode the stored object. If it does not fit its model, only its metadata can be read; other fields raise the reason."""
        undecoded = getattr(self.webhook.model, "undecoded", None)
        try:
            return self._decoded(dict(data))
        except InvalidObject as error:
            if undecoded is None:
                raise
            return undecoded(data, error)

    def _checked(self, result: Any) -> Verdict:
        if not isinstance(result, (Allow, Deny)):
            raise UsageError(
                f"webhook {self.webhook.path} answered {type(result).__name__}; a handler returns Allow(...) or Deny(...)"
            )
        if isinstance(result, Allow) and result.changes and not self.webhook.mutates:
            raise UsageError(
                f"webhook {self.webhook.path} is a validating one and cannot change the object; use Webhook.mutating"
            )
        return result

    def _patch(self, request: ReviewRequest, seen: AdmissionRequest[Any], verdict: Allow) -> list[dict[str, Any]]:
        raw = object_of(request.object)
        if not self.webhook.mutates or raw is None:
            return []
        result = verdict.object if verdict.object is not None else seen.new
        # Decoded once more: the handler may have changed its own copy.
        before: Mapping[str, Any] = self._decoded(object_of(request.object) or {}).to_dict()
        target = carried_over(raw, before, result.to_dict())
        return json_patch(raw, with_metadata(target, verdict.labels, verdict.annotations))

    def _failed(self, request: ReviewRequest, why: str, error: BaseException) -> AdmissionResponse:
        self._log.error(
            "a webhook failed",
            **{LogKey.KEY: request.path, LogKey.ERROR: why, LogKey.STACK: stack_of(error)},
        )
        text = f"webhook {self.webhook.name} {why}"
        if self.webhook.failure == "Fail":
            return plain(500, f"{text}; see the log of the operator", error)
        passed = Allow(warnings=(f"{text} and was ignored",))
        return AdmissionResponse(200, encode_review(request.uid, passed), error=error)
