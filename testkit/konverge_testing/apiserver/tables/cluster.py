"""Rows of cluster-wide and basic kinds: namespaces, nodes, configuration, events, leases, rights, admission, and the rest.

Guarantees: pure; one function a kind, cells in the order of `columns.json`.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`, k8s.io/kube-aggregator `pkg/registry/apiservice/etcd/etcd.go`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from konverge_testing.apiserver.tables.durations import human, since
from konverge_testing.apiserver.tables.values import (
    Cells,
    Data,
    age,
    at,
    conditions,
    items,
    name,
    number,
    selector,
    text,
)

__all__ = ["CLUSTER"]

_ROLE: Final = "node-role.kubernetes.io/"


def _plain(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), age(object_, now)]


def _namespace(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), text(object_, "status", "phase"), age(object_, now)]


def _config_map(object_: Data, now: datetime) -> list[Any]:
    count = len(at(object_, "data") or ()) + len(at(object_, "binaryData") or ())
    return [name(object_), count, age(object_, now)]


def _secret(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), text(object_, "type"), len(at(object_, "data") or ()), age(object_, now)]


def _node(object_: Data, now: datetime) -> list[Any]:
    ready = conditions(object_).get("Ready")
    state = "Unknown" if ready is None else "Ready" if text(ready, "status") == "True" else "NotReady"
    if at(object_, "spec", "unschedulable"):
        state += ",SchedulingDisabled"
    found = at(object_, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE) for key in found if key.startswith(_ROLE)} | {found.get("kubernetes.io/role", "")}
    addresses: dict[str, str] = {}
    for each in items(object_, "status", "addresses"):
        addresses.setdefault(text(each, "type"), text(each, "address"))
    info = at(object_, "status", "nodeInfo")
    machine = text(info, "architecture")
    return [
        name(object_),
        state,
        ",".join(sorted(roles - {""})) or "<none>",
        age(object_, now),
        text(info, "kubeletVersion"),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        text(info, "osImage") or "<unknown>",
        (text(info, "kernelVersion") or "<unknown>") + (f" ({machine})" if machine else ""),
        text(info, "containerRuntimeVersion") or "<unknown>",
    ]


def _event(object_: Data, now: datetime) -> list[Any]:
    """An event of either group: events.k8s.io has other names for the same fields."""

    def either(core: str, other: str) -> Any:
        found = at(object_, core)
        return at(object_, other) if found is None else found

    first = since(either("firstTimestamp", "deprecatedFirstTimestamp") or at(object_, "eventTime"), now)
    stamp = either("lastTimestamp", "deprecatedLastTimestamp")
    last = since(stamp, now) if stamp else first
    count = either("count", "deprecatedCount") or 1
    if (series := at(object_, "series")) is not None:
        last, count = since(at(series, "lastObservedTime"), now), number(series, "count")
    about, source = either("involvedObject", "regarding"), either("source", "deprecatedSource")
    target = text(about, "kind").lower() + (f"/{text(about, 'name')}" if text(about, "name") else "")
    component = text(source, "component") or str(either("reportingComponent", "reportingController") or "")
    instance = text(source, "host") or text(object_, "reportingInstance")
    return [
        last,
        text(object_, "type"),
        text(object_, "reason"),
        target,
        text(about, "fieldPath"),
        f"{component}, {instance}" if instance else component,
        str(either("message", "note") or "").strip(),
        first,
        count,
        name(object_),
    ]


def _lease(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), text(object_, "spec", "holderIdentity"), age(object_, now)]


def _quota(object_: Data, now: datetime) -> list[Any]:
    hard, used = at(object_, "status", "hard") or {}, at(object_, "status", "used")
    shown: dict[bool, list[str]] = {False: [], True: []}
    for resource in sorted(hard):
        shown[resource.startswith("limits.")].append(f"{resource}: {text(used, resource) or '0'}/{hard[resource]}")
    return [name(object_), ", ".join(shown[False]), ", ".join(shown[True]), age(object_, now)]


def _binding(object_: Data, now: datetime) -> list[Any]:
    role = f"{text(object_, 'roleRef', 'kind')}/{text(object_, 'roleRef', 'name')}"
    shown: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in items(object_, "subjects"):
        kind, who = text(subject, "kind"), text(subject, "name")
        if kind in shown:
            shown[kind].append(f"{text(subject, 'namespace')}/{who}" if kind == "ServiceAccount" else who)
    return [name(object_), role, age(object_, now), *(", ".join(each) for each in shown.values())]


def _webhooks(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), len(items(object_, "webhooks")), age(object_, now)]


def _admission(counted: str) -> Cells:
    def cells(object_: Data, now: datetime) -> list[Any]:
        kind = at(object_, "spec", "paramKind")
        shown = "<unset>" if kind is None else f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}"
        return [name(object_), len(items(object_, "spec", counted)), shown, age(object_, now)]

    return cells


def _admission_binding(object_: Data, now: datetime) -> list[Any]:
    reference, shown = at(object_, "spec", "paramRef"), "<unset>"
    if text(reference, "name"):
        shown = f"{text(reference, 'namespace') or '*'}/{text(reference, 'name')}"
    elif at(reference, "selector") is not None:
        shown = selector(at(reference, "selector"))
    return [name(object_), text(object_, "spec", "policyName"), shown, age(object_, now)]


def _priority(object_: Data, now: datetime) -> list[Any]:
    default = bool(at(object_, "globalDefault"))
    return [name(object_), number(object_, "value"), default, age(object_, now), text(object_, "preemptionPolicy")]


def _api_service(object_: Data, now: datetime) -> list[Any]:
    service = at(object_, "spec", "service")
    shown = "Local" if service is None else f"{text(service, 'namespace')}/{text(service, 'name')}"
    available, state = conditions(object_).get("Available"), "Unknown"
    if available is not None:
        state, reason = text(available, "status"), text(available, "reason")
        if state != "True" and reason:
            state += f" ({reason})"
    return [name(object_), shown, state, age(object_, now)]


def _request(object_: Data, now: datetime) -> list[Any]:
    spec, found = at(object_, "spec"), conditions(object_)
    state = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    state += ",Failed" if "Failed" in found else ""
    state += ",Issued" if at(object_, "status", "certificate") else ""
    wanted = at(spec, "expirationSeconds")
    lasting = "<none>" if wanted is None else human(float(wanted))
    return [
        name(object_),
        age(object_, now),
        text(spec, "signerName") or "<none>",
        text(spec, "username"),
        lasting,
        state,
    ]


def _runtime_class(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), text(object_, "handler"), age(object_, now)]


def _driver(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    tokens = at(spec, "tokenRequests")
    attach = at(spec, "attachRequired")
    flags = True if attach is None else attach, bool(at(spec, "podInfoOnMount")), bool(at(spec, "storageCapacity"))
    audiences = "<unset>" if tokens is None else ",".join(text(each, "audience") for each in tokens)
    modes = ",".join(at(spec, "volumeLifecycleModes") or ()) or "<none>"
    return [name(object_), *flags, audiences, bool(at(spec, "requiresRepublish")), modes, age(object_, now)]


def _csi_node(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), len(items(object_, "spec", "drivers")), age(object_, now)]


def _attachment(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    volume = text(spec, "source", "persistentVolumeName")
    attached = bool(at(object_, "status", "attached"))
    return [name(object_), text(spec, "attacher"), volume, text(spec, "nodeName"), attached, age(object_, now)]


def _attributes_class(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), text(object_, "driverName"), age(object_, now)]


_REGISTRATION: Final = "admissionregistration.k8s.io"
_RIGHTS: Final = "rbac.authorization.k8s.io"

CLUSTER: Final[dict[tuple[str, str], Cells]] = {
    ("", "configmaps"): _config_map,
    ("", "events"): _event,
    ("", "namespaces"): _namespace,
    ("", "nodes"): _node,
    ("", "resourcequotas"): _quota,
    ("", "secrets"): _secret,
    ("", "serviceaccounts"): _plain,
    (_REGISTRATION, "mutatingadmissionpolicies"): _admission("mutations"),
    (_REGISTRATION, "mutatingadmissionpolicybindings"): _admission_binding,
    (_REGISTRATION, "mutatingwebhookconfigurations"): _webhooks,
    (_REGISTRATION, "validatingadmissionpolicies"): _admission("validations"),
    (_REGISTRATION, "validatingadmissionpolicybindings"): _admission_binding,
    (_REGISTRATION, "validatingwebhookconfigurations"): _webhooks,
    ("apiregistration.k8s.io", "apiservices"): _api_service,
    ("certificates.k8s.io", "certificatesigningrequests"): _request,
    ("coordination.k8s.io", "leases"): _lease,
    ("events.k8s.io", "events"): _event,
    ("node.k8s.io", "runtimeclasses"): _runtime_class,
    (_RIGHTS, "clusterrolebindings"): _binding,
    (_RIGHTS, "rolebindings"): _binding,
    ("scheduling.k8s.io", "priorityclasses"): _priority,
    ("storage.k8s.io", "csidrivers"): _driver,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("storage.k8s.io", "volumeattachments"): _attachment,
    ("storage.k8s.io", "volumeattributesclasses"): _attributes_class,
}
"""The cells of each kind by group and plural."""
