"""`BuiltInStrategy`, the base class of all strategies, with constructors of field errors and checks of labels and selectors.

Guarantees: pure. Checks return lists of errors in the order of the real server's. Source: `pkg/apis/core/validation/validation.go` and
k8s.io/apimachinery `pkg/apis/meta/v1/validation`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.resources import Strategy
from konverge_testing.apiserver.statuses import FieldError

__all__ = [
    "IMMUTABLE",
    "NOT_NEGATIVE",
    "Data",
    "Errors",
    "BuiltInStrategy",
    "annotation_errors",
    "duplicate",
    "forbidden",
    "immutable",
    "invalid",
    "label_errors",
    "missing_in",
    "not_negative",
    "not_supported",
    "required",
    "restore",
    "restore_metadata",
    "selector_errors",
    "selects",
    "shown_selector",
    "text_errors",
    "too_long",
    "unreadable",
]

Data = dict[str, Any]
Errors = list[FieldError]

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_ANNOTATIONS_LIMIT: Final = 256 * 1024


def required(path: str, detail: str = "") -> FieldError:
    """Return: a value is missing."""
    return FieldError("Required", path, "", detail)


def invalid(path: str, value: Any, detail: str = "") -> FieldError:
    """Return: a value is wrong."""
    return FieldError("Invalid", path, value, detail)


def forbidden(path: str, detail: str = "") -> FieldError:
    """Return: nothing may stand here, or nothing may change here."""
    return FieldError("Forbidden", path, "", detail)


def duplicate(path: str, value: Any) -> FieldError:
    """Return: this value stands in the list already."""
    return FieldError("Duplicate", path, value)


def too_long(path: str, limit: int) -> FieldError:
    """Return: more bytes than are allowed."""
    return FieldError("TooLong", path, "", f"may not be more than {limit} bytes")


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """Return: not one of the allowed values, which are shown in the given order."""
    return FieldError(
        "NotSupported", path, value, "supported values: " + ", ".join(json.dumps(each) for each in allowed)
    )


def text_errors(path: str, value: str, check: Callable[[str], Sequence[str]]) -> Errors:
    """Check one text."""
    return [invalid(path, value, message) for message in check(value)]


def not_negative(data: Mapping[str, Any], path: str, *names: str) -> Errors:
    """Check that numbers, if they are given, are 0 or more."""
    return [
        invalid(f"{path}.{name}", data[name], NOT_NEGATIVE)
        for name in names
        if data.get(name) is not None and data[name] < 0
    ]


def missing_in(data: Mapping[str, Any], path: str, *names: str) -> Errors:
    """Check that fields are given and not empty."""
    return [required(f"{path}.{name}" if path else name) for name in names if not data.get(name)]


def immutable(path: str, new: Any, old: Any) -> Errors:
    """Check that a value did not change."""
    return [invalid(path, new, IMMUTABLE)] if new != old else []


def label_errors(labels: Mapping[str, str] | None, path: str) -> Errors:
    """Check keys and values of labels."""
    errors: Errors = []
    for key, value in (labels or {}).items():
        errors += text_errors(path, key, names.label_key)
        errors += text_errors(path, value, names.label_value)
    return errors


def annotation_errors(annotations: Mapping[str, str] | None, path: str) -> Errors:
    """Check keys and the size of annotations."""
    given = annotations or {}
    errors = [invalid(path, key, message) for key in given for message in names.label_key(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > _ANNOTATIONS_LIMIT:
        errors.append(too_long(path, _ANNOTATIONS_LIMIT))
    return errors


def selector_errors(selector: Mapping[str, Any] | None, path: str) -> Errors:
    """Check a label selector."""
    if selector is None:
        return []
    errors = label_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, each in enumerate(selector.get("matchExpressions") or ()):
        errors += _requirement_errors(each, f"{path}.matchExpressions[{index}]")
    return errors


def _requirement_errors(each: Mapping[str, Any], path: str) -> Errors:
    errors: Errors = []
    operator, values = each.get("operator", ""), each.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(
                forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += text_errors(f"{path}.key", each.get("key", ""), names.label_key)
    for index, value in enumerate(values):
        errors += text_errors(f"{path}.values[{index}]", value, names.label_value)
    return errors


def unreadable(selector: Mapping[str, Any] | None) -> bool:
    """Tell whether a label selector cannot even be evaluated."""
    return bool(selector_errors(selector, ""))


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Tell whether a label selector matches; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    given = labels or {}
    if any(given.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fulfils(each, given) for each in selector.get("matchExpressions") or ())


def _fulfils(each: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = each.get("key", ""), each.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": key not in labels or labels[key] not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(each.get("operator", ""), False)


def shown_selector(selector: Mapping[str, Any] | None) -> Struct | None:
    """Return a selector as an error shows it: fields in the order of the Go struct."""
    if selector is None:
        return None
    order = ("key", "operator", "values")
    each = [
        Struct({name: one[name] for name in order if name in one}) for one in selector.get("matchExpressions") or ()
    ]
    labels = selector.get("matchLabels")
    return Struct({**({"matchLabels": labels} if labels else {}), **({"matchExpressions": each} if each else {})})


def restore(new: Data, old: Data, *names: str) -> None:
    """Give fields of an object, in place, the values that they had."""
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def restore_metadata(new: Data, old: Data) -> None:
    """Give an object, in place, the metadata that a write of its status may not change."""
    restore(new["metadata"], old["metadata"], "annotations", "finalizers", "labels", "ownerReferences")


class BuiltInStrategy(Strategy):
    """A built-in kind: Strategy's hooks, each with its part that is the same for all kinds and a private one that a kind overrides.

    `generation` is off unless a kind turns it on; with `has_status`, status is cleared at creation and kept at updates.
    """

    generation = False
    has_status = False
    empty_status: Mapping[str, Any] = {}
    """The status of a new object: what Go writes of an empty struct."""

    name_rule = "subdomain"
    """The rule for names: a key of `names.NAME_RULES`."""

    named_label = False
    """Whether a name that is not a DNS label causes a warning, since it becomes part of the names of pods."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.has_status and "reset_fields" not in cls.__dict__:
            cls.reset_fields = {"": (("status",),), "status": (("spec",),)}

    def default(self, new: Data) -> None:
        """Fill in the defaults that the schema does not hold."""
        self._default(new)

    def prepare_create(self, new: Data) -> None:
        """Clear and set what a client has no say in."""
        self._create(new)

    def prepare_update(self, new: Data, old: Data) -> None:
        """Put back what an update through the main resource may not change."""
        self._update(new, old)

    def prepare_status(self, new: Data, old: Data) -> None:
        """Put back what an update through `/status` may not change."""
        self._status(new, old)

    def intent_changed(self, new: Data, old: Data) -> bool:
        """Tell whether an update is one that metadata.generation counts."""
        return self._intent_changed(new, old)

    def validate(self, new: Data, old: Data | None, subresource: str = "") -> Errors:
        """Tell what is wrong beyond the schema; metadata is checked elsewhere."""
        return self._validate(new, old, subresource)

    def warnings(self, new: Data, old: Data | None) -> list[str]:
        """Return what the client is to be warned of."""
        return self._warnings(new, old)

    def field_labels(self, object_: Data) -> dict[str, str]:
        """Return the field-selector fields beyond metadata.name and metadata.namespace."""
        return self._labels(object_)

    def _default(self, new: Data) -> None:
        pass

    def _create(self, new: Data) -> None:
        if self.has_status:
            new["status"] = copy.deepcopy(dict(self.empty_status))

    def _update(self, new: Data, old: Data) -> None:
        if self.has_status:
            restore(new, old, "status")

    def _status(self, new: Data, old: Data) -> None:
        super().prepare_status(new, old)

    def _intent_changed(self, new: Data, old: Data) -> bool:
        return bool(new.get("spec") != old.get("spec"))

    def _validate(self, new: Data, old: Data | None, subresource: str) -> Errors:
        return self._status_errors(new, old or {}) if subresource == "status" else self._errors(new, old)

    def _errors(self, _new: Data, _old: Data | None) -> Errors:
        return []

    def _status_errors(self, _new: Data, _old: Data) -> Errors:
        return []

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        name = new["metadata"].get("name", "")
        if not self.named_label or old is not None or not (found := names.dns1123_label(name)):
            return []
        what = "Pod names and hostnames, which"
        text = f"metadata.name: this is used in {what} can result in surprising behavior; a DNS label is recommended"
        return [f"{text}: [{' '.join(found)}]"]

    def _labels(self, _object: Data) -> dict[str, str]:
        return {}
