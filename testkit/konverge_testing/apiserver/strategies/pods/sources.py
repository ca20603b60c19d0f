"""Validation of volumes that single vendors and protocols provide, claims of pods of their own included.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (validateVolumeSource and below).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    annotation_errors,
    forbidden,
    invalid,
    label_errors,
    missing_in,
    not_supported,
    required,
    text_errors,
    too_long,
)
from konverge_testing.apiserver.strategies.claim_specs import claim_spec_errors
from konverge_testing.apiserver.strategies.paths import descending_path_errors

__all__ = ["PULL_POLICIES", "VENDORS", "driver_errors", "nfs_errors"]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_QUALIFIED: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_HOSTS: Final = "must be a host:port pair or multiple pairs separated by commas"
_LONGEST_TENANT: Final = 64
_LONGEST_DRIVER: Final = 63
_MANAGED: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_DISKS: Final = ("Dedicated", "Managed", "Shared")


def driver_errors(name: str, path: str) -> Errors:
    """Check the name of a storage driver."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _LONGEST_DRIVER)] if len(name.encode()) > _LONGEST_DRIVER else []
    return errors + [invalid(path, name, message) for message in names.dns1123_subdomain(name.lower())]


def nfs_errors(source: Data, path: str) -> Errors:
    """Check a share."""
    errors = missing_in(source, path, "server", "path")
    target = source.get("path", "")
    if not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))
    return errors


def _repository(source: Data, path: str) -> Errors:
    return missing_in(source, path, "repository") + descending_path_errors(
        source.get("directory", ""), f"{path}.directory"
    )


def _qualified(name: str, path: str) -> Errors:
    kind = name[:3]
    if kind not in _QUALIFIED:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    found = _QUALIFIED[kind].search(name)
    return [] if found else [invalid(path, name, "must be valid format")]


def _iscsi(source: Data, path: str) -> Errors:
    errors = missing_in(source, path, "targetPortal", "iqn")
    if source.get("iqn"):
        errors += _qualified(source["iqn"], f"{path}.iqn")
    lun = source.get("lun", 0)
    errors += [invalid(f"{path}.lun", lun, text) for text in texts.between(lun, 0, 255)]
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if source.get("initiatorName") is not None:
        errors += _qualified(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _fibre(source: Data, path: str) -> Errors:
    targets, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    errors: Errors = []
    if not targets and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", targets, text))
    if targets and source.get("lun") is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets:
        errors += [invalid(f"{path}.lun", source["lun"], text) for text in texts.between(source["lun"], 0, 255)]
    return errors


def _disk(field: str, source: Data, path: str) -> Errors:
    path = path.replace(".gcePersistentDisk", ".persistentDisk")
    partition = source.get("partition", 0)
    errors = missing_in(source, path, field)
    if not 0 <= partition <= 255:
        errors.append(invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive"))
    return errors


def _flocker(source: Data, path: str) -> Errors:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: Errors = []
    if not name and not uid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _quobyte(source: Data, path: str) -> Errors:
    registry, errors = source.get("registry", ""), Errors()
    if not registry:
        errors.append(required(f"{path}.registry", _HOSTS))
    elif len(source.get("tenant", "")) > _LONGEST_TENANT:
        text = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        errors.append(required(f"{path}.tenant", text))
    else:
        pairs = registry.split(",")
        errors += [
            invalid(f"{path}.registry", registry, _HOSTS)
            for pair in pairs
            if re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", pair) is None
        ]
    return errors + missing_in(source, path, "volume")


def _azure_disk(source: Data, path: str) -> Errors:
    errors = missing_in(source, path, "diskName", "diskURI")
    address = source.get("diskURI", "")
    for name, allowed in (("cachingMode", _CACHING), ("kind", _DISKS)):
        if source.get(name) is not None and source[name] not in allowed:
            errors.append(not_supported(f"{path}.{name}", source[name], allowed))
    kind = source.get("kind")
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", address, (_MANAGED,)))
    elif kind not in (None, "Managed") and not address.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", address, (_BLOB,)))
    return errors


def _flex(source: Data, path: str) -> Errors:
    errors = missing_in(source, path, "driver")
    for key in source.get("options") or {}:
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, text))
    return errors


def _secret(source: Data, path: str) -> Errors:
    secret = source.get("secretRef")
    return [] if secret is None or secret.get("name") else [required(f"{path}.secretRef.name")]


def _cinder(source: Data, path: str) -> Errors:
    return missing_in(source, path, "volumeID") + _secret(source, path)


def _storage_os(source: Data, path: str) -> Errors:
    errors = missing_in(source, path, "volumeName")
    for name in ("volumeName", "volumeNamespace"):
        if source.get(name):
            errors += text_errors(f"{path}.{name}", source[name], names.dns1123_label)
    return errors + _secret(source, path)


def _csi(source: Data, path: str) -> Errors:
    errors = driver_errors(source.get("driver", ""), f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return errors
    if not secret.get("name"):
        return [*errors, required(f"{path}.nodePublishSecretRef.name")]
    return errors + text_errors(f"{path}.name", secret["name"], names.dns1123_subdomain)


def _own_claim(source: Data, path: str) -> Errors:
    template, here = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        return [required(here)]
    metadata = template.get("metadata") or {}
    errors = annotation_errors(metadata.get("annotations"), f"{here}.metadata.annotations")
    errors += label_errors(metadata.get("labels"), f"{here}.metadata.labels")
    errors += [
        forbidden(f"{here}.metadata.{name}", "cannot be set")
        for name, value in metadata.items()
        if name not in ("annotations", "labels") and value
    ]
    return errors + claim_spec_errors(template.get("spec") or {}, f"{here}.spec")


def _needs(*fields: str) -> Callable[[Data, str], Errors]:
    return lambda source, path: missing_in(source, path, *fields)


VENDORS: Final[Mapping[str, Callable[[Data, str], Errors]]] = {
    "awsElasticBlockStore": partial(_disk, "volumeID"),
    "azureDisk": _azure_disk,
    "azureFile": _needs("secretName", "shareName"),
    "cephfs": _needs("monitors"),
    "cinder": _cinder,
    "csi": _csi,
    "ephemeral": _own_claim,
    "fc": _fibre,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": partial(_disk, "pdName"),
    "gitRepo": _repository,
    "glusterfs": _needs("endpoints", "path"),
    "iscsi": _iscsi,
    "nfs": nfs_errors,
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "quobyte": _quobyte,
    "rbd": _needs("monitors", "image"),
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "storageos": _storage_os,
    "vsphereVolume": _needs("volumePath"),
}
"""The check of a source, by its field."""
