"""Pod-level resources, besides the containers' resources: defaults and checks of `spec.resources`.

Guarantees: pure. Left out: claims of containers by name, sizes of huge pages. Source: `pkg/apis/core/v1/defaults.go`,
`pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge.quantities import read, written
from konverge_testing.apiserver.admission.pods import spec_amounts
from konverge_testing.apiserver.strategies.amounts import may_overcommit, requirement_errors, resource_name
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_supported

__all__ = ["default_pod_resources", "pod_resource_errors"]

_HUGE: Final = "hugepages-"
_NAMES: Final = ("cpu", _HUGE, "memory")


def default_pod_resources(spec: Data) -> None:
    """Complete, in place, the resources of a pod as a whole: limits of huge pages, and requests if it has limits."""
    whole = spec.get("resources")
    if not whole or not (whole.get("limits") or whole.get("requests")):
        return
    limits, requests = whole.get("limits") or {}, whole.get("requests") or {}
    pages = {name: amount for name, amount in _summed(spec, "limits").items() if name.startswith(_HUGE)}
    limits = {**{name: amount for name, amount in pages.items() if name not in requests}, **limits}
    if limits:
        whole["limits"] = limits
        summed = {name: amount for name, amount in _summed(spec, "requests").items() if may_overcommit(name)}
        whole["requests"] = {
            **{name: amount for name, amount in {**limits, **summed}.items() if _is_known(name)},
            **requests,
        }


def _summed(spec: Data, what: str) -> dict[str, str]:
    return written(spec_amounts({"spec": spec}, what))


def _is_known(name: str) -> bool:
    return name in _NAMES or name.startswith(_HUGE)


def pod_resource_errors(spec: Data, path: str) -> Errors:
    """Check the resources of a pod as a whole, and against the sum of its containers."""
    whole = spec.get("resources")
    if whole is None:
        return []
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors: Errors = []
    if whole.get("claims"):
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    errors += requirement_errors(whole, path, _name_errors)
    errors += _exceeded(spec, path, "requests", "") + _exceeded(spec, path, "limits", _HUGE)
    limits = read(whole.get("limits"))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, amount in read((container.get("resources") or {}).get("limits")).items():
            if name in limits and limits[name] < amount:
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", str(amount), text))
    return errors


def _name_errors(name: str, path: str) -> Errors:
    errors = resource_name(name, path)
    return errors if errors or _is_known(name) else [not_supported(path, name, _NAMES)]


def _exceeded(spec: Data, path: str, what: str, prefix: str) -> Errors:
    """Check that the sum of the containers is within the pod's resources."""
    own = read(spec["resources"].get(what))
    return [
        invalid(
            f"{path}.{what}[{name}]",
            str(own[name]),
            f"must be greater than or equal to aggregate container {what} of {amount}",
        )
        for name, amount in spec_amounts({"spec": spec}, what).items()
        if name.startswith(prefix) and name in own and own[name] < amount
    ]
