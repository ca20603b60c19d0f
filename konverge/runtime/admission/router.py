"""The router of one manager's webhooks: from a path to its webhook.

Guarantees: a request from the network, from the in-memory API server and from a test gets the same response. A request that is refused
before it reaches a webhook gets an HTTP status with one line of plain text, and is counted under the webhook of its path, if any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from konverge.crds import Conversion
from konverge.metrics import Metrics
from konverge.runtime.admission.conversion_handler import ConversionHandler
from konverge.runtime.admission.handler import ReviewHandler, WebhookServices
from konverge.runtime.admission.responding import JSON, AdmissionResponse, Responder, plain
from konverge.runtime.admission.review import NoReview, seconds_of
from konverge.runtime.admission.webhook import Webhook

__all__ = ["WebhookRouter"]


class WebhookRouter:
    """Routes requests to webhooks by their path."""

    def __init__(
        self,
        webhooks: Iterable[Webhook[Any]],
        services: WebhookServices,
        metrics: Metrics,
        conversions: Iterable[Conversion[Any]] = (),
    ) -> None:
        self._responders: dict[str, Responder] = {
            **{webhook.path: ReviewHandler(webhook, services, metrics) for webhook in webhooks},
            **{conversion.path: ConversionHandler(conversion, metrics) for conversion in conversions},
        }

    async def answer(
        self, path: str, read: Callable[[], Awaitable[bytes]], *, content_type: str = JSON, timeout: str = ""
    ) -> AdmissionResponse:
        """Respond to one request; `read` returns the body or raises NoReview, `timeout` is the API server's query parameter (`10s`)."""
        responder = self._responders.get(path)
        if responder is None:
            return plain(
                404, f"no webhook is served under {path}; the configuration and this operator differ in version"
            )
        try:
            if content_type != JSON:
                raise NoReview(f"the request is {content_type or 'of no content type'}; {JSON} is expected", 415)
            body = await read()
        except NoReview as error:
            responder.count(error.status)
            return plain(error.status, str(error), error)
        return await responder.answer(body, seconds_of(timeout))
