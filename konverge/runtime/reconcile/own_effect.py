"""The awaitable of `ctx.own`, and the conversion of a stored child into the form of its intent."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar, cast

from konverge.dropped import decode_stored
from konverge.informers.store import THIN_VIEWS, CachedObject
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Object
from konverge.runtime.apply.conflicts import OnConflict
from konverge.runtime.reconcile.children import Children
from konverge.runtime.reconcile.trace import Effect

__all__ = ["OwnEffect", "decode_like", "described"]

R = TypeVar("R", bound=Resource)


class OwnEffect(Effect[R]):
    """The apply of one owned child. An unchanged child needs no coroutine: the await returns at once."""

    __slots__ = ("_adopt", "_children", "_object", "_on_conflict")

    def __init__(self, children: Children, object_: R, on_conflict: OnConflict, adopt: bool) -> None:
        self.awaited = False
        self._children = children
        self._object = object_
        self._on_conflict = on_conflict
        self._adopt = adopt

    @property
    def what(self) -> str:
        """The call in words, used only in the message of ForgottenAwait."""
        return f"ctx.own({described(self._object)})"

    def __await__(self) -> Generator[Any, Any, R]:
        self.awaited = True
        child, comparison = self._children.unchanged.find(self._object, adopt=self._adopt)
        if child is None:
            _, stored, _ = yield from self._children.compare_and_apply(
                self._object, self._on_conflict, adopt=self._adopt, comparison=comparison
            ).__await__()
            return decode_like(self._object, stored)
        return decode_like(self._object, child)


def decode_like(object_: R, stored: Object) -> R:
    """Return a stored object in the form of its intent: a thin view, or an instance of the model."""
    plain, sort = object_.__class__ in THIN_VIEWS, stored.__class__
    if sort is CachedObject and plain:
        return cast(R, stored)
    if sort is Object and plain:
        intent = cast(Object, object_)
        stored.data.setdefault("apiVersion", intent.data["apiVersion"])
        stored.data.setdefault("kind", intent.data["kind"])
        return cast(R, stored)
    kind: Kind[R] = kind_of(object_)
    return kind.decode(stored.data) if sort in THIN_VIEWS else decode_stored(kind, stored)


def described(object_: Resource) -> str:
    """Return kind and path of an object for a message."""
    return f"{kind_of(object_).kind} {object_.metadata.path}"
