"""Runs the steps of a case on one server and records the responses.

Guarantees: a case has a namespace of its own, `c-<number>`, on both servers the same. Every outcome becomes part of the record; no response
raises. A wait that times out (`_PATIENCE` seconds) returns the last response.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote

from conformance.cases import KINDS, Case, Kind, Step
from conformance.hooks import READY, configuration
from conformance.targets import AGENT, Reply, Target

_PATIENCE: Final = 10.0
_CONVERGENCE: Final = 60.0
"""Seconds for the controllers of a busy real control plane, the deletion of a namespace above all."""
_POLL: Final = 0.05
_STARTS: Final = 5
_TYPES: Final = {
    "JSON": "application/json-patch+json",
    "MERGE": "application/merge-patch+json",
    "STRATEGIC": "application/strategic-merge-patch+json",
    "APPLY": "application/apply-patch+yaml",
}
_VARIABLE: Final = re.compile(r"\$\(([^)]+)\)")


def url_of(target: str, namespace: str) -> tuple[str, Kind | None, str]:
    """Return path and query of a step's target, its kind, and the name in it."""
    path, mark, query = target.partition("?")
    query = mark + quote(query, safe="=&%,!:/~*'")
    if path.startswith("/"):
        return quote(path, safe="/%:@") + query, None, ""
    head, *rest = path.split("/")
    alias, at, where = head.partition("@")
    kind = KINDS[alias]
    space = where if at else namespace
    inside = f"/namespaces/{space}" if kind.namespaced and space else ""
    tail = "".join(f"/{quote(one, safe=':%')}" for one in rest)
    return f"{kind.root}{inside}/{kind.plural}{tail}{query}", kind, rest[0] if rest else ""


