"""Checks defaults in a schema: they must be valid under the schema, without fields that it would prune.

Guarantees: pure. Not checked: that defaults inside metadata of embedded objects leave it valid as a whole. Source: apiextensions
`pkg/apiserver/schema/defaulting/validation.go`.
"""

from __future__ import annotations

from typing import Any

from konverge_testing.apiserver.cel import validate_rules
from konverge_testing.apiserver.golang import same
from konverge_testing.apiserver.nodes import MISSING, Node
from konverge_testing.apiserver.schemas.copying import copied
from konverge_testing.apiserver.schemas.embedded import embedded_errors
from konverge_testing.apiserver.schemas.objectmeta import Malformed
from konverge_testing.apiserver.schemas.pruning import coerce_embedded, prune_value
from konverge_testing.apiserver.schemas.traits import has_rules
from konverge_testing.apiserver.schemas.validating import value_errors
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["default_errors"]


def default_errors(node: Node, path: str, *, root: bool = True) -> list[FieldError]:
    """Return the errors of the defaults at a place and below; map values are not checked, as on the server."""
    errors: list[FieldError] = []
    value = None if node.default is MISSING else node.default
    if value is not None:
        errors += _value(node, value, f"{path}.default", root=root)
    if node.items is not None:
        errors += default_errors(node.items, f"{path}.items", root=False)
    for name, child in node.properties.items():
        errors += default_errors(child, f"{path}.properties[{name}]", root=False)
    return errors


def _value(node: Node, value: Any, path: str, *, root: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    pruned = copied(value)
    prune_value(node, pruned, top=root or node.embedded)
    if not same(pruned, value):
        errors.append(FieldError("Invalid", path, value, "must not have unknown fields"))
    try:
        coerce_embedded(node, copied(value), path)
    except Malformed as error:
        return [*errors, error.error] if error.error is not None else errors
    found = embedded_errors(node, value, path) or value_errors(node, value, path=path)
    if not found and has_rules(node):
        found = list(validate_rules(node, value, value, path)) or list(validate_rules(node, value, None, path))
    return errors + found
