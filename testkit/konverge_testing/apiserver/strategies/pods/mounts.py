"""Validation of what a container mounts: directories of volumes, and block devices.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (ValidateVolumeMounts,
ValidateVolumeDevices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    forbidden,
    invalid,
    missing_in,
    not_supported,
    required,
)
from konverge_testing.apiserver.strategies.paths import descending_path_errors, no_backsteps

__all__ = ["device_errors", "mount_errors"]

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_READ_ONLY: Final = ("Disabled", "Enabled", "IfPossible")
_BLOCK: Final = ("persistentVolumeClaim", "ephemeral")


def mount_errors(container: Data, path: str, volumes: Mapping[str, Data]) -> Errors:
    """Check the directories that a container mounts."""
    errors: Errors = []
    seen: set[str] = set()
    devices = container.get("volumeDevices") or ()
    device_names = {each.get("name", "") for each in devices}
    device_paths = {each.get("devicePath", "") for each in devices}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        errors += missing_in(mount, here, "name")
        if name not in volumes:
            errors.append(FieldError("NotFound", f"{here}.name", name))
        errors += missing_in(mount, here, "mountPath")
        if target in seen:
            errors.append(invalid(f"{here}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in device_names:
            errors.append(invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(f"{here}.mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _sub_paths(mount, here, path)
        errors += _propagation(mount, container, f"{path}.mountPropagation")
        errors += _recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def _sub_paths(mount: Data, here: str, path: str) -> Errors:
    part, computed = mount.get("subPath"), mount.get("subPathExpr")
    errors = descending_path_errors(part, f"{path}.subPath") if part else []
    if computed:
        if part:
            errors.append(invalid(f"{here}.subPathExpr", computed, "subPathExpr and subPath are mutually exclusive"))
        errors += descending_path_errors(computed, f"{path}.subPathExpr")
    return errors


def _propagation(mount: Data, container: Data, path: str) -> Errors:
    mode = mount.get("mountPropagation")
    if mode is None:
        return []
    errors = [] if mode in _PROPAGATIONS else [not_supported(path, mode, _PROPAGATIONS)]
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path, text))
    return errors


def _recursive(mount: Data, path: str) -> Errors:
    mode = mount.get("recursiveReadOnly")
    if mode in (None, "Disabled"):
        return []
    if mode not in _READ_ONLY:
        return [not_supported(path, mode, _READ_ONLY)]
    errors = [] if mount.get("readOnly") else [forbidden(path, "may only be specified when readOnly is true")]
    if mount.get("mountPropagation", "None") != "None":
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def device_errors(container: Data, path: str, volumes: Mapping[str, Data]) -> Errors:
    """Check the block devices that a container gets."""
    errors: Errors = []
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    mount_names = {each.get("name", "") for each in mounts}
    mount_paths = {each.get("mountPath", "") for each in mounts}
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        errors += missing_in(device, here, "name")
        if name in seen_names:
            errors.append(invalid(f"{here}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(FieldError("NotFound", f"{here}.name", name))
        elif not any(kind in volumes[name] for kind in _BLOCK):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{here}.name", name, text))
        if not target:
            errors.append(required(f"{here}.devicePath"))
        if target in seen_paths:
            errors.append(invalid(f"{here}.devicePath", target, "must be unique"))
        if no_backsteps(target, here):
            errors.append(invalid(f"{here}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(target)
        if name in mount_names:
            errors.append(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(invalid(f"{here}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            seen_names.add(name)
    return errors
