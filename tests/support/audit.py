"""The audit log of a control plane, with queries for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from konverge_testing import ControlPlane
from konverge_testing.proxy import ProxiedRequest, is_write

Right: TypeAlias = tuple[str, str]
"""A verb, and the resource with its group and subresource as kubectl writes them: ("patch", "resourcepools.capsule.clastix.io/status")."""

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Audited:
    """A completed request."""

    call: ProxiedRequest
    user: str
    agent: str
    code: int
    namespace: str
    name: str
    subresource: str
    verb: str
    resource: str
    """With its group: `helmreleases.helm.toolkit.fluxcd.io`; "" where the request is about none."""

    @property
    def rights(self) -> frozenset[Right]:
        """The verbs that must be allowed: an apply that creates an object requires `create` and `patch`."""
        if not self.resource:
            return frozenset()
        about = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        verbs = {self.verb, "create"} if self.verb == "patch" and self.code == 201 else {self.verb}
        return frozenset((verb, about) for verb in verbs)

    @property
    def write(self) -> bool:
        """Whether the request changes something that reconcilers decide about."""
        return is_write(self.call)

    @property
    def created(self) -> bool:
        """Whether the request created an object: a create, or an apply without an existing object, gets 201."""
        return self.write and self.code == 201 and not self.subresource


def audited(plane: ControlPlane, *, agent: str = "", namespace: str = "") -> list[Audited]:
    """Return the requests completed so far, oldest first; optionally only those from a program (by its User-Agent) or namespace."""
    return [
        one for one in _entries(plane) if one.agent.startswith(agent) and (not namespace or one.namespace == namespace)
    ]


def _entries(plane: ControlPlane) -> Iterator[Audited]:
    for line in plane.audit_file.read_bytes().splitlines():
        try:
            entry: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue  # the API server was killed while it wrote this line
        if entry.get("stage") == "ResponseComplete":
            yield _read(entry)


def _read(entry: dict[str, Any]) -> Audited:
    path, _, query = str(entry["requestURI"]).partition("?")
    method = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
    about = entry.get("objectRef") or {}
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return Audited(
        call=ProxiedRequest(method.get(entry["verb"], "GET"), path, {name: value for name, _, value in pairs}),
        user=entry.get("user", {}).get("username", ""),
        agent=entry.get("userAgent", ""),
        code=(entry.get("responseStatus") or {}).get("code", 0),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        subresource=about.get("subresource", ""),
        verb=entry["verb"],
        resource=_with_group(about.get("resource", ""), about.get("apiGroup", "")),
    )


def _with_group(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def rights_of(rules: Iterable[Mapping[str, Any]]) -> frozenset[Right]:
    """Return the rights that RBAC rules give, one by one."""
    return frozenset(
        (verb, f"{_with_group(main, group)}{slash}{subresource}")
        for rule in rules
        for group in rule["apiGroups"]
        for main, slash, subresource in (resource.partition("/") for resource in rule["resources"])
        for verb in rule["verbs"]
    )


async def until_audited(plane: ControlPlane, mark: ProxiedRequest) -> None:
    """Wait until a completed request is in the log; earlier completed requests are then in the log too."""
    async with asyncio.timeout(60):
        while not any(one.call == mark for one in _entries(plane)):
            await asyncio.sleep(_POLL)
