"""The stand-in behind `lab.ready`: it writes the status that the controllers of workloads and the kubelet write, and keeps it current.

Guarantees: `ready_status` is pure. An object counts as ready again after each change of its spec, and so does an object that another
client deleted and created again. A finished Job and an object under deletion are left unchanged.

Caveats: the stand-in creates no ReplicaSets and no Pods, and it writes no amount of resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from konverge.client import ClientConfig
from konverge.errors import UsageError
from konverge.kinds import Kind, Resource
from konverge.kinds import kind as plain_kind
from konverge.objects import Object
from konverge_testing.standin import Json, StandIn

__all__ = ["Ready", "Workloads", "is_ready", "ready_status"]

_ENDED: Final = ("Complete", "Failed")
_DONE: Final = {"Job": "Complete", "Pod": "Ready"}
"""The condition that reports readiness of these kinds; the other kinds report numbers."""
_REVISION: Final = "revision-1"
_NODES: Final = 1
_ADDRESS: Final = "10.0.0.1"


def ready_status(data: Json, now: str) -> Json:
    """Return the status of a workload that is ready, or of a Job that succeeded, at this time; raises UsageError for another kind.

    >>> ready_status({"kind": "DaemonSet", "metadata": {"generation": 2}}, "")["observedGeneration"]
    2
    """
    status = dict(data.get("status") or {})
    if any(one["type"] in _ENDED and one["status"] == "True" for one in status.get("conditions", ())):
        return status
    wanted, conditions = _kind_of_workload(data["kind"])(data, now)
    if conditions:
        wanted["conditions"] = _with_conditions(status.get("conditions") or [], conditions, now)
    return {**status, **wanted}


def _kind_of_workload(kind: str) -> _Statuses:
    if kind not in _STATUSES:
        raise UsageError(
            f"lab.ready does not know when a {kind} is ready: it knows {', '.join(sorted(_STATUSES))}; write the status of other kinds "
            'with lab.patch(KIND, name, {"status": ...}, subresource="status")'
        )
    return _STATUSES[kind]


_Conditions = Mapping[str, tuple[str, str]]
_Statuses = Callable[[Json, str], tuple[Json, _Conditions]]


def _with_conditions(present: list[Json], wanted: _Conditions, now: str) -> list[Json]:
    """Return the conditions with these types True; a condition that is True already keeps its times."""
    known = {one["type"]: one for one in present}
    for type_, (reason, message) in wanted.items():
        if known.get(type_, {}).get("status") != "True":
            words = {key: value for key, value in (("reason", reason), ("message", message)) if value}
            known[type_] = {"type": type_, "status": "True", "lastTransitionTime": now, **words}
    return list(known.values())


def is_ready(object_: Resource) -> bool:
    """Return whether the controllers of a stored workload report that it is ready, or that a Job succeeded."""
    data = object_.to_dict()
    status, kind = data.get("status") or {}, data["kind"]
    if kind in _DONE:
        return any(one["type"] == _DONE[kind] and one["status"] == "True" for one in status.get("conditions") or ())
    wanted, _ = _kind_of_workload(kind)(data, "")
    counts = {key: value for key, value in wanted.items() if isinstance(value, int)}
    if kind == "DaemonSet" and (nodes := status.get("desiredNumberScheduled")):
        counts = {
            key: nodes if value == _NODES and key != "observedGeneration" else value for key, value in counts.items()
        }
    return all(status.get(key, 0) == value for key, value in counts.items())


def _replicas(data: Json) -> int:
    return int(data["spec"].get("replicas", 1))


def _observed(data: Json) -> Json:
    return {"observedGeneration": data["metadata"].get("generation", 1)}


def _deployment(data: Json, _: str) -> tuple[Json, _Conditions]:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), _replicas(data))
    conditions = {
        "Available": ("MinimumReplicasAvailable", "Deployment has minimum availability."),
        "Progressing": ("NewReplicaSetAvailable", "ReplicaSet has successfully progressed."),
    }
    return {**_observed(data), **counts, "unavailableReplicas": 0}, conditions


def _replica_set(data: Json, _: str) -> tuple[Json, _Conditions]:
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return {**_observed(data), **dict.fromkeys(counts, _replicas(data))}, {}


def _stateful_set(data: Json, _: str) -> tuple[Json, _Conditions]:
    counts = ("replicas", "currentReplicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    revisions = dict.fromkeys(("currentRevision", "updateRevision"), f"{data['metadata']['name']}-{_REVISION}")
    return {**_observed(data), **dict.fromkeys(counts, _replicas(data)), **revisions}, {}


def _daemon_set(data: Json, _: str) -> tuple[Json, _Conditions]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
    )
    return {**_observed(data), **dict.fromkeys(counts, _NODES), "numberMisscheduled": 0}, {}


def _job(data: Json, now: str) -> tuple[Json, _Conditions]:
    done = ("CompletionsReached", "Reached expected number of succeeded pods")
    status = {
        "startTime": (data.get("status") or {}).get("startTime", now),
        "completionTime": now,
        **dict.fromkeys(("active", "ready", "terminating"), 0),
        "succeeded": int(data["spec"].get("completions", 1)),
        "uncountedTerminatedPods": {},
    }
    return status, {"SuccessCriteriaMet": done, "Complete": done}


def _pod(data: Json, now: str) -> tuple[Json, _Conditions]:
    status, spec = data.get("status") or {}, data["spec"]
    running = {one["name"]: one for one in status.get("containerStatuses", ()) if one.get("ready")}
    containers = [
        running.get(one["name"])
        or {
            "name": one["name"],
            "image": one["image"],
            "imageID": one["image"],
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for one in spec["containers"]
    ]
    wanted = {
        "phase": "Running",
        "startTime": status.get("startTime", now),
        "podIP": status.get("podIP", _ADDRESS),
        "podIPs": status.get("podIPs") or [{"ip": _ADDRESS}],
        "containerStatuses": containers,
    }
    types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    gates = tuple(one["conditionType"] for one in spec.get("readinessGates") or ())
    return wanted, dict.fromkeys((*gates, *types), ("", ""))


_STATUSES: Final[Mapping[str, _Statuses]] = {
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "Job": _job,
    "Pod": _pod,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
}


class Workloads(StandIn):
    """Keeps the workloads of these kinds ready; each becomes ready `seconds` after it was created or changed.

    A stand-in for `lab.enter`, if the names of the objects are not known: `lab.ready` keeps one object ready. Raises UsageError for a kind
    that `lab.ready` does not know.

        await lab.enter(Workloads(lab.config, JOB, namespace=lab.namespace, seconds=60, random=lab.rng()))
    """

    NAME = "kube-controller-manager"

    def __init__(
        self,
        config: ClientConfig,
        *kinds: Kind[Any],
        namespace: str | None = None,
        seconds: float,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, random=random)
        self.KINDS = {kind.kind: _plain(kind) for kind in kinds}  # type: ignore[misc]  # each instance has its own kinds
        self._seconds = seconds

    async def story(self, made: Json) -> None:
        """Write the status whenever the object is not ready."""
        while True:
            present = self.present(made)
            if present is None or present["metadata"].get("deletionTimestamp"):
                return
            if not is_ready(Object(present)):
                await self.sleep(self._seconds)
                written = await self.write(made, self._make_ready, subresource="status")
                if written is None or not is_ready(Object(written)):
                    return  # deleted, or failed for good
                present = written
            last = Object(present)
            self._became_ready(last)
            await self.until(partial(self._changed, made, last))

    def _became_ready(self, last: Object) -> None:
        """Take note of an object that is ready."""

    def _make_ready(self, data: Json) -> None:
        data["status"] = ready_status(data, self.now())

    def _changed(self, made: Json, last: Object) -> bool:
        present = self.present(made)
        if present is None or present["metadata"].get("deletionTimestamp"):
            return True
        if int(present["metadata"]["resourceVersion"]) < int(last.metadata.resource_version):
            return False  # the cache lags behind the last write
        return not is_ready(Object(present))


def _plain(kind: Kind[Any]) -> Kind[Object]:
    _kind_of_workload(kind.kind)
    return plain_kind(kind.api_version, kind.kind, namespaced=True, plural=kind.plural)


class Ready(Workloads):
    """Keeps one object ready."""

    def __init__(
        self, config: ClientConfig, kind: Kind[Any], namespace: str, name: str, *, seconds: float, random: Random
    ) -> None:
        super().__init__(config, kind, namespace=namespace, seconds=seconds, random=random)
        self._name = name
        self._was_ready = asyncio.Event()
        self._last: Object | None = None

    async def wait(self) -> Object:
        """Wait until the object was ready once; returns it as it was ready last."""
        while self._last is None:
            await self._was_ready.wait()
        return self._last

    async def story(self, made: Json) -> None:
        """Play the object of the name; the others have no story."""
        if made["metadata"]["name"] == self._name:
            await super().story(made)

    def _became_ready(self, last: Object) -> None:
        self._last = last
        self._was_ready.set()
