"""Validation of custom resources: schema, embedded objects, keyed lists, then CEL rules, in the server's order.

Guarantees: pure; data is pruned and defaulted. Unchanged invalid values are tolerated at update (KEP-4008). Rules do not run if
the schema found something that would mislead them. Source: apiextensions
`pkg/registry/customresource/{strategy,status_strategy,validator}.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from konverge_testing.apiserver.cel import check_rules
from konverge_testing.apiserver.golang import plain
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.checks import Table, compile_checks, valid
from konverge_testing.apiserver.schemas.correlate import Correlated
from konverge_testing.apiserver.schemas.embedded import embedded_errors
from konverge_testing.apiserver.schemas.explain import NOWHERE, explain, field_errors
from konverge_testing.apiserver.schemas.fast_check import fits
from konverge_testing.apiserver.schemas.listtypes import list_errors
from konverge_testing.apiserver.schemas.traits import has_embedded, has_list_types, has_rules
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["finalizer_warnings", "validate", "validate_scale", "value_errors"]

Data = dict[str, Any]

_SLOT: Final = "_schemas_checks"
_BLOCKING: Final = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})
_BLOCKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MAX_INT32: Final = 2**31 - 1


def validate(
    node: Node,
    new: Data,
    old: Data | None = None,
    *,
    subresource: str = "",
    scale: Mapping[str, str] | None = None,
    prior: Sequence[FieldError] = (),
    warnings: list[str] | None = None,
) -> list[FieldError]:
    """Return the errors of a custom resource beyond its metadata.

    `subresource` "status": only status is checked. `scale`: the paths of the scale subresource, whose values are checked too. `prior`:
    errors that are known already; they are not returned, but may keep rules from running. Errors of rules that are forgiven because their
    values are unchanged are appended to `warnings`.
    """
    if subresource == "status":
        found = _status_errors(node, new, old)
    else:
        found = value_errors(node, new, old)
    if scale is not None:
        found += validate_scale(scale, new, spec=subresource != "status")
    if subresource != "status" and has_embedded(node):
        found += embedded_errors(node, new)
    if has_list_types(node) and (repeated := list_errors(node, new)) and (old is None or not list_errors(node, old)):
        found += repeated
    if has_rules(node):
        found += _rule_errors(node, new, old, [*prior, *found], warnings)
    return found


def value_errors(node: Node, new: Any, old: Any = None, *, path: str = "", ratchet: bool = True) -> list[FieldError]:
    """Return the errors of a value by its schema only; `old` None is a creation."""
    table: Table | None = node.__dict__.get(_SLOT)
    if table is None:
        table = node.__dict__[_SLOT] = compile_checks(node.schema)
    if valid(table, new):
        return []
    correlated = Correlated(new, old, node) if old is not None and ratchet else None
    return field_errors(explain(node.schema, new, correlated), path)


def _status_errors(node: Node, new: Data, old: Data | None) -> list[FieldError]:
    status = node.properties.get("status")
    if status is None or "status" not in new or fits(status, new["status"]):
        return []
    return value_errors(status, new["status"], None if old is None else old.get("status"), path="status")


def _rule_errors(
    node: Node, new: Data, old: Data | None, known: Sequence[FieldError], warnings: list[str] | None
) -> list[FieldError]:
    if any(error.kind in _BLOCKING for error in known):
        return [FieldError("Invalid", NOWHERE, None, _BLOCKED)]
    findings = check_rules(node, new, old, "")
    if warnings is not None:
        warnings += map(str, findings.forgiven)
    return list(findings.errors)


def validate_scale(scale: Mapping[str, str], new: Data, *, spec: bool = True) -> list[FieldError]:
    """Check the values that the scale subresource reads."""
    found: list[FieldError] = []
    for name in ("specReplicasPath", "statusReplicasPath"):
        path = scale.get(name) or ""
        if not path or (name == "specReplicasPath" and not spec):
            continue
        value, wrong = _nested(new, path, "int64")
        if wrong:
            found.append(FieldError("Invalid", path, 0, wrong))
        elif value < 0:
            found.append(FieldError("Invalid", path, value, "should be a non-negative integer"))
        elif value > _MAX_INT32:
            found.append(FieldError("Invalid", path, value, f"should be less than or equal to {_MAX_INT32}"))
    if selector := scale.get("labelSelectorPath"):
        _, wrong = _nested(new, selector, "string")
        if wrong:
            found.append(FieldError("Invalid", selector, "", wrong))
    return found


def _nested(data: Data, path: str, wanted: str) -> tuple[Any, str]:
    names = path.removeprefix(".").split(".")
    value: Any = data
    for at, name in enumerate(names):
        if value is None or (isinstance(value, dict) and name not in value):
            return (0 if wanted == "int64" else ""), ""
        if not isinstance(value, dict):
            shown = ".".join(names[: at + 1])
            return (
                0,
                f".{shown} accessor error: {plain(value)} is of the type {_go_type(value)}, expected map[string]interface{{}}",
            )
        value = value[name]
    if _go_type(value) != wanted:
        return (
            0,
            f".{'.'.join(names)} accessor error: {plain(value)} is of the type {_go_type(value)}, expected {wanted}",
        )
    return value, ""


def _go_type(value: Any) -> str:
    kinds: dict[type, str] = {
        str: "string",
        int: "int64",
        float: "float64",
        bool: "bool",
        list: "[]interface {}",
        dict: "map[string]interface {}",
    }
    return kinds.get(value.__class__, "<nil>")


_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def finalizer_warnings(new: Data, old: Data | None = None) -> list[str]:
    """Return the warnings for new finalizers of a custom resource that have no domain."""
    from konverge_testing.apiserver.golang import quote
    from konverge_testing.apiserver.names import label_key

    if not new.get("metadata", {}).get("finalizers"):
        return []
    added = set(new["metadata"]["finalizers"])
    if old is not None:
        added -= set(old.get("metadata", {}).get("finalizers") or ())
    found = []
    for name in sorted(added):
        here = f"metadata.finalizers: {quote(name)}: "
        found += [f"{here}{words}" for words in label_key(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            what = "finalizer name including a path (/)" if "." in name else "finalizer name"
            found.append(
                f"{here}prefer a domain-qualified {what} to avoid accidental conflicts with other finalizer writers"
            )
    return found
