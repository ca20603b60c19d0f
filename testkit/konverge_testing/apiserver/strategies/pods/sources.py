"""The rules of volumes of single vendors and protocols, and of ephemeral claims.

Source: `pkg/apis/core/validation/validation.go` (validateVolumeSource and below).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.claim_specs import claim_spec_errors
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_supported, required
from konverge_testing.apiserver.strategies.labels import annotation_errors, label_errors
from konverge_testing.apiserver.strategies.paths import descending
from konverge_testing.apiserver.strategies.rules import (
    Rule,
    among,
    at,
    between,
    filled,
    given,
    length,
    must,
    need,
    present,
    struct,
    text,
    when,
    wrong,
)

__all__ = ["VENDORS", "driver", "nfs"]

_QUALIFIED: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_HOSTS: Final = "must be a host:port pair or multiple pairs separated by commas"
_LONGEST_TENANT: Final = 64
_MANAGED: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"

driver: Final = struct(length(63), text(lambda name: names.dns1123_subdomain(name.lower())))
"""The rule of the name of a storage driver."""

nfs: Final = struct(
    need("server path"),
    at(
        "path",
        lambda value, path: must(lambda target: target.startswith("/"), "must be an absolute path")(value or "", path),
    ),
)
_lun: Final = between(0, 255)
_secret: Final = given("secretRef", need("name"))


def _disk(name: str) -> Rule:
    return struct(need(name), at("partition", between(0, 255, "must be between 1 and 255, inclusive")))


def _qualified(name: str, path: str) -> Errors:
    pattern = _QUALIFIED.get(name[:3])
    if pattern is None:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.search(name) else [invalid(path, name, "must be valid format")]


def _iscsi_secret(source: Data, path: str) -> Errors:
    needed = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    return [required(f"{path}.secretRef")] if needed and source.get("secretRef") is None else []


_fibre: Final = struct(
    when(
        lambda source: not source.get("targetWWNs") and not source.get("wwids"),
        need("targetWWNs", detail="must specify either targetWWNs or wwids, but not both"),
    ),
    when(
        lambda source: source.get("targetWWNs") and source.get("wwids"),
        at("targetWWNs", wrong("targetWWNs and wwids can not be specified simultaneously")),
    ),
    when(
        lambda source: source.get("targetWWNs"),
        present("lun", _lun, detail="lun is required if targetWWNs is specified"),
    ),
)


def _flocker(source: Data, path: str) -> Errors:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        return [required(path, "one of datasetName and datasetUUID is required")]
    words = "datasetName and datasetUUID can not be specified simultaneously"
    errors = [invalid(path, "resource", words)] if name and uid else []
    return errors + at("datasetName", must(lambda name: "/" not in (name or ""), "must not contain '/'"))(source, path)


def _registry(source: Data, path: str) -> Errors:
    registry = source.get("registry", "")
    if not registry:
        return [required(f"{path}.registry", _HOSTS)]
    if len(source.get("tenant", "")) > _LONGEST_TENANT:
        words = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        return [required(f"{path}.tenant", words)]
    pairs = [pair for pair in registry.split(",") if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", pair)]
    return [invalid(f"{path}.registry", registry, _HOSTS)] * len(pairs)


def _disk_address(source: Data, path: str) -> Errors:
    kind, address = source.get("kind"), source.get("diskURI", "")
    if kind == "Managed":
        wrong, form = not address.startswith("/subscriptions/"), _MANAGED
    else:
        wrong, form = kind is not None and not address.startswith("https://"), _BLOB
    return [not_supported(f"{path}.diskURI", address, (form,))] if wrong else []


def _options(options: Data | None, path: str) -> Errors:
    words = "kubernetes.io and k8s.io namespaces are reserved"
    return [
        invalid(f"{path}[{key}]", key, words)
        for key in options or ()
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def _publish_secret(source: Data, path: str) -> Errors:
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return []
    if not secret.get("name"):
        return [required(f"{path}.nodePublishSecretRef.name")]
    return text(names.dns1123_subdomain)(secret["name"], f"{path}.name")


def _only_labels(metadata: Data | None, path: str) -> Errors:
    return [
        forbidden(f"{path}.{name}", "cannot be set")
        for name, value in (metadata or {}).items()
        if name not in ("annotations", "labels") and value
    ]


_own_claim: Final = struct(
    at("metadata", at("annotations", annotation_errors), at("labels", label_errors), _only_labels),
    at("spec", claim_spec_errors),
)

VENDORS: Final[Mapping[str, Rule]] = {
    "awsElasticBlockStore": _disk("volumeID"),
    "azureDisk": struct(
        need("diskName diskURI"),
        given("cachingMode", among("None", "ReadOnly", "ReadWrite")),
        given("kind", among("Dedicated", "Managed", "Shared")),
        _disk_address,
    ),
    "azureFile": need("secretName shareName"),
    "cephfs": need("monitors"),
    "cinder": struct(need("volumeID"), _secret),
    "csi": struct(need("driver", driver), _publish_secret),
    "ephemeral": present("volumeClaimTemplate", _own_claim),
    "fc": _fibre,
    "flexVolume": struct(need("driver"), at("options", _options)),
    "flocker": _flocker,
    "gcePersistentDisk": lambda source, path: _disk("pdName")(
        source, path.replace(".gcePersistentDisk", ".persistentDisk")
    ),
    "gitRepo": struct(need("repository"), at("directory", descending)),
    "glusterfs": need("endpoints path"),
    "iscsi": struct(
        need("targetPortal iqn"),
        filled("iqn", _qualified),
        at("lun", _lun),
        _iscsi_secret,
        given("initiatorName", lambda name, path: _qualified(name, f"{path[:-4]}name")),
    ),
    "nfs": nfs,
    "photonPersistentDisk": need("pdID"),
    "portworxVolume": need("volumeID"),
    "quobyte": struct(_registry, need("volume")),
    "rbd": need("monitors image"),
    "scaleIO": need("gateway system volumeName"),
    "storageos": struct(need("volumeName"), filled("volumeName volumeNamespace", text(names.dns1123_label)), _secret),
    "vsphereVolume": need("volumePath"),
}
"""The rules of a source, by its field."""
