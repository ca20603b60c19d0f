"""The history of a namespace from the API server's events: every object that was created, and the current state.

A `NamespaceRecorder` watches from before the first write, so it also counts objects that were deleted again. A snapshot leaves out what
differs between any two runs of the same story: times, uids, versions, field managers, and digests of these.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from konverge.client import Client, ListQuery, ResourceInfo, WatchQuery
from konverge.kinds import Kind

Picture: TypeAlias = dict[str, Any]
"""Objects by `Kind/name`, without what differs between any two runs."""

_DROPPED = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "managedFields",
        "lastTransitionTime",
        "lastReconcileTime",
        "lastAppliedTime",
        "firstDeployed",
        "lastDeployed",
        "lastUpdateTime",
        # A second request to Flux is harmless, and correct for a reconcile that cannot know whether the first was sent.
        "reconcile.fluxcd.io/requestedAt",
        "lastHandledReconcileAt",
    }
)
_STAMPS = re.compile(r"(/values-token|/applied-source|-hash|-uid|[dD]igest)$")


def masked(value: Any, namespace: str) -> Any:
    """Return plain data without what differs between any two runs."""
    if isinstance(value, Mapping):
        return {
            key: "(a stamp)" if _STAMPS.search(key) and isinstance(member, str) else masked(member, namespace)
            for key, member in value.items()
            if key not in _DROPPED
        }
    if isinstance(value, list):
        members = [masked(member, namespace) for member in value]
        # Conditions are ordered by their first appearance; the order has no meaning.
        typed = all(isinstance(member, dict) and "type" in member for member in members)
        return sorted(members, key=lambda member: str(member["type"])) if typed else members
    return value.replace(namespace, "(namespace)") if isinstance(value, str) else value


def difference(expected: Any, found: Any, path: str = "") -> list[str]:
    """Return one line for each difference of two snapshots."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        keys = [*expected, *(key for key in found if key not in expected)]
        return [
            line for key in keys for line in difference(expected.get(key), found.get(key), f"{path}.{key}".lstrip("."))
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for number, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in difference(one, other, f"{path}[{number}]")
        ]
    return [] if expected == found else [f"{path}: {found!r} instead of {expected!r}"]


class NamespaceRecorder:
    """Watches some kinds in a namespace; `async with` begins and ends it."""

    def __init__(self, client: Client, namespace: str, kinds: Sequence[Kind[Any]]) -> None:
        self._client = client
        self._namespace = namespace
        self._kinds = kinds
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: set[str] = set()
        self.created: Counter[str] = Counter()
        """How many objects (each with a uid of its own) there have been under each `Kind/name`."""

    async def __aenter__(self) -> Self:
        for kind in self._kinds:
            info = await self._client.resource(kind)
            page = await self._client.list_page(info, ListQuery(namespace=self._namespace))
            for raw in page.items:
                self._saw(kind, msgspec.json.decode(raw))
            self._tasks.append(asyncio.create_task(self._watch(kind, info, page.resource_version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception) and error is None:
                raise ended

    async def _watch(self, kind: Kind[Any], info: ResourceInfo, version: str) -> None:
        query = WatchQuery(namespace=self._namespace, resource_version=version, timeout_seconds=600, idle_seconds=600.0)
        async with self._client.watch(info, query) as stream:
            async for events in stream:
                for event in events:
                    assert event.type != "ERROR", bytes(event.object)
                    if event.type != "BOOKMARK":
                        self._saw(kind, msgspec.json.decode(event.object))
        raise AssertionError(f"the watch of {kind.kind} ended; the recorder missed what came after")

    def _saw(self, kind: Kind[Any], data: Mapping[str, Any]) -> None:
        metadata = data["metadata"]
        if metadata["uid"] not in self._seen:
            self._seen.add(metadata["uid"])
            self.created[self._name(kind, metadata["name"])] += 1

    def _name(self, kind: Kind[Any], name: str) -> str:
        return f"{kind.kind}/{name.replace(self._namespace, '(namespace)')}"

    async def picture(self) -> Picture:
        """Return the current state."""
        found: Picture = {}
        for kind in self._kinds:
            for one in (await self._client.list(kind, self._namespace)).items:
                found[self._name(kind, one.name)] = masked(one.to_dict(), self._namespace)
        return found
