"""The declaration of a pause: the annotation, label or rule that keeps the reconciler from an object. Pure.

A deleted object is finalized in spite of a pause, unless the pause includes its deletion. Otherwise the deletion of a namespace with a
paused object hangs: https://github.com/crossplane/crossplane/issues/4839,
https://github.com/kubernetes-sigs/cluster-api-provider-aws/issues/4584
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from konverge.informers import Change
from konverge.keys import Key
from konverge.kinds import Kind, kind
from konverge.objects import Metadata
from konverge.rbac import Rule
from konverge.runtime.builder.watched import Watched

if TYPE_CHECKING:
    from konverge.runtime.cache.readers import Caches

__all__ = ["NAMESPACE_RIGHT", "Pausable", "PauseRule", "namespace_watch", "pauses"]

PauseRule: TypeAlias = "Callable[[Metadata, Caches], str]"
"""Returns why an object is paused, "" if it is not."""

_NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
NAMESPACE_RIGHT: Final = Rule("", ("namespaces",), ("list", "watch"), cluster_wide=True)
_WITH_DELETION: Final = "including-deletion"


class Pausable(msgspec.Struct, frozen=True, kw_only=True):
    """The name or the rule that pauses the objects of a controller."""

    name: str = ""
    """The annotation of an object and the label of a namespace; "" if a rule decides."""
    rule: PauseRule | None = None
    namespaces: bool = False
    """Whether the label of a namespace pauses the objects in it."""
    deletion: bool = False
    """Whether each pause holds up the deletion of an object too."""
    observing: bool = False
    """Whether `reconcile` is called for paused objects."""

    def changed(self, change: Change) -> bool:
        """Return whether the annotation changed."""
        values = [
            None if side is None else (side.metadata.annotations or {}).get(self.name)
            for side in (change.old, change.new)
        ]
        return values[0] != values[1]


def pauses(value: str | None, *, deleted: bool = False, deletion: bool = False) -> bool:
    """Return whether the value of an annotation or label pauses an object: any value but "false".

    A deleted object is paused by the value "including-deletion", or if `deletion` holds for each pause.

    >>> pauses("true"), pauses("false"), pauses(None), pauses("true", deleted=True), pauses("including-deletion", deleted=True)
    (True, False, False, False, True)
    """
    return value is not None and value != "false" and (not deleted or deletion or value == _WITH_DELETION)


def namespace_watch(primary: Kind[Any], pausable: Pausable | None) -> Watched | None:
    """Return the watch of the namespaces that have the label, None if no namespace pauses the controller's objects.

    The selector keeps all other namespaces out of the cache; a namespace that loses its label leaves the cache by a deletion.
    """
    if pausable is None or not pausable.namespaces or primary.namespaced is False:
        return None
    return Watched(
        _NAMESPACE,
        partial(_keys_inside, primary),
        metadata_only=True,
        predicate=partial(_label_changed, pausable.name),
        labels=pausable.name,
    )


def _keys_inside(primary: Kind[Any], namespace: Metadata, caches: Caches) -> Iterable[Key]:
    return caches(primary).keys(namespace=namespace.name)


def _label_changed(name: str, change: Change) -> bool:
    def labels(side: Any) -> Mapping[str, str]:
        return {} if side is None else side.metadata.labels or {}

    return labels(change.old).get(name) != labels(change.new).get(name)
