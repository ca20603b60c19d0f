"""Reads the observation of a pool from the caches, and keeps what did not change since the last reconcile.

Guarantees: reads caches only, and decides nothing. If a cache is not synced the reconcile ends before it writes, so an object that is
missing from an incomplete cache never counts as deleted (X04). An observation shows the caches at one moment: `warm` decodes in slices
before it, and `observe` reads the rest in one turn.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota.claims.queue import in_queue_order
from konverge.reconcilers.quota.kinds import CLAIM, NAMESPACE, RESOURCE_QUOTA
from konverge.reconcilers.quota.namespace_selectors import selects
from konverge.reconcilers.quota.parse import RecordMemo, claim_view, pool_view, quota_view, record_in
from konverge.reconcilers.quota.pools.ledger import SLICE, PoolLedger
from konverge.reconcilers.quota.pools.observe import (
    ClaimsByNamespace,
    PoolObservation,
    PoolRemains,
    belongs,
    has_lost_its_owner,
)
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.view_cache import Seen, ViewCache, complete
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, PoolView, QuotaView
from konverge.reconcilers.quota.words import QuotaLabel, quota_name

if TYPE_CHECKING:
    from konverge.crds.quota_v1beta2 import LabelSelector
    from konverge.runtime import Context, Reader

__all__ = ["QuotaMemory", "PoolObserver"]


class QuotaMemory:
    """The memory of the controller about one pool between reconciles. A successor of the same name begins with an empty memory."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.ledger = PoolLedger()
        self.record = RecordMemo()
        self.view: PoolView | None = None
        self.claims: dict[str, tuple[ClaimView, ...]] = {}
        self.pages: dict[str, dict[str, ClaimView]] = {}
        """The page of each namespace that `claims` was read from."""
        self.entries: Mapping[str, tuple[AllocatedClaim, ...]] = {}
        """The list that `claims` was read with."""
        self.selectors: tuple[LabelSelector, ...] = ()
        self.namespaces = Seen()
        self.selected: frozenset[str] = frozenset()
        self.terminating: frozenset[str] = frozenset()
        self.generation = 0
        self.named: dict[str, Metadata] = {}
        """The ResourceQuotas of the pool's name by namespace, with any owner."""
        self.quotas: dict[str, QuotaView] = {}
        """The ResourceQuotas that the pool controls, by namespace."""


