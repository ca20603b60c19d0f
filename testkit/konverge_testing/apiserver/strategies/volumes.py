"""Checks of the storage of a PersistentVolume, and of the places that a StorageClass names.

Left out: sources of single vendors and of protocols besides NFS. Source: `pkg/apis/core/validation/validation.go`
(ValidatePersistentVolumeSpec, ValidateTopologySelectorTerm).
"""

from __future__ import annotations

import posixpath
from typing import Final

from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    forbidden,
    required,
)
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods.scheduling import node_selector_errors
from konverge_testing.apiserver.strategies.pods.sources import driver_errors, nfs_errors
from konverge_testing.apiserver.strategies.pods.volumes import host_path_errors

__all__ = ["affinity_errors", "source_errors"]

_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def affinity_errors(affinity: Data | None) -> Errors:
    """Check the nodes that a volume can be reached from."""
    if affinity is None:
        return []
    path = "spec.nodeAffinity.required"
    if affinity.get("required") is None:
        return [required(path, "must specify required node constraints")]
    return node_selector_errors(affinity["required"], path)


def source_errors(spec: Data, kind: str) -> Errors:
    """Check the source of a volume, of the kind that it is."""
    source, path = spec[kind], f"spec.{kind}"
    if kind == "hostPath":
        errors = host_path_errors(source, path)
        cleaned = posixpath.normpath(source.get("path") or ".")
        if cleaned == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            words = "may not be 'recycle' for a hostPath mount of '/'"
            errors.append(forbidden("spec.persistentVolumeReclaimPolicy", words))
        return errors
    if kind == "nfs":
        return nfs_errors(source, path)
    if kind == "local":
        target = source.get("path", "")
        errors = no_backsteps(target, f"{path}.path") if target else [required(f"{path}.path")]
        if spec.get("nodeAffinity") is None:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        return errors
    return _csi_errors(source, path) if kind == "csi" else []


def _csi_errors(source: Data, path: str) -> Errors:
    errors = driver_errors(source.get("driver", ""), f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for name in _SECRETS:
        if (secret := source.get(name)) is not None:
            errors += [required(f"{path}.{name}.{key}") for key in ("name", "namespace") if not secret.get(key)]
    return errors
