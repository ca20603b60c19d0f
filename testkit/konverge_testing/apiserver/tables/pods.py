"""The row of a pod, as in `kubectl get pods`: from phases, container states and restarts.

Guarantees: pure. The status is chosen from phase, reason, init progress and container states by the rules of the real printer.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go` (printPod).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from konverge_testing.apiserver.tables.durations import human, parsed
from konverge_testing.apiserver.tables.values import Data, age, at, conditions, items, name, number, text

__all__ = ["pod", "pod_conditions"]

_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(object_: Data) -> list[Data]:
    """Return the conditions of the row: kubectl can hide rows of completed pods."""
    phase = text(object_, "status", "phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


@dataclass
class _Count:
    """The number of restarts, and the time of the last restart."""

    restarts: int = 0
    last: datetime | None = None

    def add(self, status: Data) -> None:
        self.restarts += number(status, "restartCount")
        ended = parsed(at(status, "lastState", "terminated", "finishedAt"))
        if ended is not None and (self.last is None or self.last < ended):
            self.last = ended

    def shown(self, now: datetime) -> str:
        if self.restarts and self.last is not None:
            return f"{self.restarts} ({human((now - self.last).total_seconds())} ago)"
        return str(self.restarts)


class _Pod:
    """Computes the cells of one pod."""

    def __init__(self, object_: Data) -> None:
        self.object = object_
        self.sidecars = {
            text(each, "name")
            for each in items(object_, "spec", "initContainers")
            if at(each, "restartPolicy") == "Always"
        }
        self.ready = 0
        self.total = len(items(object_, "spec", "containers")) + len(self.sidecars)
        self.all, self.restartable = _Count(), _Count()
        self.reason = text(object_, "status", "reason") or text(object_, "status", "phase")
        gated = (
            text(each, "reason")
            for each in items(object_, "status", "conditions")
            if at(each, "type") == "PodScheduled"
        )
        if "SchedulingGated" in gated:
            self.reason = "SchedulingGated"

    def read(self) -> None:
        """Evaluate the container states."""
        initializing = self._initial()
        if not initializing or _true(self.object, "Initialized"):
            self.all = self.restartable
            self._main()
        if at(self.object, "metadata", "deletionTimestamp"):
            if text(self.object, "status", "reason") == "NodeLost":
                self.reason = "Unknown"
            elif text(self.object, "status", "phase") not in _ENDED:
                self.reason = "Terminating"

    def _initial(self) -> bool:
        """Evaluate init containers up to the first that has not finished; returns whether there is one."""
        for index, status in enumerate(items(self.object, "status", "initContainerStatuses")):
            sidecar = text(status, "name") in self.sidecars
            self.all.add(status)
            if sidecar:
                self.restartable.add(status)
            ended = at(status, "state", "terminated")
            if ended is not None and number(ended, "exitCode") == 0:
                continue
            if sidecar and at(status, "started"):
                self.ready += bool(at(status, "ready"))
                continue
            waiting = text(status, "state", "waiting", "reason")
            if ended is not None:
                self.reason = f"Init:{_ending(ended)}"
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{len(items(self.object, 'spec', 'initContainers'))}"
            return True
        return False

    def _main(self) -> None:
        running, failure = False, ""
        for status in reversed(items(self.object, "status", "containerStatuses")):
            self.all.add(status)
            ended = at(status, "state", "terminated")
            if waiting := text(status, "state", "waiting", "reason"):
                self.reason = waiting
            elif ended is not None:
                self.reason = _ending(ended)
                if number(ended, "exitCode"):
                    failure = self.reason
            elif at(status, "ready") and at(status, "state", "running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _true(self.object, "Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"


def _true(object_: Data, type_: str) -> bool:
    return text(conditions(object_).get(type_), "status") == "True"


def _ending(ended: Any) -> str:
    if reason := text(ended, "reason"):
        return reason
    return f"Signal:{number(ended, 'signal')}" if number(ended, "signal") else f"ExitCode:{number(ended, 'exitCode')}"


def pod(object_: Data, now: datetime) -> list[Any]:
    """Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node, Readiness Gates."""
    read = _Pod(object_)
    read.read()
    addresses = items(object_, "status", "podIPs")
    gates = [text(gate, "conditionType") for gate in items(object_, "spec", "readinessGates")]
    open_ = sum(_true(object_, gate) for gate in gates)
    return [
        name(object_),
        f"{read.ready}/{read.total}",
        read.reason,
        read.all.shown(now),
        age(object_, now),
        (text(addresses[0], "ip") if addresses else "") or "<none>",
        text(object_, "spec", "nodeName") or "<none>",
        text(object_, "status", "nominatedNodeName") or "<none>",
        f"{open_}/{len(gates)}" if gates else "<none>",
    ]
