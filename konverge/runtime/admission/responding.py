"""The HTTP response of a webhook, and the part that all webhooks share: requests are counted and timed.

The metrics are controller-runtime's, for admission and for conversion.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.runtime.admission.review import NoReview
from konverge.words import LogKey

__all__ = ["JSON", "AdmissionResponse", "Responder", "plain"]

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """An HTTP response. `error` is the exception of a failed handler, for tests; else None."""

    status: int
    body: bytes
    content_type: str = JSON
    error: BaseException | None = None


def plain(status: int, text: str, error: BaseException | None = None) -> AdmissionResponse:
    """Return a response in plain text: it is not an admission response, so the configuration's failurePolicy applies."""
    return AdmissionResponse(status, f"{text}\n".encode(), "text/plain; charset=utf-8", error)


class Responder(ABC):
    """Responds for one webhook. Constructing it creates its metrics, at 0."""

    def __init__(self, path: str, metrics: Metrics) -> None:
        self._path = path
        self._metrics = metrics
        self._in_flight = metrics.webhook_in_flight.labels(webhook=path)
        self._seconds = metrics.webhook_seconds.labels(webhook=path)
        self._log = get_logger("konverge.admission").bind(**{LogKey.WEBHOOK: path})
        for code in (200, 500):  # controller-runtime's: both exist from the start
            metrics.webhook_requests.labels(webhook=path, code=str(code))

    async def answer(self, body: bytes, seconds: float | None = None) -> AdmissionResponse:
        """Respond to one request; `seconds` is the API server's timeout."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self._in_flight.track_inprogress():
            try:
                response = await self._respond(body, seconds)
            except NoReview as error:
                response = plain(error.status, str(error), error)
        self.count(response.status)
        self._seconds.observe(loop.time() - began)
        return response

    def count(self, status: int) -> None:
        """Count a response, also a response without a readable review."""
        self._metrics.webhook_requests.labels(webhook=self._path, code=str(status)).inc()

    @abstractmethod
    async def _respond(self, body: bytes, seconds: float | None) -> AdmissionResponse:
        """Return the response to a review; raises NoReview for a body without a readable review."""