class Runner:
    """Runs steps one after the other, and keeps the responses so far."""

    def __init__(self, target: Target, namespace: str, variables: Mapping[str, str] | None = None) -> None:
        self._target = target
        self._namespace = namespace
        self._variables = {**(variables or {}), "$ns": namespace}
        self._saved: dict[str, Any] = {}
        self._configurations: list[str] = []

    # --- requests ------------------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        for name, value in self._variables.items():
            text = text.replace(name, value)
        return _VARIABLE.sub(self._variable, text)

    def _variable(self, found: re.Match[str]) -> str:
        name, _, path = found[1].partition(".")
        data = self._saved.get(name, {})
        path = {"uid": "metadata.uid", "rv": "metadata.resourceVersion"}.get(path, path)
        value = at(data, path)
        return value if isinstance(value, str) else json.dumps(value)

    def _filled(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {self._text(str(key)): self._filled(value) for key, value in data.items()}
        if isinstance(data, list):
            return [self._filled(one) for one in data]
        return self._text(data) if isinstance(data, str) else data

    def _request(self, step: Step) -> tuple[str, str, dict[str, str], bytes]:
        verb, _, target = self._text(step.line).partition(" ")
        path, kind, name = url_of(target, self._namespace)
        headers = {"User-Agent": AGENT, "Accept": step.accept or "application/json"}
        if step.user:
            headers["Impersonate-User"] = self._text(step.user)
            if step.groups:
                headers["Impersonate-Group"] = self._text(step.groups[0])
        body = self._body(step, verb, kind, name)
        kind_of_body = step.type or _TYPES.get(verb, "application/json" if body else "")
        if kind_of_body and verb not in ("GET", "WATCH"):
            headers["Content-Type"] = kind_of_body
        return "PATCH" if verb in _TYPES else verb, path, headers, body

    def _body(self, step: Step, verb: str, kind: Kind | None, name: str) -> bytes:
        if step.body is None:
            return b""
        data = self._filled(step.body)
        if isinstance(data, bytes):
            return data
        if isinstance(data, str):
            return data.encode()
        if verb in ("POST", "PUT", "APPLY") and isinstance(data, dict) and kind is not None and not step.bare:
            subresource = step.line.partition("?")[0].split("/")[2:3]
            if subresource not in (["scale"], ["eviction"], ["token"], ["binding"]):
                data = {"apiVersion": kind.api, "kind": kind.kind, **data}
            if name and verb != "POST":
                data["metadata"] = {"name": name, **(data.get("metadata") or {})}
        return json.dumps(data).encode()

    # --- responses -----------------------------------------------------------------------------------------------------------

    async def run(self, step: Step) -> dict[str, Any]:
        """Run a step and return its record."""
        if step.line.startswith("WATCH "):
            record = await self._watch(step)
            for _ in range(_STARTS):
                if record.get("status") != 429 or 429 in step.status:
                    break
                await asyncio.sleep(1)  # kube-apiserver is still creating the cache of a new or changed definition
                record = await self._watch(step)
            return record
        if step.line.startswith("HOOKS "):
            return await self._hooks(step)
        if step.line.startswith("SEEN "):
            name = step.line.split(" ")[1]
            reviews = self._target.hooks.seen.pop(f"/{self._namespace}/{name}", [])
            return {"step": step.line, "reviews": [_reduced(step, one) for one in _last_attempts(reviews)]}
        record, data = await self._once(step)
        if step.until is not None:
            loop = asyncio.get_running_loop()
            end = loop.time() + _CONVERGENCE
            until = self._filled(step.until)
            while not _holds(until, record, data) and loop.time() < end:
                await asyncio.sleep(_POLL)
                record, data = await self._once(step)
        return record

    async def _once(self, step: Step) -> tuple[dict[str, Any], Any]:
        reply = await self._target.send(*self._request(step))
        data = _decoded(reply)
        if isinstance(data, dict) and reply.status < 300:
            self._note(step.save, data)
        return _record(step, reply, data), data

    def _note(self, save: str, data: dict[str, Any]) -> None:
        name = (data.get("metadata") or {}).get("name") if isinstance(data.get("metadata"), dict) else None
        self._saved["last"] = data
        if name and data.get("kind") not in ("Status", "Scale"):
            self._saved[name.removeprefix(f"{self._namespace}-")] = data
        if save:
            self._saved[save] = data

    async def _hooks(self, step: Step) -> dict[str, Any]:
        """Replace the configured webhooks, and wait until the server calls the new webhooks."""
        await self.close()
        hooks, kind, number = self._target.hooks, step.line.split(" ")[1], len(self._saved) + 1
        await hooks.start()
        wanted = configuration(hooks, kind, self._namespace, number, self._filled(step.body))
        plural = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        record = await self.run(Step(f"POST {plural}", wanted, step.status, only=("message",)))
        record["step"] = step.line
        if record["status"] >= 300:
            return record
        self._configurations.append(f"{plural}/{wanted['metadata']['name']}")
        probe = Step("POST cm?dryRun=All", {"metadata": {"name": "probe", "labels": {"probe": "hooks"}}})
        ready = f"/{self._namespace}/{READY}-{number}"
        end = asyncio.get_running_loop().time() + _PATIENCE
        while ready not in hooks.seen and asyncio.get_running_loop().time() < end:
            await self.run(probe)
            await asyncio.sleep(_POLL)
        if ready not in hooks.seen:
            record["failed"] = "the webhooks are not asked"
        for path in [path for path in hooks.seen if path.startswith(f"/{self._namespace}/")]:
            del hooks.seen[path]
        return record

    async def close(self) -> None:
        """Remove the webhooks of the case."""
        while self._configurations:
            await self.run(Step(f"DELETE {self._configurations.pop()}"))

    async def _watch(self, step: Step) -> dict[str, Any]:
        _, path, headers, _ = self._request(step)
        path += ("&" if "?" in path else "?") + "watch=true"
        events: list[Any] = []
        record: dict[str, Any] = {"step": step.line}

        async def collect(opened: asyncio.Event) -> None:
            try:
                async with aclosing(self._target.watch(path, headers)) as stream:  # type: ignore[type-var]  # an async generator
                    async for one in stream:
                        if isinstance(one, Reply):
                            record.update(_record(step, one, _decoded(one)))
                            opened.set()
                            continue
                        event = json.loads(one)
                        events.append(event)
                        if len(events) == step.lines or self._text(step.to) in (event["type"], _name_of(event)):
                            return
            finally:
                opened.set()

        opened = asyncio.Event()
        task = asyncio.create_task(collect(opened))
        await opened.wait()
        made = [await self.run(one) for one in step.during]
        _, pending = await asyncio.wait({task}, timeout=step.seconds or _PATIENCE)
        if pending and not step.seconds:
            record["unfinished"] = True
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            record["failed"] = repr(task.exception())
        record["events"] = [_reduced(step, event) for event in events]
        if made:
            record["during"] = made
        if events and isinstance(events[-1].get("object"), dict):
            self._note(step.save, events[-1]["object"])
        return record


def _last_attempts(reviews: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return reviews without the reviews of retries, which kube-apiserver sends if its cache was stale."""
    keys = [(one["operation"], one["requestResource"], one.get("subResource"), one.get("name")) for one in reviews]
    repeated = [key == after and key[0] == "UPDATE" for key, after in zip(keys, [*keys[1:], None], strict=True)]
    return [one for one, again in zip(reviews, repeated, strict=True) if not again]


def _name_of(event: Any) -> str:
    return str(((event.get("object") or {}).get("metadata") or {}).get("name", "")) or "?"


def _decoded(reply: Reply) -> Any:
    if "json" in reply.content_type:
        try:
            return json.loads(reply.body) if reply.body else ""
        except ValueError:
            pass
    return reply.body.decode(errors="replace")


def _record(step: Step, reply: Reply, data: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"step": step.line, "status": reply.status, "type": reply.content_type}
    if not step.line.startswith("WATCH") or reply.status != 200:
        record["body"] = _reduced(step, data)
    if reply.warnings:
        record["warnings"] = reply.warnings
    if reply.headers:
        record["headers"] = reply.headers
    if not step.any and not _expected(step, reply.status):
        record["unexpected"] = f"{reply.status}, not {' or '.join(map(str, step.status)) or '2xx'}"
    return record


def _expected(step: Step, status: int) -> bool:
    return status in step.status if step.status else status < 300


def _undescribed(data: Any, *, names: bool = False) -> Any:
    """Return data without the descriptions of schemas; a property named `description` stays."""
    if isinstance(data, list):
        return [_undescribed(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _undescribed(value, names=key == "properties" and not names)
        for key, value in data.items()
        if names or key != "description"
    }


def _reduced(step: Step, data: Any) -> Any:
    if step.plain:
        data = _undescribed(data)
    if step.only and isinstance(data, dict):
        return {path: at(data, path) for path in step.only}
    if step.ignore and isinstance(data, dict):
        data = json.loads(json.dumps(data))
        for path in step.ignore:
            _drop(data, path.split("."))
    if step.sort and isinstance(data, dict):
        for name in ("items", "resources", "rows", "groups"):
            if isinstance(data.get(name), list):
                data[name] = sorted(data[name], key=_text_of)
        details = data.get("details")
        if isinstance(details, dict) and isinstance(details.get("causes"), list):
            causes = sorted(details["causes"], key=_text_of)
            data = {
                **data,
                "message": "",
                "details": {**details, "causes": causes},
            }  # whose message has them in the same order
    return data


def _text_of(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _drop(data: Any, path: list[str]) -> None:
    if isinstance(data, list):
        for one in data:
            _drop(one, path)
    elif isinstance(data, dict):
        if path[0] in data and len(path) == 1:
            del data[path[0]]
        elif path[0] in data:
            _drop(data[path[0]], path[1:])


def at(data: Any, path: str) -> Any:
    """Return the value at a path: names and list indices with dots between; `[a=b]` is the item whose `a` is b, `#` the length; None if
    absent.
    """
    here = data
    for step in filter(None, re.split(r"\.(?![^\[]*\])", path)):
        if step == "#":
            here = len(here) if isinstance(here, (list, dict)) else None
        elif step.startswith("[") and isinstance(here, list):
            key, _, value = step[1:-1].partition("=")
            here = next((one for one in here if isinstance(one, dict) and str(one.get(key)) == value), None)
        elif isinstance(here, list) and step.isdigit():
            here = here[int(step)] if int(step) < len(here) else None
        else:
            here = here.get(step.replace("~1", "/").replace("~2", ".")) if isinstance(here, dict) else None
    return here


def _holds(until: Any, record: dict[str, Any], data: Any) -> bool:
    if isinstance(until, int):
        return bool(record["status"] == until)
    return all(at(data, path) == value for path, value in until.items())


async def run_case(
    target: Target, case: Case, namespace: str, variables: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run a case in a new namespace and return the records of its steps; `variables` are texts that steps may hold besides `$ns`."""
    runner = Runner(target, namespace, variables)
    await runner.run(Step("POST ns", {"metadata": {"name": namespace}}))
    if case.pods:
        await runner.run(Step("GET sa/default", until=200))
    records = []
    for step in case.steps:
        try:
            records.append(await runner.run(step))
        except Exception as error:
            records.append({"step": step.line, "failed": f"{type(error).__name__}: {error}"})
    await runner.close()
    return records
