"""The audit log of a control plane, as questions that a test asks of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from konverge.testing import ControlPlane
from konverge.testing.proxy import Call, is_write

__all__ = ["Audited", "audited", "until_audited"]

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Audited:
    """One answered request."""

    call: Call
    user: str
    agent: str
    code: int
    namespace: str
    name: str
    subresource: str

    @property
    def write(self) -> bool:
        """Whether it asked for a change of what reconcilers decide about."""
        return is_write(self.call)

    @property
    def created(self) -> bool:
        """Whether it made an object: 201 is what a create answers, and an apply that found nothing."""
        return self.write and self.code == 201 and not self.subresource


def audited(plane: ControlPlane, *, agent: str = "", namespace: str = "") -> list[Audited]:
    """Return the requests that were answered so far, oldest first; those of one program (by its User-Agent) or namespace alone."""
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
        call=Call(method.get(entry["verb"], "GET"), path, {name: value for name, _, value in pairs}),
        user=entry.get("user", {}).get("username", ""),
        agent=entry.get("userAgent", ""),
        code=(entry.get("responseStatus") or {}).get("code", 0),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        subresource=about.get("subresource", ""),
    )


async def until_audited(plane: ControlPlane, mark: Call) -> None:
    """Wait until a request that was answered is in the log; what was answered before it is there then too."""
    async with asyncio.timeout(10):
        while not any(one.call == mark for one in _entries(plane)):
            await asyncio.sleep(_POLL)
