"""Validation of the security contexts of pods and of their containers, and of what only one operating system has.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (ValidateSecurityContext,
validatePodSpecSecurityContext, validateWindowsHostProcessPod, validateHostUsers, validateOS).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    text_errors,
    too_long,
)
from konverge_testing.apiserver.strategies.paths import descending_path_errors

__all__ = ["container_security_errors", "host_process_errors", "host_user_errors", "os_errors", "pod_security_errors"]

_MAX: Final = 2**31 - 1
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE: Final = 4095
_MOUNTS: Final = ("Default", "Unmasked")
_CONTEXT: Final = (
    "capabilities",
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)
"""The fields of a container's security context, in the order of the Go struct."""

_POLICIES: Final = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("Recursive",)),
)
_SYSCTL: Final = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_LONGEST_SYSCTL: Final = 253
_IPC: Final = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_SYSTEMS: Final = ("linux", "windows")
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_LINUX_POD: Final = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_LINUX_CONTAINER: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_WRONG_NAME: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN: Final = re.compile(
    r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_LONGEST_DOMAIN: Final = 256
_LONGEST_USER: Final = 104
_LONGEST_GMSA: Final = 64 * 1024


def container_security_errors(context: Data, path: str, *, host_users: bool) -> Errors:
    """Check the security context of a container."""
    errors = _ids(context, path, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _MOUNTS:
            errors.append(not_supported(f"{path}.procMount", mount, _MOUNTS))
        if mount == "Unmasked" and host_users:
            errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            errors.append(invalid(path, _shown(context), f"{text} `privileged` to true"))
        added = (context.get("capabilities") or {}).get("add") or ()
        words = f"{text} `capabilities.Add` CAP_SYS_ADMIN"
        errors += [invalid(path, _shown(context), words) for one in added if one == "CAP_SYS_ADMIN"]
    errors += _windows(context.get("windowsOptions") or {}, f"{path}.windowsOptions")
    return errors + _app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _shown(context: Data) -> Struct:
    """Return a security context as Go prints its struct."""
    shown = Struct({f"{name[0].upper()}{name[1:]}": context.get(name) for name in _CONTEXT})
    shown["SELinuxOptions"] = shown.pop("SeLinuxOptions")
    if isinstance(capabilities := context.get("capabilities"), dict):
        shown["Capabilities"] = Struct({"Add": capabilities.get("add"), "Drop": capabilities.get("drop")})
    order = ["SELinuxOptions" if name == "seLinuxOptions" else f"{name[0].upper()}{name[1:]}" for name in _CONTEXT]
    return Struct({name: shown[name] for name in order})


def pod_security_errors(spec: Data, path: str) -> Errors:
    """Check the security context of a pod, with the fields beside it that Go keeps there."""
    context, here = spec.get("securityContext") or {}, f"{path}.securityContext"
    errors = _ids(context, here, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += [
            invalid(f"{here}.supplementalGroups[{index}]", group, text) for text in texts.between(group, 0, _MAX)
        ]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{here}.shareProcessNamespace", True, text))
    errors += _sysctls(spec, context.get("sysctls") or [], f"{here}.sysctls")
    errors += _policy(context, here, *_POLICIES[0])
    errors += _seccomp(context.get("seccompProfile"), f"{here}.seccompProfile")
    errors += _windows(context.get("windowsOptions") or {}, f"{here}.windowsOptions")
    errors += _app_armor(context.get("appArmorProfile"), f"{here}.appArmorProfile")
    for name, allowed in _POLICIES[1:]:
        errors += _policy(context, here, name, allowed)
    return errors


def _ids(context: Data, path: str, *fields: str) -> Errors:
    return [
        invalid(f"{path}.{name}", context[name], text)
        for name in fields
        if name in context
        for text in texts.between(context[name], 0, _MAX)
    ]


def _policy(context: Data, path: str, name: str, allowed: tuple[str, ...]) -> Errors:
    policy = context.get(name)
    return [] if policy is None or policy in allowed else [not_supported(f"{path}.{name}", policy, allowed)]


def _sysctls(spec: Data, sysctls: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, each in enumerate(sysctls):
        here, name = f"{path}[{index}].name", each.get("name", "")
        if not name:
            errors.append(required(here))
        elif len(name) > _LONGEST_SYSCTL or re.search(_SYSCTL, name) is None:
            errors.append(
                invalid(here, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}")
            )
        elif name in seen:
            errors.append(duplicate(here, name))
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            errors.append(invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (plain in _IPC or plain.startswith("fs.mqueue.")):
            errors.append(invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


def _seccomp(profile: Data | None, path: str) -> Errors:
    if profile is None:
        return []
    errors: Errors = []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    if kind != "Localhost" and local is not None:
        shown = Struct({"Type": kind, "LocalhostProfile": local})
        errors.append(invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost"))
    elif kind == "Localhost" and local is None:
        errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
    elif kind == "Localhost":
        errors += descending_path_errors(local or "", f"{path}.localhostProfile")
    return errors


def _app_armor(profile: Data | None, path: str) -> Errors:
    if profile is None:
        return []
    kind, local, where = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        return [] if local is None else [invalid(where, local, "can only be set when AppArmor type is Localhost")]
    errors: Errors = []
    if not local:
        errors.append(required(where, "must be set when AppArmor type is Localhost"))
    elif local.strip() != local:
        errors.append(invalid(where, local, "must not be padded with whitespace"))
    if len((local or "").encode()) > _LONGEST_PROFILE:
        errors.append(too_long(where, _LONGEST_PROFILE))
    return errors


def _windows(options: Data, path: str) -> Errors:
    errors: Errors = []
    name, spec, user = (options.get(key) for key in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    if name is not None:
        errors += text_errors(f"{path}.gmsaCredentialSpecName", name, names.dns1123_subdomain)
    if spec == "":
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string"))
    elif spec is not None and len(spec.encode()) > _LONGEST_GMSA:
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB"))
    if user is not None:
        errors += [invalid(f"{path}.runAsUserName", user, f"runAsUserName{text}") for text in _user_problems(user)]
    return errors


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


def _containers(spec: Data, path: str) -> Iterator[tuple[str, Data]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{path}.{kind}[{index}]", container


def host_process_errors(spec: Data, path: str) -> Errors:
    """Check that all containers of a Windows pod are processes of the host, or none is."""
    errors: Errors = []
    whole = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    containers = list(_containers(spec, path))
    count = 0
    for here, container in containers:
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if whole is not None and own is not None and whole != own:
            text = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            errors.append(invalid(f"{here}.securityContext.windowsOptions.hostProcess", own, text))
        count += bool(whole if own is None else own)
    if count and count != len(containers):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", text))
    if count and not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, text))
    return errors


def host_user_errors(spec: Data, path: str) -> Errors:
    """Check what a pod in a user namespace of its own may not share with its host."""
    if spec.get("hostUsers", True):
        return []
    text = "when `hostUsers` is false"
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    errors = [forbidden(f"{path}.{shown}", text) for name, shown in fields if spec.get(name)]
    for here, container in _containers(spec, path):
        if container.get("volumeDevices"):
            errors.append(forbidden(f"{here}.volumeDevices", text))
    return errors


def os_errors(spec: Data, path: str) -> Errors:
    """Check the operating system that a pod names, and what it does not have."""
    if (system := spec.get("os")) is None:
        return []
    name = system.get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in _SYSTEMS:
        return [not_supported(f"{path}.os", name, _SYSTEMS)]
    if name == "linux":
        text = "windows options cannot be set for a linux pod"
        contexts = [(path, spec), *_containers(spec, path)]
        return [
            forbidden(f"{here}.securityContext.windowsOptions", text)
            for here, one in contexts
            if (one.get("securityContext") or {}).get("windowsOptions") is not None
        ]
    errors = [forbidden(f"{path}.{field}", _NOT_ON_WINDOWS) for field in _LINUX_POD if _given(spec, field)]
    for here, container in _containers(spec, path):
        context = container.get("securityContext") or {}
        errors += [
            forbidden(f"{here}.securityContext.{field}", _NOT_ON_WINDOWS)
            for field in _LINUX_CONTAINER
            if context.get(field) is not None
        ]
    return errors


def _given(spec: Data, field: str) -> bool:
    parent, _, name = field.rpartition(".")
    value: Any = (spec.get(parent) or {} if parent else spec).get(name)
    return bool(value) if name in ("hostPID", "hostIPC", "sysctls") else value is not None
