"""Webhooks and their responses: `recorder` serves them to the real server, the tests to the in-memory server."""

import asyncio
import base64
import json
from typing import Any

from aiohttp import web

Data = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
_RULE: Data = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}


def webhook(name: str = "hook", **more: Any) -> Data:
    """Return a webhook at the recorder's address."""
    return {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"ADDRESS/{name}", "caBundle": "BUNDLE"},
        "rules": [_RULE],
        **more,
    }


def patch(*operations: Data, kind: str = "JSONPatch") -> Data:
    """Return a response with a patch."""
    return {"allowed": True, "patchType": kind, "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def answered(behaviour: Any, review: Data, path: str) -> Data | None:
    """Return the AdmissionReview of a behaviour that is a response, or a response per path; None for any other behaviour."""
    if isinstance(behaviour, dict) and path in behaviour:
        behaviour = behaviour[path]
    if not isinstance(behaviour, dict):
        return None
    response = {"uid": review["request"]["uid"], **behaviour}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


async def plane_answer(behaviour: Any, review: Data, path: str) -> web.StreamResponse:
    """Respond to the real server."""
    result = answered(behaviour, review, path)
    if result is not None:
        return web.json_response(result)
    if behaviour == "late":
        await asyncio.sleep(3)
    if behaviour == "broken":
        return web.Response(status=500, text="boom")
    if behaviour == "absent":
        return web.Response(status=404, text="no such path")
    if behaviour == "status":
        return web.json_response(
            {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "own words"}, status=503
        )
    return web.json_response({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})


def case(
    name: str,
    answer: Any,
    *webhooks: Data,
    kind: str = "Validating",
    method: str = "POST",
    path: str = MAPS,
    body: Data | None = None,
) -> Data:
    """Return a case; by default with one plain webhook."""
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}}
    if body is not None:
        whole = {**whole, **body}
    hooks = list(webhooks or (webhook(),))
    return {
        "name": name,
        "kind": kind,
        "webhooks": hooks,
        "behaviour": answer,
        "request": [method, path, whole if method != "DELETE" else None],
    }


YES: Data = {"allowed": True}
NO: Data = {"allowed": False}
_ADD: Data = {"op": "add", "path": "/data/added", "value": "yes"}
KEPT = f"{MAPS}/kept"
_AGAIN = "IfNeeded"

