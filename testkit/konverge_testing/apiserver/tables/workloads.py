"""Rows of workloads: Deployments and similar kinds, Jobs, autoscalers, disruption budgets.

Guarantees: pure; one function a kind, cells in the order of `columns.json`.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from konverge_testing.apiserver.tables.durations import human, parsed, since
from konverge_testing.apiserver.tables.values import (
    Cells,
    Data,
    age,
    at,
    conditions,
    containers,
    items,
    labels,
    name,
    number,
    selector,
    text,
)

__all__ = ["WORKLOADS"]


def _template(object_: Data) -> tuple[str, str]:
    return containers(at(object_, "spec", "template", "spec"))


def _deployment(object_: Data, now: datetime) -> list[Any]:
    ready = f"{number(object_, 'status', 'readyReplicas')}/{number(object_, 'spec', 'replicas')}"
    updated, available = number(object_, "status", "updatedReplicas"), number(object_, "status", "availableReplicas")
    chosen = selector(at(object_, "spec", "selector"))
    return [name(object_), ready, updated, available, age(object_, now), *_template(object_), chosen]


def _replicas(object_: Data, now: datetime) -> list[Any]:
    counts = (
        number(object_, "spec", "replicas"),
        number(object_, "status", "replicas"),
        number(object_, "status", "readyReplicas"),
    )
    return [name(object_), *counts, age(object_, now), *_template(object_)]


def _replica_set(object_: Data, now: datetime) -> list[Any]:
    return [*_replicas(object_, now), selector(at(object_, "spec", "selector")) or "<none>"]


def _replication_controller(object_: Data, now: datetime) -> list[Any]:
    return [*_replicas(object_, now), labels(at(object_, "spec", "selector"))]


def _stateful_set(object_: Data, now: datetime) -> list[Any]:
    ready = f"{number(object_, 'status', 'readyReplicas')}/{number(object_, 'spec', 'replicas')}"
    return [name(object_), ready, age(object_, now), *_template(object_)]


def _daemon_set(object_: Data, now: datetime) -> list[Any]:
    counted = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [number(object_, "status", each) for each in counted]
    nodes = labels(at(object_, "spec", "template", "spec", "nodeSelector"))
    chosen = selector(at(object_, "spec", "selector")) or "<none>"
    return [name(object_), *counts, nodes, age(object_, now), *_template(object_), chosen]


_JOB_STATES: Final = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job(object_: Data, now: datetime) -> list[Any]:
    succeeded, parallel = number(object_, "status", "succeeded"), number(object_, "spec", "parallelism")
    if at(object_, "spec", "completions") is not None:
        done = f"{succeeded}/{number(object_, 'spec', 'completions')}"
    else:
        done = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    started = parsed(at(object_, "status", "startTime"))
    ended = parsed(at(object_, "status", "completionTime")) or now
    took = human((ended - started).total_seconds()) if started else ""
    holds = {type_ for type_, condition in conditions(object_).items() if text(condition, "status") == "True"}
    holds -= {"Terminating"}
    if at(object_, "metadata", "deletionTimestamp"):
        holds.add("Terminating")
    state = next((state for state in _JOB_STATES if state in holds), "Running")
    chosen = selector(at(object_, "spec", "selector")) or "<none>"
    return [name(object_), state, done, took, age(object_, now), *_template(object_), chosen]


def _cron_job(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    suspended = at(spec, "suspend")
    last = at(object_, "status", "lastScheduleTime")
    job = at(spec, "jobTemplate", "spec")
    return [
        name(object_),
        text(spec, "schedule"),
        text(spec, "timeZone") if at(spec, "timeZone") is not None else "<none>",
        "<unset>" if suspended is None else str(bool(suspended)),
        len(items(object_, "status", "active")),
        since(last, now) if last else "<none>",
        age(object_, now),
        *containers(at(job, "template", "spec")),
        selector(at(job, "selector")) or "<none>",
    ]


def _pod_template(object_: Data, _: datetime) -> list[Any]:
    template = at(object_, "template")
    return [name(object_), *containers(at(template, "spec")), labels(at(template, "metadata", "labels"))]


def _budget(object_: Data, now: datetime) -> list[Any]:
    limits = [at(object_, "spec", each) for each in ("minAvailable", "maxUnavailable")]
    shown = ["N/A" if each is None else str(each) for each in limits]
    return [name(object_), *shown, number(object_, "status", "disruptionsAllowed"), age(object_, now)]


def _autoscaler(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    reference = f"{text(spec, 'scaleTargetRef', 'kind')}/{text(spec, 'scaleTargetRef', 'name')}"
    current = items(object_, "status", "currentMetrics")
    wanted = items(spec, "metrics")
    shown = [_metric(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(wanted)]
    targets = ", ".join(shown[:2]) or "<none>"
    if len(shown) > 2:
        targets += f" + {len(shown) - 2} more..."
    least = at(spec, "minReplicas")
    counts = (
        "<unset>" if least is None else str(least),
        number(spec, "maxReplicas"),
        number(object_, "status", "currentReplicas"),
    )
    return [name(object_), reference, targets, *counts, age(object_, now)]


_METRICS: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric(metric: Data, status: Data) -> str:
    type_ = text(metric, "type")
    if type_ not in _METRICS:
        return "<unknown type>"
    source, now_ = at(metric, _METRICS[type_]), at(status, _METRICS[type_])
    target, current = at(source, "target"), at(now_, "current")
    average = at(target, "averageValue")
    if type_ in ("External", "Object"):
        if average is not None:
            return f"{text(current, 'averageValue') or '<unknown>'}/{average} (avg)"
        return f"{_quantity(current, 'value') if now_ else '<unknown>'}/{_quantity(target, 'value')}"
    if type_ == "Pods":
        return f"{_quantity(current, 'averageValue') if now_ else '<unknown>'}/{_quantity(target, 'averageValue')}"
    head = f"{text(source, 'name')}: "
    if average is not None:
        return f"{head}{_quantity(current, 'averageValue') if now_ else '<unknown>'}/{average}"
    used, wanted = at(current, "averageUtilization"), at(target, "averageUtilization")
    return f"{head}{'<unknown>' if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _quantity(value: Any, key: str) -> str:
    return text(value, key) or "0"


def _revision(object_: Data, now: datetime) -> list[Any]:
    owner = next((each for each in items(object_, "metadata", "ownerReferences") if at(each, "controller")), None)
    controller = "<none>"
    if owner is not None:
        group = text(owner, "apiVersion").rpartition("/")[0]
        kind = f"{text(owner, 'kind')}.{group}" if group else text(owner, "kind")
        controller = f"{kind.lower()}/{text(owner, 'name')}"
    return [name(object_), controller, number(object_, "revision"), age(object_, now)]


WORKLOADS: Final[dict[tuple[str, str], Cells]] = {
    ("", "podtemplates"): _pod_template,
    ("", "replicationcontrollers"): _replication_controller,
    ("apps", "controllerrevisions"): _revision,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _deployment,
    ("apps", "replicasets"): _replica_set,
    ("apps", "statefulsets"): _stateful_set,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _job,
    ("policy", "poddisruptionbudgets"): _budget,
}
"""The cells of each kind by group and plural."""
