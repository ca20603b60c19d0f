"""Conditions: reading, checking, and setting one of them.

Guarantees: `with_condition` sets observedGeneration, and sets lastTransitionTime only when the status changes, not when only reason or
message change (apimachinery `meta.SetStatusCondition`, sig-architecture api-conventions). The order of conditions is
stable: a known type keeps its place, a new type is appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, get_args

from pydantic import ConfigDict, TypeAdapter

from konverge.clock import rfc3339
from konverge.errors import ConditionError
from konverge.model import Model

__all__ = [
    "MAX_MESSAGE",
    "STATUSES",
    "Condition",
    "Conditioned",
    "Truth",
    "check_condition",
    "condition_entries",
    "cut_condition",
    "find_condition",
    "fit_condition",
    "fit_conditions",
    "is_false",
    "is_true",
    "with_condition",
    "read_conditions",
    "truth",
    "write_conditions",
]

Truth: TypeAlias = Literal["True", "False", "Unknown"]

STATUSES: tuple[Truth, ...] = get_args(Truth)
"""Every status that a condition can have."""

MAX_MESSAGE = 32768
"""The longest message of metav1.Condition, in characters."""
_REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
_MAX_REASON = 1024


class Condition(Model):
    """One condition of a status, as metav1.Condition.

    >>> Condition(type="Ready", status="True", reason="Scheduled").is_true
    True
    """

    model_config = ConfigDict(frozen=True)

    type: str
    status: Truth
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None

    @classmethod
    def lenient(cls, entry: Mapping[str, Any]) -> Condition:
        """Read a condition that any program wrote; an impossible status reads as Unknown, a value of a wrong type as absent."""
        return cls.model_validate(_made_to_fit(entry))

    @property
    def is_true(self) -> bool:
        """Whether the status is True."""
        return self.status == "True"

    @property
    def is_false(self) -> bool:
        """Whether the status is False."""
        return self.status == "False"


_CONDITIONS = TypeAdapter(tuple[Condition, ...])
"""All conditions of an object at once: one by one they would cost several times as much."""


_WIRE = {name: field.serialization_alias or name for name, field in Condition.model_fields.items()}


def _made_to_fit(entry: Mapping[str, Any]) -> dict[str, Any]:
    status, moved, generation = entry.get("status"), entry.get("lastTransitionTime"), entry.get("observedGeneration")
    return {
        "type": str(entry.get("type", "")),
        "status": status if status in STATUSES else "Unknown",
        "reason": str(entry.get("reason") or ""),
        "message": str(entry.get("message") or ""),
        "last_transition_time": moved if isinstance(moved, str) else None,
        "observed_generation": generation if isinstance(generation, int) else None,
    }


def read_conditions(entries: Any) -> tuple[Condition, ...]:
    """Read the conditions of a stored status that any program wrote; entries without a type are left out.

    >>> read_conditions([{"type": "Ready", "status": "odd"}, "none"])[0].status
    'Unknown'
    """
    return _CONDITIONS.validate_python([_made_to_fit(entry) for entry in condition_entries(entries)])


def condition_entries(entries: Any) -> list[Mapping[str, Any]]:
    """Return the entries of a list that can be read as conditions; none for any other value."""
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, (dict, Mapping)) and entry.get("type")]


def write_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Return conditions as the API reads them, each with the fields that were set.

    >>> write_conditions([Condition(type="Ready", status="True", observed_generation=3)])
    [{'type': 'Ready', 'status': 'True', 'observedGeneration': 3}]
    """
    # By hand, because the fields are only strings and numbers: a serializer takes several times as long.
    entries = []
    for condition in conditions:
        given = condition.model_fields_set
        entries.append({_WIRE[name]: value for name, value in condition.__dict__.items() if name in given})
    return entries


