"""A request and its response inside the server, over HTTP or in process: the contract between shell, handlers and faults."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from urllib.parse import unquote, unquote_plus

from konverge_testing.apiserver.statuses import malformed_request

__all__ = ["ADMIN", "ANONYMOUS", "Call", "Messages", "Query", "Response", "Session", "User", "read_target"]

_BROKEN: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Query:
    """The parameters of a request. Of a repeated parameter, the first value counts, as in Go's `Query().Get`."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._first: dict[str, str] = {}
        for name, value in pairs:
            self._first.setdefault(name, value)

    def get(self, name: str, default: str = "") -> str:
        """Return a parameter."""
        return self._first.get(name, default)

    def flag(self, name: str) -> bool:
        """Return a parameter as a boolean: true if it is present, with any value but "0" and "false"."""
        return name in self._first and self._first[name].lower() not in ("0", "false")

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a parameter."""
        return tuple(value for key, value in self.pairs if key == name)

    def __contains__(self, name: str) -> bool:
        return name in self._first


@dataclass(slots=True)
class Call:
    """One request. Header names are lower-case."""

    method: str
    path: str
    query: Query
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    user: User | None = None
    """The user, if the transport has authenticated it (in process, client certificate); None: the Authorization header decides."""

    @classmethod
    def of(cls, method: str, target: str, body: bytes = b"", **headers: str) -> Call:
        """Create a call from a request target; underscores in header names become dashes. Raises StatusError as `read_target` does."""
        path, query = read_target(target)
        named = {name.lower().replace("_", "-"): value for name, value in headers.items()}
        return cls(method, path, query, named, body)


def read_target(target: str) -> tuple[str, Query]:
    """Decode a request target as Go does; raises StatusError 400 for a path with an invalid escape.

    Parameters that are not encoded properly, or that hold a semicolon, are dropped (`net/url.ParseQuery`).

    >>> path, query = read_target("/api/v1/nodes/a%2Fb?limit=1&x=%zz&a;b=1&watch")
    >>> path, query.pairs
    ('/api/v1/nodes/a/b', (('limit', '1'), ('watch', '')))
    """
    path, _, query = target.partition("?")
    if "%" in path:
        if _BROKEN.search(path):
            raise malformed_request()
        path = unquote(path)
    if not query:
        return path, Query(())
    pairs = [one.partition("=") for one in query.split("&") if one and ";" not in one and not _BROKEN.search(one)]
    return path, Query([(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs])


class Messages(Protocol):
    """The server's end of a websocket."""

    async def receive(self) -> bytes:
        """Return the next message of the client; b"" after the end."""

    async def send(self, message: bytes) -> None:
        """Send a message."""


Session: TypeAlias = Callable[[Messages], Awaitable[None]]
"""Serves a websocket; its end closes the websocket."""


@dataclass(slots=True)
class Response:
    """The response: a body, or a stream of chunks (each chunk is a whole watch line)."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """Each warning becomes a `Warning: 299 - "text"` header."""
    stream: AsyncIterator[bytes] | None = None
    session: Session | None = None
    """With status 101: the conversation over the opened websocket, in the subprotocol `protocol`."""
    protocol: str = ""