class PoolObserver:
    """Observes pools; the views of claims and ResourceQuotas are shared by all pools."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._claims: ViewCache[ClaimView] = ViewCache()
        self._quotas = Seen()
        self._quotas_by_name: dict[str, dict[str, Metadata]] = {}
        self._memories: dict[str, QuotaMemory] = {}

    def memory(self, pool: ResourcePool) -> QuotaMemory:
        """Return what is kept of a pool."""
        memory = self._memories.get(pool.name)
        if memory is None or memory.uid != pool.uid:
            memory = self._memories[pool.name] = QuotaMemory(pool.uid)
        return memory

    def forget(self, pool: str) -> None:
        """Drop what is kept of a deleted pool."""
        self._memories.pop(pool, None)

    def warm(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Generator[None, None, None]:
        """Decode the claims and ResourceQuotas that changed, and the list of the pool, in slices."""
        self.memory(pool).record.read(pool.status.claims.raw)
        yield
        yield from self._claims.refresh(complete(ctx, CLAIM), claim_view)
        yield
        yield from self._refresh_quotas(self.memory(pool), pool, complete(ctx, RESOURCE_QUOTA))

    def observe(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> PoolObservation:
        """Read the caches for a reconcile of one pool."""
        memory, settings = self.memory(pool), self._settings
        view = pool_view(pool)
        memory.view = view = memory.view if memory.view == view else view
        self._read_namespaces(memory, pool, complete(ctx, NAMESPACE))
        recorded = record_in(pool.status, memory.record)
        self._claims.read(complete(ctx, CLAIM), claim_view)
        self._read_claims(memory, pool, recorded.claims)
        quotas, foreign = self._read_quotas(memory, pool, complete(ctx, RESOURCE_QUOTA))
        return PoolObservation(
            pool=view,
            selected=memory.selected,
            terminating=memory.terminating,
            claims=ClaimsByNamespace(dict(memory.claims)),
            quotas=quotas,
            foreign=foreign,
            recorded=recorded,
            semantics=settings.semantics,
            max_claims=settings.max_claims,
            max_status_bytes=settings.max_status_bytes,
            namespace_share=settings.namespace_share,
        )

    def remains(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> PoolRemains:
        """Read the caches for the finalizer of a pool. Its ResourceQuotas include those that an orphaning deletion released from it."""
        claims: tuple[ClaimView, ...] = ()
        if pool.spec.config.delete_bound_resources:
            claims = tuple(self._claims.read(complete(ctx, CLAIM), claim_view).values())
        named = self._quotas_named(complete(ctx, RESOURCE_QUOTA), pool.name)
        return PoolRemains(
            claims,
            tuple(
                metadata
                for metadata in named.values()
                if metadata.label(QuotaLabel.POOL) == pool.name
                and (metadata.controller is None or metadata.controller.uid == pool.uid)
            ),
        )

    def _read_namespaces(self, memory: QuotaMemory, pool: ResourcePool, reader: Reader[Object]) -> None:
        if memory.selectors != pool.spec.selectors:
            memory.selectors, memory.namespaces = pool.spec.selectors, Seen()
            memory.selected = memory.terminating = frozenset()
        objects = reader.all_metadata()
        changed, deleted = memory.namespaces.differences(objects)
        memory.namespaces.matches(objects)
        if not changed and not deleted:
            return
        known = memory.namespaces.by_path
        for path in deleted:
            del known[path]
        known.update({(metadata.namespace, metadata.name): metadata for metadata in changed})
        former = {name for _, name in deleted} | {metadata.name for metadata in changed}
        live = [metadata for metadata in changed if not metadata.deleting]
        memory.terminating = (memory.terminating - former) | {
            metadata.name for metadata in changed if metadata.deleting
        }
        memory.selected = (memory.selected - former) | {
            metadata.name for metadata in live if selects(memory.selectors, metadata.labels or {})
        }

    def _read_claims(
        self, memory: QuotaMemory, pool: ResourcePool, listed: Mapping[str, tuple[AllocatedClaim, ...]]
    ) -> None:
        """Read the claims of the namespaces where a claim or the pool's list changed."""
        pages, known, entries = self._claims.pages, memory.pages, memory.entries
        changed = [
            namespace
            for namespace, page in pages.items()
            if known.get(namespace) is not page or entries.get(namespace) is not listed.get(namespace)
        ]
        for namespace in [*(known.keys() - pages.keys()), *changed]:
            page = known[namespace] = pages.get(namespace, {})
            if not page:
                del known[namespace]
            uids = {entry.uid for entry in listed.get(namespace, ())}
            mine = tuple(
                in_queue_order([claim for claim in page.values() if belongs(claim, pool.name, pool.uid, uids)])
            )
            if not mine:
                memory.claims.pop(namespace, None)
            elif memory.claims.get(namespace) != mine:
                memory.claims[namespace] = mine
        memory.entries = listed

    def _quotas_named(self, reader: Reader[Object], pool: str) -> dict[str, Metadata]:
        """Return the ResourceQuotas with the name of a pool's, by namespace."""
        objects = reader.all_metadata()
        changed, deleted = self._quotas.differences(objects)
        self._quotas.matches(objects)
        for namespace, name in deleted:
            del self._quotas.by_path[namespace, name]
            named = self._quotas_by_name[name]
            del named[namespace]
            if not named:
                del self._quotas_by_name[name]
        for metadata in changed:
            self._quotas.by_path[metadata.namespace, metadata.name] = metadata
            self._quotas_by_name.setdefault(metadata.name, {})[metadata.namespace] = metadata
        return self._quotas_by_name.get(quota_name(pool), {})

    def _refresh_quotas(
        self, memory: QuotaMemory, pool: ResourcePool, reader: Reader[Object]
    ) -> Generator[None, None, None]:
        """Decode the ResourceQuotas that the pool controls. A copy under another name has the owner reference too, and grants nothing."""
        if memory.generation != pool.generation:  # `intact` depends on the pool's scopes
            memory.generation, memory.named = pool.generation, {}
        while True:
            named, known = self._quotas_named(reader, pool.name), memory.named
            for namespace in known.keys() - named.keys():
                del known[namespace]
            changed = [namespace for namespace, metadata in named.items() if known.get(namespace) is not metadata]
            for namespace in changed[:SLICE]:
                metadata = known[namespace] = named[namespace]
                owner = metadata.controller
                owned = owner is not None and owner.uid == pool.uid
                stored = reader.find(namespace, metadata.name) if owned else None
                if stored is None:
                    memory.quotas.pop(namespace, None)
                else:
                    memory.quotas[namespace] = quota_view(stored, pool)
            if len(changed) <= SLICE:
                break
            yield
        for namespace in memory.quotas.keys() - named.keys():
            del memory.quotas[namespace]

    def _read_quotas(
        self, memory: QuotaMemory, pool: ResourcePool, reader: Reader[Object]
    ) -> tuple[dict[str, QuotaView], frozenset[str]]:
        """Return the pool's ResourceQuotas with those to adopt, and the namespaces that have a foreign one of this name."""
        for _ in self._refresh_quotas(memory, pool, reader):
            pass
        quotas, foreign = dict(memory.quotas), []
        for namespace in memory.named.keys() - quotas.keys():
            metadata = memory.named[namespace]
            lost = ("", namespace) in memory.namespaces.by_path and has_lost_its_owner(metadata, pool.name)
            stored = reader.find(namespace, metadata.name) if lost else None
            if stored is not None:
                quotas[namespace] = quota_view(stored, pool)
            elif namespace in memory.selected:
                foreign.append(namespace)
        return quotas, frozenset(foreign)
