"""The settings of webhooks: their address, its Service or URL for the API server, and their certificates. Pure.

Guarantees: importing this costs nothing. Names that are not given are derived from the manager's name: configurations have the same
name, the Secret of self-made certificates is `<configuration>-webhooks` beside the Service. A malformed value is a UsageError with the
valid form.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from konverge.errors import UsageError

__all__ = ["IN_PROCESS", "Place", "WebhookSettings", "place_of"]

IN_PROCESS = "0"
"""The address of webhooks that no socket serves: tests call them in process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The address of a manager's webhooks, and how the API server finds and trusts them.

    >>> WebhookSettings(service="konverge/konverge-webhooks").address
    ':9443'
    """

    address: str = ":9443"
    """The TLS address of the webhooks: host:port, or :port for every interface; controller-runtime's port. 0: only in process."""
    service: str = ""
    """The Service of that address, namespace/name or namespace/name:port (default 443)."""
    url: str = ""
    """Instead of a Service: the base URL of this process for the API server, if the process runs outside of the cluster."""
    certificates: str = ""
    """The folder of tls.crt and tls.key, as cert-manager's Secret is mounted; read again when it changes. Empty: self-made certificates."""
    secret: str = ""
    """The Secret (namespace/name) of self-made certificates, shared by replicas; empty: <configuration>-webhooks beside the Service."""
    configuration: str = ""
    """The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration; empty: the manager's name."""
    certificate_days: float = 90.0
    """The validity of a self-made serving certificate; it is renewed when a third of that is left."""
    authority_days: float = 1825.0
    """The validity of the self-made authority; when a third of that is left, its successor is trusted too."""
    look_seconds: float = 10.0
    """Seconds between two checks of mounted certificates (controller-runtime's); self-made certificates are checked six times less often.

    After a fault the next attempt follows in a fifth of this."""
    max_bytes: int = 7 * 1024 * 1024
    """The largest request: two objects of etcd's 3 MiB at most, and the rest of the review; controller-runtime's limit."""
    connections: int = 1024
    """Open connections; a further connection cuts the longest idle connection. Each API server keeps some hundreds at most."""
    drain: float = 10.0
    """Seconds that requests in progress have when the manager stops; the API server waits 10 s for a response by default."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid value."""
        if self.service and self.url:
            raise UsageError("webhooks are reached by a service or by a url; give one of them")
        port = self.address.rpartition(":")[2]
        if self.address != IN_PROCESS and not (":" in self.address and port.isascii() and port.isdigit()):
            raise UsageError(
                f"webhooks: address {self.address!r}: write host:port, :port for every interface, or 0 for none"
            )
        for name in ("certificate_days", "authority_days", "look_seconds", "max_bytes", "connections"):
            if getattr(self, name) <= 0:
                raise UsageError(f"webhooks: {name}={getattr(self, name):g}: it is above 0")
        if self.drain < 0:
            raise UsageError(f"webhooks: drain={self.drain:g}: it is 0 or more")
        _service(self.service)
        _url(self.url)
        _pair(self.secret, "secret")


def _pair(text: str, what: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if text and not (namespace and name and "/" not in name):
        raise UsageError(f"webhooks: {what} {text!r}: write namespace/name")
    return namespace, name


def _service(text: str) -> tuple[str, str, int]:
    path, colon, port = text.partition(":")
    namespace, name = _pair(path, "service")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"webhooks: service {text!r}: write namespace/name or namespace/name:port")
    return namespace, name, int(port or 443)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment):
        raise UsageError(f"webhooks: url {text!r}: write https://host[:port][/path]; the API server calls nothing else")
    return text.rstrip("/")


class Place(msgspec.Struct, frozen=True):
    """Where the API server finds one manager's webhooks: `WebhookSettings` with every name filled in."""

    configuration: str
    secret: tuple[str, str]
    """Namespace and name; a namespace "" is the client's."""
    service: tuple[str, str, int] | None
    url: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names of the webhook server, most important first; the certificate must be valid for them."""
        if self.service is None:
            return (urlsplit(self.url).hostname or "localhost",)
        namespace, name, _ = self.service
        return f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}"

    def client_config(self, path: str) -> dict[str, object]:
        """Return the `clientConfig` of a webhook that is served under a path, without `caBundle`.

        Raises UsageError without a Service and a URL.
        """
        if self.service is not None:
            namespace, name, port = self.service
            return {"service": {"namespace": namespace, "name": name, "path": path, "port": port}}
        if not self.url:
            raise UsageError(
                "nothing says how the API server reaches the webhooks: set webhooks.service to namespace/name of the Service "
                "that leads to port 9443 of these pods, or webhooks.url for a process outside of the cluster"
            )
        return {"url": f"{self.url}{path}"}


def place_of(manager: str, settings: WebhookSettings) -> Place:
    """Return the place of a manager's webhooks, by the manager's name.

    >>> place_of("shop", WebhookSettings(service="web/hooks")).secret
    ('web', 'shop-webhooks')
    """
    configuration = settings.configuration or manager
    service = _service(settings.service) if settings.service else None
    namespace, name = _pair(settings.secret, "secret")
    home = namespace or (service[0] if service else "")
    return Place(configuration, (home, name or f"{configuration}-webhooks"), service, _url(settings.url))