HOOKS: list[Data] = [
    case("allowed with warnings", {**YES, "warnings": ["one", 'two "x"']}),
    case("denied", NO),
    case("denied in words", {**NO, "status": {"message": "no way", "code": 418, "reason": "Teapot"}}),
    case("denied for a reason", {**NO, "status": {"reason": "JustNo"}}),
    case("denied with details", {**NO, "status": {"message": "m", "code": 422, "details": {"causes": [{"message": "c", "field": "f"}]}}}),
    case("denied with a success code", {**NO, "status": {"code": 200, "status": "Success"}}),
    case("late", "late", webhook(timeoutSeconds=1)),
    case("late and ignored", "late", webhook(timeoutSeconds=1, failurePolicy="Ignore")),
    case("broken", "broken"),
    case("broken and ignored", "broken", webhook(failurePolicy="Ignore")),
    case("absent", "absent"),
    case("a status", "status"),
    case("no response", "nothing"),
    case("another uid", {**YES, "uid": "other"}),
    case("validating with a patch", patch(_ADD)),
    case("refused", YES, webhook(clientConfig={"url": "https://127.0.0.1:1/x"})),
    case("refused and ignored", YES, webhook(clientConfig={"url": "https://127.0.0.1:1/x"}, failurePolicy="Ignore")),
    case("no service", YES, webhook(clientConfig={"service": {"name": "svc", "namespace": "default", "path": "/p"}})),
    case("unknown authority", YES, webhook(clientConfig={"url": "ADDRESS/x"})),
    case("an update", NO, method="PUT", path=KEPT, body={"metadata": {"name": "kept"}}),
    case("a patch", NO, method="PATCH", path=f"{KEPT}?fieldManager=me", body={"metadata": {"name": "kept"}}),
    case("a deletion", NO, method="DELETE", path=KEPT),
    case("another operation", NO, webhook(rules=[{**_RULE, "operations": ["UPDATE"]}])),
    case("another resource", NO, webhook(rules=[{**_RULE, "resources": ["secrets", "configmaps/status"]}])),
    case("all resources", NO, webhook(rules=[{**_RULE, "resources": ["*"]}])),
    case("all groups, versions and parts", NO, webhook(rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["CREATE"]}])),
    case("cluster scope", NO, webhook(rules=[{**_RULE, "scope": "Cluster"}])),
    case("namespaced scope", NO, webhook(rules=[{**_RULE, "scope": "Namespaced"}])),
    case("another namespace", NO, webhook(namespaceSelector={"matchLabels": {"a": "b"}})),
    case("this namespace", NO, webhook(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}})),
    case("another object", NO, webhook(objectSelector={"matchExpressions": [{"key": "x", "operator": "Exists"}]})),
    case("an object without", NO, webhook(objectSelector={"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]})),
    case("dry run", NO, path=f"{MAPS}?dryRun=All"),
    case("dry run without side effects", {**YES}, webhook(sideEffects="NoneOnDryRun"), path=f"{MAPS}?dryRun=All"),
    case("a condition that holds", NO, webhook(matchConditions=[{"name": "c", "expression": "object.data.k == 'v' && request.operation == 'CREATE'"}])),
    case("a condition that does not", NO, webhook(matchConditions=[{"name": "c", "expression": "object.data.k == 'w'"}])),
    case("a condition that fails", YES, webhook(matchConditions=[{"name": "c", "expression": "object.data.absent == 'w'"}])),
    case("a condition that fails and one that does not hold", NO, webhook(matchConditions=[
        {"name": "c", "expression": "object.data.absent == 'w'"}, {"name": "d", "expression": "false"}])),
    case("a condition that fails and is ignored", NO, webhook(failurePolicy="Ignore", matchConditions=[
        {"name": "c", "expression": "object.data.absent == 'w'"}])),
    case("a namespace by its labels", NO, webhook(rules=[{**_RULE, "resources": ["namespaces"]}], namespaceSelector={"matchLabels": {"a": "b"}}),
         path="/api/v1/namespaces", body={"kind": "Namespace", "metadata": {"name": "hooked", "labels": {"a": "b"}}, "data": None}),
    case("events are exempt", NO, webhook(rules=[{"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"], "resources": ["*"], "operations": ["CREATE"]}]),
         path="/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?dryRun=All",
         body={"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "data": None}),
    case("patched", patch(_ADD), kind="Mutating"),
    case("patched in turn", {"/one": patch(_ADD), "/two": patch({**_ADD, "path": "/data/two"})}, webhook("one"), webhook("two"), kind="Mutating"),
    case("asked again", {"/one": patch(_ADD), "/two": patch({**_ADD, "path": "/data/two"})},
         webhook("one", reinvocationPolicy=_AGAIN), webhook("two"), kind="Mutating"),
    case("not asked again by oneself", {"/one": YES, "/two": patch(_ADD)}, webhook("one"), webhook("two", reinvocationPolicy=_AGAIN), kind="Mutating"),
    case("patched without effect", {"/one": patch(_ADD), "/two": patch(_ADD)}, webhook("one", reinvocationPolicy=_AGAIN), webhook("two"), kind="Mutating"),
    case("removes what is not there", patch({"op": "remove", "path": "/spec/x"}), kind="Mutating"),
    case("removes a key that is not there", patch({"op": "remove", "path": "/data/x"}), kind="Mutating"),
    case("replaces a key that is not there", patch({"op": "replace", "path": "/data/x", "value": "y"}), kind="Mutating"),
    case("replaces below what is not there", patch({"op": "replace", "path": "/spec/x", "value": "y"}), kind="Mutating"),
    case("tests a key that is not there", patch({"op": "test", "path": "/data/x", "value": "y"}), kind="Mutating"),
    case("tests below what is not there", patch({"op": "test", "path": "/spec/x", "value": "y"}), kind="Mutating"),
    case("adds below what is not there", patch({"op": "add", "path": "/spec/x", "value": "y"}), kind="Mutating"),
    case("adds beyond a list", patch({"op": "add", "path": "/metadata/finalizers", "value": []}, {"op": "add", "path": "/metadata/finalizers/1", "value": "example.com/x"}), kind="Mutating"),
    case("removes beyond a list", patch({"op": "add", "path": "/metadata/finalizers", "value": []}, {"op": "remove", "path": "/metadata/finalizers/1"}), kind="Mutating"),
    case("moves what is not there", patch({"op": "move", "from": "/spec/x", "path": "/data/y"}), kind="Mutating"),
    case("copies what is not there", patch({"op": "copy", "from": "/spec/x", "path": "/data/y"}), kind="Mutating"),
    case("an unknown operation", patch({"op": "zap", "path": "/data/x"}), kind="Mutating"),
    case("fails a test", patch({"op": "test", "path": "/kind", "value": "x"}), kind="Mutating"),
    case("patches by another type", patch(_ADD, kind="Merge"), kind="Mutating"),
    case("a patch without a type", {**YES, "patch": "W10="}, kind="Mutating"),
    case("a type without a patch", {**YES, "patchType": "JSONPatch"}, kind="Mutating"),
    case("no list of operations", {**YES, "patchType": "JSONPatch", "patch": base64.b64encode(b'{"a":1}').decode()}, kind="Mutating"),
    case("an empty patch", {**YES, "patchType": "JSONPatch", "patch": "W10="}, kind="Mutating"),
    case("patches a deletion", patch(_ADD), kind="Mutating", method="DELETE", path=KEPT),
    case("denied with a patch", {**patch(_ADD), **NO}, kind="Mutating"),
]  # fmt: skip
