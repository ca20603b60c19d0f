"""Comparisons: would this write change anything, and did anything but our own write change?

Every comparison of two states of an object stands here, each a pure function:

- before an apply: `changes_nothing` (nothing is sent) and `held_for` (a held apply is not sent again yet);
- after a write of ours: `only_own_changes` and `only_status_changed`, by which the own-write filter knows that the event of the write
  shows nothing that the reconcile had not seen.

How an intent compares with a field set and live values is `konverge.fields.unchanged`; predicates for events stand in
`konverge.runtime.builder.predicates`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from konverge.errors import FieldConflict
from konverge.fields import applied_part, decode_fields, digest, projection, unchanged, unchanged_by
from konverge.informers import Cached
from konverge.objects import Metadata
from konverge.runtime.builder.predicates import meaning

__all__ = [
    "HELD_RETRY",
    "ApplyResult",
    "Refusal",
    "apply_result",
    "as_last_applied",
    "changes_nothing",
    "held_for",
    "named_by",
    "only_own_apply",
    "only_own_changes",
    "only_status_changed",
    "only_status_differs",
]

_ABSENT = object()
_BOOKKEEPING = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
_MAPPING = (dict, Mapping)
_LEAF = (str, int, float)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STATUS_AND_HEAD = ("apiVersion", "kind", "metadata", "status")

HELD_RETRY = 30.0
"""Seconds before a held apply is tried again: the object's version moved though no value of the intent did, or the object is not cached."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The server's response to an intent: digests of the intent, of our field set, and of the values that it covers."""

    intent: str
    owned: str
    values: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An intent that met fields of other managers, and the object as it was then."""

    intent: str
    uid: str
    values: str
    version: str
    at: float
    conflicts: tuple[FieldConflict, ...]


def apply_result(
    intent: Mapping[str, Any], fields: Mapping[str, Any] | None, stored: Mapping[str, Any]
) -> ApplyResult | None:
    """Return the result to remember, None if the server stored the intent as it was sent: then a comparison of values finds it."""
    # A status that came back as it was sent is the most frequent case, and it is owned as it was sent.
    if fields is None or stored.get("status") == intent.get("status", _ABSENT) or unchanged_by(intent, fields, stored):
        return None
    return ApplyResult(digest(applied_part(intent)), digest(fields), digest(projection(stored, fields)))


def changes_nothing(
    intent: Mapping[str, Any], owned: bytes, live: Mapping[str, Any], result: ApplyResult | None
) -> bool:
    """Tell whether applying the intent would change nothing of `live`, of which we own `owned`; `result` is that of the last apply."""
    return unchanged(intent, owned, live) or (result is not None and as_last_applied(intent, result, owned, live))


def as_last_applied(intent: Mapping[str, Any], result: ApplyResult, owned: bytes, live: Mapping[str, Any]) -> bool:
    """Tell whether the object is as the server stored it when it last applied this intent: `live`, of which we own `owned`."""
    if result.intent != digest(applied_part(intent)):
        return False
    # Compared as data: the server escapes characters in JSON that an encoder here would not.
    fields = decode_fields(owned)
    return digest(fields) == result.owned and digest(projection(live, fields)) == result.values


def held_for(intent: Mapping[str, Any], refusal: Refusal | None, cached: Cached, now: float) -> float | None:
    """Return None if a retry of the refused intent could succeed, else the seconds after which to try again.

    They are infinite if the object is as it was, and finite if its version moved but no value that the intent names did: another manager
    may have given up a field without changing it.
    """
    if refusal is None or refusal.intent != digest(intent):
        return None
    if cached.metadata.uid != refusal.uid or digest(named_by(intent, cached.data())) != refusal.values:
        return None
    if cached.metadata.resource_version == refusal.version:
        return math.inf
    wait = refusal.at + HELD_RETRY - now
    return wait if wait > 0 else None


def named_by(intent: Any, live: Any) -> Any:
    """Return the values of a live object that an intent names; a list counts as a whole."""
    if isinstance(intent, Mapping) and isinstance(live, Mapping):
        skip = {"apiVersion", "kind", "uid", "resourceVersion"}
        return {key: named_by(member, live.get(key)) for key, member in intent.items() if key not in skip}
    return live


def only_own_changes(before: Any, after: Any, intent: Any) -> bool:
    """Tell whether `after` differs from `before` in nothing but what applying `intent` changed.

    >>> only_own_changes({"a": 1}, {"a": 1, "b": 2}, {"b": 2}), only_own_changes({"a": 1}, {"a": 9, "b": 2}, {"b": 2})
    (True, False)
    """
    if after == before:
        return True
    if isinstance(after, _MAPPING):
        old, said = (side if isinstance(side, _MAPPING) else {} for side in (before, intent))
        if not old.keys() <= after.keys():
            return False
        for name, value in after.items():
            was = old.get(name)
            if value != was and not (
                # Most values are scalars, and this runs once in each reconcile.
                value == said.get(name) if isinstance(value, _LEAF) else only_own_changes(was, value, said.get(name))
            ):
                return False
        return True
    if isinstance(after, list):
        sides = [_by_type(side) for side in (before or [], after, intent or [])]
        if None not in sides:
            return only_own_changes(*sides)
    return intent is not None and bool(after == intent)


def only_own_apply(before: Mapping[str, Any], after: Mapping[str, Any], intent: Mapping[str, Any]) -> bool:
    """Tell whether an object that was `before` became `after` by applying `intent` alone.

    False also if the apply removed fields: then it is not known who removed them.
    """
    return only_own_changes(*({**each, "metadata": _described(each)} for each in (before, after, intent)))


def _described(object_: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in object_["metadata"].items() if name not in _BOOKKEEPING}


def _by_type(conditions: Any) -> dict[str, Any] | None:
    if not isinstance(conditions, list) or not all(
        isinstance(entry, _MAPPING) and "type" in entry for entry in conditions
    ):
        return None
    return {str(entry["type"]): entry for entry in conditions}


def only_status_differs(old: Metadata, new: Metadata) -> bool:
    """Tell whether two states of one object can differ in nothing but the status, by their metadata."""
    return (old.uid, old.generation) == (new.uid, new.generation) and meaning(old) == meaning(new)


def only_status_changed(cached: Cached, metadata: Metadata, body: bytes) -> bool:
    """Tell whether the response to a status apply differs in nothing but the status from the object that was reconciled.

    Any other difference is a change that came in between, and its event may be merged with that of our write.
    """
    if not only_status_differs(cached.metadata, metadata):
        return False
    before, after = (_PARTS.decode(each) for each in (cached.body, body))
    for aside in _STATUS_AND_HEAD:
        before.pop(aside, None)
        after.pop(aside, None)
    return before.keys() == after.keys() and all(_same_json(raw, after[name]) for name, raw in before.items())


def _same_json(left: msgspec.Raw, right: msgspec.Raw) -> bool:
    """Compare as bytes first: a server writes the same value in the same way."""
    return bytes(left) == bytes(right) or bool(msgspec.json.decode(left) == msgspec.json.decode(right))
