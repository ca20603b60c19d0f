"""The children that a reconcile need not compare: an equal comparison found them unchanged before.

Most children are unchanged in most reconciles, so this path costs no request, no decoded body and no walk through a tree. It reads
the cache, encodes the intent and compares a digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from konverge.informers.store import THIN_VIEWS, CachedObject
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, Object
from konverge.runtime.apply.applier import comparison_digest
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.trace import ReconcileTrace
from konverge.tallies import LoopCounter

if TYPE_CHECKING:
    from konverge.informers.store import Store
    from konverge.runtime.apply.owners import ChildClaim

__all__ = ["UnchangedChildren"]


class _Cache(msgspec.Struct):
    """The cache of one kind of children. A reconcile looks it up once, not for each child."""

    kind: Kind[Any]
    store: Store
    skipped: LoopCounter


class UnchangedChildren:
    """Recognizes unchanged children of one owner in one reconcile.

    The digest covers all that `Children.compare_and_apply` derives the intent and its refusals from, apart from the claims and the earlier
    applies of this reconcile, which are looked up. A child with another digest is compared field by field there.
    """

    __slots__ = ("_applied", "_caches", "_circumstances", "_services", "_trace")

    def __init__(
        self,
        services: ReconcileServices,
        owner: Metadata,
        trace: ReconcileTrace,
        applied: set[tuple[str, str, str, str, str]],
    ) -> None:
        """`applied` are the applies of this reconcile so far; `find` adds to them."""
        self._services = services
        self._trace = trace
        self._applied = applied
        self._circumstances = (services.manager, owner.uid, owner.name, trace.key.namespace)
        # By the type of a model, or by the API version and kind of a thin view.
        self._caches: dict[object, _Cache | None] = {}

    def find(self, object_: Resource, *, adopt: bool) -> tuple[CachedObject | None, bytes | None]:
        """Return the cached child if an equal comparison found it unchanged, else None; and the digest of the comparison.

        The digest is None if nothing can be compared: the child is not cached, or its cache holds a part of it.
        """
        if object_.__class__ in THIN_VIEWS:
            data: dict[str, Any] = object_.data  # type: ignore[attr-defined]  # both classes have it
            sort: object = f"{data.get('apiVersion')} {data.get('kind')}"
        else:
            data = object_.to_dict()
            sort = object_.__class__
        caches = self._caches
        cache = caches[sort] if sort in caches else self._look_up(sort, object_)
        metadata = data.get("metadata")
        if cache is None or metadata.__class__ is not dict:
            return None, None
        trace = self._trace
        namespace, name = metadata.get("namespace", trace.key.namespace), metadata.get("name", "")
        cached = cache.store.get(namespace, name)
        if cached is None:
            return None, None
        kind = cache.kind
        comparison = comparison_digest(cached.metadata, data, self._circumstances, adopt)
        services = self._services
        claim = services.claims.renew((kind.group_kind, namespace, name), services.controller, trace.key)
        target = (kind.api_version, kind.kind, namespace, name, "")
        if claim is None or not comparison or claim.unchanged != comparison or trace.ended or target in self._applied:
            return None, comparison
        self._applied.add(target)
        trace.skipped += 1
        cache.skipped.count += 1
        return CachedObject(cached, kind), comparison

    def note_applied(self, object_: Resource, stored: Object, claim: ChildClaim, *, adopt: bool) -> None:
        """Note that the server has stored this intent unchanged: a comparison with that version would find no change.

        So the first reconcile after the creation of twenty children compares none of them.
        """
        thin = object_.__class__ in THIN_VIEWS
        data: dict[str, Any] = object_.data if thin else object_.to_dict()  # type: ignore[attr-defined]  # both classes have it
        sort: object = f"{data.get('apiVersion')} {data.get('kind')}" if thin else object_.__class__
        if self._caches.get(sort) is not None:
            claim.unchanged = comparison_digest(stored.metadata, data, self._circumstances, adopt)

    def _look_up(self, sort: object, object_: Resource) -> _Cache | None:
        """Return the cache of the object's kind; None if its objects cannot be compared with an intent."""
        if isinstance(object_, Object) and object_.__class__ not in THIN_VIEWS:
            return None  # a user's own subclass does not name one kind
        services, kind = self._services, kind_of(object_)
        informer = None if services.partial else services.caches.informer(kind)
        cache = None
        if informer is not None and not informer.selection.metadata_only and informer.selection.transform is None:
            cache = _Cache(kind, informer.store, services.applier.skipped(kind))
        self._caches[sort] = cache
        return cache
