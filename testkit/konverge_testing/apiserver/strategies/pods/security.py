"""The rules of the security contexts of pods and of their containers, and of the fields that only one operating system supports.

Source: `pkg/apis/core/validation/validation.go` (ValidateSecurityContext, validatePodSpecSecurityContext, validateWindowsHostProcessPod,
validateHostUsers, validateOS).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import value_at
from konverge_testing.apiserver.strategies.errors import Data, Errors, duplicate, forbidden, invalid, required
from konverge_testing.apiserver.strategies.paths import descending
from konverge_testing.apiserver.strategies.pods.containers_of import containers_at
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    barred,
    between,
    each,
    given,
    length,
    must,
    need,
    struct,
    text,
    unset,
)

__all__ = ["container_security_errors", "host_process_errors", "host_user_errors", "os_errors", "pod_security_errors"]

_CONTEXT: Final = (
    "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem "
    "allowPrivilegeEscalation procMount seccompProfile appArmorProfile"
)
"""The fields of a container's security context, in the order of the Go struct."""

_SYSCTL: Final = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_LONGEST_SYSCTL: Final = 253
_IPC: Final = frozenset(
    f"kernel.{name}"
    for name in ["sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg"]
)
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_LINUX_POD: Final = (
    "securityContext.appArmorProfile securityContext.seLinuxOptions hostUsers hostPID hostIPC "
    "securityContext.seccompProfile securityContext.fsGroup securityContext.fsGroupChangePolicy "
    "securityContext.sysctls shareProcessNamespace securityContext.runAsUser securityContext.runAsGroup "
    "securityContext.supplementalGroups securityContext.supplementalGroupsPolicy "
    "securityContext.seLinuxChangePolicy"
)
_linux_context: Final = given(
    "appArmorProfile seLinuxOptions seccompProfile capabilities readOnlyRootFilesystem privileged allowPrivilegeEscalation procMount "
    "runAsUser runAsGroup",
    barred(_NOT_ON_WINDOWS),
)
_WRONG_NAME: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN: Final = re.compile(
    r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_LONGEST_DOMAIN: Final = 256
_LONGEST_USER: Final = 104
_LONGEST_GMSA: Final = 64 * 1024

_id: Final = between(0, 2**31 - 1)
_kind: Final = among("Localhost", "RuntimeDefault", "Unconfined")


def _local_profile(profile: Data, path: str) -> Errors:
    kind, local, where = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind == "Localhost":
        words = "must be set when seccomp type is Localhost"
        return [required(where, words)] if local is None else descending(local, where)
    shown = Struct(Type=kind, LocalhostProfile=local)
    return [] if local is None else [invalid(where, shown, "can only be set when seccomp type is Localhost")]


_seccomp: Final = struct(need("type", _kind, detail="type is required when seccompProfile is set"), _local_profile)


def _app_armor(profile: Data, path: str) -> Errors:
    kind, local, where = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if wrong := need("type", _kind, detail="type is required when appArmorProfile is set")(profile, path):
        return wrong
    if kind != "Localhost":
        return [] if local is None else [invalid(where, local, "can only be set when AppArmor type is Localhost")]
    if not local:
        return [required(where, "must be set when AppArmor type is Localhost")]
    padding = must(lambda name: name.strip() == name, "must not be padded with whitespace")
    return padding(local, where) + length(4095)(local, where)


def _user_problems(name: str) -> Iterator[str]:
    *domains, user = name.split("\\")
    if not name:
        yield " cannot be an empty string"
    elif re.search(r"[\x00-\x1f\x7f]", name):
        yield " cannot contain control characters"
    elif len(domains) > 1:
        yield " cannot contain more than one backslash"
    else:
        if domains and len(domains[0]) >= _LONGEST_DOMAIN:
            yield f"'s Domain length must be under {_LONGEST_DOMAIN} characters"
        if domains and not (_NETBIOS.fullmatch(domains[0]) or _DOMAIN.fullmatch(domains[0])):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > _LONGEST_USER:
            yield f"'s User length must not be longer than {_LONGEST_USER} characters"
        if user and not user.strip(". "):
            yield "'s User cannot contain only periods or spaces"
        if _WRONG_NAME.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


_windows: Final = struct(
    given("gmsaCredentialSpecName", text(names.dns1123_subdomain)),
    given(
        "gmsaCredentialSpec",
        must(bool, "gmsaCredentialSpec cannot be an empty string"),
        must(lambda spec: len(spec.encode()) <= _LONGEST_GMSA, "gmsaCredentialSpec size must be under 64 KiB"),
    ),
    given("runAsUserName", text(lambda name: [f"runAsUserName{problem}" for problem in _user_problems(name)])),
)
_users: Final = struct(given("runAsUser runAsGroup", _id), given("procMount", among("Default", "Unmasked")))
_seccomp_profile: Final = given("seccompProfile", _seccomp)
_profiles: Final = struct(given("windowsOptions", _windows), given("appArmorProfile", _app_armor))


def container_security_errors(context: Data, path: str, *, host_users: bool) -> Errors:
    """Check the security context of a container."""
    errors = _users(context, path)
    if context.get("procMount") == "Unmasked" and host_users:
        errors.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors += _seccomp_profile(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        words = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            errors.append(invalid(path, _shown(context), f"{words} `privileged` to true"))
        count = (value_at(context, "capabilities.add") or []).count("CAP_SYS_ADMIN")
        errors += [invalid(path, _shown(context), f"{words} `capabilities.Add` CAP_SYS_ADMIN")] * count
    return errors + _profiles(context, path)


def _shown(context: Data) -> Struct:
    """Return a security context as Go prints its struct."""
    shown = Struct()
    for name in _CONTEXT.split():
        value = context.get(name)
        if name == "capabilities" and value is not None:
            value = Struct(Add=value.get("add"), Drop=value.get("drop"))
        shown["SELinuxOptions" if name == "seLinuxOptions" else f"{name[0].upper()}{name[1:]}"] = value
    return shown


def _sharing(spec: Data, path: str) -> Errors:
    both = spec.get("shareProcessNamespace") and spec.get("hostPID")
    words = "ShareProcessNamespace and HostPID cannot both be enabled"
    return [invalid(f"{path}.securityContext.shareProcessNamespace", True, words)] if both else []


def _sysctls(spec: Data, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, sysctl in enumerate(value_at(spec, "securityContext.sysctls") or ()):
        here, name = f"{path}.securityContext.sysctls[{index}].name", sysctl.get("name", "")
        if not name:
            errors.append(required(here))
        elif len(name) > _LONGEST_SYSCTL or re.search(_SYSCTL, name) is None:
            words = f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
            errors.append(invalid(here, name, words))
        elif name in seen:
            errors.append(duplicate(here, name))
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            errors.append(invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (plain in _IPC or plain.startswith("fs.mqueue.")):
            errors.append(invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


pod_security_errors: Final = struct(
    at("securityContext", given("fsGroup runAsUser runAsGroup", _id), at("supplementalGroups", each(_id))),
    _sharing,
    _sysctls,
    at(
        "securityContext",
        given("fsGroupChangePolicy", among("Always", "OnRootMismatch")),
        _seccomp_profile,
        _profiles,
        given("supplementalGroupsPolicy", among("Merge", "Strict")),
        given("seLinuxChangePolicy", among("Recursive")),
    ),
)
"""The rules of a pod's security context, with the fields beside it that Go's internal type keeps inside."""


def host_process_errors(spec: Data, path: str) -> Errors:
    """Check that all containers of a Windows pod are processes of the host, or none is."""
    errors: Errors = []
    place = "securityContext.windowsOptions.hostProcess"
    whole = value_at(spec, place)
    count = total = 0
    for here, container in containers_at(spec, path):
        own = value_at(container, place)
        if whole is not None and own is not None and whole != own:
            words = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            errors.append(invalid(f"{here}.{place}", own, words))
        count, total = count + bool(whole if own is None else own), total + 1
    if count and count != total:
        words = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", words))
    if count and not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, words))
    return errors


def host_user_errors(spec: Data, path: str) -> Errors:
    """Check a pod in a user namespace of its own: no host network, PID or IPC namespace, and no block devices."""
    if spec.get("hostUsers", True):
        return []
    words = "when `hostUsers` is false"
    shown = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    errors = [forbidden(f"{path}.{name}", words) for field, name in shown.items() if spec.get(field)]
    return errors + [
        error
        for here, container in containers_at(spec, path)
        for error in unset("volumeDevices", words)(container, here)
    ]


def os_errors(spec: Data, path: str) -> Errors:
    """Check the operating system of a pod, and fields that this system does not support."""
    if (system := spec.get("os")) is None:
        return []
    name = system.get("name")
    if not name:
        return [required(f"{path}.os.name")]
    if name == "linux":
        words, place = "windows options cannot be set for a linux pod", "securityContext.windowsOptions"
        parts = [(path, spec), *containers_at(spec, path)]
        return [forbidden(f"{here}.{place}", words) for here, part in parts if value_at(part, place) is not None]
    if name != "windows":
        return among("linux", "windows")(name, f"{path}.os")
    errors = [
        forbidden(f"{path}.{place}", _NOT_ON_WINDOWS)
        for place in _LINUX_POD.split()
        if (value := value_at(spec, place)) is not None
        and (value or not place.endswith(("hostPID", "hostIPC", "sysctls")))
    ]
    for here, container in containers_at(spec, path):
        errors += at("securityContext", _linux_context)(container, here)
    return errors
