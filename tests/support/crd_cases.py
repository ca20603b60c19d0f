"""Writes that the API server itself must accept or reject by a definition: the runner of their tables, on either server (`conformance.targets`)."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conformance.targets import Target, memory_target, real_target

from konverge.crds import CustomResource, crd
from konverge_testing import ControlPlane

T = TypeVar("T")

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Case:
    """An object that is created, given a status, and changed; `words` is part of the last write's error, "" if it is accepted."""

    before: dict[str, Any]
    words: str = ""
    after: dict[str, Any] | None = None
    """The object of the change; None: no change."""
    status: dict[str, Any] = field(default_factory=dict)
    deletes: bool = False
    """The last write is a deletion."""


@dataclass(frozen=True)
class Answer:
    """The response of a server."""

    status: int
    document: dict[str, Any]

    @property
    def message(self) -> str:
        """The text of a rejection, "" for an object."""
        return str(self.document.get("message", "")) if self.document.get("kind") == "Status" else ""


class Server:
    """Writes objects of defined kinds to one server."""

    def __init__(self, target: Target, namespace: str = "default") -> None:
        self.namespace = namespace
        self._target = target
        self._paths: dict[str, str] = {}

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send one request."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "crd-cases/1.0"}
        data = b"" if body is None else json.dumps(body).encode()
        reply = await self._target.send(method, path, headers, data)
        # Before a kind is served, the body is plain text.
        return Answer(reply.status, json.loads(reply.body) if "json" in reply.content_type else {})

    async def define(self, *definitions: dict[str, Any], refused: Iterable[Case] = ()) -> None:
        """Create or replace definitions; wait until their kinds are served, and their rules reject these cases."""
        for wanted in definitions:
            answer = await self.send("POST", _DEFINITIONS, wanted)
            if answer.status == 409:
                at = f"{_DEFINITIONS}/{wanted['metadata']['name']}"
                stored = (await self.send("GET", at)).document
                answer = await self.send("PUT", at, {**stored, "spec": wanted["spec"]})
            assert answer.status in {200, 201}, answer.message
            spec = wanted["spec"]
            place = f"/namespaces/{self.namespace}" if spec["scope"] == "Namespaced" else ""
            version = spec["versions"][0]["name"]
            self._paths[spec["names"]["kind"]] = f"/apis/{spec['group']}/{version}{place}/{spec['names']['plural']}"
        async with asyncio.timeout(180):
            for wanted in definitions:
                while (await self.send("GET", self._paths[wanted["spec"]["names"]["kind"]])).status != 200:
                    await asyncio.sleep(0.1)
            for case in refused:
                while (await self.play(case)).status != 422:
                    await asyncio.sleep(0.1)

    def path(self, obj: dict[str, Any], *, named: bool = False) -> str:
        """Return the path of objects of this kind, or of this object."""
        return self._paths[obj["kind"]] + (f"/{obj['metadata']['name']}" if named else "")

    async def create(self, obj: dict[str, Any], query: str = "") -> Answer:
        """Create an object."""
        return await self.send("POST", f"{self.path(obj)}{query}", obj)

    async def play(self, case: Case) -> Answer:
        """Carry a case out, remove its object, and return the response to its last write."""
        answer = await self.create(case.before)
        if answer.status != 201:
            return answer
        at = self.path(case.before, named=True)
        try:
            if case.status:
                answer = await self.send("PUT", f"{at}/status", {**answer.document, "status": case.status})
                assert answer.status == 200 or case.after is None, answer.message
            if case.after is not None:
                after = {**answer.document, **copy.deepcopy(case.after)}
                after["metadata"] = {**answer.document["metadata"], **case.after.get("metadata", {})}
                answer = await self.send("PUT", at, after)
            return await self.send("DELETE", f"{at}?dryRun=All") if case.deletes else answer
        finally:
            await self.send("DELETE", at)

    async def play_all(self, cases: Mapping[str, Case]) -> dict[str, Answer]:
        """Carry cases out, one after the other."""
        return {name: await self.play(case) for name, case in cases.items()}


@dataclass(frozen=True)
class Table:
    """Cases by name, and the kinds whose definitions decide them."""

    kinds: Sequence[type[CustomResource[Any, Any]]]
    cases: Mapping[str, Case]
    refused: Sequence[Case] = ()
    """Cases that the server rejects as soon as the rules of all kinds are in force."""

    async def play(self, target: Target) -> dict[str, Answer]:
        """Install the definitions, and return the response to each case."""
        server = Server(target)
        await server.define(*map(crd, self.kinds), refused=self.refused)
        return await server.play_all(self.cases)

    def on_memory(self) -> dict[str, Answer]:
        """Return the responses of the in-memory server."""
        return on_memory(self.play)

    def on_both(self, control_plane: ControlPlane) -> tuple[dict[str, Answer], dict[str, Answer]]:
        """Return the responses of the real server and of the in-memory server."""
        return on_real(control_plane, self.play), on_memory(self.play)


def on_memory(play: Callable[[Target], Coroutine[Any, Any, T]]) -> T:
    """Run requests on an in-memory server of their own."""

    async def run() -> T:
        async with memory_target() as target:
            return await play(target)

    return asyncio.run(run())


def on_real(control_plane: ControlPlane, play: Callable[[Target], Coroutine[Any, Any, T]]) -> T:
    """Run requests on kube-apiserver."""

    async def run() -> T:
        async with real_target(control_plane) as target:
            return await play(target)

    return asyncio.run(run())
