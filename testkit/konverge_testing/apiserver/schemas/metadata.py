"""Validation of ObjectMeta, at creation and at update, in the server's words and order.

Guarantees: pure; metadata has passed `prune` (types are right). Source: k8s.io/apimachinery `pkg/api/validation/objectmeta.go`,
`pkg/apis/meta/v1/validation/validation.go`. Go ranges over labels and annotations in random order; here it is the object's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from konverge_testing.apiserver.golang import Struct, quote
from konverge_testing.apiserver.names import dns1123_label, label_key, label_value, name_errors
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["common_errors", "field_manager_errors", "validate_metadata", "validate_metadata_update"]

Data = dict[str, Any]

_ANNOTATIONS_LIMIT: Final = 256 * 1024
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_ABSENT: Final = {"name": "", "namespace": "", "uid": ""}


def validate_metadata(data: Data, *, namespaced: bool, name_rule: str = "subdomain") -> list[FieldError]:
    """Check metadata at creation, after the name is generated. `name_rule` is a key of `NAME_RULES`."""
    metadata = data.get("metadata") or {}
    errors = []
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        found = name_errors(name_rule, prefix, prefix=True)
        errors += [FieldError("Invalid", "metadata.generateName", prefix, words) for words in found]
    if not name:
        errors.append(FieldError("Required", "metadata.name", "", "name or generateName is required"))
    else:
        errors += [FieldError("Invalid", "metadata.name", name, words) for words in name_errors(name_rule, name)]
    return errors + common_errors(metadata, "metadata", namespaced=namespaced)


def common_errors(metadata: Data, path: str, *, namespaced: bool) -> list[FieldError]:
    """Check all but the name."""
    errors = []
    namespace = metadata.get("namespace") or ""
    if namespaced and not namespace:
        errors.append(FieldError("Required", f"{path}.namespace"))
    elif namespaced:
        errors += [FieldError("Invalid", f"{path}.namespace", namespace, words) for words in dns1123_label(namespace)]
    elif namespace:
        errors.append(FieldError("Forbidden", f"{path}.namespace", "", "not allowed on this type"))
    generation = metadata.get("generation") or 0
    if generation < 0:
        errors.append(FieldError("Invalid", f"{path}.generation", generation, "must be greater than or equal to 0"))
    return (
        errors
        + _labels(metadata, path)
        + _owners(metadata, path)
        + _finalizers(metadata, path)
        + _managers(metadata, path)
    )


def validate_metadata_update(new: Data, old: Data) -> list[FieldError]:
    """Check metadata at update: immutable fields, and additions that are not allowed."""
    now, before = new.get("metadata") or {}, old.get("metadata") or {}
    errors = []
    if before.get("deletionTimestamp"):
        extra = sorted(set(now.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if extra:
            shown = ", ".join(map(quote, extra))
            words = (
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
                + shown
                + "}"
            )
            errors.append(FieldError("Forbidden", "metadata.finalizers", "", words))
    if not now.get("resourceVersion"):
        errors.append(FieldError("Invalid", "metadata.resourceVersion", "", "must be specified for an update"))
    generation = now.get("generation") or 0
    if generation < (before.get("generation") or 0):
        errors.append(FieldError("Invalid", "metadata.generation", generation, "must not be decremented"))
    for name in _IMMUTABLE:
        value = now.get(name) or _ABSENT.get(name)
        if value != (before.get(name) or _ABSENT.get(name)):
            errors.append(FieldError("Invalid", f"metadata.{name}", value, "field is immutable"))
    known = before.get("managedFields") or ()
    return (
        errors
        + _labels(now, "metadata")
        + _owners(now, "metadata")
        + _finalizers(now, "metadata")
        + _managers(now, "metadata", known)
    )


def _labels(metadata: Data, path: str) -> list[FieldError]:
    errors = []
    for key, value in (metadata.get("labels") or {}).items():
        errors += [FieldError("Invalid", f"{path}.labels", key, words) for words in label_key(key)]
        errors += [FieldError("Invalid", f"{path}.labels", value, words) for words in label_value(value)]
    annotations = metadata.get("annotations") or {}
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        errors += [FieldError("Invalid", f"{path}.annotations", key, words) for words in label_key(key.lower())]
    if size > _ANNOTATIONS_LIMIT // 4:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > _ANNOTATIONS_LIMIT:
            errors.append(
                FieldError("TooLong", f"{path}.annotations", "", f"may not be more than {_ANNOTATIONS_LIMIT} bytes")
            )
    return errors


def _owners(metadata: Data, path: str) -> list[FieldError]:
    owners = metadata.get("ownerReferences")
    if not owners:
        return []
    here = f"{path}.ownerReferences"
    errors, controller = [], ""
    for owner in owners:
        errors += _owner(owner, here)
        if owner.get("controller"):
            this = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                words = f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {this}'
                errors.append(FieldError("Invalid", here, [_ordered(one) for one in owners], words))
            else:
                controller = this
    return errors


def _ordered(owner: Data) -> Struct:
    return Struct({name: owner[name] for name in _OWNER_FIELDS if name in owner})


def _owner(owner: Data, path: str) -> list[FieldError]:
    errors = []
    api_version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    if api_version.count("/") > 1 or not api_version.rpartition("/")[2]:
        errors.append(FieldError("Invalid", f"{path}.apiVersion", api_version, "version must not be empty"))
    missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
    errors += [FieldError("Invalid", f"{path}.{name}", "", "must not be empty") for name in missing]
    if api_version == "v1" and kind == "Event":
        errors.append(FieldError("Invalid", path, _ordered(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _finalizers(metadata: Data, path: str) -> list[FieldError]:
    finalizers = metadata.get("finalizers")
    if not finalizers:
        return []
    here = f"{path}.finalizers"
    errors = [FieldError("Invalid", here, name, words) for name in finalizers for words in label_key(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        words = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(FieldError("Invalid", here, finalizers, words))
    return errors


def _managers(metadata: Data, path: str, known: Sequence[Data] = ()) -> list[FieldError]:
    """Check the entries of managedFields, except entries that are the same object in memory as a stored entry."""
    errors = []
    for index, entry in enumerate(metadata.get("managedFields") or ()):
        if any(entry is one for one in known):
            continue
        here = f"{path}.managedFields[{index}]"
        operation, kind = entry.get("operation") or "", entry.get("fieldsType") or ""
        if operation not in ("Apply", "Update"):
            errors.append(FieldError("Invalid", f"{here}.operation", operation, "must be `Apply` or `Update`"))
        if kind not in ("", "FieldsV1"):
            errors.append(FieldError("Invalid", f"{here}.fieldsType", kind, "must be `FieldsV1`"))
        errors += field_manager_errors(entry.get("manager") or "", f"{here}.manager")
        if len((entry.get("subresource") or "").encode()) > 256:
            errors.append(FieldError("TooLong", f"{here}.subresource", "", "may not be more than 256 bytes"))
    return errors


def field_manager_errors(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """Check the name of a field manager."""
    errors = []
    if len(manager.encode()) > 128:
        errors.append(FieldError("TooLong", path, "", "may not be more than 128 bytes"))
    position = 0
    for char in manager:
        if not char.isprintable():
            errors.append(
                FieldError("Invalid", path, manager, f"invalid character U+{ord(char):04X} (at position {position})")
            )
        position += len(char.encode())
    return errors
