"""PersistentVolumeClaim and PersistentVolume.

Left out: what single volume drivers ask for, data sources. Source: `pkg/apis/core/validation/validation.go`,
`pkg/apis/storage/{v1/defaults,validation/validation}.go`, `pkg/registry/core/persistentvolume*/strategy.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.clock import wall_clock
from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.claim_specs import VOLUME_MODES, access_errors, claim_spec_errors
from konverge_testing.apiserver.strategies.pods import difference
from konverge_testing.apiserver.strategies.volumes import affinity_errors, source_errors

__all__ = ["PersistentVolume", "PersistentVolumeClaim"]

_SOURCES: Final = frozenset(
    [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "hostPath",
        "iscsi",
        "local",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ]
)
_CLAIM_TEXT: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaim(BuiltInStrategy):
    """A claim to a volume."""

    has_status = True

    def _default(self, new: Data) -> None:
        new.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        new["status"] = {"phase": "Pending", **(new.get("status") or {})}

    def _create(self, new: Data) -> None:
        new["status"] = {"phase": "Pending"}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = claim_spec_errors(spec, "spec")
        return errors if old is None else errors + _class_change(new, old) + _claim_change(new, old)

    def warnings(self, new: Data, old: Data | None) -> list[str]:  # noqa: ARG002  # both are looked at alike
        """Warn of the annotation that came before the field."""
        if _BETA_CLASS not in (new["metadata"].get("annotations") or {}):
            return []
        return [f'metadata.annotations[{_BETA_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead']

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"name": object_["metadata"].get("name", "")}


def _old_class(claim: Data) -> Any:
    return (claim["metadata"].get("annotations") or {}).get(_BETA_CLASS)


def _class_moved(new: Data, old: Data) -> bool:
    """Tell whether the class moves from the annotation into the field."""
    before, wanted = (each.get("spec", {}).get("storageClassName") for each in (old, new))
    known = _old_class(old)
    return known is not None and before is None and wanted == known and _old_class(new) in (None, known)


def _class_change(new: Data, old: Data) -> Errors:
    known, wanted = _old_class(old), _old_class(new)
    if known == wanted or _class_moved(new, old):
        return []
    return [invalid(f"metadata.annotations.{_BETA_CLASS}", wanted or "", "field is immutable")]


def _claim_change(changed: Data, before_change: Data) -> Errors:
    errors: Errors = []
    new, old, status = changed.get("spec") or {}, before_change.get("spec") or {}, before_change.get("status") or {}
    now, then = _size(new.get("resources")), _size(old.get("resources"))
    compared = dict(new)
    before = dict(old)
    if not old.get("volumeName"):
        before["volumeName"] = new.get("volumeName", "")
        compared.setdefault("volumeName", "")
    named = _old_class(changed) is not None or _old_class(before_change) is not None
    if old.get("storageClassName") is None and (_class_moved(changed, before_change) or not named):
        compared.pop("storageClassName", None)  # a class is given once, at any time
    if status.get("phase") == "Bound":
        compared["resources"] = {
            **(new.get("resources") or {}),
            "requests": (old.get("resources") or {}).get("requests"),
        }
        compared.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
    if compared != before:
        errors.append(forbidden("spec", f"{_CLAIM_TEXT}\n{difference(old, new)}"))
    if now < then and not Quantity.parse((status.get("capacity") or {}).get("storage", "0")) < now:
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return errors + immutable("volumeMode", new.get("volumeMode"), old.get("volumeMode"))


def _size(resources: Data | None) -> Quantity:
    return Quantity.parse(((resources or {}).get("requests") or {}).get("storage", "0"))


class PersistentVolume(BuiltInStrategy):
    """A volume of the cluster."""

    has_status = True

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        new["status"] = {"phase": "Pending", **(new.get("status") or {})}
        spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def _create(self, new: Data) -> None:
        now = wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        moved, time = status.get("phase") != before.get("phase"), "lastPhaseTransitionTime"
        if moved and status.get(time) in (None, before.get(time)):
            status[time] = wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        elif not moved and time not in status and time in before:
            status[time] = before[time]

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        modes = spec.get("accessModes") or []
        errors = [] if modes else [required("spec.accessModes")]
        errors += access_errors(modes, "spec.accessModes")
        capacity = spec.get("capacity") or {}
        errors += [] if capacity else [required("spec.capacity")]
        if set(capacity) != {"storage"}:
            errors.append(not_supported("spec.capacity", capacity or None, ("storage",)))
        for name, value in capacity.items():
            path = f"spec.capacity[{name}]"
            positive = Quantity.parse(value).billionths > 0
            errors += (
                amount_errors(name, value, path) if positive else [invalid(path, value, "must be greater than zero")]
            )
        policy, allowed = spec.get("persistentVolumeReclaimPolicy"), ("Delete", "Recycle", "Retain")
        if policy not in allowed:
            errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, allowed))
        errors += affinity_errors(spec.get("nodeAffinity")) + _source(spec)
        if spec.get("storageClassName"):
            errors += text_errors("spec.storageClassName", spec["storageClassName"], names.dns1123_subdomain)
        if spec.get("volumeMode") not in VOLUME_MODES:
            errors.append(not_supported("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES))
        errors += _attributes_class(spec)
        if old is not None:
            errors += _volume_change(spec, old.get("spec") or {})
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"name": object_["metadata"].get("name", "")}


def _source(spec: Data) -> Errors:
    kinds = [name for name in spec if name in _SOURCES]
    if not kinds:
        return [required("spec", "must specify a volume type")]
    more = [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in kinds[1:]]
    return source_errors(spec, kinds[0]) + more


def _attributes_class(spec: Data) -> Errors:
    name, path = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return []
    errors = text_errors(path, name, names.dns1123_subdomain)
    if not name:
        errors = [required(path, "an empty string is disallowed")]
    if spec.get("csi") is None:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _volume_change(new: Data, old: Data) -> Errors:
    now, then = ({name: value for name, value in each.items() if name in _SOURCES} for each in (new, old))
    errors: Errors = []
    if now != then:
        text = f"spec.persistentvolumesource is immutable after creation\n{difference(then, now)}"
        errors.append(forbidden("spec.persistentvolumesource", text))
    errors += immutable("volumeMode", new.get("volumeMode"), old.get("volumeMode"))
    if old.get("nodeAffinity") is not None:
        errors += immutable("nodeAffinity", new.get("nodeAffinity"), old.get("nodeAffinity"))
    return errors
