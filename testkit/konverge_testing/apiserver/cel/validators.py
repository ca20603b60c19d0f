"""The rules of a schema, each compiled once, and the walk over an object with its schema.

Guarantees: pure, except a cache of compiled rules. Order and messages follow apiextensions-apiserver
`pkg/apiserver/schema/cel/validation.go`: transition rules run only if there is an old value, old items are found by the keys of their
list, errors in unchanged values are forgiven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from konverge_testing.apiserver.cel import kinds
from konverge_testing.apiserver.cel.compiling import Compiled, Priced, compile_text
from konverge_testing.apiserver.cel.errors import CompileError, EvalError, TooCostly
from konverge_testing.apiserver.cel.fieldpaths import field_path
from konverge_testing.apiserver.cel.kinds import CelType, declared
from konverge_testing.apiserver.cel.ranges import times
from konverge_testing.apiserver.cel.ratchet import Correlation, Ratchet, matching
from konverge_testing.apiserver.cel.rules import Findings
from konverge_testing.apiserver.cel.sizes import MAX_REQUEST, sized
from konverge_testing.apiserver.cel.values import BadData, Reader, aligned, merging, reader
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import OMITTED, FieldError

__all__ = ["cost", "found", "uses_old_self", "wrong"]

_ENCODE = msgspec.json.Encoder().encode
_REMEMBERED = 256
_LONGEST_MESSAGE = 5 * 1024
_CALL_LIMIT = 1_000_000
_BUDGET = 10_000_000
"""The limit of the costs of all rules of one object."""
_NO_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_REASONS = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required", "FieldValueDuplicate": "Duplicate"}


class _SpentError(Exception):
    """The budget of an object is spent, and no further rules are run."""


def found(node: Node, new: Any, old: Any, path: str) -> Findings:
    """Return the violations of the rules at a place and below."""
    findings = Findings()
    if new is not None and (validator := _validator(node, not path or node.embedded)) is not None:
        ratchet = Ratchet() if old is None else Ratchet(Correlation(node, new, old))
        validator.run(path, new, old, ratchet, findings)
        if findings.doubtful or findings.spent > _BUDGET:
            findings = Findings(left=_BUDGET)
            with suppress(_SpentError):
                validator.run(path, new, old, ratchet, findings)
    return findings


def uses_old_self(node: Node, rule: str, *, root: bool) -> bool:
    """Tell whether a valid rule, with a plain or an optional oldSelf, is a transition rule."""
    for optional_old in (False, True):
        variables = _variables(node, root or node.embedded, optional_old=optional_old)
        try:
            return variables is not None and "oldSelf" in compile_text(rule, variables).names
        except CompileError:
            continue
    return False


def cost(node: Node, text: str, *, root: bool, optional_old: bool, cardinality: int | None) -> int:
    """Return the estimated cost of a rule in all its places: `cardinality` places, or (None) as many as fit into a request."""
    variables, sizes = (
        _variables(node, root or node.embedded, optional_old=optional_old),
        sized(node, root or node.embedded),
    )
    assert variables is not None, "the rule compiles"
    assert sizes is not None, "what has a type has a size"
    count = MAX_REQUEST // (sizes.least_bytes + 1) if cardinality is None else cardinality
    return times(Priced(text, variables, sizes).worst, count)


def wrong(node: Node, text: str, wanted: CelType, *, root: bool, optional_old: bool) -> str | None:
    """Return the errors of an expression that must have this type."""
    variables = _variables(node, root or node.embedded, optional_old=optional_old)
    if variables is None:
        return "rule compiler initialization error: failed to convert to declType for CEL validation rules"
    message = wanted is kinds.STRING
    try:
        compiled = compile_text(text, variables)
    except CompileError as error:
        return f"{'messageExpression ' if message else ''}compilation failed: {error}"
    if compiled.kind == wanted:
        return None
    return "messageExpression must evaluate to a string" if message else "cel expression must evaluate to a bool"


def _variables(node: Node, root: bool, *, optional_old: bool) -> dict[str, CelType] | None:
    kind = declared(node, "selfType0", root)
    if kind is None:
        return None
    return {"self": kind, "oldSelf": kinds.optional_of(kind) if optional_old else kind}


@dataclass(eq=False)
class _Rule:
    """One rule of a schema."""

    node: Node
    raw: Mapping[str, Any]
    root: bool

    @property
    def optional_old(self) -> bool:
        return bool(self.raw.get("optionalOldSelf"))

    @property
    def shown(self) -> str:
        return str(self.raw.get("message") or self.raw.get("rule") or "").strip()

    @property
    def default_message(self) -> str:
        return self.shown if self.raw.get("message") else f"failed rule: {self.shown}"

    @cached_property
    def compiled(self) -> Compiled | str:
        """The program, or the error of its compilation."""
        text = str(self.raw.get("rule", ""))
        problem = wrong(self.node, text, kinds.BOOL, root=self.root, optional_old=self.optional_old)
        return problem if problem is not None else self._compile(text, wrapped=self.optional_old)

    @cached_property
    def message(self) -> Compiled | None:
        text = str(self.raw.get("messageExpression") or "")
        if not text or wrong(self.node, text, kinds.STRING, root=self.root, optional_old=self.optional_old) is not None:
            return None
        return self._compile(text, wrapped=False)  # a real server passes the bare value, in spite of the checked type

    def _compile(self, text: str, *, wrapped: bool) -> Compiled:
        variables = _variables(self.node, self.root, optional_old=self.optional_old)
        assert variables is not None
        return compile_text(text, variables, optional_old="oldSelf" if wrapped else "")

    @cached_property
    def priced(self) -> Priced | None:
        """The costs of the rule; None for an invalid rule, or if oldSelf is optional."""
        variables, sizes = _variables(self.node, self.root, optional_old=False), sized(self.node, self.root)
        if self.optional_old or variables is None or sizes is None or isinstance(self.compiled, str):
            return None
        return Priced(str(self.raw.get("rule", "")), variables, sizes)

    @property
    def uses_old(self) -> bool:
        return isinstance(self.compiled, Compiled) and "oldSelf" in self.compiled.names

    @cached_property
    def place(self) -> str:
        """The path of errors, below the place of the rule."""
        return field_path(self.node, str(self.raw.get("fieldPath") or "")) or ""


@dataclass(eq=False)
class _Validator:
    """The rules of a place, and the validators below it that have rules."""

    node: Node
    root: bool
    rules: list[_Rule]
    properties: dict[str, _Validator]
    additional: _Validator | None
    items: _Validator | None
    passed: dict[bytes, int] = field(default_factory=dict)
    """Values, as JSON, without a violation at this place or below, with the bound of their cost: most parts of an object are unchanged."""
    accepted: set[bytes] = field(default_factory=set)
    """The read parts of values, as JSON, that passed all rules of this place."""
    bounds: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """The bound of the rules' costs at this place, and whether it exceeds the limit of a call, by the bit length of the values' size."""

    @cached_property
    def looks_back(self) -> bool:
        """Whether any rule at this place or below reads the old value."""
        below = [*self.properties.values(), *(one for one in (self.additional, self.items) if one is not None)]
        return any(rule.uses_old for rule in self.rules) or any(one.looks_back for one in below)

    @cached_property
    def readers(self) -> tuple[Reader, Reader, bool]:
        """Converts self and oldSelf for all rules of this place; the flag is true if old lists must be sorted."""
        parts = [part for rule in self.rules for part in (rule.compiled, rule.message) if isinstance(part, Compiled)]
        made = [
            reader(self.node, {path for part in parts for path in part.reads[name]}, root=self.root)
            for name in ("self", "oldSelf")
        ]
        both = {path for part in parts for path in part.reads["oldSelf"] if _overlaps(path, part.reads["self"])}
        return made[0], made[1], merging(self.node, both, root=self.root)

    def run(self, path: str, new: Any, old: Any, ratchet: Ratchet, findings: Findings) -> None:
        """Run the rules at this place and below, unless they already passed on equal values."""
        if new is None:
            return
        if self.root:  # equal whole objects are rarely written twice
            self._run(path, new, old, ratchet, findings)
            return
        text = _ENCODE((new, old) if self.looks_back else new)
        if findings.left is None and (known := self.passed.get(text)) is not None:
            findings.spent += known
            return
        before, spent = (len(findings.errors), len(findings.forgiven)), findings.spent
        self._run(path, new, old, ratchet, findings)
        if findings.left is None and before == (len(findings.errors), len(findings.forgiven)) and not findings.doubtful:
            if len(self.passed) >= _REMEMBERED:
                self.passed.clear()
            self.passed[text] = findings.spent - spent

    def _run(self, path: str, new: Any, old: Any, ratchet: Ratchet, findings: Findings) -> None:
        if self.rules:
            self._run_own_rules(path, new, old, ratchet, findings)
        if isinstance(new, list) and self.items is not None:
            for at, item in enumerate(new):
                self.items.run(f"{path}[{at}]", item, matching(self.node, old, item), ratchet.step(at), findings)
        elif isinstance(new, dict):
            self._fields(path, new, old if isinstance(old, dict) else {}, ratchet, findings)

    def _fields(
        self, path: str, new: Mapping[str, Any], old: Mapping[str, Any], ratchet: Ratchet, findings: Findings
    ) -> None:
        if self.additional is not None:
            for name, value in new.items():
                self.additional.run(f"{path}[{name}]", value, old.get(name), ratchet.step(name), findings)
        for name, child in self.properties.items():
            if name in new:
                child.run(f"{path}.{name}" if path else name, new[name], old.get(name), ratchet.step(name), findings)

    def _read(self, new: Any, old: Any) -> tuple[bytes, dict[str, Any] | None]:
        """Return all that the rules of this place read, as JSON and, if old lists keep their order, as data; b"" for invalid data."""
        read_self, read_old, ordered = self.readers
        try:
            values = {"self": read_self(new), "oldSelf": None if old is None else read_old(old)}
        except BadData:
            return b"", None
        return _ENCODE(values), None if ordered and old is not None else values

    def _run_own_rules(self, path: str, new: Any, old: Any, ratchet: Ratchet, findings: Findings) -> None:
        """Run the rules of this place, unless they already passed on equal inputs: most writes change status, and most rules read spec."""
        text, values = self._read(new, old)
        if findings.left is None:
            self._note_bound(len(text), findings)
            if findings.doubtful or text in self.accepted:  # all rules run again, with exact costs
                return
        before = len(findings.errors), len(findings.forgiven)
        self._try(path, new, old, values, ratchet, findings)
        if text and before == (len(findings.errors), len(findings.forgiven)) and findings.left is None:
            if len(self.accepted) >= _REMEMBERED:
                self.accepted.clear()
            self.accepted.add(text)

    def _note_bound(self, size: int, findings: Findings) -> None:
        """Add the upper bound of the rules' costs for this size."""
        bits = size.bit_length()
        known = self.bounds.get(bits)
        if known is None:
            costs = [rule.priced.bound(size) for rule in self.rules if rule.priced is not None]
            known = self.bounds[bits] = sum(costs), any(cost > _CALL_LIMIT for cost in costs)
        findings.spent += known[0]
        findings.doubtful |= known[1]

    def _charge(self, rule: _Rule, path: str, activation: Any, findings: Findings) -> None:
        """Subtract the cost of a rule from the budget; if the budget is exceeded, record the error and raise _SpentError."""
        if rule.priced is None or findings.left is None:
            return
        try:
            cost = int(rule.priced.exact.run(activation, most=_CALL_LIMIT))
        except TooCostly:
            cost = _CALL_LIMIT + 1
        except EvalError:  # the rule fails with the same error, or its cost is unknown
            return
        word = str(self.node.schema.get("type", ""))
        if min(cost, _CALL_LIMIT + 1) > findings.left:
            findings.errors.append(_error(path, word, _NO_BUDGET))
            raise _SpentError
        findings.left -= cost
        if cost > _CALL_LIMIT:
            findings.errors.append(_error(path, word, _too_dear(rule)))
            raise _SpentError

    def _try(
        self, path: str, new: Any, old: Any, values: dict[str, Any] | None, ratchet: Ratchet, findings: Findings
    ) -> None:
        word = str(self.node.schema.get("type", ""))
        activation: Any = None
        if findings.left is not None and findings.left <= 0:
            findings.errors.append(_error(path, word, _NO_BUDGET))
            raise _SpentError
        for rule in self.rules:
            compiled = rule.compiled
            if isinstance(compiled, str):
                findings.errors.append(_error(path, word, f"rule compile error: {compiled}"))
                continue
            if rule.uses_old and old is None and not rule.optional_old:
                continue
            try:
                if activation is None:
                    values = self._values(new, old) if values is None else values
                    activation = compiled.runs.activation(values)
                self._charge(rule, path, activation, findings)
                runs = compiled.without_old if old is None and compiled.without_old is not None else compiled.runs
                if runs.run(activation) is True:
                    continue
            except TooCostly:
                if findings.left is None:
                    findings.doubtful = True
                    return
                findings.errors.append(_error(path, word, _too_dear(rule)))
                raise _SpentError from None
            except (EvalError, BadData) as error:
                findings.errors.append(_error(path, word, _failed(str(error), rule.shown)))
                continue
            where = findings.forgiven if not rule.uses_old and ratchet.forgives else findings.errors
            where.append(self._refusal(rule, path, new, activation))

    def _values(self, new: Any, old: Any) -> dict[str, Any]:
        read_self, read_old, ordered = self.readers
        if old is None:
            return {"self": read_self(new), "oldSelf": None}
        return {"self": read_self(new), "oldSelf": read_old(aligned(self.node, old, new) if ordered else old)}

    def _refusal(self, rule: _Rule, path: str, new: Any, activation: Any) -> FieldError:
        detail = _spoken(rule.message, activation) or rule.default_message
        if rule.place:
            path = f"{path}.{rule.place}" if path and not rule.place.startswith("[") else path + rule.place
        value = OMITTED if self.node.type in ("object", "array") else new
        reason = _REASONS.get(str(rule.raw.get("reason") or ""), "Invalid")
        detail = "" if reason == "Duplicate" else detail
        return FieldError(reason, path or "<nil>", value, detail)  # type: ignore[arg-type]  # the table has kinds only


