"""The claims whose ResourceQuota the API server rejected lately: they are not listed in the pool's status for another try each time.

Guarantees: pure, and a hint only: after a restart each claim is tried once more. A refusal is forgotten after `retry` seconds, and at once
if the claim, the pool's spec, or the owner of the ResourceQuota changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes
from konverge.reconcilers.quota.views import ClaimView

__all__ = ["RecalledQuotas", "RejectedQuota", "RejectedQuotas"]


class RejectedQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected ResourceQuota: the message, and generation and reason of each claim that caused it, by uid."""

    message: str
    claims: Mapping[str, tuple[int, str]]
    basis: tuple[object, ...]
    """The state that the API server rejected: generation of the pool, uid and owner of the present ResourceQuota."""
    since: float


class RecalledQuotas(NamedTuple):
    """The rejections of a pool by namespace: `held` still hold, `lapsed` are tried again."""

    held: Mapping[str, RejectedQuota]
    lapsed: Mapping[str, RejectedQuota]

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons of the rejections that hold, by uid of the claim."""
        return {uid: reason for rejection in self.held.values() for uid, (_, reason) in rejection.claims.items()}

    def messages(self, reserving: Container[str]) -> dict[str, str]:
        """Return the message of each namespace; of the lapsed rejections only those whose claims are listed first (`reserving`).

        A claim that is tried again is listed first, and does not make the pool Ready.
        """
        messages = {namespace: rejection.message for namespace, rejection in self.held.items()}
        return messages | {name: rejection.message for name, rejection in self.lapsed.items() if name in reserving}


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
    ) -> RecalledQuotas:
        """Return by namespace the refusals that still hold, each with its unchanged claims, and the refusals to try again."""
        before = self._by_pool.get(pool)
        if not before:
            return RecalledQuotas({}, {})
        generations = {claim.uid: claim.generation for claim in claims}
        held: dict[str, RejectedQuota] = {}
        lapsed: dict[str, RejectedQuota] = {}
        for namespace, refusal in before.items():
            same = {uid: known for uid, known in refusal.claims.items() if generations.get(uid) == known[0]}
            if not same:
                continue
            lasts = basis(namespace) == refusal.basis and now - refusal.since < self._retry
            (held if lasts else lapsed)[namespace] = replace(refusal, claims=same)
        return RecalledQuotas(held, lapsed)

    def add(
        self,
        pool: str,
        recalled: RecalledQuotas,
        outcomes: WriteOutcomes,
        claims: Iterable[ClaimView],
        basis: Callable[[str], tuple[object, ...]],
        now: float,
    ) -> None:
        """Remember the rejections that still hold, and the rejections among these outcomes."""
        if not outcomes.culprits:
            self.replace(pool, recalled.held)
            return
        generations = {claim.uid: claim.generation for claim in claims}
        new = {
            namespace: RejectedQuota(
                message=outcomes.refused[namespace],
                claims={
                    **(recalled.held[namespace].claims if namespace in recalled.held else {}),
                    **{uid: (generations[uid], reason) for uid, reason in culprits.items()},
                },
                basis=basis(namespace),
                since=now,
            )
            for namespace, culprits in outcomes.culprits.items()
            if culprits
        }
        self.replace(pool, {**recalled.held, **new})

    def replace(self, pool: str, refusals: Mapping[str, RejectedQuota]) -> None:
        """Remember these refusals of a pool, and no others."""
        if refusals:
            self._by_pool[pool] = dict(refusals)
        else:
            self.forget(pool)

    def forget(self, pool: str) -> None:
        """Drop the refusals of a deleted pool."""
        self._by_pool.pop(pool, None)
