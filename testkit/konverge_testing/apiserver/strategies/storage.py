"""The kinds by which storage drivers and the cluster speak to each other: CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment and
VolumeAttributesClass.

Left out: the checks of an inline volume in an attachment, the format of node topology in warnings. Source:
`pkg/apis/storage/validation/validation.go`, `pkg/apis/storage/v1/defaults.go`, `pkg/registry/storage/*/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import (
    IMMUTABLE,
    NOT_NEGATIVE,
    BuiltInStrategy,
    Data,
    Errors,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_negative,
    not_supported,
    required,
    restore_metadata,
    selector_errors,
    shown_selector,
    text_errors,
    too_long,
)

__all__ = [
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "VolumeAttributesClass",
    "parameter_errors",
]

_FS_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES: Final = ("Persistent", "Ephemeral")
_TEN_MINUTES: Final = 600
_MOST_SECONDS: Final = 1 << 32
_LONGEST_DRIVER: Final = 63
_LONGEST_NODE_ID: Final = 192
_MOST_PARAMETERS: Final = 512
_MOST_BYTES: Final = 256 * 1024
_MOST_MESSAGE: Final = 1024 * 1024
_EITHER_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens "
    "in volume attributes"
)


def parameter_errors(parameters: Mapping[str, str] | None, path: str, *, needed: bool = False) -> Errors:
    """Check the parameters of a class."""
    given = parameters or {}
    if len(given) > _MOST_PARAMETERS:
        return [too_long(path, _MOST_PARAMETERS)]
    errors = [invalid(path, key, "field can not be empty.") for key in given if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > _MOST_BYTES:
        errors.append(too_long(path, _MOST_BYTES))
    if needed and not given:
        errors.append(required(path, "must contain at least one key/value pair"))
    return errors


def driver_errors(name: str, path: str) -> Errors:
    """Check the name of a storage driver."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _LONGEST_DRIVER)] if len(name.encode()) > _LONGEST_DRIVER else []
    return errors + [invalid(path, name, message) for message in names.dns1123_subdomain(name.lower())]


class CSIDriver(BuiltInStrategy):
    """The abilities of a storage driver."""

    unconditional_update = False

    def _update(self, new: Data, old: Data) -> None:
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        for name, value in (
            ("attachRequired", True),
            ("podInfoOnMount", False),
            ("storageCapacity", False),
            ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
            ("requiresRepublish", False),
            ("seLinuxMount", False),
        ):
            spec.setdefault(name, value)
        spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors: Errors = []
        if spec.get("fsGroupPolicy") not in _FS_GROUP_POLICIES:
            errors.append(not_supported("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _FS_GROUP_POLICIES))
        errors += _token_errors(spec.get("tokenRequests") or [])
        errors += [
            not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
            for mode in spec.get("volumeLifecycleModes") or ()
            if mode not in _LIFECYCLES
        ]
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            path = "spec.nodeAllocatableUpdatePeriodSeconds"
            errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not spec.get("tokenRequests"):
            words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, words))
        if old is None:
            return errors
        before = old.get("spec") or {}
        for name, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            errors += immutable(f"spec.{path}", spec.get(name), before.get(name))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        spec, before = new.get("spec") or {}, ((old or {}).get("spec") or {})
        tokens = spec.get("tokenRequests")
        if not tokens or "serviceAccountTokenInSecrets" in spec or (old and tokens == before.get("tokenRequests")):
            return []
        return [_TOKENS_IN_SECRETS]


def _token_errors(requests: list[Data]) -> Errors:
    errors: Errors = []
    seen = set()
    for index, request in enumerate(requests):
        path = f"spec.tokenRequests[{index}]"
        audience = request.get("audience", "")
        if audience in seen:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is None:
            continue
        if seconds < _TEN_MINUTES:
            words = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, words))
        if seconds > _MOST_SECONDS:
            words = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, words))
    return errors


class CSINode(BuiltInStrategy):
    """The storage drivers of a node."""

    unconditional_update = False

    def _errors(self, new: Data, old: Data | None) -> Errors:
        drivers = (new.get("spec") or {}).get("drivers") or []
        seen: set[str] = set()
        errors: Errors = []
        for index, driver in enumerate(drivers):
            errors += _node_driver_errors(driver, f"spec.drivers[{index}]", seen)
        for before in ((old or {}).get("spec") or {}).get("drivers") or ():
            for driver in drivers:
                now, then = ({**one, "allocatable": None} for one in (driver, before))
                if driver.get("name") == before.get("name") and now != then:
                    errors += immutable("spec.drivers", _shown_driver(driver), None)
        return errors


def _shown_driver(driver: Data) -> Struct:
    shown = Struct(Name=driver.get("name", ""), NodeID=driver.get("nodeID", ""))
    shown.update(TopologyKeys=driver.get("topologyKeys"), Allocatable=None)
    return shown


