"""One write of a plan: the dry run that the server gets, and the step that the overlay gets. Pure.

The server merges, defaults and validates a write to an object that it stores, or that the write creates. It cannot do so for a later write
to an object that only the plan has created: such a write is merged here, without the server's defaults, validation and admission.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import jsonpatch
import msgspec
import yaml

from konverge.client.requests import APPLY, MERGE, PATCHES, Request, yaml_of
from konverge.client.targets import RequestTarget
from konverge.client.transport import Response
from konverge.planning.documents import Document, merge_patch, three_way
from konverge.planning.overlay import PlannedObject, Step
from konverge.planning.responses import not_found, refusal

__all__ = ["PlannedWrite", "body_of", "dry_run_of", "precondition_failure", "step_of", "write_of"]

_JSON_OF = msgspec.json.Encoder().encode
_JSON_PATCH = PATCHES["json"]


class PlannedWrite(NamedTuple):
    """A write with its decoded body. A write replaces an earlier write of the same `writer`, a repeated apply."""

    target: RequestTarget
    verb: str
    body: Any
    writer: Hashable

    @property
    def guard(self) -> dict[str, Any]:
        """The uid and resourceVersion that the write expects."""
        if isinstance(self.body, dict):
            part = self.body.get("preconditions" if self.verb == "delete" else "metadata")
            return part if isinstance(part, dict) else {}
        return {}


def body_of(request: Request) -> Any:
    """Return the decoded body of a request."""
    body = request.body or b"{}"
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:  # an apply with a long key is YAML
        return yaml.safe_load(body)


def write_of(request: Request, target: RequestTarget, number: int) -> PlannedWrite:
    """Return the write of a request; `number` distinguishes writes that never replace each other."""
    body = body_of(request)
    if request.method == "PATCH":
        verb = {APPLY: "apply", MERGE: "merge", _JSON_PATCH: "json"}.get(request.content_type, "strategic")
    else:
        verb = {"POST": "create", "PUT": "replace", "DELETE": "delete"}[request.method]
        if verb == "create" and target.subresource:
            verb = "evict" if target.subresource == "eviction" else "call"
    manager = dict(request.params).get("fieldManager", "")
    writer: Hashable = (verb, manager, target.subresource) if verb == "apply" else (verb, number)
    return PlannedWrite(target, verb, body, writer)


def precondition_failure(write: PlannedWrite, planned: PlannedObject) -> Response | None:
    """Return the server's refusal of a write to an object that does not exist, or that is not in the expected state."""
    object_id, current, guard = planned.object_id, planned.current, write.guard
    if current is None and not planned.readable:
        return None  # the server decides
    if current is None:
        creates = write.verb == "create" or (write.verb == "apply" and not write.target.subresource)
        return None if creates and not (write.verb == "apply" and guard.get("uid")) else not_found(object_id)
    if write.verb == "create":
        message = f'{object_id.plural} "{object_id.name}" already exists'
        return refusal(409, "AlreadyExists", message, object_id)
    metadata = current["metadata"]
    for name, present in (("uid", metadata.get("uid")), ("resourceVersion", planned.version)):
        if guard.get(name) and guard[name] != present:
            message = (
                f'Operation cannot be fulfilled on {object_id.plural} "{object_id.name}": the {name} of the write is not the '
                "object's; the object has been modified"
            )
            return refusal(409, "Conflict", message, object_id)
    return None


def dry_run_of(request: Request, write: PlannedWrite, planned: PlannedObject) -> Request | None:
    """Return the dry run of a write; None if only the plan knows the object, or the state that the write begins with."""
    if not _server_knows(write, planned):
        return None
    if write.verb == "delete":
        body: Any = {**_without_version(write.body, "preconditions"), "dryRun": ["All"]}
    else:
        body = _guarded_by_stored(write, planned) if isinstance(write.body, dict) else write.body
    what = f"dry run: {request.what}"
    return Request(
        method=request.method,
        path=request.path,
        params=(*(pair for pair in request.params if pair[0] != "dryRun"), ("dryRun", "All")),
        body=yaml_of(body, what) if request.content_type == APPLY else _JSON_OF(body),
        content_type=request.content_type,
        accept=request.accept,
        repeatable=True,
        what=what,
    )


