"""ObjectMeta as a typed struct, as on the server: wrong types are refused, unknown fields dropped and reported, zero values omitted.

Guarantees: pure; works in place. Source: apiextensions `pkg/apiserver/schema/objectmeta/coerce.go`, k8s.io/apimachinery
`pkg/apis/meta/v1/types.go`, sigs.k8s.io/json. Messages are Go's encoding/json's; the first error in the order of sorted keys is reported.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64, float_json
from konverge_testing.apiserver.schemas.times import TimeError, instant
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["Malformed", "coerce_metadata"]

Data = dict[str, Any]


class Malformed(ValueError):
    """Metadata has a wrong type; the message is the JSON decoder's. For a field with a path in the object, `error` is the field error."""

    def __init__(self, words: str, error: FieldError | None = None) -> None:
        super().__init__(words)
        self.error = error


_STRING: Final = "string"
_META: Final[dict[str, str]] = {
    "name": _STRING,
    "generateName": _STRING,
    "namespace": _STRING,
    "selfLink": _STRING,
    "uid": "types.UID",
    "resourceVersion": _STRING,
    "generation": "int64",
    "creationTimestamp": "time",
    "deletionTimestamp": "time",
    "deletionGracePeriodSeconds": "*int64",
    "labels": "map[string]string",
    "annotations": "map[string]string",
    "ownerReferences": "[]v1.OwnerReference",
    "finalizers": "[]string",
    "managedFields": "[]v1.ManagedFieldsEntry",
}
_OWNER: Final[dict[str, str]] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "name": _STRING,
    "uid": "types.UID",
    "controller": "*bool",
    "blockOwnerDeletion": "*bool",
}
_MANAGER: Final[dict[str, str]] = {
    "manager": _STRING,
    "operation": "v1.ManagedFieldsOperationType",
    "apiVersion": _STRING,
    "time": "time",
    "fieldsType": _STRING,
    "fieldsV1": "raw",
    "subresource": _STRING,
}
_STRINGS: Final = frozenset({_STRING, "types.UID", "v1.ManagedFieldsOperationType"})
_JSON: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def coerce_metadata(metadata: Any, unknown: list[str], prefix: str = "metadata") -> Data | None:
    """Convert metadata to the typed form in place and return it; None without metadata.

    Paths of fields that ObjectMeta does not have are added to `unknown`. Raises Malformed.
    """
    if metadata is None:
        return None
    if metadata.__class__ is not dict:
        raise Malformed(f"json: cannot unmarshal {_JSON[metadata.__class__]} into Go value of type v1.ObjectMeta")
    if not _plain(metadata):
        _Coercion(unknown).struct(metadata, _META, "ObjectMeta", "", prefix)
    found: Data = metadata
    return found


def _plain(metadata: Data) -> bool:
    """Tell whether metadata is of the common kind that needs no conversion: a few strings, labels, a canonical time."""
    for key, value in metadata.items():
        kind = _META.get(key)
        if kind is _STRING or kind == "types.UID":
            if value.__class__ is not str or not value:
                return False
        elif kind == "map[string]string":
            if value.__class__ is not dict or not value:
                return False
            for text in value.values():
                if text.__class__ is not str:
                    return False
        elif kind == "int64":
            if value.__class__ is not int or not 0 < value <= MAX_INT64:
                return False
        elif kind == "time":
            if value.__class__ is not str or len(value) != 20 or _written(value) != value:
                return False
        elif kind == "[]v1.ManagedFieldsEntry":
            if value.__class__ is not list or not value or not all(map(_plain_manager, value)):
                return False
        elif kind == "[]v1.OwnerReference":
            if value.__class__ is not list or not value or not all(map(_plain_owner, value)):
                return False
        elif kind == "[]string":
            if value.__class__ is not list or not value or not all(one.__class__ is str for one in value):
                return False
        else:
            return False
    return True


def _plain_manager(entry: Any) -> bool:
    if entry.__class__ is not dict:
        return False
    for key, value in entry.items():
        kind = _MANAGER.get(key)
        if kind in _STRINGS:
            if value.__class__ is not str or not value:
                return False
        elif kind == "raw":
            if value.__class__ is not dict or not value:
                return False
        elif kind != "time" or value.__class__ is not str or len(value) != 20 or _written(value) != value:
            return False
    return True