def _overlaps(path: tuple[str, ...], others: Iterable[tuple[str, ...]]) -> bool:
    """Whether an old path is also read of the new value, so that a rule may compare the two."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in others)


def _spoken(message: Compiled | None, activation: Any) -> str:
    """Run a messageExpression; "" if it returns no message."""
    if message is None:
        return ""
    try:
        text = message.runs.run(activation)
    except (EvalError, TooCostly):
        return ""
    trimmed = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in trimmed or len(trimmed.encode()) > _LONGEST_MESSAGE else trimmed


def _too_dear(rule: _Rule) -> str:
    words = (
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost"
    )
    return f"{words} exceeds limit for rule: {rule.shown}"


def _error(path: str, word: str, detail: str) -> FieldError:
    return FieldError("Invalid", path or "<nil>", word, detail)


def _failed(error: str, shown: str) -> str:
    if error.startswith("no such overload"):
        return f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
    return f"{error} evaluating rule: {shown}"


@lru_cache(maxsize=512)
def _validator(node: Node, root: bool) -> _Validator | None:
    return _built(node, root)


def _built(node: Node, root: bool) -> _Validator | None:
    """Create the validator of a place, or return None if neither the place nor anything below it has rules."""
    raw = node.schema.get("x-kubernetes-validations") or ()
    rules = [_Rule(node, rule, root) for rule in raw if str(rule.get("rule", "")).strip()]
    below = {
        name: made for name, child in node.properties.items() if (made := _built(child, child.embedded)) is not None
    }
    additional, items = (
        _built(child, child.embedded) if child is not None else None for child in (node.additional, node.items)
    )
    if not (rules or below or additional or items):
        return None
    return _Validator(node, root, rules, below, additional, items)
