"""The rules of a container's mounts: directories of volumes, and block devices.

Source: `pkg/apis/core/validation/validation.go` (ValidateVolumeMounts, ValidateVolumeDevices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_found
from konverge_testing.apiserver.strategies.paths import descending, no_backsteps
from konverge_testing.apiserver.strategies.rules import among, filled, given, need

__all__ = ["device_errors", "mount_errors"]

_BLOCK: Final = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
_UNIQUE: Final = "must be unique"
_name: Final = need("name")
_target: Final = need("mountPath")
_part: Final = filled("subPath", descending)
_computed: Final = filled("subPathExpr", descending)
_mode: Final = given("mountPropagation", among("Bidirectional", "HostToContainer", "None"))


def mount_errors(container: Data, path: str, volumes: Mapping[str, Data]) -> Errors:
    """Check the directories that a container mounts."""
    errors: Errors = []
    seen: set[str] = set()
    devices = container.get("volumeDevices") or ()
    device_names, device_paths = ({device.get(name, "") for device in devices} for name in ("name", "devicePath"))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        name_path, target_path = f"{here}.name", f"{here}.mountPath"
        errors += _name(mount, here) + ([] if name in volumes else [not_found(name_path, name)])
        errors += _target(mount, here)
        if target in seen:
            errors.append(invalid(target_path, target, _UNIQUE))
        seen.add(target)
        if name in device_names:
            errors.append(invalid(name_path, name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(target_path, target, "must not already exist as a path in volumeDevices"))
        errors += _part(mount, path)
        if mount.get("subPath") and (computed := mount.get("subPathExpr")):
            words = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{here}.subPathExpr", computed, words))
        errors += _computed(mount, path) + _propagation(mount, container, path)
        errors += _recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def _propagation(mount: Data, container: Data, path: str) -> Errors:
    errors = _mode(mount, path)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mount.get("mountPropagation") == "Bidirectional" and not privileged:
        words = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", words))
    return errors


def _recursive(mount: Data, path: str) -> Errors:
    mode = mount.get("recursiveReadOnly")
    if mode in (None, "Disabled"):
        return []
    if errors := among("Disabled", "Enabled", "IfPossible")(mode, path):
        return errors
    errors = [] if mount.get("readOnly") else [forbidden(path, "may only be specified when readOnly is true")]
    if mount.get("mountPropagation", "None") != "None":
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def device_errors(container: Data, path: str, volumes: Mapping[str, Data]) -> Errors:
    """Check the block devices of a container."""
    errors: Errors = []
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    mount_names, mount_paths = ({mount.get(name, "") for mount in mounts} for name in ("name", "mountPath"))
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        name_path, target_path = f"{here}.name", f"{here}.devicePath"
        errors += _name(device, here)
        if name in seen_names:
            errors.append(invalid(name_path, name, _UNIQUE))
        if name not in volumes:
            errors.append(not_found(name_path, name))
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volumes[name]):
            errors.append(invalid(name_path, name, _BLOCK))
        errors += need("devicePath")(device, here)
        if target in seen_paths:
            errors.append(invalid(target_path, target, _UNIQUE))
        if no_backsteps(target, here):
            errors.append(invalid(target_path, target, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(target)
        if name in mount_names:
            errors.append(invalid(name_path, name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(invalid(target_path, target, "must not already exist as a path in volumeMounts"))
        seen_names |= {name} - {""}
    return errors
