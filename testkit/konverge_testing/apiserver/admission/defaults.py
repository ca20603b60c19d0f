"""The built-in mutating plugins, which fill in new objects: a pod's ServiceAccount, tolerations and priority, a claim's finalizer, classes.

Guarantees: pure apart from reading ServiceAccounts, PriorityClasses and nodes; `call.object` is changed in place. The rules are those of
Kubernetes' `plugin/pkg/admission/{serviceaccount,defaulttolerationseconds,podtopologylabels,priority}` and of
`plugin/pkg/admission/storage/storageobjectinuseprotection`.

LimitRanger is in `limits`, the plugins for classes are in `classes`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from konverge_testing.apiserver.admission.call import AdmissionCall, Data, denied
from konverge_testing.apiserver.admission.classes import fill_ingress_class, fill_runtime, fill_storage_class
from konverge_testing.apiserver.draws import Draws, ObjectDraws
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects

__all__ = ["ServiceAccounts", "fill", "fills"]

ServiceAccounts: TypeAlias = Literal["full", "name", "off"]
"""The ServiceAccount plugin: as upstream (the account must exist, its token is mounted); only the name; or disabled."""

PODS: Final = ("", "pods")
_PROTECTED: Final = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
_ACCOUNTS: Final = ("", "serviceaccounts")
_PRIORITIES: Final = ("scheduling.k8s.io", "priorityclasses")
_INGRESSES: Final = ("networking.k8s.io", "ingresses")
_NODES: Final = ("", "nodes")
_TOPOLOGY: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_MIRROR: Final = "kubernetes.io/config.mirror"
_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME: Final = "kube-api-access-"
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def fills(call: AdmissionCall) -> bool:
    """Tell whether `fill` would change the object of a call."""
    if call.object is None:
        return False
    if call.resource.group:
        return call.operation == "CREATE" and not call.subresource and (call.id == _INGRESSES or call.id in _PROTECTED)
    if call.subresource:
        return call.operation == "CREATE" and (call.resource.plural, call.subresource) == ("pods", "binding")
    if call.operation == "UPDATE":
        return call.id == PODS
    return call.operation == "CREATE" and (call.id == PODS or call.id in _PROTECTED)


def fill(call: AdmissionCall, objects: Objects, accounts: ServiceAccounts, draws: Draws) -> None:
    """Change a new object as the built-in plugins do; raises their refusals."""
    if not fills(call) or call.object is None:
        return
    if call.subresource:
        target = call.object.get("target") or {}
        if target.get("kind") == "Node":
            _topology(call.object, objects, target.get("name") or "")
    elif call.id == PODS:
        pod = call.object
        if call.operation == "UPDATE":
            _again(pod, call.old or {})
            return
        if accounts != "off":
            _account(call, pod, objects, accounts, draws)
        spec = pod.setdefault("spec", {})
        _tolerations(spec)
        _priority(call, spec, objects)
        fill_runtime(call, pod, objects)
        _topology(pod, objects, spec.get("nodeName") or "")
    elif call.id == _INGRESSES:
        fill_ingress_class(call.object, objects)
    else:
        if call.resource.plural == "persistentvolumeclaims":
            fill_storage_class(call.object, objects)
        finalizers = call.object.setdefault("metadata", {}).setdefault("finalizers", [])
        if (finalizer := _PROTECTED[call.id]) not in finalizers:
            finalizers.append(finalizer)


def _again(pod: Data, old: Data) -> None:
    """Restore what an update omits: the tolerations of the creation, and the priority."""
    spec, before = pod.setdefault("spec", {}), old.get("spec") or {}
    _tolerations(spec)
    for name in ("priority", "preemptionPolicy"):
        if spec.get(name) is None and name in before:
            spec[name] = before[name]


def _topology(found: Data, objects: Objects, name: str) -> None:
    """Put the zone and region of a node into the labels of a pod, or of the binding that schedules the pod to the node."""
    node = objects.get(_NODES, "", name) if name else None
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    if copied := {key: labels[key] for key in _TOPOLOGY if key in labels}:
        metadata = found.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **copied}


def _tolerations(spec: Data) -> None:
    tolerations = spec.get("tolerations") or []
    for taint in _TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            entry = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, entry]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Data, taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in ("", "NoExecute")


# -- priority ---------------------------------------------------------------------------------------------------------


def _priority(call: AdmissionCall, spec: Data, objects: Objects) -> None:
    name = spec.get("priorityClassName", "")
    if name:
        found = objects.get(_PRIORITIES, "", name)
        if found is None and name in _SYSTEM_PRIORITIES:
            found = {"value": _SYSTEM_PRIORITIES[name]}
        if found is None:
            raise denied(call, f"no PriorityClass with name {name} was found")
    else:
        found = _default_class(objects)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = int((found or {}).get("value", 0))
    if spec.get("priority", value) != value:
        words = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise denied(call, words)
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy", policy) != policy:
        words = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise denied(call, words)
    spec["preemptionPolicy"] = policy


def _default_class(objects: Objects) -> Data | None:
    if not objects.changed(_PRIORITIES):
        return None
    defaults = [found for found in objects.list(_PRIORITIES) if found.get("globalDefault")]
    return min(defaults, key=lambda found: int(found.get("value", 0)), default=None)


# -- ServiceAccounts --------------------------------------------------------------------------------------------------


def _account(call: AdmissionCall, pod: Data, objects: Objects, accounts: ServiceAccounts, draws: Draws) -> None:
    spec = pod.setdefault("spec", {})
    if _MIRROR in (pod.get("metadata", {}).get("annotations") or {}):
        if spec.get("serviceAccountName"):
            raise denied(call, "a mirror pod may not reference service accounts")
        return
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if accounts == "name":
        return
    account = objects.get(_ACCOUNTS, call.namespace, name)
    if account is None:
        words = f"error looking up service account {call.namespace}/{name}: serviceaccount {quoted(name)} not found"
        raise denied(call, words)
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        _mount(spec, draws.of(call.resource.kind, pod))
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret["name"]} for secret in account["imagePullSecrets"]]


def _mount(spec: Data, draws: ObjectDraws) -> None:
    volumes = spec.get("volumes") or []
    own = next((volume["name"] for volume in volumes if volume["name"].startswith(_VOLUME)), "")
    name = own or draws.suffixed("token volume", _VOLUME)
    needed = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == _MOUNT for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _MOUNT})
            needed = True
    if needed and not own:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
