"""The webhook server and its certificates; each round of the runner brings them up to date.

Guarantees: the server starts with the first certificate, and listens from then on; if a renewal fails, the last certificate stays in
use. This module does not import aiohttp: `konverge.runtime.http.posts` is the server's shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from konverge.clock import rfc3339, wall_clock
from konverge.crds import Conversion
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.runtime.admission.cert_secret import CertificateKeeper
from konverge.runtime.admission.responding import AdmissionResponse
from konverge.runtime.admission.review import NoReview
from konverge.runtime.admission.router import WebhookRouter
from konverge.runtime.admission.settings import Place, WebhookSettings
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.http.listener import Limits
from konverge.runtime.http.posts import Post, PostServer, TooLarge
from konverge.runtime.tls.certificates import expiry_of
from konverge.runtime.tls.serving import MountedPair, ServingCertificate
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["Serving"]


class Serving:
    """The server, its certificate, and the publication of the certificate's authority."""

    def __init__(
        self,
        webhooks: Sequence[Webhook[Any]],
        door: WebhookRouter,
        client: Client,
        manager: str,
        place: Place,
        settings: WebhookSettings,
        metrics: Metrics,
        conversions: Sequence[Conversion[Any]] = (),
    ) -> None:
        self._webhooks = webhooks
        self._conversions = conversions
        self._door = door
        self._metrics = metrics
        self._files = MountedPair(settings.certificates) if settings.certificates else None
        self._keeper = CertificateKeeper(client, place, settings, manager)
        self._serving = ServingCertificate()
        self._expires: datetime | None = None
        self._log = get_logger("konverge.admission")
        self._server = PostServer(
            self._answer,
            address=settings.address,
            context=self._serving.context,
            max_bytes=settings.max_bytes,
            shutdown=settings.drain,
            limits=Limits(connections=settings.connections),
        )

    @property
    def address(self) -> str:
        """The base URL of the server; "" while it does not listen."""
        return self._server.address

    @property
    def valid(self) -> bool:
        """Whether it listens, with a certificate that has not expired."""
        return bool(self.address) and self._expires is not None and wall_clock() < self._expires

    async def bring_up_to_date(self) -> list[str]:
        """Read or renew the certificate, listen, and publish the authority; returns the obstacles for requests, in words."""
        trusted = b""
        self._metrics.certificate_reads.inc()
        try:
            if self._files is not None:
                certificate, key = self._files.read()
            else:
                material = await self._keeper.material()
                certificate, key, trusted = material.certificate, material.key, material.trusted
            if self._serving.load(certificate, key):
                self._expires = expiry_of(certificate)
                self._log.info("the serving certificate is new", **{LogKey.EXPIRES: rfc3339(self._expires)})
        except BaseException:
            self._metrics.certificate_read_errors.inc()
            raise
        if not self._server.address:
            await self._server.start()
        return await self._keeper.inject(self._webhooks, trusted, self._conversions) if trusted else []

    async def stop(self) -> None:
        """Stop listening; requests in progress have `drain` seconds to end."""
        await self._server.stop()

    async def _answer(self, post: Post) -> AdmissionResponse:
        async def read() -> bytes:
            try:
                return await post.read()
            except TooLarge as error:
                raise NoReview(str(error), 413) from error
            except TimeoutError as error:
                raise NoReview("the request did not come whole in time", 408) from error

        return await self._door.answer(
            post.path, read, content_type=post.content_type, timeout=post.query.get("timeout", "")
        )
