"""The claims whose ResourceQuota the API server rejected lately: they are not listed in the pool's status for another try each time.

Guarantees: pure, and a hint only: after a restart each claim is tried once more. A refusal is forgotten after `retry` seconds, and at once
if the claim, the pool's spec, or the owner of the ResourceQuota changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from konverge.reconcilers.quota.observation import ClaimView

__all__ = ["RejectedQuota", "RejectedQuotas"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedQuota:
    """A rejected ResourceQuota: the message, and generation and reason of each claim that caused it, by uid."""

    message: str
    claims: Mapping[str, tuple[int, str]]
    basis: tuple[object, ...]
    """The state that the API server rejected: generation of the pool, uid and owner of the present ResourceQuota."""
    since: float


class RejectedQuotas:
    """The refusals of each pool, by namespace."""

    def __init__(self, retry: float) -> None:
        self._retry = retry
        self._by_pool: dict[str, dict[str, RejectedQuota]] = {}

    def recall(
        self,
        pool: str,
        claims: Iterable[ClaimView],
        basis: Callable[[str], tuple[object, ...]],
        now: float,
    ) -> tuple[dict[str, RejectedQuota], dict[str, RejectedQuota]]:
        """Return by namespace the refusals that still hold, each with its unchanged claims, and the refusals to try again."""
        before = self._by_pool.get(pool)
        if not before:
            return {}, {}
        generations = {claim.uid: claim.generation for claim in claims}
        held: dict[str, RejectedQuota] = {}
        lapsed: dict[str, RejectedQuota] = {}
        for namespace, refusal in before.items():
            same = {uid: known for uid, known in refusal.claims.items() if generations.get(uid) == known[0]}
            if not same:
                continue
            lasts = basis(namespace) == refusal.basis and now - refusal.since < self._retry
            (held if lasts else lapsed)[namespace] = replace(refusal, claims=same)
        return held, lapsed

    def replace(self, pool: str, refusals: Mapping[str, RejectedQuota]) -> None:
        """Remember these refusals of a pool, and no others."""
        if refusals:
            self._by_pool[pool] = dict(refusals)
        else:
            self.forget(pool)

    def forget(self, pool: str) -> None:
        """Drop the refusals of a deleted pool."""
        self._by_pool.pop(pool, None)
