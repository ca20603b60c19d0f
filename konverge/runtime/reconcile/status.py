"""The status of the reconciled object: set during a reconcile, written once at its end.

Guarantees (docs/reference/runtime.md#status): one apply holds everything that this controller owns. Conditions that were not set keep their
value and their own observedGeneration. Types that the resource no longer declares are left out, which removes them; a declared condition is
removed only by `remove_condition`. If the reconciler raises, `status.observedGeneration` stays, and the conditions set so far are
written, unless the error is a mistake of the program (`failure_message.is_mistake`).
If the status has other writers (two controllers, or a kind that this controller did not declare), the apply holds only own fields;
of a kind that it did not declare, the observed generation is its own controller's affair. `intent` is pure.

Conditions: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NoReturn, TypeVar, cast

import msgspec

from konverge.client import ConditionShape
from konverge.clock import rfc3339
from konverge.conditions import (
    Condition,
    condition_entries,
    find_condition,
    fit_condition,
    fit_conditions,
    read_conditions,
    truth,
    with_condition,
    write_conditions,
)
from konverge.errors import ConditionError, MetadataOnly
from konverge.fields import decode_fields, without_nulls
from konverge.model import Model

__all__ = ["Ours", "StatusEditor", "Transition", "UnreadStatus", "transitions"]

St_co = TypeVar("St_co", covariant=True)

_ABSENT = object()
_APART = ("conditions",)
_RUNTIMES = frozenset({"conditions", "observedGeneration"})
"""Fields of a status that the runtime writes: if nothing else is stored, an untouched draft adds nothing."""
_BOOKKEPT = frozenset({"observedGeneration", "lastTransitionTime"})
"""Fields of a condition that the runtime adds: a kind that does not have them loses nothing."""


class Ours(msgspec.Struct, frozen=True):
    """The part of a status that a single writer of several owns: top-level fields and condition types."""

    fields: frozenset[str]
    conditions: frozenset[str]
    within: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """The fields of each condition."""

    @classmethod
    def of(cls, owned: bytes | None) -> Ours:
        """Return the part in the FieldsV1 of the writer's status entry; None owns nothing."""
        status = decode_fields(owned).get("f:status", {}) if owned else {}
        within = {
            str(msgspec.json.decode(name[2:]).get("type")): frozenset(
                member[2:] for member in owned_fields if member[:2] == "f:"
            )
            for name, owned_fields in status.get("f:conditions", {}).items()
            if name.startswith("k:")
        }
        return cls(frozenset(name[2:] for name in status if name.startswith("f:")), frozenset(within), within)


