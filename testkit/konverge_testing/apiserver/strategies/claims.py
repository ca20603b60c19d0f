"""PersistentVolumeClaim and PersistentVolume.

Left out: sources of single vendors and of protocols besides NFS, data sources. Source: `pkg/apis/core/validation/validation.go`,
`pkg/registry/core/persistentvolume*/strategy.go`.
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

from konverge.clock import wall_clock
from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import BuiltInStrategy, value_at
from konverge_testing.apiserver.strategies.claim_specs import access_errors, claim_spec_errors, volume_mode
from konverge_testing.apiserver.strategies.errors import (
    Data,
    Errors,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods import difference
from konverge_testing.apiserver.strategies.pods.scheduling import node_selector
from konverge_testing.apiserver.strategies.pods.sources import driver, nfs
from konverge_testing.apiserver.strategies.pods.volumes import host_path
from konverge_testing.apiserver.strategies.rules import Rule, among, at, filled, given, need, present, struct, text

__all__ = ["PersistentVolume", "PersistentVolumeClaim"]

_SOURCES: Final = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk glusterfs "
    "hostPath iscsi local nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume"
)
_CLAIM_TEXT: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_SECRETS: Final = "controllerPublishSecretRef controllerExpandSecretRef nodePublishSecretRef nodeExpandSecretRef"


class PersistentVolumeClaim(BuiltInStrategy):
    """PersistentVolumeClaim: a request for a volume."""

    has_status = True
    rules = struct(at("spec", claim_spec_errors))
    defaults = (("spec.volumeMode", "Filesystem"), ("status.phase", "Pending"))

    def _create(self, new: Data) -> None:
        new["status"] = {"phase": "Pending"}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = super()._errors(new, old)
        return errors if old is None else errors + _class_change(new, old) + _claim_change(new, old)

    def _warnings(self, new: Data, _old: Data | None) -> list[str]:
        if _BETA_CLASS not in (new["metadata"].get("annotations") or {}):
            return []
        return [f'metadata.annotations[{_BETA_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead']

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"name": object_["metadata"].get("name", "")}


def _old_class(claim: Data) -> Any:
    return (claim["metadata"].get("annotations") or {}).get(_BETA_CLASS)


def _class_moved(new: Data, old: Data) -> bool:
    """Return whether the class moves from the annotation into the field."""
    before, wanted = (value_at(claim, "spec.storageClassName") for claim in (old, new))
    known = _old_class(old)
    return known is not None and before is None and wanted == known and _old_class(new) in (None, known)


def _class_change(new: Data, old: Data) -> Errors:
    if _class_moved(new, old):
        return []
    wanted, known = _old_class(new), _old_class(old)
    return [] if wanted == known else immutable(f"metadata.annotations.{_BETA_CLASS}", wanted or "", known)


def _claim_change(changed: Data, before_change: Data) -> Errors:
    errors: Errors = []
    new, old, status = changed.get("spec") or {}, before_change.get("spec") or {}, before_change.get("status") or {}
    now, then = (Quantity.parse(value_at(spec, "resources.requests.storage") or "0") for spec in (new, old))
    compared, before = dict(new), dict(old)
    if not old.get("volumeName"):
        before["volumeName"] = new.get("volumeName", "")
        compared.setdefault("volumeName", "")
    named = _old_class(changed) is not None or _old_class(before_change) is not None
    if old.get("storageClassName") is None and (_class_moved(changed, before_change) or not named):
        compared.pop("storageClassName", None)  # a class is given once, at any time
    if status.get("phase") == "Bound":
        requests = value_at(old, "resources.requests")
        compared["resources"] = {**(new.get("resources") or {}), "requests": requests}
        compared.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
    if compared != before:
        errors.append(forbidden("spec", f"{_CLAIM_TEXT}\n{difference(old, new)}"))
    if now < then and not Quantity.parse(value_at(status, "capacity.storage") or "0") < now:
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return errors + immutable("volumeMode", new.get("volumeMode"), old.get("volumeMode"))


def _capacity(capacity: Data | None, path: str) -> Errors:
    errors = [] if capacity else [required(path)]
    if set(capacity or ()) != {"storage"}:
        errors.append(not_supported(path, capacity or None, ("storage",)))
    for name, value in (capacity or {}).items():
        here = f"{path}[{name}]"
        positive = Quantity.parse(value).billionths > 0
        errors += amount_errors(name, value, here) if positive else [invalid(here, value, "must be greater than zero")]
    return errors


_csi: Final = struct(need("driver", driver), need("volumeHandle"), given(_SECRETS, need("name namespace")))


def _source(spec: Data, path: str) -> Errors:
    kinds = [name for name in spec if name in _SOURCES.split()]
    if not kinds:
        return [required(path, "must specify a volume type")]
    kind = kinds[0]
    checks: dict[str, Rule] = {"csi": _csi, "hostPath": host_path, "local": need("path", no_backsteps), "nfs": nfs}
    errors = at(kind, checks[kind])(spec, path) if kind in checks else []
    root = kind == "hostPath" and posixpath.normpath(spec[kind].get("path") or ".") == "/"
    if root and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        words = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", words))
    if kind == "local" and spec.get("nodeAffinity") is None:
        errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in kinds[1:]]


def _attributes_class(spec: Data, path: str) -> Errors:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return []
    check = need("volumeAttributesClassName", text(names.dns1123_subdomain), detail="an empty string is disallowed")
    errors = check(spec, path)
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _now() -> str:
    return wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")


class PersistentVolume(BuiltInStrategy):
    """PersistentVolume: a volume of the cluster."""

    has_status = True
    defaults = (
        ("status.phase", "Pending"),
        ("spec.persistentVolumeReclaimPolicy+", "Retain"),
        ("spec.volumeMode", "Filesystem"),
        ("spec.hostPath?.type", ""),
    )
    rules = struct(
        at(
            "spec",
            need("accessModes"),
            at("accessModes", access_errors),
            at("capacity", _capacity),
            at("persistentVolumeReclaimPolicy", among("Delete", "Recycle", "Retain")),
            given("nodeAffinity", present("required", node_selector, detail="must specify required node constraints")),
            _source,
            filled("storageClassName", text(names.dns1123_subdomain)),
            at("volumeMode", volume_mode),
            _attributes_class,
        )
    )

    def _create(self, new: Data) -> None:
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": _now()}

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        moved, time = status.get("phase") != before.get("phase"), "lastPhaseTransitionTime"
        if moved and status.get(time) in (None, before.get(time)):
            status[time] = _now()
        elif not moved and time not in status and time in before:
            status[time] = before[time]

    def _frozen(self, new: Data, old: Data) -> Errors:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        now, then = ({name: part[name] for name in part if name in _SOURCES.split()} for part in (spec, before))
        errors: Errors = []
        if now != then:
            words = f"spec.persistentvolumesource is immutable after creation\n{difference(then, now)}"
            errors.append(forbidden("spec.persistentvolumesource", words))
        for name in ("volumeMode", *(("nodeAffinity",) if before.get("nodeAffinity") is not None else ())):
            errors += immutable(name, spec.get(name), before.get(name))
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"name": object_["metadata"].get("name", "")}
