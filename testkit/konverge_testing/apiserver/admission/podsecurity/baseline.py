"""The checks of the level baseline, which prevents known privilege escalations. Pure.

Source: k8s.io/pod-security-admission `policy/check_*.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
from konverge_testing.apiserver.golang import quoted

__all__ = [
    "app_armor_profile",
    "capabilities",
    "host_namespaces",
    "host_path_volumes",
    "host_ports",
    "host_probes",
    "privileged",
    "proc_mount",
    "proc_mount_outside_user_namespaces",
    "se_linux_options",
    "seccomp_annotations",
    "seccomp_profile",
    "sysctls",
    "windows_host_process",
]

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_PROFILES: Final = ("Localhost", "RuntimeDefault")
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"


def _annotations(pod: Pod) -> dict[str, str]:
    return pod[0].get("annotations") or {}


def app_armor_profile(pod: Pod) -> Finding | None:
    """AppArmor may not be switched off."""

    def wrong(holder: Data) -> str | None:
        profile = security(holder).get("appArmorProfile")
        return None if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    by_pod = wrong(pod[1])
    by_container = {one["name"]: value for one in containers(pod) if (value := wrong(one)) is not None}
    values = sorted({value for value in (by_pod, *by_container.values()) if value is not None})
    annotated = sorted(
        f"{key}={quoted(value)}"
        for key, value in _annotations(pod).items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    who = setters(by_pod is not None, by_container)
    if annotated:
        who = " and ".join(filter(None, [who, plural(len(annotated), "annotation")]))
    if not who:
        return None
    bad = [*values, *annotated]
    reason = plural(len(bad), "forbidden AppArmor profile")
    return reason, f"{who} must not set AppArmor profile type to {quoted_list(bad)}"


def capabilities(pod: Pod) -> Finding | None:
    """Only the default capabilities of container runtimes may be added."""
    by_container = {
        one["name"]: set((security(one).get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        for one in containers(pod)
    }
    names = [name for name, added in by_container.items() if added]
    added = sorted(set[str]().union(*by_container.values()))
    words = f"{named(names)} must not include {quoted_list(added)} in securityContext.capabilities.add"
    return ("non-default capabilities", words) if names else None


def host_namespaces(pod: Pod) -> Finding | None:
    """The namespaces of the node are not shared."""
    used = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod[1].get(name)]
    return ("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(pod: Pod) -> Finding | None:
    """Directories of the node are not mounted."""
    names = [volume["name"] for volume in pod[1].get("volumes") or () if volume.get("hostPath") is not None]
    return ("hostPath volumes", named(names, "volume")) if names else None


def host_ports(pod: Pod) -> Finding | None:
    """Ports of the node are not used."""
    by_container = {
        one["name"]: {str(port["hostPort"]) for port in one.get("ports") or () if port.get("hostPort")}
        for one in containers(pod)
    }
    names = [name for name, ports in by_container.items() if ports]
    ports = sorted(set[str]().union(*by_container.values()))
    words = f"{named(names)} {plural(len(names), 'uses', 'use')} {plural(len(ports), 'hostPort')} {', '.join(ports)}"
    return ("hostPort", words) if names else None


def host_probes(pod: Pod) -> Finding | None:
    """Probes and lifecycle handlers reach no other host than the pod."""
    by_container = {one["name"]: set(_hosts(one)) for one in containers(pod)}
    names = sorted(name for name, hosts in by_container.items() if hosts)
    hosts = sorted(set[str]().union(*by_container.values()))
    what = plural(len(hosts), "probe or lifecycle host")
    words = f"{named(names)} {plural(len(names), 'uses', 'use')} {what} {quoted_list(hosts)}"
    return ("probe or lifecycle host", words) if names else None


def _hosts(container: Data) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in filter(None, [*probes, lifecycle.get("postStart"), lifecycle.get("preStop")]):
        for name in ("httpGet", "tcpSocket"):
            if host := (handler.get(name) or {}).get("host"):
                yield host


def privileged(pod: Pod) -> Finding | None:
    """No container is privileged."""
    names = [one["name"] for one in containers(pod) if security(one).get("privileged")]
    return ("privileged", f"{named(names)} must not set securityContext.privileged=true") if names else None


def proc_mount(pod: Pod) -> Finding | None:
    """/proc is masked as container runtimes do by default."""
    mounts = {one["name"]: security(one).get("procMount") for one in containers(pod)}
    bad = {name: mount for name, mount in mounts.items() if mount not in (None, "Default")}
    words = f"{named(bad)} must not set securityContext.procMount to {quoted_list(sorted({*bad.values()}))}"
    return ("procMount", words) if bad else None


def proc_mount_outside_user_namespaces(pod: Pod) -> Finding | None:
    """/proc is masked, unless the pod has a user namespace of its own."""
    return None if user_namespaced(pod) else proc_mount(pod)


def se_linux_options(*types: str) -> Check:
    """Only some types of SELinux contexts are set, and no users or roles."""

    def check(pod: Pod) -> Finding | None:
        def options(holder: Data) -> Data:
            return security(holder).get("seLinuxOptions") or {}

        def wrong(holder: Data) -> bool:
            found = options(holder)
            return bool(found.get("type", "") not in ("", *types) or found.get("user") or found.get("role"))

        names = [one["name"] for one in containers(pod) if wrong(one)]
        who = setters(wrong(pod[1]), names)
        every = [options(holder) for holder in (pod[1], *containers(pod))]
        bad = sorted({found.get("type", "") for found in every} - {"", *types})
        what = [f"{plural(len(bad), 'type')} {quoted_list(bad)}"] if bad else []
        what += [f"{name} may not be set" for name in ("user", "role") if any(found.get(name) for found in every)]
        words = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}"
        return ("seLinuxOptions", words) if who else None

    return check


def seccomp_annotations(pod: Pod) -> Finding | None:
    """Seccomp may not be switched off by the annotations that configured it until Kubernetes 1.19."""
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{one['name']}" for one in containers(pod))]
    found = {key: _annotations(pod)[key] for key in keys if key in _annotations(pod)}
    bad = sorted(
        f"{key}={quoted(value)}"
        for key, value in found.items()
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    return ("seccompProfile", f"forbidden {plural(len(bad), 'annotation')} {', '.join(bad)}") if bad else None


def seccomp_profile(pod: Pod) -> Finding | None:
    """Seccomp may not be switched off."""

    def wrong(holder: Data) -> str | None:
        profile = security(holder).get("seccompProfile")
        return None if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    by_pod = wrong(pod[1])
    by_container = {one["name"]: value for one in containers(pod) if (value := wrong(one)) is not None}
    who = setters(by_pod is not None, by_container)
    values = sorted({value for value in (by_pod, *by_container.values()) if value is not None})
    words = f"{who} must not set securityContext.seccompProfile.type to {quoted_list(values)}"
    return ("seccompProfile", words) if who else None


def sysctls(*allowed: str) -> Check:
    """Only sysctls that are known to be safe are set."""

    def check(pod: Pod) -> Finding | None:
        bad = [one["name"] for one in security(pod[1]).get("sysctls") or () if one["name"] not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def windows_host_process(pod: Pod) -> Finding | None:
    """No process of a Windows container is a host process."""

    def wrong(holder: Data) -> bool:
        return bool((security(holder).get("windowsOptions") or {}).get("hostProcess"))

    who = setters(wrong(pod[1]), [one["name"] for one in containers(pod) if wrong(one)])
    return ("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true") if who else None