def _wire(draft: Model | dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a draft without its conditions, which only the editor holds."""
    return draft.wire(without=_APART) if isinstance(draft, Model) else dict(draft)


class Transition(msgspec.Struct, frozen=True):
    """One condition whose status changed."""

    before: Condition | None
    after: Condition


def transitions(before: Sequence[Condition], after: Iterable[Condition]) -> list[Transition]:
    """Return the conditions whose status changed. A new condition counts if it is True, or is Ready."""
    changed = []
    for condition in after:
        old = find_condition(before, condition.type)
        if (old is None and (condition.is_true or condition.type == "Ready")) or (
            old is not None and old.status != condition.status
        ):
            changed.append(Transition(old, condition))
    return changed


def _unread() -> ConditionError:
    return ConditionError(
        'conditions in the draft are not read; set each with ctx.status.set_condition("Ready", True, "Scheduled")'
    )


class StatusEditor(Generic[St_co]):
    """The status that a reconcile will write.

    `draft` is a copy of the status model: set its fields. `set_condition` sets a condition. Nothing is sent before the end of the
    reconcile.
    """

    def __init__(
        self,
        *,
        previous: Mapping[str, Any],
        draft: Callable[[Collection[str]], Model | dict[str, Any]],
        generation: int,
        declared: Sequence[str] | None,
        now: datetime,
        strict: bool,
        ours: Ours | None = None,
        complain: Callable[[ConditionError], None] | None = None,
    ) -> None:
        self._complain = complain
        self._previous = previous
        self._create_draft = draft
        self._written_draft: Model | dict[str, Any] | None = None
        self._generation = generation
        self._declared = declared
        self._now = now
        self._strict = strict
        self._ours = ours
        self._initial = {} if ours is None else _wire(draft(()))
        self._before = read_conditions(previous.get("conditions"))
        kept = self._before if declared is None else tuple(c for c in self._before if c.type in declared)
        self._initial_conditions = kept
        self._conditions = kept
        self._set_types: set[str] = set()
        self._extra_fields: dict[str, Mapping[str, Any]] = {}
        self._removed_types: set[str] = set()
        self._cleared_fields: tuple[str, ...] = ()
        self.skipped = False
        """Whether this reconcile leaves the status to its other writer."""

    def _begun_draft(self, without: Collection[str] = ()) -> Model | dict[str, Any]:
        """Return the draft, created on first use without some fields, which the caller sets: most reconciles only set conditions."""
        if self._written_draft is None:
            self._written_draft = self._create_draft(without)
            self._read = (
                self._written_draft.__dict__.get("conditions") if isinstance(self._written_draft, Model) else None
            )
        return self._written_draft

    @property
    def draft(self) -> St_co:
        """The status to be written: the status model of a resource of ours, a dict for a kind without a model."""
        return cast(St_co, self._begun_draft())

    def update(self, status: Model) -> None:
        """Set the fields that were set in `status`, the observed generation aside; its conditions are set with `set_condition`."""
        if getattr(status, "conditions", ()):
            self._refuse(_unread())
        names = status.model_fields_set - {"conditions", "observed_generation"}
        draft = self._begun_draft(names)
        for name in names:
            setattr(draft, name, getattr(status, name))

    @property
    def split(self) -> bool:
        """Whether this controller is one of several writers of the status."""
        return self._ours is not None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The present conditions, including those that this reconcile set."""
        return self._conditions

    @property
    def before(self) -> tuple[Condition, ...]:
        """The conditions as they were stored when the reconcile began."""
        return self._before

    @property
    def previous(self) -> Mapping[str, Any]:
        """The status as it was stored, as plain data."""
        return self._previous

    def find(self, type_: str) -> Condition | None:
        """Return a condition in its present state."""
        return find_condition(self._conditions, type_)

    def set_condition(
        self,
        type_: str,
        status: bool | None,
        reason: str,
        message: str = "",
        *,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Set a condition; `status` None is Unknown.

        Stamps the generation in hand, and moves lastTransitionTime only when the status changes. An undeclared type, a malformed
        reason or a message that is too long raises ConditionError if the manager is strict (in tests); else it is cut and logged.
        `fields` are more fields of the condition, for a foreign kind: `{"lastProbeTime": ...}`.
        """
        if fields and self._declared is not None:
            self._refuse(ConditionError(f"condition {type_}: fields={sorted(fields)} are for kinds that are not ours"))
            fields = None
        reason, message = fit_condition(type_, reason, message, self._declared, self._refuse)
        if self._declared is not None and type_ not in self._declared:
            return
        self._conditions = with_condition(
            self._conditions,
            type_,
            truth(status),
            reason,
            message,
            generation=self._generation,
            now=self._now,
        )
        self._set_types.add(type_)
        self._removed_types.discard(type_)
        if fields or self._extra_fields:
            self._extra_fields[type_] = fields or {}

    def fitted(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of another object with its conditions shortened as in `set_condition`.

        Raises ConditionError if the manager is strict.
        """
        return fit_conditions(status, self._refuse)

    def _refuse(self, error: ConditionError) -> None:
        """Raise in tests, log in production."""
        if self._strict:
            raise error
        if self._complain is not None:
            self._complain(error)

    def remove_condition(self, type_: str) -> None:
        """Remove a condition from the status."""
        self._set_types.discard(type_)
        self._conditions = tuple(condition for condition in self._conditions if condition.type != type_)
        self._removed_types.add(type_)

    def skip_write(self) -> None:
        """Skip the status write of this reconcile: the other writer owns the status now."""
        self.skipped = True

    def start_over(self) -> None:
        """Discard everything that this reconcile set, so that the status is the stored one."""
        self._written_draft = None
        self._set_types.clear()
        self._removed_types.clear()
        self._extra_fields.clear()
        self._conditions = self._initial_conditions

    def was_set(self, type_: str) -> bool:
        """Return whether this reconcile set the condition."""
        return type_ in self._set_types

    @property
    def asks_for_shape(self) -> bool:
        """Whether conditions of a kind that this controller did not declare will be written; if so, their shape matters."""
        if self._declared is not None:
            return False
        return bool(
            self._set_types or self._removed_types or (self._ours is not None and "conditions" in self._ours.fields)
        )

    def intent(self, *, failed: bool, shape: ConditionShape | None = None) -> dict[str, Any]:
        """Return the part of the status that this controller owns or set, as the apply will hold it.

        After a failed reconcile, and in a pause, the observed generation stays: that generation is not yet handled. `shape` is the
        schema of the conditions of a foreign kind.
        """
        draft = self._written_draft
        # Nothing reads conditions in the draft. Compared here, since this runs once in a reconcile.
        if draft is not None and (
            draft.__dict__.get("conditions") is not self._read
            if isinstance(draft, Model)
            else draft.get("conditions") != self._previous.get("conditions")
        ):
            self._refuse(_unread())
        status: dict[str, Any] = {}
        observed = self._previous.get("observedGeneration") if failed else self._generation
        if self._declared is not None and isinstance(observed, int):
            # The first field, because a comparison with the stored status then ends at the most frequent difference.
            status["observedGeneration"] = observed
        alone = self._declared is not None and self._ours is None
        if self._written_draft is not None or not alone or not self._previous.keys() <= _RUNTIMES:
            wire = _wire(self._begun_draft())
            status |= {key: value for key, value in wire.items() if self._is_own_field(key, value)}
            # Fields that are stored and no longer in the draft were removed: the draft begins as a copy of the stored status.
            left = {*self._previous, *wire} - _RUNTIMES - {key for key, value in status.items() if value is not None}
            self._cleared_fields = tuple(sorted(left)) if left else ()
        judged = [self._stamped(condition) for condition in self._conditions if self._is_own_condition(condition.type)]
        conditions = write_conditions(judged) if self._declared is not None else self._foreign_conditions(judged, shape)
        if conditions:
            status["conditions"] = conditions
        return status

    def left_over(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the merge patch for fields and conditions that the apply could not remove, empty if there are none; after `intent`.

        An apply removes only fields that no other manager owns. The only writer of a status may clear also fields of other managers; a
        status with several writers keeps the fields of the others.
        """
        if self._declared is None or self._ours is not None:
            return {}
        patch: dict[str, Any] = {name: None for name in self._cleared_fields if status.get(name) is not None}
        stored = status.get("conditions")
        if self._removed_types and isinstance(stored, Sequence):
            kept = [
                entry
                for entry in stored
                if not isinstance(entry, Mapping) or entry.get("type") not in self._removed_types
            ]
            if len(kept) != len(stored):
                patch["conditions"] = kept
        return patch

    def _foreign_conditions(self, judged: Sequence[Condition], shape: ConditionShape | None) -> list[dict[str, Any]]:
        """Return the conditions of a foreign kind as the apply will hold them."""
        shaped = {entry["type"]: self._shaped(entry, shape) for entry in write_conditions(judged)}
        if shape is None or shape.by_type:
            return list(shaped.values())
        # The server keeps these conditions as one value: the conditions of other writers are repeated as stored.
        stored = condition_entries(self._previous.get("conditions"))
        others = (entry for entry in stored if entry["type"] not in self._removed_types)
        whole = [*(dict(shaped.pop(str(entry["type"]), entry)) for entry in others), *shaped.values()]
        owned = self._ours is not None and "conditions" in self._ours.fields
        return whole if owned or without_nulls(whole) != without_nulls(stored) else []

    def _shaped(self, entry: dict[str, Any], shape: ConditionShape | None) -> dict[str, Any]:
        """Return a condition of a foreign kind with only the fields of that kind, and with extra and own fields."""
        type_ = str(entry["type"])
        if type_ in self._set_types:
            entry |= self._extra_fields.get(type_, {})
        else:
            stored = condition_entries(self._previous.get("conditions"))
            raw = next(other for other in stored if str(other["type"]) == type_)
            own = self._ours.within.get(type_, frozenset()) if self._ours is not None else frozenset()
            entry |= {name: raw[name] for name in own if name in raw and name not in entry}
        if shape is None:
            return entry
        for name in [name for name in entry if name not in shape.fields]:
            if entry.pop(name) not in (None, "") and name not in _BOOKKEPT and self._complain is not None:
                has = ", ".join(sorted(shape.fields))
                self._complain(ConditionError(f"condition {type_}: this kind's conditions have no {name}, but {has}"))
        return entry

    def _is_own_field(self, name: str, value: Any) -> bool:
        """Return whether a field belongs into the apply: with several writers of the status, only if this controller set or owns it."""
        if name == "conditions" or (name == "observedGeneration" and self._declared is not None):
            return False
        return self._ours is None or name in self._ours.fields or self._initial.get(name, _ABSENT) != value

    def _is_own_condition(self, type_: str) -> bool:
        return self._ours is None or type_ in self._ours.conditions or type_ in self._set_types

    def _stamped(self, condition: Condition) -> Condition:
        """Return a condition that the API accepts: a condition that was stored without a time gets the present time."""
        if condition.last_transition_time is not None:
            return condition
        return condition.model_copy(update={"last_transition_time": rfc3339(self._now)})


class UnreadStatus(StatusEditor[Any]):
    """The status of an object with cached metadata only: nothing is written, and its use raises MetadataOnly."""

    def __init__(self, what: str, *, now: datetime, strict: bool) -> None:
        super().__init__(previous={}, draft=lambda _: {}, generation=0, declared=None, now=now, strict=strict)
        self.skipped = True
        self._what = what

    def _unread(self, *_: Any, **__: Any) -> NoReturn:
        raise MetadataOnly(
            f"ctx.status of {self._what} was used, but its controller caches only metadata, so the stored status is unknown: use "
            "Controller.of, or write the status with ctx.patch(..., subresource='status')"
        )

    draft = property(_unread)
    conditions = property(_unread)
    find = set_condition = remove_condition = update = _unread
