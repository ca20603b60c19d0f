"""What is known of a pool, or of all pools, when a pass begins: cache reads, gathered into frozen views.

Promises: no decision is taken here and nothing is read but caches. Where one of them is not complete at present, nothing is said at
all: the pass ends, and neither a ResourceQuota nor a claim is let go for want of having been seen (X04).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.errors import RetryAfter
from konverge.kinds import Kind
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota.book import Book
from konverge.reconcilers.quota.kinds import CLAIM, NAMESPACE, POOL, RESOURCE_QUOTA
from konverge.reconcilers.quota.seen import NOWHERE, ClaimView, QuotaView, Seen
from konverge.reconcilers.quota.selecting import selects
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.views import PoolFacts, claim_view, facts_of, ledger_in, pool_view, quota_view
from konverge.reconcilers.quota.words import Label, quota_name

if TYPE_CHECKING:
    from konverge.runtime import Context, Reader

__all__ = ["PoolBooks", "belongs", "complete", "is_stray", "observe", "pools_seen"]

_SYNC_SECONDS = 5.0


class PoolBooks:
    """The views that the pool controller keeps from pass to pass."""

    def __init__(self) -> None:
        self.claims: Book[ClaimView] = Book()
        self.quotas: dict[str, Book[tuple[int, QuotaView]]] = {}

    def forget(self, pool: str) -> None:
        """The pool is gone."""
        self.quotas.pop(pool, None)


def belongs(claim: ClaimView, pool: str, uid: str, listed: Container[str] = ()) -> bool:
    """Tell whether a claim is this pool's to look after: it names it, or names none and stands in its queue, or was given it and
    was not edited since. One whose status was wiped is the pool's that lists it.
    """
    if claim.pool:
        return claim.pool == pool
    if claim.place == NOWHERE:
        return claim.uid in listed
    return claim.queue == (pool, uid) or (claim.assigned == (pool, uid) and not claim.asks_anew)


def complete(ctx: Context[Any], kind: Kind[Object]) -> Reader[Object]:
    """Return the cache of a kind; raises RetryAfter where it is not complete at present."""
    reader = ctx.cache(kind)
    if not reader.synced:
        raise RetryAfter(
            _SYNC_SECONDS, f"the cache of {kind.group_kind} is not complete at present; nothing is decided without it"
        )
    return reader


def observe(pool: ResourcePool, ctx: Context[Any], books: PoolBooks, settings: Settings) -> Seen:
    """Read the caches for a pass of one pool."""
    selected: set[str] = set()
    ending: set[str] = set()
    everywhere: set[str] = set()
    for metadata in complete(ctx, NAMESPACE).all_metadata():
        everywhere.add(metadata.name)
        if metadata.deleting:
            ending.add(metadata.name)
        elif selects(pool.spec.selectors, metadata.labels or {}):
            selected.add(metadata.name)
    before = ledger_in(pool.status)
    listed = {entry.uid for entries in before.claims.values() for entry in entries}
    claims = complete(ctx, CLAIM)
    views = books.claims.read(claims, claims.all_metadata(), claim_view)
    return Seen(
        pool=pool_view(pool),
        selected=frozenset(selected),
        ending=frozenset(ending),
        claims=tuple(view for view in views.values() if belongs(view, pool.name, pool.uid, listed)),
        quotas=_quotas(pool, ctx, books, everywhere),
        before=before,
        semantics=settings.semantics,
        ceiling=settings.max_claims,
        room=settings.max_status_bytes,
        share=settings.namespace_share,
    )


def is_stray(quota: Metadata, pool: str) -> bool:
    """Tell whether a ResourceQuota is the pool's, by name and label, and has lost its owner reference: it is adopted again."""
    return quota.name == quota_name(pool) and quota.controller is None and quota.label(Label.POOL) == pool


def _quotas(pool: ResourcePool, ctx: Context[Any], books: PoolBooks, namespaces: set[str]) -> dict[str, QuotaView]:
    """Return the ResourceQuotas that the pool controls, and those that it should, by namespace."""
    reader = complete(ctx, RESOURCE_QUOTA)
    book = books.quotas.setdefault(pool.name, Book())
    mine = reader.metadata_by_index("owner", pool.uid)
    name = quota_name(pool.name)
    others = (reader.metadata(namespace, name) for namespace in namespaces - {metadata.namespace for metadata in mine})
    strays = [metadata for metadata in others if metadata is not None and is_stray(metadata, pool.name)]
    found = book.read(reader, [*mine, *strays], lambda quota: (pool.generation, quota_view(quota, pool)))
    if any(generation != pool.generation for generation, _ in found.values()):
        books.forget(pool.name)  # whether a quota is intact is judged by the pool's scopes
        return _quotas(pool, ctx, books, namespaces)
    return {namespace: view for (namespace, _), (_, view) in found.items()}


def pools_seen(ctx: Context[Any], book: Book[PoolFacts]) -> dict[str, PoolFacts]:
    """Read what the claim controller knows of all pools, by name."""
    reader = complete(ctx, POOL)
    return {facts.name: facts for facts in book.read(reader, reader.all_metadata(), facts_of).values()}
