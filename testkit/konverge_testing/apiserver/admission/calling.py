"""Calls webhooks: a function in this process, or a server over HTTPS. The thin shell of admission and of conversion.

Guarantees: `ask` returns the decoded response of the webhook, or raises CallFailedError with the server's message, also after the timeout.
A handler is found by the webhook's URL, or for a service by `https://NAME.NAMESPACE.svc:PORT/PATH` or `NAMESPACE/NAME`. It runs on
the loop of the caller, so virtual time applies. A call over the network uses real time and real TLS. Every certificate in `caBundle`
is trusted, whether it belongs to an authority or to the webhook itself.

Caveats: Services are not routed: a service without a handler is not found.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import posixpath
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from konverge_testing.apiserver.admission.answers import UndecodableError, body_of
from konverge_testing.apiserver.admission.call import Data
from konverge_testing.apiserver.admission.review import CallFailedError
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.statuses import StatusError

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Callee", "Handler", "Webhooks", "address_of", "refused"]

Handler: TypeAlias = Callable[[Data], Awaitable[Data]]
"""Takes an AdmissionReview or ConversionReview with a request; returns a review with a response."""


class Callee(Protocol):
    """The parts of a webhook that a call needs; the webhook serves admission (`Hook`) or conversion."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def data(self) -> Data:
        """The webhook as configured; its address is in `clientConfig`."""

    @property
    def seconds(self) -> int:
        """The timeout of a call."""


_HEADERS: Final = {"Accept": "application/json, */*", "User-Agent": "kube-apiserver-admission"}
_LARGEST_ANSWER: Final = 3 * 1024 * 1024


def address_of(hook: Callee) -> tuple[str, str]:
    """Return the URL of a webhook, and for a service `NAMESPACE/NAME`, else ""."""
    config = hook.data.get("clientConfig") or {}
    service = config.get("service")
    if service is None:
        return str(config.get("url") or ""), ""
    path = str(service.get("path") or "/")
    name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
    return f"https://{name}.{namespace}.svc:{port}/{path.lstrip('/')}", f"{namespace}/{name}"


def sent_url(url: str) -> str:
    """Return a webhook's URL as it is requested: with its path cleaned, as Go's `path.Join` does.

    >>> sent_url("https://127.0.0.1:9443//validate/"), sent_url("https://hook.example.com")
    ('https://127.0.0.1:9443/validate', 'https://hook.example.com/')
    """
    parts = urlsplit(url)
    path = posixpath.normpath(f"/{unquote(parts.path).lstrip('/')}")
    return urlunsplit((parts.scheme, parts.netloc, quote(path, safe="/:@!$&'()*+,;=~"), "", ""))


class Webhooks:
    """Calls all webhooks. `handlers` may be changed at any time; `close` closes the connections."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close the connections; the next call opens new connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(self, hook: Callee, review: Data) -> Any:
        """Send a review and return the response."""
        url, service = address_of(hook)
        if not url:
            raise CallFailedError(
                hook.name, "could not get REST client: webhook configuration must have either service or URL"
            )
        shown = f"{sent_url(url)}?timeout={hook.seconds}s"
        handler = self._handlers.get(url) or self._handlers.get(service)
        if handler is None and service:
            raise _failed(hook, shown, f"service {quoted(service.partition('/')[2])} not found")
        try:
            async with asyncio.timeout(hook.seconds):
                if handler is not None:
                    return await self._ask_handler(hook, handler, review)
                return await self._post(hook, shown, review)
        except TimeoutError as error:
            raise _failed(hook, shown, "context deadline exceeded") from error

    async def _ask_handler(self, hook: Callee, handler: Handler, review: Data) -> Any:
        try:
            return await handler(copy.deepcopy(review))
        except StatusError as error:
            raise CallFailedError(hook.name, f"failed to call webhook: {error.message}") from error

    async def _post(self, hook: Callee, url: str, review: Data) -> Any:
        import aiohttp  # imported here: few servers call a webhook over the network, and the import is slow

        if self._session is None:
            self._session = aiohttp.ClientSession(headers=_HEADERS, timeout=aiohttp.ClientTimeout(total=None))
        bundle = str((hook.data.get("clientConfig") or {}).get("caBundle") or "")
        try:
            async with self._session.post(url, json=review, ssl=self._context(bundle), allow_redirects=False) as answer:
                body = await answer.content.read(_LARGEST_ANSWER)
                return _decoded(hook, answer.status, answer.headers.get("Content-Type", ""), body)
        except aiohttp.ClientConnectorCertificateError as error:
            words = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            raise _failed(hook, url, words) from error
        except aiohttp.ClientConnectorError as error:
            raise _failed(hook, url, _unreachable(url, error)) from error
        except aiohttp.ClientError as error:
            raise _failed(hook, url, str(error) or type(error).__name__) from error

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            context = ssl.create_default_context()
            if bundle:
                context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
                # As in Go: every certificate of the bundle is trusted, also a serving certificate or an authority without newer extensions.
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self._contexts[bundle] = context
        return context


def _failed(hook: Callee, url: str, why: str) -> CallFailedError:
    return CallFailedError(hook.name, f"failed to call webhook: Post {quoted(url)}: {why}")


def _unreachable(url: str, error: aiohttp.ClientConnectorError) -> str:
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or 443}"
    from aiohttp import ClientConnectorDNSError

    if isinstance(error, ClientConnectorDNSError):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    if isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {where}: connect: connection refused"
    return f"dial tcp {where}: {error.os_error}"


def _decoded(hook: Callee, status: int, content_type: str, body: bytes) -> Any:
    """Return the document of a response; a bad response raises the error that Go's client reports."""
    if 200 <= status < 300:
        try:
            return body_of(body, content_type)
        except UndecodableError as error:
            raise CallFailedError(hook.name, f"failed to call webhook: {error}") from None
    document: Any = None
    with contextlib.suppress(ValueError):
        document = json.loads(body)
    raise CallFailedError(hook.name, f"failed to call webhook: {refused(status, document, body)}")


def refused(status: int, document: Any, body: bytes) -> str:
    """Return the server's message for a response that is not a success."""
    if isinstance(document, dict) and document.get("kind") == "Status":
        return str(document.get("message", ""))
    if status == 404:
        return "the server could not find the requested resource"
    said = body.decode(errors="replace").strip()
    if status >= 500:
        return f"an error on the server ({quoted(said or 'unknown')}) has prevented the request from succeeding"
    return said or "the server rejected our request for an unknown reason"