def _node_driver_errors(driver: Data, path: str, seen: set[str]) -> Errors:
    name, node = driver.get("name", ""), driver.get("nodeID", "")
    errors = driver_errors(name, f"{path}.name")
    if not node:
        errors.append(required(f"{path}.nodeID"))
    if len(node.encode()) > _LONGEST_NODE_ID:
        errors.append(invalid(f"{path}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less"))
    errors += not_negative(driver.get("allocatable") or {}, f"{path}.allocatable", "count")
    if name in seen:
        errors.append(duplicate(f"{path}.name", name))
    seen.add(name)
    keys = set()
    for key in driver.get("topologyKeys") or ():
        if not key:
            errors.append(required(path))
        if key in keys:
            errors.append(duplicate(path, key))
        keys.add(key)
        errors += text_errors(path, key, names.label_key)
    return errors


class CSIStorageCapacity(BuiltInStrategy):
    """How much a storage driver can still give at a place."""

    unconditional_update = False

    def _errors(self, new: Data, old: Data | None) -> Errors:
        topology, class_name, capacity = new.get("nodeTopology"), new.get("storageClassName", ""), new.get("capacity")
        errors = selector_errors(topology, "nodeTopology")
        errors += text_errors("storageClassName", class_name, names.dns1123_subdomain)
        if capacity is not None and Quantity.parse(capacity).billionths < 0:
            errors.append(invalid("capacity", capacity, NOT_NEGATIVE))
        if old is None:
            return errors
        errors += immutable("nodeTopology", shown_selector(topology), shown_selector(old.get("nodeTopology")))
        return errors + immutable("storageClassName", class_name, old.get("storageClassName", ""))


class VolumeAttachment(BuiltInStrategy):
    """The wish that a volume be attached to a node."""

    has_status = True
    unconditional_update = False
    empty_status: Mapping[str, Any] = {"attached": False}
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("metadata",), ("spec",)),
    }

    def _default(self, new: Data) -> None:
        new.setdefault("status", {}).setdefault("attached", False)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = driver_errors(spec.get("attacher", ""), "spec.attacher") + _source_errors(spec.get("source") or {})
        errors += text_errors("spec.nodeName", spec.get("nodeName", ""), names.dns1123_subdomain)
        errors += _attachment_errors(new.get("status") or {})
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if volume is not None:
            errors += text_errors("spec.source.persistentVolumeName", volume, names.dns1123_subdomain)
        if old is None or spec == old.get("spec"):
            return errors
        return [*errors, invalid("spec", _shown_spec(spec), IMMUTABLE)]

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore_metadata(new, old)

    def _status_errors(self, new: Data, old: Data) -> Errors:
        return self._errors(new, old)


def _shown_spec(spec: Data) -> Struct:
    source = spec.get("source") or {}
    shown = Struct(PersistentVolumeName=source.get("persistentVolumeName"))
    shown["InlineVolumeSpec"] = source.get("inlineVolumeSpec")
    return Struct(Attacher=spec.get("attacher", ""), Source=shown, NodeName=spec.get("nodeName", ""))


def _source_errors(source: Data) -> Errors:
    given = [name for name in ("inlineVolumeSpec", "persistentVolumeName") if source.get(name) is not None]
    if not given:
        return [required("spec.source", _EITHER_SOURCE)]
    if len(given) > 1:
        return [forbidden("spec.source", _EITHER_SOURCE)]
    if given == ["persistentVolumeName"] and not source["persistentVolumeName"]:
        return [required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")]
    return []


def _attachment_errors(status: Data) -> Errors:
    errors: Errors = []
    told = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in told.items()) > _MOST_BYTES:
        errors.append(too_long("status.attachmentMetadata", _MOST_BYTES))
    for name in ("attachError", "detachError"):
        problem = status.get(name) or {}
        if len(problem.get("message", "").encode()) > _MOST_MESSAGE:
            errors.append(too_long(f"status.{name}.message", _MOST_BYTES))
        code = problem.get("errorCode")
        if code is not None and code < 0:
            errors.append(invalid(f"status.{name}.errorCode", code, "must be between 0 and 2147483647, inclusive"))
    return errors


class VolumeAttributesClass(BuiltInStrategy):
    """Attributes of volumes that can change while they are in use."""

    def _errors(self, new: Data, old: Data | None) -> Errors:
        driver, parameters = new.get("driverName", ""), new.get("parameters")
        errors: Errors = []
        if old is not None and driver != old.get("driverName", ""):
            errors.append(forbidden("driverName", "updates to driverName are forbidden."))
        if old is not None and parameters != old.get("parameters"):
            errors.append(forbidden("parameters", "updates to parameters are forbidden."))
        errors += text_errors("driverName", driver.lower(), names.label_key) if driver else [required("driverName")]
        return errors + parameter_errors(parameters, "parameters", needed=True)
