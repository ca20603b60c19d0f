"""Validation of the volumes of a pod.

Guarantees: pure. The volume types of single vendors are only checked for being alone. Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge.quantities import Quantity
from konverge.testing.apiserver import names
from konverge.testing.apiserver.strategies.base import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    missing_in,
    not_supported,
    required,
    text_errors,
)

__all__ = ["descending_path_errors", "host_path_errors", "no_backsteps", "volume_errors"]

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_ORDER: Final = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
]
_ODD_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_HOST_PATHS: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def volume_errors(volumes: list[Data], path: str) -> tuple[Errors, set[str]]:
    """Check the volumes of a pod; returns the names of those that are all right, too."""
    errors: Errors = []
    good: set[str] = set()
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name", "")
        found = _source_errors(volume, here)
        found += text_errors(f"{here}.name", name, names.dns1123_label) if name else [required(f"{here}.name")]
        if name in good:
            found.append(duplicate(f"{here}.name", name))
        if not found:
            good.add(name)
        errors += found
    return errors, good


def _source_errors(volume: Data, path: str) -> Errors:
    kinds = [kind for kind in _ORDER if kind in volume]
    if not kinds:
        return [required(path, "must specify a volume type")]
    check = _CHECKS.get(kinds[0])
    errors = check(volume[kinds[0]], f"{path}.{kinds[0]}") if check is not None else []
    return errors + [
        forbidden(f"{path}.{_ODD_NAMES.get(kind, kind)}", "may not specify more than 1 volume type")
        for kind in kinds[1:]
    ]


def _empty_dir(source: Data, path: str) -> Errors:
    size = source.get("sizeLimit")
    if size is None or Quantity.parse(size).billionths >= 0:
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def host_path_errors(source: Data, path: str) -> Errors:
    """Check a path of the node."""
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = no_backsteps(source["path"], f"{path}.path")
    kind = source.get("type", "")
    return errors if kind in _HOST_PATHS else [*errors, not_supported(f"{path}.type", kind, _HOST_PATHS)]


def no_backsteps(target: str, path: str) -> Errors:
    """Check that a path does not lead back."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def descending_path_errors(target: str, path: str, *, reserved: bool = False) -> Errors:
    """Check a path that has to stay below its root; `reserved`: it may not start with two dots either."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    errors += no_backsteps(target, path)
    if reserved and target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def _mode(source: Data, path: str, name: str = "defaultMode") -> Errors:
    mode = source.get(name)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{name}", mode, _MODE)]


def _items(source: Data, path: str) -> Errors:
    errors: Errors = []
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        errors += missing_in(item, here, "key", "path")
        errors += descending_path_errors(item.get("path", ""), f"{here}.path", reserved=True) + _mode(
            item, here, "mode"
        )
    return errors


def _named(name: str) -> Callable[[Data, str], Errors]:
    def check(source: Data, path: str) -> Errors:
        return missing_in(source, path, name) + _mode(source, path) + _items(source, path)

    return check


def _downward(source: Data, path: str) -> Errors:
    errors = _mode(source, path)
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        errors += missing_in(item, path, "path")
        errors += descending_path_errors(item.get("path", ""), f"{path}.path", reserved=True)
        if "fieldRef" not in item and "resourceFieldRef" not in item:
            errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        errors += _mode(item, here, "mode")
    return errors


def _projected(source: Data, path: str) -> Errors:
    errors = _mode(source, path)
    for index, each in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in each:
                errors += missing_in(each[kind], f"{here}.{kind}", "name") + _items(each[kind], f"{here}.{kind}")
        token = each.get("serviceAccountToken")
        if token is not None:
            errors += _token(token, f"{here}.serviceAccountToken") + missing_in(token, path, "path")
        if len(each) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _token(token: Mapping[str, Any], path: str) -> Errors:
    errors: Errors = []
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        errors.append(
            invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    return errors


def _claim(source: Data, path: str) -> Errors:
    return missing_in(source, path, "claimName")


_CHECKS: Final[dict[str, Callable[[Data, str], Errors]]] = {
    "configMap": _named("name"),
    "downwardAPI": _downward,
    "emptyDir": _empty_dir,
    "hostPath": host_path_errors,
    "persistentVolumeClaim": _claim,
    "projected": _projected,
    "secret": _named("secretName"),
}