def _server_knows(write: PlannedWrite, planned: PlannedObject) -> bool:
    """Return whether the server can carry out a write on the state that it stores."""
    if not planned.readable:
        return True
    if planned.origin is None:
        creates = write.verb in {"create", "apply"} and not write.target.subresource
        return creates and planned.stored is None
    return write.verb != "json" or planned.current is planned.stored


def _without_version(body: dict[str, Any], part: str) -> dict[str, Any]:
    inner = body.get(part)
    if not isinstance(inner, dict) or "resourceVersion" not in inner:
        return body
    return {**body, part: {name: value for name, value in inner.items() if name != "resourceVersion"}}


def _guarded_by_stored(write: PlannedWrite, planned: PlannedObject) -> dict[str, Any]:
    """Return a body without the planned version, which the server does not know; a replacement names the stored version."""
    body = _without_version(write.body, "metadata")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return body
    if planned.origin is None:
        return {**body, "metadata": {name: value for name, value in metadata.items() if name != "uid"}}
    if write.verb == "replace" and write.guard.get("resourceVersion"):
        return {**body, "metadata": {**metadata, "resourceVersion": planned.origin["metadata"].get("resourceVersion")}}
    return body


def step_of(write: PlannedWrite, planned: PlannedObject, result: Document | None) -> Step | Response:
    """Return the step of a write by the server's result, or (None) by the write itself; a response if the write is refused."""
    if write.target.subresource == "scale":
        return _scaled(write.body if result is None else result)
    if result is None:
        return _local_step(write, planned)
    if write.verb == "apply" and planned.origin is None:
        intent = _patched_part(write)
        # The result is an object created from this intent only: its defaults must not replace another writer's values.
        return lambda state: three_way({}, three_way({}, result, state), intent) if state else result
    origin = dict(planned.origin or {})
    if write.verb == "merge" and planned.steps:
        patch = _patched_part(write)
        return lambda state: merge_patch(three_way(origin, state, result), patch)
    return lambda state: three_way(origin, state, result)


def _scaled(scale: Any) -> Step:
    replicas = scale.get("spec", {}).get("replicas")
    return lambda state: merge_patch(state, {"spec": {"replicas": replicas}})


def _patched_part(write: PlannedWrite) -> dict[str, Any]:
    """Return the part of a merge patch that its subresource takes, without its guard."""
    body: dict[str, Any] = write.body
    if write.target.subresource:
        return {"status": body["status"]} if "status" in body else {}
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name not in _GUARDS}
    rest = {name: value for name, value in body.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


_GUARDS = frozenset({"uid", "resourceVersion"})


def _local_step(write: PlannedWrite, planned: PlannedObject) -> Step | Response:
    if write.verb == "json":
        try:
            jsonpatch.apply_patch(planned.current, write.body)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            return refusal(422, "Invalid", f"the plan refuses the JSON patch: {error}", planned.object_id)
        # The tests held for the present state; the steps before do not have its version.
        return _json_patched([operation for operation in write.body if operation.get("op") != "test"])
    if write.verb in {"merge", "strategic"}:
        patch = _patched_part(write)
        return lambda state: merge_patch(state, patch)
    if write.verb == "replace" and not write.target.subresource:
        body: Document = write.body
        return lambda state: {**body, "metadata": {**state["metadata"], **body.get("metadata", {})}}
    intent = _patched_part(write)
    if write.target.subresource:
        return lambda state: {**state, "status": three_way({}, state.get("status") or {}, intent.get("status") or {})}
    return lambda state: three_way({}, state, intent) if state else intent


def _json_patched(operations: list[dict[str, Any]]) -> Step:
    def patched(state: Document) -> Document:
        try:
            document: Document = jsonpatch.apply_patch(state, operations)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            return state  # an earlier writer's later apply removed what the patch changed
        return document

    return patched
