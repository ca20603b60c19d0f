"""The pods of an engine's object: their service account, and why none of them runs.

The Job controller writes no status while it cannot create a pod, and a Job looks alike whether its pod waits for a node, for its image, or
for a Secret. So the cause is in the status of the newest pod, and in Events of the Job and of that pod.

Guarantees: the functions before the line are pure. A cause is the same text while the cause lasts, so it is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.errors import ApiError, Forbidden
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked
from konverge.reconcilers.apps.operations.engines.texts import excerpt
from konverge.reconcilers.apps.operations.words import BlockedReason

if TYPE_CHECKING:
    from konverge.crds.ops_v1alpha1 import Operation
    from konverge.runtime import Context

__all__ = [
    "EVENT",
    "LOOK_AGAIN_AT_PODS",
    "POD",
    "account_missing",
    "account_of",
    "cause_of",
    "cause_without_pods",
    "time_to_start",
]

POD: Final = kind("v1", "Pod", namespaced=True, plural="pods")
EVENT: Final = kind("v1", "Event", namespaced=True, plural="events")

_PATIENCE: Final = timedelta(seconds=20)
"""How long a pod may take to start before its Operation looks for the cause."""
LOOK_AGAIN_AT_PODS: Final = timedelta(seconds=20)
"""After this time an Operation without a running pod is reconciled again."""
_LONGEST: Final = 400
"""The most characters of a cause."""
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Reasons of a waiting container that name no cause."""


def account_of(object_: Object) -> str:
    """Return the service account that the object names for its pods, "" if it names none."""
    for path in (("spec", "template", "spec", "serviceAccountName"), ("spec", "serviceAccountName")):
        name = object_.get(*path)
        if isinstance(name, str) and name:
            return name
    return ""


def time_to_start(started: datetime, now: datetime) -> timedelta:
    """Return how long a pod may still take to start before the Operation looks for the cause; 0 or less afterwards."""
    return started + _PATIENCE - now


def cause_of(job: Object, pods: Iterable[Object], events: Iterable[Object]) -> str:
    """Return why no pod of a Job runs, "" if that is not known.

    The newest pod counts: the Job controller replaces a pod that failed. `events` are the Events of the Job and of that pod.
    """
    pod = _newest_pod(job, pods)
    warnings = [event for event in events if event.get("type") == "Warning"]
    if pod is None:
        event = _newest(warnings, job)
        return "" if event is None else f"no pod can be created: {_text(event)}"
    return _cause_in(pod) or _cause_in_events(pod, warnings)


def _newest_pod(job: Object, pods: Iterable[Object]) -> Object | None:
    own = [pod for pod in pods if any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references or ())]
    return max(own, key=lambda pod: (_created(pod), pod.name), default=None)


def _created(object_: Object) -> str:
    return str(object_.get("metadata", "creationTimestamp", default="") or "")


def _newest(events: Iterable[Object], about: Object) -> Object | None:
    uid = about.metadata.uid
    events_about = [event for event in events if event.get("involvedObject", "uid") == uid]
    return max(events_about, key=lambda event: (_moment(event), event.name), default=None)


def _moment(event: Object) -> str:
    times = (event.get("series", "lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), _created(event))


def _text(event: Object) -> str:
    return excerpt(event.get("message") or event.get("reason"), _LONGEST)


def _cause_in(pod: Object) -> str:
    """Return the problem in the status of a pod: not scheduled, or a container that cannot start."""
    for condition in _mappings(pod.get("status", "conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = excerpt(condition.get("message") or condition.get("reason"), _LONGEST)
            return f"its pod is not scheduled: {why}"
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in _mappings(pod.get("status", field)):
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or "")
            if reason not in _STARTING:
                message = excerpt(waiting.get("message"), _LONGEST)
                return f"container {container.get('name')} cannot start: {reason}" + (
                    f" ({message})" if message else ""
                )
    return ""


def _cause_in_events(pod: Object, warnings: Iterable[Object]) -> str:
    if pod.get("status", "phase") not in (None, "", "Pending"):
        return ""
    event = _newest(warnings, pod)
    return "" if event is None else f"its pod cannot start: {event.get('reason')} ({_text(event)})"


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [member for member in value if isinstance(member, Mapping)] if isinstance(value, list) else []


# --- the reads -------------------------------------------------------------------------------------------------------------------


async def account_missing(object_: Object, ctx: Context[Operation]) -> EngineBlocked | None:
    """Return the blockade of an Operation whose pods would run as an account that does not exist.

    Without the right to read accounts the check is left out; the missing account is then a cause without pods.
    """
    name = account_of(object_)
    if not name:
        return None
    try:
        account = await ctx.live(SERVICE_ACCOUNT).find(object_.namespace, name)
    except Forbidden:
        return None
    if account is not None:
        return None
    message = (
        f"ServiceAccount {object_.namespace}/{name}, as which the pods run, does not exist; create it: "
        f"kubectl create serviceaccount {name} -n {object_.namespace}"
    )
    return EngineBlocked(BlockedReason.DEPENDENCY_MISSING, message)


async def cause_without_pods(job: Object, ctx: Context[Operation]) -> str:
    """Read why no pod of a Job runs; a right that is missing is part of the text."""
    namespace, uid = job.namespace, job.metadata.uid
    try:
        pods = await _listed(POD, namespace, ctx, labels=f"batch.kubernetes.io/controller-uid={uid}")
        newest = _newest_pod(job, pods)
        events: list[Object] = []
        for about in (uid, *([] if newest is None else [newest.metadata.uid])):
            events += await _listed(EVENT, namespace, ctx, fields=f"involvedObject.uid={about},type=Warning")
    except Forbidden:
        return f"the operator may not list pods and events; see kubectl describe job {job.name} -n {namespace}"
    except ApiError:
        return ""  # the next reconcile repeats the reads
    return cause_of(job, pods, events)


async def _listed(
    what: Kind[Object], namespace: str, ctx: Context[Operation], *, labels: str = "", fields: str = ""
) -> list[Object]:
    return list((await ctx.client.list(what, namespace, labels=labels, fields=fields)).items)
