"""The interface to a control plane: one request, one response of limited size. `act.py` carries it over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from konverge.errors import KonvergeError

__all__ = ["NoResponse", "PlaneRequest", "PlaneResponse", "PlaneTransport"]


class NoResponse(KonvergeError):
    """No usable response: refused, cut off, timed out, or longer than the limit. The text has no part of the request."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRequest:
    """One request; credential and body stay out of the repr."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    credential: str = field(default="", repr=False)
    timeout: float = 30.0
    """Seconds for the whole request."""
    most: int = 1024 * 1024
    """Bytes of the response at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneResponse:
    """A whole response; its body stays out of the repr."""

    status: int
    body: bytes = field(default=b"", repr=False)
    retry_after: float | None = None


class PlaneTransport(Protocol):
    """Sends requests to one control plane."""

    async def send(self, request: PlaneRequest) -> PlaneResponse:
        """Send a request; raises NoResponse."""

    async def close(self) -> None:
        """Close all connections."""
