"""Resources by name: the known names, and the quantities that each may have.

Guarantees: pure. Source: `pkg/apis/core/helper/helpers.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge.quantities import COUNTED, Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.errors import NOT_NEGATIVE, Errors, forbidden, invalid, required

__all__ = [
    "amount_errors",
    "container_resource",
    "may_overcommit",
    "quota_resource",
    "requirement_errors",
    "resource_name",
]

_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_REQUESTED: Final = frozenset(
    {f"{verb}.{name}" for verb in ("requests", "limits") for name in _COMPUTE} | {"requests.storage"}
)
_STANDARD: Final = _COMPUTE | COUNTED | _REQUESTED | {"storage"}
_QUOTA: Final = _COMPUTE | COUNTED | _REQUESTED
_HUGE: Final = "hugepages-"

NameCheck = Callable[[str, str], Errors]


def resource_name(name: str, path: str) -> Errors:
    """Check the name of any resource."""
    errors = [invalid(path, name, message) for message in names.label_key(name)]
    if not errors and "/" not in name and name not in _STANDARD and not name.startswith((_HUGE, "requests." + _HUGE)):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def container_resource(name: str, path: str) -> Errors:
    """Check the name of a resource that a container requests."""
    errors = resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not name.startswith(_HUGE):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _native(name) and not _extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def quota_resource(name: str, path: str) -> Errors:
    """Check the name of a resource that a quota limits."""
    errors = resource_name(name, path)
    if "/" not in name and name not in _QUOTA and not name.startswith((_HUGE, "requests." + _HUGE)):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _extended(name: str) -> bool:
    return not _native(name) and not name.startswith("requests.") and not names.label_key(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    """Tell whether requests may be lower than limits."""
    return _native(name) and not name.startswith(_HUGE)


def amount_errors(name: str, value: str, path: str) -> Errors:
    """Check the quantity of a resource."""
    quantity = Quantity.parse(value)
    errors = [invalid(path, value, NOT_NEGATIVE)] if quantity.billionths < 0 else []
    if (name in COUNTED or _extended(name)) and quantity.billionths % 10**9:
        errors.append(invalid(path, quantity_json(value), "must be an integer"))
    return errors


def quantity_json(value: str) -> str:
    """Return a quantity as errors show it."""
    return str(Quantity.parse(value))


def requirement_errors(requirements: Mapping[str, Any], path: str, check: NameCheck = container_resource) -> Errors:
    """Check limits and requests of a container."""
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    errors: Errors = []
    for name, value in limits.items():
        errors += check(name, f"{path}.limits[{name}]") + amount_errors(name, value, f"{path}.limits[{name}]")
        errors += _pages(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        errors += check(name, f"{path}.requests[{name}]") + amount_errors(name, value, f"{path}.requests[{name}]")
        errors += _request_errors(name, value, limits.get(name), path)
        errors += _pages(name, value, f"{path}.requests[{name}]")
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in asked) and not asked & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _pages(name: str, value: str, path: str) -> Errors:
    """Check that an amount is a number of whole huge pages."""
    if not name.startswith(_HUGE):
        return []
    try:
        size = Quantity.parse(name.removeprefix(_HUGE)).billionths
    except ValueError:
        size = 0
    asked = Quantity.parse(value)
    if size > 0 and asked.billionths >= 0 and not asked.billionths % size:
        return []
    return [invalid(path, str(asked), f"{asked} is not positive integer multiple of {name}")]


def _request_errors(name: str, value: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        return (
            []
            if may_overcommit(name)
            else [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
        )
    asked, allowed = Quantity.parse(value), Quantity.parse(limit)
    if asked != allowed and not may_overcommit(name):
        return [invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {allowed}")]
    if allowed < asked:
        return [invalid(f"{path}.requests", str(asked), f"must be less than or equal to {name} limit of {allowed}")]
    return []
