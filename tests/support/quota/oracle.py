"""The oracle of quota's ledgers: what a running manager keeps, compared with a computation from scratch. Scenarios call it at each wait."""

from types import SimpleNamespace
from typing import Any, cast

from konverge.objects import Object
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.parse import claim_view
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.concurrency import finished
from konverge.reconcilers.quota.pools.ledger import PoolLedger
from konverge.reconcilers.quota.pools.reconciler import ResourcePoolReconciler
from konverge.reconcilers.quota.pools.render import render_steps
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.views import ClaimView
from konverge.runtime import Manager, Reader

__all__ = ["check_ledgers"]


def check_ledgers(manager: Manager) -> int:
    """Raise AssertionError if a view, an account, a sum or a rendered entry differs from scratch; returns the number of ledgers."""
    ledgers = 0
    for spec in manager.controllers:
        if isinstance(spec.reconciler, ResourcePoolReconciler):
            observer = spec.reconciler._observer
            _check_views(observer._claims, manager.cache(CLAIM))
            for name, memory in observer._memories.items():
                ledgers += _check_ledger(name, memory.ledger)
    return ledgers


def _check_views(views: ViewCache[ClaimView], claims: Reader[Object]) -> None:
    """Compare each view of a present version of a claim: a view must not change in place."""
    for path, view in views.views.items():
        stored = claims.find(*path)
        if stored is not None and (stored.metadata.uid, stored.metadata.resource_version) == (view.uid, view.version):
            assert view == claim_view(stored), f"the view of {path} changed in place"


def _check_ledger(pool: str, ledger: PoolLedger) -> bool:
    """Compare a ledger with a ledger that starts with its last observation, unless it is between two slices."""
    seen, fresh = ledger._seen, PoolLedger()
    if seen is None:
        return False
    finished(fresh.catch_up(seen))
    assert ledger.accounts == fresh.accounts, f"the accounts of {pool} differ"
    assert ledger.waiting.keys() == fresh.waiting.keys(), f"the accounts of {pool} with claims that wait differ"
    for name in ("held", "claimed", "listed", "bytes"):
        kept, computed = getattr(ledger, name), getattr(fresh, name)
        assert _without_zeros(kept) == _without_zeros(computed), f"{name} of {pool}: {kept} instead of {computed}"
    entries = SimpleNamespace(claims={namespace: listed for namespace, (listed, _) in ledger.rendered.items()})
    rendered = finished(render_steps(seen.pool, cast(PoolAllocation, entries), {}))
    for namespace, (_, kept) in ledger.rendered.items():
        assert kept == rendered[namespace], f"the rendered claims of {pool} in {namespace} differ"
    return True


def _without_zeros(value: Any) -> Any:
    return {name: amount for name, amount in value.items() if amount} if isinstance(value, dict) else value
