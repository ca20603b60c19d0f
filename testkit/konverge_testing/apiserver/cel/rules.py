"""`x-kubernetes-validations`: the rules of a schema, applied to objects and checked when a definition is created.

Guarantees: without rules nothing is compiled, and the compiler is not imported. `validate_rules` returns the violations with
a real server's messages. Costs are computed only if an upper bound, from the size of the object, exceeds the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["Findings", "check_rules", "compile_message", "compile_rule", "rule_cost", "uses_old_self", "validate_rules"]


@dataclass(slots=True)
class Findings:
    """The errors of rules, and the errors that are ratcheted because the old value had them too (sent as warnings)."""

    errors: list[FieldError] = field(default_factory=list)
    forgiven: list[FieldError] = field(default_factory=list)
    spent: int = 0
    """An upper bound of the cost of the executed rules."""
    doubtful: bool = False
    """Whether a rule may have exceeded the cost limit of a call."""
    left: int | None = None
    """The rest of the budget if exact costs are computed."""


def validate_rules(node: Node, new: Any, old: Any, path: str = "") -> list[FieldError]:
    """Return the violations of the rules at a place and below; `old` is None at creation. An empty path is a whole object."""
    return check_rules(node, new, old, path).errors


def check_rules(node: Node, new: Any, old: Any, path: str = "") -> Findings:
    """Return the result of `validate_rules`, and the ratcheted errors."""
    if not _has_rules(node):
        return Findings()
    from konverge_testing.apiserver.cel import validators

    return validators.found(node, new, old, path)


def compile_rule(node: Node, rule: str, *, root: bool = False, optional_old: bool = False) -> str | None:
    """Return the error of a rule at a place, or None; `root` if the place is a whole object."""
    from konverge_testing.apiserver.cel import kinds, validators

    return validators.wrong(node, rule, kinds.BOOL, root=root, optional_old=optional_old)


def compile_message(node: Node, expression: str, *, root: bool = False, optional_old: bool = False) -> str | None:
    """Return the error of a messageExpression."""
    from konverge_testing.apiserver.cel import kinds, validators

    return validators.wrong(node, expression, kinds.STRING, root=root, optional_old=optional_old)


def rule_cost(
    node: Node, text: str, *, root: bool = False, optional_old: bool = False, cardinality: int | None = 1
) -> int:
    """Return the estimated cost of a valid rule or messageExpression, in all its places; `cardinality` None: places without a bound."""
    from konverge_testing.apiserver.cel import validators

    return validators.cost(node, text, root=root, optional_old=optional_old, cardinality=cardinality)


def uses_old_self(node: Node, rule: str, *, root: bool = False) -> bool:
    """Tell whether a valid rule is a transition rule."""
    from konverge_testing.apiserver.cel import validators

    return validators.uses_old_self(node, rule, root=root)


@lru_cache(maxsize=512)
def _has_rules(node: Node) -> bool:
    return _mentions_rules(node.schema)


def _mentions_rules(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return bool(schema.get("x-kubernetes-validations")) or any(map(_mentions_rules, schema.values()))
    return isinstance(schema, list) and any(map(_mentions_rules, schema))
