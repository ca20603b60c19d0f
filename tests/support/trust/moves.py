"""Random moves of a tenant: every kind, field, label, annotation, finalizer, owner reference and name that the role allows, in any order.

Guarantees: a move is plain data, so an example shrinks and its text repeats it. Values that name the victim's objects are placeholders
(`$instance`, `$uid`), which are replaced before a request is sent: names and UIDs of the stage differ from run to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal

from any_value import changed
from hypothesis import strategies as st
from trust.attack import FOREIGN, Scene
from trust.stage import ATTACKER, HOME, INSTANCES, PRIVATE, VELERO, VICTIM
from trust.victim import APP, ENGINES, operation

from konverge.client.requests import APPLY, JSON, MERGE
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge.crds.quota_v1beta2 import ResourcePoolClaim
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import ApiError, Forbidden
from konverge.kinds import kind_of

Verb = Literal["create", "replace", "merge", "apply", "delete", "deletecollection", "status", "wait"]

_WORDS: Final = (
    "konverge.words",
    "konverge.reconcilers.apps.words",
    "konverge.reconcilers.apps.operations.words",
    "konverge.reconcilers.machines.words",
    "konverge.reconcilers.pools.words",
    "konverge.reconcilers.quota.words",
    "konverge.reconcilers.workspaces.words",
)
_PLACEHOLDERS: Final = ("$instance", "$private", "$claim", "$uid", "$instance-uid", "$bucket", "$backup", "$job")
_POINTED: Final = (
    *(*_PLACEHOLDERS, VICTIM, HOME, INSTANCES, PRIVATE, VELERO, "kube-system", "shop", "main", "treasure"),
    *("smtp-of-victim", "s3-keys", "values", "archive", "https://mallory.example.com", "http://169.254.169.254"),
    *("true", "false", "", "2000-01-01T00:00:00Z", "999999999999999999999", "a/b/c", "{}", "x" * 300),
)
_NAMES: Final = ("evil", "evil-1", "shop", "main", "own", "command", "treasure")
_TARGETS: Final[dict[Any, tuple[dict[str, Any], ...]]] = {
    ApplicationInstance: (
        {**APP, "release": {"name": "shop", "namespace": ATTACKER}},
        {"mode": "placeholder", "appRef": {"catalogId": "shop"}},
    ),
    Operation: (
        operation("RunCommand", "job", parameters={"image": "busybox", "command": ["sh"]}),
        operation("Backup", "velero"),
        operation("Restore", "velero", parameters={"backupName": "$backup"}),
        operation("Runbook", "workflow", parameters={"workflowTemplate": "runbook"}),
        operation("Backup", "volsync", parameters={"pvc": "data", "repository": {"secretName": "values"}}),
        operation("Upgrade", "helm", parameters={"targetVersion": "2.0.0"}),
    ),
    Nextcloud: (
        {"poolSelector": {"matchLabels": {"tier": "shared"}}},
        {"poolSelector": {"matchLabels": {"tier": "private"}}},
        {"instanceRef": {"name": "$instance"}},
        {"instanceRef": {"name": "$private", "namespace": PRIVATE}},
        {"profile": "base"},
        {},
    ),
    ResourcePoolClaim: ({"pool": "shared", "claim": {"requests.cpu": "1"}}, {"claim": {"requests.memory": "1Gi"}}),
    WorkspaceClaim: ({"id": "own"}, {"id": "treasure"}, {}),
}
"""The kinds of tenants, and good specifications of each."""
_EVIL: Final = "evil"


@dataclass(frozen=True)
class Move:
    """One request of the tenant, or a pause."""

    verb: Verb
    model: type[Any] | None = None
    name: str = _EVIL
    body: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ATTACKER
    seconds: float = 0.0


def _keys() -> tuple[str, ...]:
    """Return every label, annotation and finalizer that the daemon knows."""
    found = set(ENGINES)
    for module in _WORDS:
        for holder in [import_module(module), *vars(import_module(module)).values()]:
            members = vars(holder) if hasattr(holder, "__dict__") else {}
            found |= {text for text in members.values() if isinstance(text, str) and _is_key(text)}
            for text in members.values():
                if isinstance(text, tuple):
                    found |= {one for one in text if isinstance(one, str) and _is_key(one)}
    return tuple(sorted(found))


def _is_key(text: str) -> bool:
    domain, slash, name = text.partition("/")
    return bool(slash and name) and "." in domain and " " not in text and len(text) < 120


_KEYS: Final = _keys()


def _metadata() -> st.SearchStrategy[dict[str, Any]]:
    values = st.sampled_from(_POINTED)
    marks = st.dictionaries(st.sampled_from(_KEYS), values, max_size=3)
    kinds = st.sampled_from(
        [ApplicationInstance, Operation, Nextcloud, NextcloudInstance, ResourcePoolClaim, WorkspaceClaim]
    )
    owner = st.builds(
        lambda model, uid, name, controller: {
            "apiVersion": kind_of(model).api_version,
            "kind": kind_of(model).kind,
            "name": name,
            "uid": uid,
            "controller": controller,
            "blockOwnerDeletion": controller,
        },
        kinds,
        st.sampled_from(["$uid", "$instance-uid", "forged"]),
        st.sampled_from(["main", "$instance", "shop"]),
        st.booleans(),
    )
    finalizers = st.lists(
        st.sampled_from([*(key for key in _KEYS if "finalizer" in key), f"{FOREIGN}never"]), max_size=2
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "labels": marks,
            "annotations": marks,
            "ownerReferences": st.lists(owner, max_size=1),
            "finalizers": finalizers,
        },
    )


@st.composite
def _pointed(draw: st.DrawFn, spec: Any) -> Any:
    """Replace some texts of a specification by values that name the victim."""
    if isinstance(spec, dict):
        return {name: draw(_pointed(inner)) for name, inner in spec.items()}
    if isinstance(spec, list):
        return [draw(_pointed(inner)) for inner in spec]
    if isinstance(spec, str) and draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(_POINTED))
    return spec


@st.composite
def _spec(draw: st.DrawFn, model: type[Any]) -> dict[str, Any]:
    base = draw(st.sampled_from(_TARGETS[model]))
    schema = crd(model)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec = draw(changed(base, schema)) if draw(st.booleans()) else base
    found: dict[str, Any] = draw(_pointed(spec)) if draw(st.booleans()) else spec
    return found


@st.composite
def _move(draw: st.DrawFn) -> Move:
    verb: Verb = draw(
        st.sampled_from(
            ["create", "create", "replace", "merge", "apply", "delete", "deletecollection", "status", "wait", "wait"]
        )
    )
    if verb == "wait":
        return Move("wait", seconds=draw(st.sampled_from([1.0, 10.0, 60.0])))
    model = draw(st.sampled_from(list(_TARGETS)))
    name = draw(st.sampled_from(_NAMES))
    namespace = draw(st.sampled_from([ATTACKER] * 9 + [VICTIM, HOME, INSTANCES]))
    if verb in ("delete", "deletecollection"):
        return Move(verb, model, name, namespace=namespace)
    spec = draw(_spec(model))
    if verb == "status":
        return Move(verb, model, name, {"status": {"phase": "Ready", **spec}}, namespace)
    return Move(verb, model, name, {"metadata": draw(_metadata()), "spec": spec}, namespace)


def moves(count: int) -> st.SearchStrategy[list[Move]]:
    """Draw a sequence of moves; its first move creates an application, which every Operation needs."""
    first = Move(
        "create",
        ApplicationInstance,
        "shop",
        {"metadata": {"annotations": ENGINES}, "spec": _TARGETS[ApplicationInstance][0]},
    )
    return st.lists(_move(), min_size=count, max_size=count).map(lambda drawn: [first, *drawn])


async def make_move(here: Scene, move: Move, names: Mapping[str, str]) -> str:
    """Send a move; return what is wrong with the response of the API server, "" if nothing is."""
    if move.verb == "wait":
        await here.rest(move.seconds)
        return ""
    what = kind_of(move.model)
    tenant = here.wanda if what.namespaced is False else here.mallory
    place = "" if what.namespaced is False else f"/namespaces/{move.namespace}"
    collection = f"/apis/{what.api_version}{place}/{what.plural}"
    name = names.get(move.name, move.name)
    body = json.loads(_filled(json.dumps(move.body), names))
    body |= {"apiVersion": what.api_version, "kind": what.kind}
    body.setdefault("metadata", {})["name"] = name
    forbidden = move.verb == "status" or (what.namespaced is not False and move.namespace != ATTACKER)
    try:
        match move.verb:
            case "create":
                await tenant.client.raw("POST", collection, body=body)
            case "replace":
                await tenant.client.raw("PUT", f"{collection}/{name}", body=body, content_type=JSON)
            case "merge":
                await tenant.client.raw("PATCH", f"{collection}/{name}", body=body, content_type=MERGE)
            case "apply":
                query = {"fieldManager": "konverge", "force": "true"}
                await tenant.client.raw("PATCH", f"{collection}/{name}", body=body, content_type=APPLY, params=query)
            case "status":
                await tenant.client.raw("PATCH", f"{collection}/{name}/status", body=body, content_type=MERGE)
            case "delete":
                await tenant.client.raw("DELETE", f"{collection}/{name}")
            case "deletecollection":
                await tenant.client.raw("DELETE", collection)
    except Forbidden:
        return ""
    except ApiError as error:
        return f"{move} was answered with {error}" if forbidden else ""
    await _own_workspaces(here)
    return f"{move} was allowed" if forbidden else ""


async def _own_workspaces(here: Scene) -> None:
    for claim in (await here.admin.list(WorkspaceClaim)).items:
        if claim.name != "victim" and claim.metadata.uid not in here.judge.uids:
            here.judge.owns_workspace(claim.metadata.uid, "" if claim.workspace == "treasure" else claim.workspace)


def _filled(text: str, names: Mapping[str, str]) -> str:
    for placeholder in sorted(names, key=len, reverse=True):
        text = text.replace(placeholder, names[placeholder])
    return text


async def names_of_victim(here: Scene) -> dict[str, str]:
    """Return the values of the placeholders."""
    claim = await here.admin.get(Nextcloud, "main", VICTIM)
    reference = claim.status.instance_ref
    assert reference is not None
    instance = await here.admin.get(NextcloudInstance, reference.name, INSTANCES)
    private = [one for one in (await here.admin.list(NextcloudInstance, PRIVATE)).items if one.spec.claim_ref is None]
    backup = await here.admin.get(Operation, "nightly", VICTIM)
    command = await here.admin.get(Operation, "command", VICTIM)
    applied = instance.status.applied_s3_config
    return {
        "$instance-uid": instance.metadata.uid,
        "$instance": instance.name,
        "$private": private[0].name,
        "$claim": claim.name,
        "$uid": claim.metadata.uid,
        "$bucket": (applied.bucket if applied is not None else None) or "",
        "$backup": backup.status.outputs["backupName"],
        "$job": command.status.outputs["jobName"],
    }
