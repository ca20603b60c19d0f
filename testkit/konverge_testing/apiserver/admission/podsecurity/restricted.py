"""The checks that the level restricted has beyond baseline: current practice of hardening pods. Pure.

Source: k8s.io/pod-security-admission `policy/check_*.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.admission.podsecurity.baseline import seccomp_profile as baseline_seccomp_profile
from konverge_testing.apiserver.admission.podsecurity.facts import (
    Check,
    Data,
    Finding,
    Pod,
    containers,
    named,
    plural,
    quoted_list,
    security,
    setters,
    user_namespaced,
)

__all__ = [
    "allow_privilege_escalation",
    "capabilities",
    "outside_user_namespaces",
    "restricted_volumes",
    "run_as_non_root",
    "run_as_user",
    "seccomp_profile",
]

_VOLUMES: Final = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


def outside_user_namespaces(check: Check) -> Check:
    """Return a check that ignores pods with a user namespace of their own."""
    return lambda pod: None if user_namespaced(pod) else check(pod)


def allow_privilege_escalation(pod: Pod) -> Finding | None:
    """No process gets more rights than its parent."""
    names = [one["name"] for one in containers(pod) if security(one).get("allowPrivilegeEscalation") is not False]
    words = f"{named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", words) if names else None


def capabilities(pod: Pod) -> Finding | None:
    """All capabilities are dropped; NET_BIND_SERVICE may be added."""

    def listed(container: Data, name: str) -> list[str]:
        return (security(container).get("capabilities") or {}).get(name) or []

    keeping = [one["name"] for one in containers(pod) if "ALL" not in listed(one, "drop")]
    added = {one["name"]: {*listed(one, "add")} - {"NET_BIND_SERVICE"} for one in containers(pod)}
    adding = [name for name, values in added.items() if values]
    bad = quoted_list(sorted(set[str]().union(*added.values())))
    words = [f'{named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        words.append(f"{named(adding)} must not include {bad} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(words)) if words else None


def restricted_volumes(pod: Pod) -> Finding | None:
    """Volumes hold only data of the API server, of claims or of the pod itself; nothing of the node is mounted."""
    bad = [volume for volume in pod[1].get("volumes") or () if all(volume.get(name) is None for name in _VOLUMES)]
    kinds = sorted({next((key for key in volume if key != "name"), "unknown") for volume in bad})
    who = f"{named([volume['name'] for volume in bad], 'volume')} {plural(len(bad), 'uses', 'use')}"
    words = f"{who} {plural(len(kinds), 'restricted volume type')} {quoted_list(kinds)}"
    return ("restricted volume types", words) if bad else None


def run_as_non_root(pod: Pod) -> Finding | None:
    """Containers must run as a user other than root."""
    by_pod = security(pod[1]).get("runAsNonRoot")
    found = {one["name"]: security(one).get("runAsNonRoot") for one in containers(pod)}
    who = setters(by_pod is False, [name for name, value in found.items() if value is False])
    reason = "runAsNonRoot != true"
    if who:
        return reason, f"{who} must not set securityContext.runAsNonRoot=false"
    unset = [name for name, value in found.items() if value is None and not by_pod]
    return (reason, f"pod or {named(unset)} must set securityContext.runAsNonRoot=true") if unset else None


def run_as_user(pod: Pod) -> Finding | None:
    """No container runs as root."""

    def is_root(holder: Data) -> bool:
        return bool(security(holder).get("runAsUser") == 0)

    who = setters(is_root(pod[1]), [one["name"] for one in containers(pod) if is_root(one)])
    return ("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp_profile(pod: Pod) -> Finding | None:
    """Seccomp is required."""
    if found := baseline_seccomp_profile(pod):
        return found
    by_pod = security(pod[1]).get("seccompProfile") is not None
    unset = [one["name"] for one in containers(pod) if security(one).get("seccompProfile") is None and not by_pod]
    words = f'pod or {named(unset)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", words) if unset else None
