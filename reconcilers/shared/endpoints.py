"""URLs that tenants write: which scheme, host, port and address the daemon may contact or pass on.

A tenant's URL is refused unless it is HTTPS on port 443 of a public host, or the administrator names its host. A host that is an address is
checked by value. A host name is checked again by its addresses at connect time (`is_public`): a name may resolve to another address
each time (DNS rebinding).

Guarantees: pure. Only one spelling of a host is allowed: ASCII, dotted decimal IPv4, no user and password, no control character. Parsers
disagree about all other spellings, and the check would hold for another host than the request
(https://url.spec.whatwg.org/#host-parsing). A message repeats neither path nor query, which may be secret.

Caveats: a program that gets the URL (Flux, CloudNativePG, a Job) resolves the name itself: a NetworkPolicy limits its addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator

__all__ = [
    "Endpoint",
    "EndpointEntry",
    "EndpointPolicy",
    "InvalidEndpoint",
    "is_host_name",
    "is_public",
    "parse_endpoint",
    "same_server",
]

_PORTS: Final = {"https": 443, "http": 80}
_PLAIN: Final = re.compile(r"[!-~]+")
"""Printable ASCII: urlsplit removes tabs and line breaks, and servers do not."""
_AMBIGUOUS: Final = re.compile(r'[\\<>"^`{|}]')
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_INTERNAL: Final = frozenset(
    {"cluster", "corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private", "svc"}
)
"""Top-level names of clusters and private networks; `.home.arpa` counts as well (RFC 8375)."""
_EMBEDDED: Final = (
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (IPv6Network("::/96"), 0),  # IPv4-compatible, RFC 4291
    (IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
"""IPv6 networks that hold an IPv4 address, and how many bits follow that address."""
_CLOSED: Final = (
    IPv6Network("64:ff9b:1::/48"),  # local NAT64, RFC 8215
    IPv6Network("2001::/23"),  # Teredo and other protocols, RFC 2928
    IPv6Network("fec0::/10"),  # site-local, RFC 3879
    IPv6Network("5f00::/16"),  # segment routing, RFC 9602
)


class InvalidEndpoint(ValueError):
    """The URL has no single meaning; the message names the fault and no part of the URL that may be secret."""


class Endpoint(msgspec.Struct, frozen=True):
    """The server of a URL. `host` is in lower case and has no trailing dot; an IPv6 address has no brackets."""

    scheme: str
    host: str
    port: int

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address, if the host is an address."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def parse_endpoint(url: str) -> Endpoint:
    """Return the server of a URL; a URL without a scheme is HTTPS. Raises InvalidEndpoint.

    >>> str(parse_endpoint("S3.Example.com./path"))
    'https://s3.example.com'
    """
    if not _PLAIN.fullmatch(url) or _AMBIGUOUS.search(url):
        raise InvalidEndpoint("a URL has printable ASCII characters only; write a host name in its xn-- form")
    text = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidEndpoint("the host or the port cannot be read") from None
    if parts.scheme not in _PORTS:
        raise InvalidEndpoint("the scheme is neither https nor http")
    if "@" in parts.netloc:
        raise InvalidEndpoint("a user or a password in the URL is not accepted")
    if port == 0:
        raise InvalidEndpoint("port 0 does not exist")
    bracketed = parts.netloc.startswith("[")
    return Endpoint(parts.scheme, _host(parts.hostname or "", bracketed=bracketed), port or _PORTS[parts.scheme])


def _host(text: str, *, bracketed: bool) -> str:
    host = text.removesuffix(".")
    if bracketed:
        try:
            return str(IPv6Address(text))  # a zone id is not part of the canonical form, and is refused below
        except ValueError:
            raise InvalidEndpoint("the IPv6 address cannot be read") from None
    labels = host.split(".")
    if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidEndpoint("the host is neither a DNS name nor an address")
    if not _NUMBER.fullmatch(labels[-1]):
        return host
    try:
        # Libraries read 127.1, 2130706433, 0x7f.1 and 0177.0.0.1 as addresses too.
        return str(IPv4Address(host))
    except ValueError:
        raise InvalidEndpoint("an IPv4 address is written as four decimal numbers without leading zeros") from None


def is_host_name(text: str) -> bool:
    """Tell whether a text is a DNS name in lower case, as an Ingress has it.

    >>> is_host_name("cloud.example.com"), is_host_name("cloud.example.com x"), is_host_name("{{ .Values.a }}")
    (True, False, False)
    """
    return len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split("."))


def is_public(address: str | IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is of the public Internet: not loopback, link-local, private, shared, multicast or reserved.

    An IPv6 address that embeds an IPv4 address is as public as the embedded address.

    >>> is_public("1.1.1.1"), is_public("::ffff:10.0.0.1"), is_public("169.254.169.254"), is_public("localhost")
    (True, False, False, False)
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None or any(parsed in network for network in _CLOSED):
            return False
        if parsed.ipv4_mapped is not None:
            return is_public(parsed.ipv4_mapped)
        for network, shift in _EMBEDDED:
            if parsed in network:
                return is_public(IPv4Address(int(parsed) >> shift & 0xFFFFFFFF))
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def same_server(url: str, other: str) -> bool:
    """Tell whether two URLs have the same scheme, host and port; an unreadable URL has no server.

    >>> same_server("https://s3.example.com", "https://S3.example.com:443/x"), same_server("http://a.io", "https://a.io")
    (True, False)
    """
    try:
        return parse_endpoint(url) == parse_endpoint(other)
    except InvalidEndpoint:
        return False


class _Entry(msgspec.Struct, frozen=True):
    """One entry of an allow-list; `below` if it allows the hosts below a domain and not the domain."""

    server: Endpoint
    below: bool

    @classmethod
    def parse(cls, text: str) -> _Entry:
        scheme, separator, rest = text.rpartition("://")
        below = rest.startswith("*.")
        if rest.rstrip("/") != rest.split("/", 1)[0]:
            raise InvalidEndpoint("an entry has no path")
        return cls(parse_endpoint(f"{scheme}{separator}{rest.removeprefix('*.')}"), below)

    def allows(self, server: Endpoint) -> bool:
        mine = self.server
        if (mine.scheme, mine.port) != (server.scheme, server.port):
            return False
        if self.below:
            return server.address is None and server.host.endswith(f".{mine.host}")
        return server.host == mine.host


def _readable(text: str) -> str:
    try:
        _Entry.parse(text)
    except InvalidEndpoint as error:
        raise ValueError(f"{error}: write host, host:port, *.domain or http://host:port") from None
    return text


EndpointEntry: TypeAlias = Annotated[str, AfterValidator(_readable)]
"""An entry of an allow-list in settings: `s3.example.com`, `s3.example.com:9000`, `*.example.com`, `http://minio.minio.svc:9000`."""


class EndpointPolicy:
    """The endpoints that tenants may name.

    An entry of `allowed` is a host with an optional port (443 without one), `*.domain` for the hosts below a domain, or a URL with
    `http://` for a server without TLS. Without entries every public HTTPS host on port 443 is allowed. `setting` names the list in
    messages.

    Guarantees: an entry allows exactly its scheme and port. Only an entry without `*` opens a private address.

    >>> policy = EndpointPolicy(["s3.example.com", "http://minio.minio.svc:9000"], setting="pools.instances.s3_endpoints")
    >>> policy.refusal("https://s3.example.com/x"), policy.refusal("http://minio.minio.svc:9000")
    ('', '')
    >>> policy.refusal("https://evil.example.net")
    'https://evil.example.net is not among the endpoints that pools.instances.s3_endpoints allows'
    """

    def __init__(self, allowed: Iterable[str] = (), *, setting: str) -> None:
        self._entries = tuple(_Entry.parse(text) for text in allowed)
        self._setting = setting

    def refusal(self, url: str) -> str:
        """Return why a tenant may not name this URL and the remedy; "" if the tenant may."""
        try:
            server = parse_endpoint(url)
        except InvalidEndpoint as error:
            return f"the endpoint is refused: {error}"
        entry = next((entry for entry in self._entries if entry.allows(server)), None)
        if entry is not None:
            return "" if not entry.below else self._internal(server)
        if self._entries:
            return f"{server} is not among the endpoints that {self._setting} allows"
        return self._unlisted(server)

    def needs_public_address(self, url: str) -> bool:
        """Tell whether a connection to this URL may only go to public addresses: no entry names its host."""
        try:
            server = parse_endpoint(url)
        except InvalidEndpoint:
            return True
        return not any(entry.allows(server) and not entry.below for entry in self._entries)

    def _unlisted(self, server: Endpoint) -> str:
        if server.scheme != "https":
            return f"{server} is refused: write https://, or have {server} added to {self._setting}"
        if server.port != _PORTS["https"]:
            return f"{server} is refused for its port: use 443, or have {server.host}:{server.port} added to {self._setting}"
        return self._internal(server)

    def _internal(self, server: Endpoint) -> str:
        address = server.address
        labels = server.host.split(".")
        private = labels[-1] in _INTERNAL or "svc" in labels or len(labels) < 2 or labels[-2:] == ["home", "arpa"]
        if not (private if address is None else not is_public(address)):
            return ""
        return f"{server} is refused: it is not a public host; have it added to {self._setting}"
