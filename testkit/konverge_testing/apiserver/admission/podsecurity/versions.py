"""The checks of a standard, each in the form of the standard's version of Kubernetes. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

from konverge_testing.apiserver.admission.podsecurity import baseline, restricted
from konverge_testing.apiserver.admission.podsecurity.facts import Check, Finding, Pod, linux_only
from konverge_testing.apiserver.admission.podsecurity.labels import Standard

__all__ = ["Evaluation", "evaluate"]

_LATEST: Final = 35
"""The newest version that changed a check."""

_SYSCTLS_0: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
_SYSCTLS_27: Final = (*_SYSCTLS_0, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_29: Final = (
    *_SYSCTLS_27,
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)
_SYSCTLS_32: Final = (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_SE_LINUX: Final = ("container_t", "container_init_t", "container_kvm_t")

_BASELINE: Final[dict[str, dict[int, Check]]] = {
    "appArmorProfile": {0: baseline.app_armor_profile},
    "capabilities_baseline": {0: baseline.capabilities},
    "hostNamespaces": {0: baseline.host_namespaces},
    "hostPathVolumes": {0: baseline.host_path_volumes},
    "hostPorts": {0: baseline.host_ports},
    "hostProbesAndHostLifecycle": {34: baseline.host_probes},
    "privileged": {0: baseline.privileged},
    "procMount": {0: baseline.proc_mount, 35: baseline.proc_mount_outside_user_namespaces},
    "seLinuxOptions": {
        0: baseline.se_linux_options(*_SE_LINUX),
        31: baseline.se_linux_options(*_SE_LINUX, "container_engine_t"),
    },
    "seccompProfile_baseline": {0: baseline.seccomp_annotations, 19: baseline.seccomp_profile},
    "sysctls": {
        0: baseline.sysctls(*_SYSCTLS_0),
        27: baseline.sysctls(*_SYSCTLS_27),
        29: baseline.sysctls(*_SYSCTLS_29),
        32: baseline.sysctls(*_SYSCTLS_32),
    },
    "windowsHostProcess": {0: baseline.windows_host_process},
}
"""The versions of each check by its name, keyed by the first minor version; in the order of messages."""

_RESTRICTED: Final[dict[str, dict[int, Check]]] = {
    "allowPrivilegeEscalation": {
        8: restricted.allow_privilege_escalation,
        25: linux_only(restricted.allow_privilege_escalation),
    },
    "capabilities_restricted": {22: restricted.capabilities, 25: linux_only(restricted.capabilities)},
    "procMount_restricted": {35: baseline.proc_mount},
    "restrictedVolumes": {0: restricted.restricted_volumes},
    "runAsNonRoot": {
        0: restricted.run_as_non_root,
        35: restricted.outside_user_namespaces(restricted.run_as_non_root),
    },
    "runAsUser": {23: restricted.run_as_user, 35: restricted.outside_user_namespaces(restricted.run_as_user)},
    "seccompProfile_restricted": {19: restricted.seccomp_profile, 25: linux_only(restricted.seccomp_profile)},
}

_IN_PLACE_OF: Final = {
    "capabilities_baseline": "capabilities_restricted",
    "hostPathVolumes": "restrictedVolumes",
    "procMount": "procMount_restricted",
    "seccompProfile_baseline": "seccompProfile_restricted",
}
"""Checks of baseline that a stricter check of restricted replaces, as soon as it exists."""


class Evaluation:
    """The violations of a standard by a pod."""

    def __init__(self, findings: list[Finding]) -> None:
        self._findings = findings

    def __bool__(self) -> bool:
        """Whether the pod violates the standard."""
        return bool(self._findings)

    @property
    def reasons(self) -> str:
        """The reasons without details; a namespace's pods are grouped by them."""
        return ", ".join(reason for reason, _ in self._findings)

    @property
    def details(self) -> str:
        """The reasons with details."""
        return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in self._findings)


def evaluate(standard: Standard, pod: Pod) -> Evaluation:
    """Return the violations of a pod."""
    minor = _LATEST if standard.minor is None else min(standard.minor, _LATEST)
    return Evaluation([found for check in _checks(standard.level, minor) if (found := check(pod)) is not None])


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    if level == "privileged":
        return ()
    least = _in_version(_BASELINE, minor)
    if level == "baseline":
        return tuple(least.values())
    most = _in_version(_RESTRICTED, minor)
    kept = [check for name, check in least.items() if _IN_PLACE_OF.get(name) not in most]
    return (*kept, *most.values())


def _in_version(checks: dict[str, dict[int, Check]], minor: int) -> dict[str, Check]:
    begun = {name: [check for first, check in forms.items() if first <= minor] for name, forms in checks.items()}
    return {name: forms[-1] for name, forms in begun.items() if forms}
