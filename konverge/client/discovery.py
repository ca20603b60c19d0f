"""The resources that the API server serves, fetched per group and version at first use.

Guarantees: concurrent callers share one request to `/apis/<group>/<version>` (or `/api/v1`). Responses are cached for a while, "not
served" only briefly, and `forget` drops them at once. A kind that the server does not serve raises `NotServed`; any other failure is
raised unchanged to every caller that waited for it.

Caveats: discovery does not notice that a CRD changed. The client calls `forget` after a 404 on a discovered path.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from konverge.client.resources import ResourceInfo
from konverge.client.settings import ClientSettings
from konverge.errors import NotFound, NotServed, ServerFailure
from konverge.kinds import Kind

__all__ = ["Discovery", "discovery_path", "read_resources"]


class _Resource(msgspec.Struct, rename="camel"):
    name: str = ""
    singular_name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


_DECODE = msgspec.json.Decoder(_ResourceList).decode


def discovery_path(api_version: str) -> str:
    """Return the path that describes a group and version."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def read_resources(api_version: str, body: bytes) -> dict[str, ResourceInfo]:
    """Read an APIResourceList into infos by kind; if a kind has several resources, the first counts, as in kubectl.

    Raises ServerFailure for any other body.
    """
    try:
        resources = _DECODE(body).resources or []
    except msgspec.DecodeError as error:
        raise ServerFailure(f"discovery of {api_version} returned something that is no APIResourceList") from error
    below: dict[str, set[str]] = {}
    for resource in resources:
        plural, slash, subresource = resource.name.partition("/")
        if slash:
            below.setdefault(plural, set()).add(subresource)
    infos: dict[str, ResourceInfo] = {}
    for resource in resources:
        if "/" in resource.name or resource.kind in infos:
            continue
        infos[resource.kind] = ResourceInfo(
            api_version=api_version,
            kind=resource.kind,
            plural=resource.name,
            namespaced=resource.namespaced,
            verbs=frozenset(resource.verbs or ()),
            subresources=frozenset(below.get(resource.name, ())),
            short_names=tuple(resource.short_names or ()),
            singular=resource.singular_name,
            categories=tuple(resource.categories or ()),
        )
    return infos


class _Known(msgspec.Struct):
    """The cache entry of one group and version; `resources` is None before the first response."""

    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    resources: dict[str, ResourceInfo] | None = None
    asked_at: float = float("-inf")
    failure: Exception | None = None
    failures: int = 0


class Discovery:
    """The discovery cache. `fetch` reads a path and raises NotFound if the server does not have it."""

    def __init__(self, fetch: Callable[[str], Awaitable[bytes]], settings: ClientSettings) -> None:
        self._fetch = fetch
        self._settings = settings
        self._known: dict[str, _Known] = {}

    async def resource(self, kind: Kind[Any]) -> ResourceInfo:
        """Return how a kind is served; raises NotServed."""
        known = self._known.get(kind.api_version)
        if known is None:
            known = self._known[kind.api_version] = _Known()
        if not self._fresh(known, kind):
            failures = known.failures
            async with known.lock:
                await self._refresh(known, kind, failures)
        info = (known.resources or {}).get(kind.kind)
        if info is None:
            raise NotServed(kind.api_version, kind.kind)
        return info

    def fresh_until(self, api_version: str) -> float:
        """Return the time of the loop until which the known resources of a group and version count as fresh."""
        known = self._known.get(api_version)
        return -math.inf if known is None else known.asked_at + self._settings.discovery_seconds

    def forget(self, api_version: str | None = None) -> None:
        """Forget a group and version, or everything."""
        if api_version is None:
            self._known.clear()
        else:
            self._known.pop(api_version, None)

    def _fresh(self, known: _Known, kind: Kind[Any]) -> bool:
        if known.resources is None:
            return False
        settings = self._settings
        age = asyncio.get_running_loop().time() - known.asked_at
        return age < (settings.discovery_seconds if kind.kind in known.resources else settings.discovery_absent_seconds)

    async def _refresh(self, known: _Known, kind: Kind[Any], failures: int) -> None:
        """Fetch, unless another caller did during the wait for the lock; `failures` is the count from before the wait."""
        if self._fresh(known, kind):
            return
        if known.failure is not None and known.failures > failures:
            raise known.failure.with_traceback(None)
        try:
            known.resources = read_resources(kind.api_version, await self._fetch(discovery_path(kind.api_version)))
        except NotFound:
            known.resources = {}
        except Exception as error:
            known.failure, known.failures = error, known.failures + 1
            raise
        known.asked_at, known.failure = asyncio.get_running_loop().time(), None
