"""The plugin: which writes are evaluated, against which standard, and the outcome. Pure apart from reading namespaces and pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.admission.call import AdmissionCall, denied
from konverge_testing.apiserver.admission.namespaces import NAMESPACES
from konverge_testing.apiserver.admission.podsecurity.facts import Pod
from konverge_testing.apiserver.admission.podsecurity.labels import LEVELS, Policy, Standard, policy_of
from konverge_testing.apiserver.admission.podsecurity.versions import evaluate
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.statuses import invalid

__all__ = ["PodSecurity"]

Data: TypeAlias = dict[str, Any]

PODS: Final = ("", "pods")
_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _TEMPLATE,
    ("apps", "daemonsets"): _TEMPLATE,
    ("apps", "deployments"): _TEMPLATE,
    ("apps", "replicasets"): _TEMPLATE,
    ("apps", "statefulsets"): _TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", *_TEMPLATE),
    ("batch", "jobs"): _TEMPLATE,
}
"""The path of the pod template in each workload."""
_EVALUATED: Final = frozenset({"", "ephemeralcontainers", "resize"})
"""Subresources of pods that write a pod."""
_MOST_PODS: Final = 3000
"""The maximum number of pods of a namespace that are evaluated when its level rises."""


class PodSecurity:
    """The plugin over the stored objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._policies: dict[str, Policy] = {}
        self._state = -1

    @staticmethod
    def concerns(resource: tuple[str, str]) -> bool:
        """Tell whether creates and updates of a resource are evaluated."""
        return resource in (PODS, NAMESPACES) or resource in _TEMPLATES

    def validate(self, call: AdmissionCall) -> None:
        """Raise what the namespace's level refuses, and add its warnings to the call."""
        if call.object is None or call.operation not in ("CREATE", "UPDATE") or not self.concerns(call.id):
            return
        if call.id == NAMESPACES:
            if not call.subresource:
                self._namespace(call, call.object)
            return
        if call.subresource not in (_EVALUATED if call.id == PODS else ("",)):
            return
        policy = self._policy(call.namespace)
        strictest = policy.warn if call.id != PODS else max(policy.enforce, policy.warn, key=_strictness)
        if strictest.level == "privileged":
            return
        if call.id != PODS:
            self._warn(call, policy, _pod_of(call.object, _TEMPLATES[call.id]))
        elif call.operation == "CREATE" or _may_matter(call.object, call.old or {}):
            self._pod(call, policy, _pod_of(call.object, ()))

    def _policy(self, namespace: str) -> Policy:
        state = self._objects.changed(NAMESPACES)
        if state != self._state:
            self._state = state
            self._policies.clear()
        found = self._policies.get(namespace)
        if found is None:
            found = policy_of(_labels(self._objects.get(NAMESPACES, "", namespace) or {}))
            self._policies[namespace] = found
        return found

    # -- pods and workloads --------------------------------------------------------------------------------------------------

    def _pod(self, call: AdmissionCall, policy: Policy, pod: Pod | None) -> None:
        if pod is None:
            return
        if wrong := evaluate(policy.enforce, pod):
            words = f"violates PodSecurity {quoted(str(policy.enforce))}: {wrong.details}"
            raise denied(call, words)
        self._warn(call, policy, pod)

    def _warn(self, call: AdmissionCall, policy: Policy, pod: Pod | None) -> None:
        if pod is not None and (wrong := evaluate(policy.warn, pod)):
            _add(call, f"would violate PodSecurity {quoted(str(policy.warn))}: {wrong.details}")

    # -- namespaces ------------------------------------------------------------------------------------------------------------

    def _namespace(self, call: AdmissionCall, namespace: Data) -> None:
        new = policy_of(_labels(namespace))
        old = policy_of(_labels(call.old or {})) if call.operation == "UPDATE" else Policy()
        if new.errors and new.errors != old.errors:
            raise invalid("", "Namespace", call.name, new.errors)
        if call.operation == "UPDATE" and _rises(old.enforce, new.enforce):
            for warning in self._warnings(call.name, new.enforce):
                _add(call, warning)

    def _warnings(self, namespace: str, enforce: Standard) -> Iterator[str]:
        pods = _most_telling_first(self._objects.list(PODS, namespace))
        found: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            if wrong := evaluate(enforce, (pod["metadata"], pod.get("spec") or {})):
                found.setdefault(wrong.reasons, []).append(pod["metadata"]["name"])
        if len(pods) > _MOST_PODS:
            checked = f"the first {_MOST_PODS} of {len(pods)} existing pods"
            yield f"new PodSecurity enforce level only checked against {checked}"
        if found:
            level = quoted(str(enforce))
            yield f"existing pods in namespace {quoted(namespace)} violate the new PodSecurity enforce level {level}"
        yield from sorted(f"{_counted(names)}: {reasons}" for reasons, names in found.items())


def _strictness(standard: Standard) -> int:
    return LEVELS.index(standard.level)


def _rises(old: Standard, new: Standard) -> bool:
    """Tell whether pods that were admitted may violate a new standard."""
    if new == old or new.level == "privileged":
        return False
    return new.minor != old.minor or _strictness(new) > _strictness(old)


def _most_telling_first(pods: list[Data]) -> list[Data]:
    """Return the pods reordered: one pod of each controller first, then the rest."""
    first: list[Data] = []
    others: list[Data] = []
    seen: set[str] = set()
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        controller = next((str(one["uid"]) for one in owners if one.get("controller")), "")
        (others if controller in seen else first).append(pod)
        seen |= {controller} - {""}
    return [*first, *others]


def _counted(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'' if others == 1 else 's'})"


def _pod_of(found: Data, path: tuple[str, ...]) -> Pod | None:
    """Return metadata and spec of a pod, or of the template at a path; None if there is none."""
    for name in path:
        found = found.get(name) or {}
    if not found:
        return None
    return found.get("metadata") or {}, found.get("spec") or {}


def _may_matter(new: Data, old: Data) -> bool:
    """Tell whether an update of a pod changes a checked field: images and containers."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for name in ("containers", "initContainers"):
        images = [one.get("image") for one in spec.get(name) or ()]
        if images != [one.get("image") for one in before.get(name) or ()]:
            return True
    known = {one["name"]: one.get("image") for one in before.get("ephemeralContainers") or ()}
    return any(
        one["name"] not in known or one.get("image") != known[one["name"]]
        for one in spec.get("ephemeralContainers") or ()
    )


def _labels(found: Data) -> dict[str, str]:
    labels: dict[str, str] = (found.get("metadata") or {}).get("labels") or {}
    return labels


def _add(call: AdmissionCall, warning: str) -> None:
    if warning not in call.warnings:
        call.warnings.append(warning)
