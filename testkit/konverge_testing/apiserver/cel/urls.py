"""The url library: absolute URIs and absolute paths, as Go's net/url reads them.

Guarantees: pure; `parse` refuses like `url.ParseRequestURI`, with its messages, and reads like `url.Parse`, except for fragments. A
URL is passed through rules as its text. Source: k8s.io/apiserver `pkg/cel/library/urls.go`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes

__all__ = ["BadURL", "URL", "parse"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*$")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_BAD: Final = re.compile(r"[^\x80-\U0010ffff!$&'()*+,;=:\[\]<>\"A-Za-z0-9._~%-]")
_PATH_SAFE: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]/%-]*")


class BadURL(ValueError):
    """The text is not a URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class URL:
    """A URL in parts."""

    scheme: str
    host: str
    path: str
    """The URL as written."""
    query: str

    @property
    def port(self) -> str:
        """The port, "" without one."""
        found = re.fullmatch(r"(?:\[.*\]|[^:]*):(\d*)", self.host)
        return found[1] if found else ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host = re.sub(r":\d*$", "", self.host) if not self.host.endswith("]") else self.host
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def escaped_path(self) -> str:
        """The path in its encoded form."""
        if _PATH_SAFE.fullmatch(self.path):
            return self.path
        return quote(unquote_to_bytes(self.path), safe="/$&+,:;=@~")

    @property
    def values(self) -> dict[str, list[str]]:
        """The parameters of the query."""
        found: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if not pair or ";" in pair or _ESCAPE.search(pair):
                continue
            name, _, value = pair.partition("=")
            found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return found


@lru_cache(maxsize=1024)
def parse(text: str) -> URL:
    """Read a URL; raise BadURL if it is none."""
    try:
        _read(text, request=True)
        return _read(text.partition("#")[0], request=False)
    except BadURL as bad:
        raise BadURL(f"parse {json.dumps(text, ensure_ascii=False)}: {bad}") from None


def _read(text: str, *, request: bool) -> URL:
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise BadURL("net/url: invalid control character in URL")
    if not text and request:
        raise BadURL("empty url")
    if text == "*":
        return URL("", "", "*", "")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme, "", "", query)
        if request:
            raise BadURL("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise BadURL("first path segment in URL cannot contain colon")
    host = ""
    if (scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    _escapes(rest)
    return URL(scheme, host, rest, query)


def _scheme(text: str) -> tuple[str, str]:
    head, colon, rest = text.partition(":")
    if colon and not head:
        raise BadURL("missing protocol scheme")
    if colon and _SCHEME.match(head):
        return head.lower(), rest
    if colon and re.match(r"[0-9+.-]", head) is None and re.fullmatch(r"[A-Za-z0-9+.-]*", head):
        raise BadURL("missing protocol scheme")
    return "", text


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user) is None:
        raise BadURL("net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise BadURL("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.rindex(":") :] if ":" in host else ""
    if port and re.fullmatch(r":[0-9]*", port) is None:
        raise BadURL(f"invalid port {json.dumps(port)} after host")
    if (bad := _HOST_BAD.search(host)) is not None:
        raise BadURL(f"invalid character {json.dumps(bad[0])} in host name")
    _escapes(host)
    return host


def _escapes(text: str) -> None:
    if (bad := _ESCAPE.search(text)) is not None:
        raise BadURL(f"invalid URL escape {json.dumps(bad[0])}")
