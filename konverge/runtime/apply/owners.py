"""Owner references, checked before they are written, and the back-reference that replaces them across namespaces.

The garbage collector honours an owner only in the dependent's own namespace or cluster-scoped; it deletes a dependent if it cannot
find the owner that way. The API server accepts such a reference silently (https://github.com/kubernetes/kubernetes/issues/65200,
https://github.com/kubernetes/website/issues/29480). So scope and namespace are checked here, against discovery.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from konverge.errors import NotOurs, OwnershipError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata
from konverge.words import Annotation, Label

if TYPE_CHECKING:
    from konverge.runtime.cache.readers import Caches

__all__ = [
    "ChildClaim",
    "Claims",
    "back_reference",
    "by_back_reference",
    "check_scope",
    "controller_reference",
    "owner_of",
    "refuse_foreign",
]


_Object: TypeAlias = tuple[str, str, str]


def controller_reference(kind: Kind[Any], owner: Metadata) -> dict[str, Any]:
    """Return the owner reference that makes this object the controller of a child."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def check_scope(kind: Kind[Any], owner: Metadata, child: Key, *, child_namespaced: bool) -> None:
    """Raise OwnershipError for an owner that the garbage collector would not honour."""
    if not owner.namespace or (child_namespaced and child.namespace == owner.namespace):
        return
    problem = (
        f"{kind.kind} {owner.path} cannot own {child} in another namespace"
        if child_namespaced
        else f"{kind.kind} {owner.path} is namespaced and cannot own the cluster-scoped {child}"
    )
    raise OwnershipError(
        f"{problem}; tie them with konverge.runtime.back_reference(owner) in the child's labels and annotations, watch the child "
        f"with to=by_back_reference({kind.kind}), and clean up in finalize"
    )


def refuse_foreign(owner: Metadata, owner_kind: Kind[Any], child: Key, existing: Metadata, *, adopt: bool) -> None:
    """Raise NotOurs if an existing object is not controlled by this owner and may not be adopted."""
    reference = existing.controller
    if reference is not None and reference.uid == owner.uid:
        return
    if reference is not None:
        raise NotOurs(
            f"{child} exists and is controlled by {reference.kind} {reference.name}; {owner_kind.kind} {owner.path} does not touch it"
        )
    if not adopt:
        raise NotOurs(
            f"{child} exists and no controller reference of {owner_kind.kind} {owner.path} is on it; nothing was sent. "
            f"Delete or rename it, or hand it over: give it an owner reference to {owner_kind.kind} {owner.name} (uid {owner.uid}) "
            "with controller: true"
        )


class ChildClaim(msgspec.Struct, gc=False):
    """The controller that applies a child, and the child's owner."""

    controller: str
    owner: Key
    unchanged: bytes = b""
    """The digest of the last comparison that found the child unchanged; see `comparison_digest`."""


class Claims:
    """The controller that applies each child, and the child's owner; a child has one controller of the manager.

    The write ledger does not know: a child's own controller writes its status and finalizers, and others may patch it with requests.
    Pure; bounded, the oldest claims are dropped first.
    """

    def __init__(self, *, limit: int = 65536) -> None:
        self._limit = limit
        self._children: OrderedDict[_Object, ChildClaim] = OrderedDict()
        self._owners: dict[tuple[str, Key], set[_Object]] = {}

    def other(self, child: Key, controller: str) -> str:
        """Return the name of another controller that applies this child, "" if none does."""
        claim = self._children.get(_object_of(child))
        return "" if claim is None or claim.controller == controller else claim.controller

    def renew(self, child: _Object, controller: str, owner: Key) -> ChildClaim | None:
        """Return this controller's claim on a child on behalf of this owner, and renew it; None if it has none.

        `child` is the kind in the form `ConfigMap` or `CronJob.batch`, the namespace and the name.
        """
        claim = self._children.get(child)
        if claim is None or claim.controller != controller or claim.owner != owner:
            return None
        self._children.move_to_end(child)
        return claim

    def take(self, child: Key, controller: str, owner: Key) -> ChildClaim:
        """Note that a controller applies a child."""
        target = _object_of(child)
        if (claim := self.renew(target, controller, owner)) is not None:
            return claim
        if (before := self._children.get(target)) is not None:
            self._drop(before, target)
        claim = self._children[target] = ChildClaim(controller, owner)
        self._children.move_to_end(target)
        self._owners.setdefault((controller, owner), set()).add(target)
        if len(self._children) > self._limit:
            oldest, forgotten = self._children.popitem(last=False)
            self._drop(forgotten, oldest)
        return claim

    def forget(self, controller: str, owner: Key) -> None:
        """The owner was deleted: drop the claims on its behalf."""
        for target in self._owners.pop((controller, owner), ()):
            del self._children[target]

    def release(self, controller: str) -> None:
        """Drop all claims of a controller that has ended."""
        for name, owner in [holder for holder in self._owners if holder[0] == controller]:
            self.forget(name, owner)

    def _drop(self, claim: ChildClaim, target: _Object) -> None:
        holder = (claim.controller, claim.owner)
        claimed = self._owners[holder]
        claimed.discard(target)
        if not claimed:
            del self._owners[holder]

    def __len__(self) -> int:
        return len(self._children)


def _object_of(key: Key) -> _Object:
    return (key.kind.group_kind, key.namespace, key.name)


def back_reference(owner: Resource) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels and annotations that tie a child to an owner in another namespace.

    The label holds the owner's uid (a name may be longer than a label value, and may be used again); the annotation its kind,
    namespace and name. The garbage collector does not know of it: the owner needs a finalizer.

    >>> from konverge.kinds import kind
    >>> labels, annotations = back_reference(kind("example.com/v1", "Backup").new("nightly", "web"))
    >>> annotations
    {'konverge.dev/owner': 'example.com/v1/Backup/web/nightly'}
    """
    kind, metadata = kind_of(owner), owner.metadata
    return {Label.OWNER_UID: metadata.uid}, {Annotation.OWNER: f"{kind.api_version}/{kind.kind}/{metadata.path}"}


def owner_of(kind: Kind[Any], child: Metadata) -> Key | None:
    """Return the key of a child's owner of this kind; None if it has none.

    The version is not compared: children from the time of an older version keep their owner.
    """
    text = child.annotation(Annotation.OWNER)
    prefix = f"{kind.group}/" if kind.group else ""
    version, _, rest = text.removeprefix(prefix).partition("/")
    name_of_kind, _, path = rest.partition("/")
    if not text.startswith(prefix) or not version or name_of_kind != kind.kind or not path:
        return None
    namespace, _, name = path.rpartition("/")
    return Key("", kind, namespace, name)


def by_back_reference(what: Kind[Any] | type[Any]) -> Callable[[Any, Caches], Iterable[Key]]:
    """Return a map function for `.watches(CHILD, to=by_back_reference(Owner))`.

    >>> from konverge.kinds import kind
    >>> owners = by_back_reference(kind("example.com/v1", "Backup"))
    >>> owners(Metadata(annotations={"konverge.dev/owner": "example.com/v1/Backup/web/nightly"}), None)[0].name
    'nightly'
    """
    kind = kind_of(what)

    def owners(child: Metadata | Resource, _caches: Caches) -> Iterable[Key]:
        metadata = child if isinstance(child, Metadata) else child.metadata
        key = owner_of(kind, metadata)
        return () if key is None else (key,)

    return owners
