"""AdmissionReview: the request to a webhook, and the checks of its response. Pure.

The shape and the messages are from k8s.io/apiserver `pkg/admission/plugin/webhook/{request,errors}`.

Caveats: without `admission.k8s.io/v1beta1`, which a real server still sends to a webhook that lists it before v1.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from konverge_testing.apiserver.admission.answers import API, UndecodableError, reviewed
from konverge_testing.apiserver.admission.call import AdmissionCall, Data
from konverge_testing.apiserver.auth.authenticator import user_info
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.schemas.jsontext import syntax_error
from konverge_testing.apiserver.statuses import StatusError, not_implemented

__all__ = [
    "CallFailedError",
    "WebhookResponse",
    "accepts_v1",
    "as_own",
    "as_seen",
    "rejection",
    "request_for",
    "response_of",
]


class CallFailedError(Exception):
    """A webhook could not be called, or its response is invalid. The text is the server's; the failure policy decides about the write."""

    def __init__(self, hook: str, why: str) -> None:
        super().__init__(f"failed calling webhook {quoted(hook)}: {why}")
        self.why = why


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A webhook's response, checked."""

    allowed: bool
    patch: tuple[Data, ...] | None = None
    """The operations of a JSON patch; None if there is none."""
    status: Data | None = None
    warnings: tuple[str, ...] = ()


def accepts_v1(versions: object) -> bool:
    """Tell whether a hook can be called in v1; raises 501 if it prefers v1beta1. False: it lists no known version."""
    known = (
        [version for version in versions or () if version in ("v1", "v1beta1")] if isinstance(versions, list) else []
    )
    if known and known[0] == "v1beta1":
        raise not_implemented("AdmissionReview v1beta1")
    return bool(known)


def request_for(call: AdmissionCall, seen: tuple[str, str], uid: str) -> Data:
    """Return the AdmissionReview for a call, its objects shown in a group and version."""
    group, own_version, kind = call.kind
    resource, plural = call.resource.group, call.resource.plural
    shown = (group, own_version) if call.group_kind else seen
    request: Data = {
        "uid": uid,
        "kind": {"group": shown[0], "version": shown[1], "kind": kind},
        "resource": {"group": seen[0], "version": seen[1], "resource": plural},
        "subResource": call.subresource,
        "requestKind": {"group": group, "version": own_version, "kind": kind},
        "requestResource": {"group": resource, "version": call.version, "resource": plural},
        "requestSubResource": call.subresource,
        "name": call.name,
        "namespace": call.namespace,
    }
    request = {key: value for key, value in request.items() if value != ""}
    return {
        "kind": "AdmissionReview",
        "apiVersion": API,
        "request": {
            **request,
            "operation": call.operation,
            "userInfo": user_info(call.user),
            "object": as_seen(call, call.object, seen),
            "oldObject": as_seen(call, call.old, seen),
            "dryRun": call.dry_run,
            "options": call.options,
        },
    }


def as_seen(call: AdmissionCall, found: Data | None, seen: tuple[str, str]) -> Data | None:
    """Return an object in another group and version of its resource (conversion none: the fields stay); None stays None."""
    group, version = seen
    if found is None or call.group_kind or seen == (call.resource.group, call.version):
        return found
    twin = call.resource.twin
    if twin is not None and group == twin.stored[0]:
        return twin.write(found)
    return {**found, "apiVersion": call.resource.api_version(version)}


def as_own(call: AdmissionCall, found: Data, seen: tuple[str, str]) -> Data:
    """Convert an object from the group and version of a webhook's review back to the call's."""
    twin = call.resource.twin
    if twin is not None and seen[0] == twin.stored[0]:
        return twin.read(found)
    return {**found, "apiVersion": call.resource.api_version(call.version)}


def response_of(review: Any, uid: str, hook: str, *, mutating: bool) -> WebhookResponse:
    """Check a webhook's response; raises CallFailedError if it is invalid."""

    def wrong(why: str) -> CallFailedError:
        return CallFailedError(hook, f"received invalid webhook response: {why}")

    try:
        review = reviewed(review)
    except UndecodableError as error:
        raise CallFailedError(hook, f"failed to call webhook: {error}") from None
    response = review.get("response")
    if response is None:
        raise wrong("webhook response was absent")
    given = response.get("uid", "")
    if given != uid:
        raise wrong(f"expected response.uid={quoted(uid)}, got {quoted(given)}")
    version, kind = str(review.get("apiVersion", "")), str(review.get("kind", ""))
    if (version, kind) != (API, "AdmissionReview"):
        shown = f"{version or '/'}, Kind={kind}"
        raise wrong(f"expected webhook response of {API}, Kind=AdmissionReview, got {shown}")
    patch, patch_type = response.get("patch") or "", response.get("patchType")
    if problem := _patch_problem(patch, patch_type, mutating=mutating):
        raise wrong(problem)
    allowed = bool(response.get("allowed"))
    operations = _operations(patch, patch_type, hook) if patch and allowed else None
    return WebhookResponse(allowed, operations, response.get("status"), tuple(response.get("warnings") or ()))


def _patch_problem(patch: str, patch_type: str | None, *, mutating: bool) -> str:
    if not mutating:
        if patch:
            return "validating webhook may not return response.patch"
        return "" if patch_type is None else "validating webhook may not return response.patchType"
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if patch_type == "" else ""


def _operations(patch: str, patch_type: str | None, hook: str) -> tuple[Data, ...]:
    undecodable = "received undecodable patch in webhook response"
    text = base64.b64decode(patch).decode(errors="replace")
    try:
        operations = json.loads(text)
    except ValueError as error:
        raise CallFailedError(hook, f"{undecodable}: {syntax_error(text) or error}") from error
    if not isinstance(operations, list):
        kind = {dict: "object", str: "string", bool: "bool"}.get(type(operations), "number")
        raise CallFailedError(
            hook, f"{undecodable}: json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
        )
    if operations and patch_type != "JSONPatch":
        raise CallFailedError(hook, f"unsupported patch type {quoted(patch_type)}")
    return tuple(operations)


def rejection(hook: str, status: Data | None) -> StatusError:
    """Return the refusal of a webhook: its own code, reason and details, and its message after ours."""
    status = status or {}
    by = f"admission webhook {quoted(hook)} denied the request"
    reason = str(status.get("reason") or "")
    said = status.get("message") or reason
    code = max(int(status.get("code") or 0), 400)
    return StatusError(
        code, reason, f"{by}: {said}" if said else f"{by} without explanation", details=status.get("details")
    )
