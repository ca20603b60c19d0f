"""Children with their policy for conflicts of field managers, and the results of their applies."""

from __future__ import annotations

import enum
import math
from typing import TypeVar

import msgspec

from konverge.dropped import decode_stored
from konverge.errors import FieldConflict, KonvergeError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Object

__all__ = ["HOLD", "TAKE", "Applied", "Child", "FieldsHeld", "Held", "OnConflict"]

R = TypeVar("R", bound=Resource)


class OnConflict(enum.Enum):
    """The policy for an apply that names fields of another field manager."""

    TAKE = "take"
    """Force: become the owner. The default for children under our controller reference."""
    HOLD = "hold"
    """Send nothing more for that object, report manager and field, wait for a change."""


TAKE = OnConflict.TAKE
"""Force on a conflict: become the owner of the field.

>>> TAKE
<OnConflict.TAKE: 'take'>
"""
HOLD = OnConflict.HOLD
"""Hold on a conflict: send nothing more for that object, report manager and field, wait for a change.

>>> from konverge.kinds import kind
>>> Child(kind("v1", "ConfigMap").new("a"), on_conflict=HOLD).on_conflict
<OnConflict.HOLD: 'hold'>
"""


class Child(msgspec.Struct, frozen=True):
    """One owned child of a plan, with its conflict policy, and whether an existing object without an owner is adopted.

    >>> from konverge.kinds import kind
    >>> Child(kind("v1", "ConfigMap").new("a"), adopt=True).on_conflict
    <OnConflict.TAKE: 'take'>
    """

    object: Resource
    on_conflict: OnConflict = TAKE
    adopt: bool = False


class Held(msgspec.Struct, frozen=True):
    """A child whose apply met a field of another manager and was declared HOLD."""

    key: Key
    conflicts: tuple[FieldConflict, ...]

    def __str__(self) -> str:
        fields = ", ".join(f"{conflict.field} ({conflict.manager})" for conflict in self.conflicts)
        return f"{self.key} is held: other managers own {fields}"


class FieldsHeld(KonvergeError):
    """Raised by `ctx.own(..., on_conflict=HOLD)`: nothing more is sent for that object until it or the intent changes.

    If a reconciler does not catch it, the runtime records it and waits for a change instead of backing off. `look_again` is in seconds.

    >>> from konverge.kinds import kind
    >>> key = Key("", kind("v1", "ConfigMap"), "web", "a")
    >>> print(FieldsHeld(Held(key, (FieldConflict("kubectl", ".data.k"),))))
    ConfigMap web/a is held: other managers own .data.k (kubectl)
    """

    def __init__(self, held: Held, *, look_again: float = math.inf) -> None:
        super().__init__(str(held))
        self.held = held
        self.look_again = look_again


class Applied:
    """The applied children: each as it is stored, the held children, and whether anything was sent."""

    __slots__ = ("_objects", "changed", "held")

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self.held: tuple[Held, ...] = ()
        self.changed = False

    def add(self, key: Key, stored: Object) -> None:
        """Note one child; for the runtime."""
        self._objects[key] = stored

    def find(self, what: Kind[R] | type[R], name: str = "", namespace: str = "") -> R | None:
        """Return the stored child of that kind (and name, and namespace, if given); None if there is none."""
        kind = kind_of(what)
        for key, stored in self._objects.items():
            if key.kind == kind and name in ("", key.name) and namespace in ("", key.namespace):
                return decode_stored(kind, stored)
        return None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The children in the order of their applies."""
        return tuple(self._objects)
