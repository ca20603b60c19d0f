"""Applies that another writer undid: writer, object and intent of each apply, and how often an unchanged intent had to be sent again.

An apply that would change nothing is skipped. So a second apply of the same intent, after a change of the object, restores fields that
another writer took, changed or removed. Once is a correction; again and again it is two writers that undo each other.

Guarantees: pure. Bounded: objects that were applied longest ago are forgotten first, and of each object only the last few writers are
kept. A child that stays as created is not kept at all.

Caveats: an object that is not cached is applied in every reconcile, so a writer outside of this manager is not detected.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from konverge.keys import Key
from konverge.objects import compare_versions

__all__ = [
    "OFTEN",
    "WINDOW",
    "PendingApply",
    "Rival",
    "UndoneApplies",
    "Writer",
    "differing_fields",
    "surplus_fields",
    "unowned_fields",
]

OFTEN: Final = 3
"""Times that a writer is undone within the window before it counts as two alternating writers."""
WINDOW: Final = 600.0
"""Seconds of the window."""
_WRITERS: Final = 4


class Writer(NamedTuple):
    """The writer of an apply: the controller, the object that it reconciles, and the field manager."""

    controller: str
    owner: Key
    manager: str

    def __str__(self) -> str:
        return f"controller {self.controller!r} for {self.owner}"


class PendingApply(NamedTuple):
    """One apply that is about to be sent: to an object or a subresource of it, with the digest of its intent."""

    target: tuple[Key, str]
    writer: Writer
    intent: str


class Rival(msgspec.Struct, frozen=True):
    """The other writer if it belongs to this manager, else None; and whether the two undo each other again and again."""

    writer: Writer | None
    often: bool
    reported: bool


class _Sent(NamedTuple):
    intent: str
    uid: str
    version: str


class _Object(msgspec.Struct):
    sent: dict[Writer, _Sent] = msgspec.field(default_factory=dict)
    """The last apply of each writer, in the order of the applies."""
    undone: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=OFTEN))
    reported: float | None = None


class UndoneApplies:
    """The memory of one manager; its controllers share it.

    >>> from konverge.kinds import kind
    >>> undone, key = UndoneApplies(), Key("", kind("v1", "ConfigMap"), "web", "a")
    >>> apply = PendingApply((key, ""), Writer("backup", key, "konverge"), "digest")
    >>> undone.rival(apply, ("u", "1"), now=0.0) is None
    True
    """

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._objects: OrderedDict[tuple[Key, str], _Object] = OrderedDict()

    def rival(self, apply: PendingApply, cached: tuple[str, str] | None, *, now: float) -> Rival | None:
        """Return the writer that undid the last apply of this intent, None if it was not undone.

        `cached` is uid and version of the object in the cache, None if it is not cached.
        """
        known = self._objects.get(apply.target)
        mine = None if known is None else known.sent.get(apply.writer)
        if known is None or mine is None or mine.intent != apply.intent:
            return None
        last = next(reversed(known.sent))
        other = last if last != apply.writer and known.sent[last].intent != apply.intent else None
        if cached is None:
            if other is None or other.manager != apply.writer.manager:
                return None
        elif cached[0] != mine.uid or (compare_versions(cached[1], mine.version) or 0) <= 0:
            return None
        recent = [at for at in known.undone if now - at < WINDOW]
        reported = known.reported is not None and now - known.reported < WINDOW
        return Rival(other, len(recent) + 1 >= OFTEN, reported)

    def reported(self, apply: PendingApply, *, now: float) -> None:
        """Note that the two writers of an object were reported."""
        self._objects[apply.target].reported = now

    def sent(self, apply: PendingApply, uid: str, version: str, *, undone: bool, now: float) -> None:
        """Note an apply that was sent, the resulting object, and whether it restored fields that another writer had undone."""
        known = self._objects.setdefault(apply.target, _Object())
        self._objects.move_to_end(apply.target)
        known.sent.pop(apply.writer, None)  # moved to the end: a dict keeps the order of insertion
        known.sent[apply.writer] = _Sent(apply.intent, uid, version)
        if undone:
            known.undone.append(now)
        if len(known.sent) > _WRITERS:
            del known.sent[next(iter(known.sent))]
        if len(self._objects) > self._limit:
            self._objects.popitem(last=False)

    def __len__(self) -> int:
        return len(self._objects)


def differing_fields(intent: Any, live: Any) -> list[str]:
    """Return the paths of the fields whose live value differs from an intent; a list counts as a whole.

    >>> differing_fields({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}, "kind": "X"})
    ['.data.b']
    """
    return list(_differing(intent, live, ""))


def _differing(intent: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(intent, Mapping) and isinstance(live, Mapping):
        for name, value in intent.items():
            yield from _differing(value, live.get(name), f"{path}.{name}")
    elif intent != live:
        yield path


def surplus_fields(owned: Mapping[str, Any], intent: Any) -> list[str]:
    """Return the paths of the fields of a field set (FieldsV1) that an intent does not name: applying it would remove them.

    >>> surplus_fields({"f:data": {"f:a": {}, "f:b": {}}}, {"data": {"a": "1"}})
    ['.data.b']
    """
    return list(_surplus(owned, intent, ""))


def _surplus(owned: Mapping[str, Any], intent: Any, path: str) -> Iterator[str]:
    for name, below in owned.items():
        key = name.removeprefix("f:")
        if key == name or not isinstance(intent, Mapping):  # an item of a list, or a field that counts as a whole
            continue
        if key not in intent:
            yield f"{path}.{key}"
        else:
            yield from _surplus(below, intent[key], f"{path}.{key}")


def unowned_fields(intent: Any, owned: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields of an intent that a field set (FieldsV1) does not hold; a list counts as a whole.

    >>> unowned_fields({"data": {"a": "1", "b": "2"}}, {"f:data": {"f:a": {}}})
    ['.data.b']
    """
    return list(_unowned(intent, owned, ""))


def _unowned(intent: Any, owned: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(intent, Mapping):
        return
    for name, value in intent.items():
        below = owned.get(f"f:{name}")
        if below is None:
            yield f"{path}.{name}"
        elif below:
            yield from _unowned(value, below, f"{path}.{name}")