def truth(value: bool | None) -> Truth:
    """Write a truth value as a condition's status; None is Unknown."""
    return "Unknown" if value is None else "True" if value else "False"


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, None if absent."""
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def check_condition(type_: str, reason: str, message: str, declared: Sequence[str] | None) -> None:
    """Raise ConditionError for an undeclared type, a malformed reason or a message that the API would refuse."""
    if declared is not None and type_ not in declared:
        known = ", ".join(declared) or "none"
        raise ConditionError(
            f'condition {type_!r} is not declared (declared: {known}); add it: @kv.resource(..., conditions=("{type_}",))'
        )
    if not _REASON.match(reason) or len(reason) > _MAX_REASON:
        raise ConditionError(
            f"reason {reason!r} of condition {type_}: write one word in CamelCase, for instance 'SecretMissing'"
        )
    if len(message) > MAX_MESSAGE:
        raise ConditionError(f"message of condition {type_} has {len(message)} characters; {MAX_MESSAGE} are allowed")


def cut_condition(reason: str, message: str) -> tuple[str, str]:
    """Return reason and message cut and cleaned until the API accepts them; used in production instead of an error."""
    word = re.sub(r"[^A-Za-z0-9_,:]", "", reason)[:_MAX_REASON].lstrip("0123456789_,:").rstrip(",:")
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    return word or "Unspecified", message


def fit_condition(
    type_: str,
    reason: str,
    message: str,
    declared: Sequence[str] | None,
    refuse: Callable[[ConditionError], None],
) -> tuple[str, str]:
    """Return reason and message as the API accepts them.

    If either has to be cut, `refuse` is called first with the ConditionError; it may raise it.
    """
    try:
        check_condition(type_, reason, message, declared)
    except ConditionError as error:
        refuse(error)
        return cut_condition(reason, message)
    return reason, message


def fit_conditions(status: Mapping[str, Any], refuse: Callable[[ConditionError], None]) -> dict[str, Any]:
    """Return a status, as plain data, with its conditions cut to what the API accepts: all in its list, and a single condition in a field.

    >>> fit_conditions({"condition": {"type": "Bound", "status": "True", "reason": "9 Odd!"}, "note": "!"}, lambda error: None)
    {'condition': {'type': 'Bound', 'status': 'True', 'reason': 'Odd'}, 'note': '!'}
    """
    return {name: _fit(value, refuse) for name, value in status.items()}


def _fit(value: Any, refuse: Callable[[ConditionError], None]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_fit(entry, refuse) for entry in value]
    if not isinstance(value, Mapping) or not {"type", "status"} <= value.keys():
        return value
    texts = {name: value[name] for name in ("reason", "message") if isinstance(value.get(name), str)}
    reason, message = fit_condition(
        str(value["type"]), texts.get("reason", "Unspecified"), texts.get("message", ""), None, refuse
    )
    cut = {"reason": reason, "message": message}
    return {**value, **{name: cut[name] for name in texts}}


def with_condition(
    conditions: Sequence[Condition],
    type_: str,
    status: Truth,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set, as apimachinery's SetStatusCondition; `generation` is the reconciled object's."""
    before = find_condition(conditions, type_)
    moved = before is None or before.status != status or before.last_transition_time is None
    after = Condition.model_validate(
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "last_transition_time": rfc3339(now) if moved or before is None else before.last_transition_time,
            "observed_generation": generation,
        }
    )
    if before is None:
        return (*conditions, after)
    return tuple(after if condition.type == type_ else condition for condition in conditions)


class Conditioned(Protocol):
    """An object that has conditions."""

    @property
    def metadata(self) -> Any:
        """The metadata, with `generation`."""

    def find_condition(self, type_: str, /) -> Condition | None:
        """Return the condition of that type, None if absent."""


def _has(type_: str, status: Truth) -> Callable[[Conditioned], bool]:
    def holds(object_: Conditioned) -> bool:
        condition = object_.find_condition(type_)
        if condition is None or condition.status != status:
            return False
        seen, present = condition.observed_generation, int(object_.metadata.generation or 0)
        return seen is None or seen >= present

    holds.__qualname__ = f"{type_}={status}"  # shown in the message of a test that waits for it in vain
    return holds


def is_true(type_: str) -> Callable[[Conditioned], bool]:
    """Return a test for objects: the condition is True, and not of an earlier generation.

    >>> ready = is_true("Ready")
    """
    return _has(type_, "True")


def is_false(type_: str) -> Callable[[Conditioned], bool]:
    """Return a test for objects: the condition is False, and not of an earlier generation.

    >>> waiting = is_false("Ready")
    """
    return _has(type_, "False")
