"""The resources that a pod requests, as the scheduler and quota count them; and its quality of service.

Guarantees: pure. The rules are those of k8s.io/component-helpers `resource/helpers.go` and of Kubernetes'
`pkg/apis/core/v1/helper/qos/qos.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from konverge.quantities import Amounts, Quantity, added, read

__all__ = ["pod_limits", "pod_requests", "quality", "sets_pod_resources", "spec_amounts"]

Data: TypeAlias = dict[str, Any]

_QUALITY: Final = ("cpu", "memory")


def pod_requests(pod: Data) -> dict[str, Quantity]:
    """Return the requests of a pod."""
    amounts = _aggregated(pod, "requests")
    amounts |= {name: amount for name, amount in _pod_level_amounts(pod, "requests").items() if _is_pod_level(name)}
    return added(amounts, read((pod.get("spec") or {}).get("overhead")))


def pod_limits(pod: Data) -> dict[str, Quantity]:
    """Return the limits of a pod."""
    amounts = _aggregated(pod, "limits")
    amounts |= {name: amount for name, amount in _pod_level_amounts(pod, "limits").items() if _is_pod_level(name)}
    for name, amount in read((pod.get("spec") or {}).get("overhead")).items():
        if amounts.get(name):
            amounts[name] += amount
    return amounts


def spec_amounts(pod: Data, what: str) -> dict[str, Quantity]:
    """Return the sum of `requests` or `limits` over the containers of a pod's spec, without regard to its status."""
    return _aggregated({"spec": pod.get("spec")}, what)


def sets_pod_resources(pod: Data) -> bool:
    """Tell whether a pod has pod-level resources."""
    return any(_is_pod_level(name) for what in ("requests", "limits") for name in _pod_level_amounts(pod, what))


def _pod_level_amounts(pod: Data, what: str) -> dict[str, Quantity]:
    return read(((pod.get("spec") or {}).get("resources") or {}).get(what))


def _is_pod_level(name: str) -> bool:
    return name in _QUALITY or name.startswith("hugepages-")


def _aggregated(pod: Data, what: str) -> dict[str, Quantity]:
    """Sum up containers and sidecars; while an init container runs, it may need more than that."""
    spec = pod.get("spec") or {}
    running: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        running = added(running, _effective(pod, container, what))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            amounts = _effective(pod, container, what)
            running, sidecars = added(running, amounts), added(sidecars, amounts)
            at_its_time = sidecars
        else:
            at_its_time = added(read((container.get("resources") or {}).get(what)), sidecars)
        starting = _larger(starting, at_its_time)
    return _larger(running, starting)


def _effective(pod: Data, container: Data, what: str) -> dict[str, Quantity]:
    """Return the allocated or the requested amount of a container, whichever is more, during a resize in place."""
    asked = read((container.get("resources") or {}).get(what))
    status = pod.get("status") or {}
    for entry in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        if entry.get("name") == container.get("name") and entry.get("resources") is not None:
            actual = read(entry["resources"].get(what))
            given = read(entry.get("allocatedResources")) if what == "requests" else {}
            known = _larger(actual, given)
            return known if _cannot_resize(status) else _larger(asked, known)
    return asked


def _cannot_resize(status: Data) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _larger(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    result = dict(left)
    for name, amount in right.items():
        if name not in result or result[name] < amount:
            result[name] = amount
    return result


def quality(pod: Data) -> str:
    """Return the quality of service from the status; if the status has none, compute it."""
    known = (pod.get("status") or {}).get("qosClass")
    return str(known) if known else _computed_quality(pod)


def _computed_quality(pod: Data) -> str:
    asked: set[str] = set()
    guaranteed = True
    for requests, limits in _measured(pod):
        asked |= requests.keys() | limits.keys()
        guaranteed = guaranteed and limits.keys() == set(_QUALITY) and requests.items() <= limits.items()
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _measured(pod: Data) -> Iterator[tuple[dict[str, Quantity], dict[str, Quantity]]]:
    spec = pod.get("spec") or {}
    whole = spec.get("resources") or {}
    holders = [{"resources": whole}] if whole.get("requests") or whole.get("limits") else None
    for holder in holders or [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = holder.get("resources") or {}
        requests, limits = ({
            name: amount for name, amount in read(resources.get(what)).items() if name in _QUALITY and amount
        } for what in ("requests", "limits"))  # fmt: skip
        yield requests, limits