def _plain_owner(owner: Any) -> bool:
    if owner.__class__ is not dict:
        return False
    for key, value in owner.items():
        kind = _OWNER.get(key)
        if kind is None or value.__class__ is not (bool if kind == "*bool" else str):
            return False
    return all(key in owner for key in ("apiVersion", "kind", "name", "uid"))


@lru_cache(maxsize=4096)
def _written(value: str) -> str:
    try:
        return instant(value)
    except TimeError:
        return ""


class _Coercion:
    """One pass over metadata. The first wrong type is reported at the end; a wrong time at once, as encoding/json does."""

    def __init__(self, unknown: list[str]) -> None:
        self.unknown = unknown

    def struct(self, data: Data, fields: dict[str, str], name: str, above: str, prefix: str) -> None:
        errors = self._fields(data, fields, name, above, prefix)
        if errors:
            raise Malformed(errors[0])

    def _fields(self, data: Data, fields: dict[str, str], name: str, above: str, prefix: str) -> list[str]:
        errors: list[str] = []
        for key in sorted(data):
            kind = fields.get(key)
            if kind is None:
                self.unknown.append(f"{prefix}.{key}")
                del data[key]
                continue
            kept = self._value(data[key], kind, f"{name}.{above}{key}", f"{prefix}.{key}", errors)
            if kept is None or (name != "OwnerReference" and kept in ("", [], {})) or (kind == "int64" and kept == 0):
                del data[key]
            else:
                data[key] = kept
        if name == "OwnerReference":
            for key in ("apiVersion", "kind", "name", "uid"):
                data.setdefault(key, "")
        return errors

    def _value(self, value: Any, kind: str, field: str, path: str, errors: list[str]) -> Any:
        if value is None or kind == "raw":
            return value
        if kind == "time":
            return self._time(value, field, errors)
        if kind in _STRINGS:
            return self._scalar(value, str, kind, field, errors)
        if kind.endswith("bool"):
            return self._scalar(value, bool, "bool", field, errors)
        if kind.endswith("int64"):
            return self._integer(value, field, errors)
        wanted = dict if kind == "map[string]string" else list
        if value.__class__ is not wanted:
            errors.append(_wrong(value, field, kind))
            return None
        return self._many(value, kind, field, path, errors)

    def _many(self, value: Any, kind: str, field: str, path: str, errors: list[str]) -> Any:
        if kind == "map[string]string":
            return {key: self._scalar(item, str, _STRING, field, errors) for key, item in value.items()}
        if kind == "[]string":
            return [self._scalar(item, str, _STRING, field, errors) for item in value]
        fields, name = (
            (_OWNER, "OwnerReference") if kind.endswith("OwnerReference") else (_MANAGER, "ManagedFieldsEntry")
        )
        key = field.partition(".")[2]
        for index, item in enumerate(value):
            if item is None:
                value[index] = item = {}
            if item.__class__ is not dict:
                errors.append(_wrong(item, field, f"v1.{name}"))
                continue
            errors += self._fields(item, fields, name, f"{key}.", f"{path}[{index}]")
        return value

    @staticmethod
    def _scalar(value: Any, wanted: type, kind: str, field: str, errors: list[str]) -> Any:
        if value is None:
            return wanted()
        if value.__class__ is not wanted:
            errors.append(_wrong(value, field, kind))
        return value

    @staticmethod
    def _integer(value: Any, field: str, errors: list[str]) -> Any:
        if value.__class__ is float or (value.__class__ is int and not MIN_INT64 <= value <= MAX_INT64):
            if float(value).is_integer() and abs(value) < 2**63 and float_json(float(value)).isdigit():
                return int(value)
            errors.append(
                f"json: cannot unmarshal number {float_json(float(value))} into Go struct field {field} of type int64"
            )
        elif value.__class__ is not int:
            errors.append(_wrong(value, field, "int64"))
        return value

    @staticmethod
    def _time(value: Any, field: str, errors: list[str]) -> Any:
        if value.__class__ is not str:
            errors.append(_wrong(value, field, _STRING))
            return value
        try:
            return instant(value)
        except TimeError as error:
            raise Malformed(str(error)) from None


def _wrong(value: Any, field: str, kind: str) -> str:
    return f"json: cannot unmarshal {_JSON[value.__class__]} into Go struct field {field} of type {kind}"
