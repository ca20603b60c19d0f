"""Validation of the volumes of a pod.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import quote
from konverge_testing.apiserver.strategies.base import (
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
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods.projected import (
    downward_errors,
    item_errors,
    mode_errors,
    projected_errors,
)
from konverge_testing.apiserver.strategies.pods.sources import PULL_POLICIES, VENDORS

__all__ = ["host_path_errors", "volume_errors"]

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


def volume_errors(volumes: list[Data], path: str, *, pod: str | None = None) -> tuple[Errors, dict[str, Data]]:
    """Check the volumes of a pod, or (None) of a template; returns those that are valid by their names, too."""
    errors: Errors = []
    good: dict[str, Data] = {}
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name", "")
        found = _source_errors(volume, here, pod)
        found += text_errors(f"{here}.name", name, names.dns1123_label) if name else [required(f"{here}.name")]
        if name in good:
            found.append(duplicate(f"{here}.name", name))
        if not found:
            good[name] = volume
        errors += found
    return errors, good


def _source_errors(volume: Data, path: str, pod: str | None) -> Errors:
    kinds = [kind for kind in _ORDER if kind in volume]
    if not kinds:
        return [required(path, "must specify a volume type")]
    errors = _CHECKS[kinds[0]](volume[kinds[0]], f"{path}.{kinds[0]}")
    if kinds[0] == "image":
        errors = _image(volume["image"], f"{path}.image", pod)
    elif kinds[0] == "ephemeral" and pod and (name := volume.get("name")):
        claim = f"{pod}-{name}"
        errors += [
            invalid(f"{path}.name", name, f"PVC name {quote(claim)}: {text}") for text in names.dns1123_subdomain(claim)
        ]
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


def _image(source: Data, path: str, pod: str | None) -> Errors:
    errors = [] if pod is None else missing_in(source, path, "reference")
    policy = source.get("pullPolicy", "")
    return errors if policy in PULL_POLICIES else [*errors, not_supported(f"{path}.pullPolicy", policy, PULL_POLICIES)]


def _named(name: str) -> Callable[[Data, str], Errors]:
    def check(source: Data, path: str) -> Errors:
        return missing_in(source, path, name) + mode_errors(source, path) + item_errors(source, path)

    return check


def _claim(source: Data, path: str) -> Errors:
    return missing_in(source, path, "claimName")


_CHECKS: Final[dict[str, Callable[[Data, str], Errors]]] = {
    **VENDORS,
    "configMap": _named("name"),
    "downwardAPI": downward_errors,
    "emptyDir": _empty_dir,
    "hostPath": host_path_errors,
    "image": lambda _source, _path: [],
    "persistentVolumeClaim": _claim,
    "projected": projected_errors,
    "secret": _named("secretName"),
}
