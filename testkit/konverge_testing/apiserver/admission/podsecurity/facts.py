"""Shared parts of the checks: the containers of a pod, and the wording for containers that set a field wrongly. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeAlias

__all__ = [
    "Check",
    "Finding",
    "linux_only",
    "Pod",
    "containers",
    "named",
    "plural",
    "quoted_list",
    "security",
    "setters",
    "user_namespaced",
]

Data: TypeAlias = dict[str, Any]
Pod: TypeAlias = tuple[Data, Data]
"""Metadata and spec, of a pod or of a template."""
Finding: TypeAlias = tuple[str, str]
"""The reason, and its details."""
Check: TypeAlias = Callable[[Pod], Finding | None]

_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def containers(pod: Pod) -> list[Data]:
    """Return all containers, in the order of the messages."""
    return [container for name in _LISTS for container in pod[1].get(name) or ()]


def security(holder: Data) -> Data:
    """Return the securityContext of a container or of a pod's spec."""
    found: Data = holder.get("securityContext") or {}
    return found


def plural(count: int, one: str, many: str = "") -> str:
    """Return the singular or plural of a noun."""
    return one if count == 1 else many or f"{one}s"


def quoted_list(texts: Iterable[str]) -> str:
    """Return texts in quotes, separated by commas; quotes inside a text are not escaped."""
    return ", ".join(f'"{text}"' for text in texts)


def named(names: Collection[str], what: str = "container") -> str:
    """Return containers, or other things, by their names."""
    return f"{plural(len(names), what)} {quoted_list(names)}"


def setters(pod_too: bool, names: Collection[str]) -> str:
    """Return the pod and its containers that set a field; "" if none does."""
    return " and ".join([*(["pod"] if pod_too else []), *([named(names)] if names else [])])


def user_namespaced(pod: Pod) -> bool:
    """Tell whether a pod has a user namespace of its own, where root is not the node's root."""
    return pod[1].get("hostUsers") is False


def linux_only(check: Check) -> Check:
    """Return a check that ignores Windows pods, which cannot set its field."""
    return lambda pod: None if (pod[1].get("os") or {}).get("name") == "windows" else check(pod)
