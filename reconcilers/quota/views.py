"""Pools, claims and ResourceQuotas as frozen views, which are independent of how they were read.

Guarantees: nothing here reads a cache or decides anything. A view holds only what the rules use, so it can be cached for as long as the
object's resourceVersion stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from konverge.conditions import Condition
from konverge.objects import Metadata
from konverge.quantities import Format, Quantity
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.words import QuotaCondition, QuotaReason, Semantics

__all__ = [
    "NOWHERE",
    "AllocatedClaim",
    "ClaimPlace",
    "ClaimView",
    "Offer",
    "PoolRecord",
    "PoolView",
    "QuotaView",
    "claim_hash",
    "claim_hashes",
]

_MARK = 12
_MARKS = 15_000
"""Characters of a hash, and how many hashes stay below the 256 KiB that all annotations of an object may take."""


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """The spec of a ResourcePool. `defaults` are the spec's; `zero` is defaultsZero."""

    name: str
    uid: str = ""
    hard: Mapping[str, Quantity]
    defaults: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    zero: bool = False
    ordered: bool = False

    def default(self, resource: str) -> int | None:
        """Return a namespace's amount of a resource without a claim; None if the resource is unlimited without a claim."""
        given = self.defaults.get(resource)
        if given is not None:
            return given.billionths
        return 0 if self.zero and resource in self.hard else None


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that serves the namespace of a claim, read from its status. `waiting`: with orderedQueue, the requests of older claims."""

    name: str
    uid: str = ""
    hard: Mapping[str, Quantity]
    available: Mapping[str, int]
    waiting: Mapping[str, int] = msgspec.field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str]:
        """Name and uid of the pool."""
        return (self.name, self.uid)


class ClaimPlace(msgspec.Struct, frozen=True):
    """The place of a claim: the pool that it belongs to, or, while it names none, the queue of a pool. Each is name and uid.

    With both, the claim is offered to a pool that has room, and keeps its place in the queue of another pool until it is allocated.
    """

    pool: tuple[str, str] = ("", "")
    """status.pool."""
    queue: tuple[str, str] = ("", "")
    """status.queue."""

    @property
    def name(self) -> str:
        """The name of the pool that is responsible for the claim, "" if none is."""
        return self.pool[0] or self.queue[0]


NOWHERE: Final = ClaimPlace()


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourcePoolClaim. `problem` is why its amounts can never be allocated, "" if they can."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    created: str = ""
    generation: int = 1
    pool: str = ""
    """spec.pool."""
    amounts: Mapping[str, int] = msgspec.field(default_factory=dict)
    formats: Mapping[str, Format] = msgspec.field(default_factory=dict)
    """The formats of the amounts as written."""
    problem: str = ""
    release: bool = False
    """Whether the release annotation is set."""
    deleting: bool = False
    assigned: tuple[str, str] = ("", "")
    """status.pool: name and uid."""
    queue: tuple[str, str] = ("", "")
    """status.queue: name and uid."""
    condition: Condition | None = None
    """The single condition of the claim, whichever form its status has."""
    conditions: tuple[Condition, ...] = ()
    """The stored conditions of the form v0.14."""
    semantics: str = Semantics.V012
    """The form of the stored status."""
    has_stale_conditions: bool = False
    """Whether a newer Capsule left conditions beside the single condition of the form v0.12."""
    in_use: bool = False
    """Whether the status reports, in the form v0.14, that pods use the claim."""

    @property
    def metadata(self) -> Metadata:
        """The metadata that identifies this version of the claim, for guarded writes and Events."""
        return Metadata(name=self.name, namespace=self.namespace, uid=self.uid, resource_version=self.version)

    @property
    def place(self) -> ClaimPlace:
        """The place in the claim's own status."""
        return ClaimPlace(self.assigned, self.queue)

    def is_offered_elsewhere(self, pool: PoolView) -> bool:
        """Whether the claim waits in the queue of this pool while it is offered to another pool that has room."""
        this = (pool.name, pool.uid)
        return not self.pool and self.queue == this and bool(self.assigned[0]) and self.assigned != this

    def is_bound_to(self, pool: str, uid: str) -> bool:
        """Whether the claim's own status reports that it is allocated in the pool of this name and uid."""
        condition = self.condition
        return (
            condition is not None
            and condition.type == QuotaCondition.BOUND
            and condition.is_true
            and self.assigned == (pool, uid)
        )

    @property
    def needs_new_pool(self) -> bool:
        """Whether a waiting claim that names no pool was edited after its assignment, for example to remove its pool."""
        condition = self.condition
        if (
            self.pool
            or not self.assigned[0]
            or condition is None
            or (condition.type == QuotaCondition.BOUND and condition.is_true)
        ):
            return False
        return condition.observed_generation != self.generation

    @property
    def released(self) -> bool:
        """Whether the claim's status reports that it was released by its annotation."""
        return self.condition is not None and self.condition.reason == QuotaReason.RELEASED

    def stays_released(self) -> bool:
        """Whether the claim was released by its annotation and has not been edited since."""
        condition = self.condition
        return condition is not None and self.released and condition.observed_generation == self.generation


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceQuota of a pool in one namespace. `intact`: its label, owner and scopes are as we apply them."""

    hard: Mapping[str, int] = msgspec.field(default_factory=dict)
    status_hard: Mapping[str, int] = msgspec.field(default_factory=dict)
    """status.hard: the limit that admission enforces."""
    used: Mapping[str, int] = msgspec.field(default_factory=dict)
    intact: bool = True
    claims: frozenset[str] = frozenset()
    """Hashes of the claims that it grants, and of some that it granted before."""
    defaults: Mapping[str, int] | None = None
    """The defaults contained in its hard; None if it has no such annotation (Capsule's), then the pool's defaults are assumed."""
    releasing: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The amounts in release according to its annotation: the witness of the record in the pool's status."""
    version: str = ""
    """Its resourceVersion."""

    def is_like(self, other: QuotaView) -> bool:
        """Whether two versions differ in use and status only."""
        return replace(self, version="", used={}, status_hard={}) == replace(other, version="", used={}, status_hard={})


@lru_cache(maxsize=16384)
def claim_hash(claim: str) -> str:
    """Return the hash of a claim's name for the annotation of its ResourceQuota: short, so that thousands fit.

    >>> claim_hash("database")
    '3549b0028b75'
    """
    return sha256(claim.encode()).hexdigest()[:_MARK]


def claim_hashes(entries: Iterable[AllocatedClaim]) -> frozenset[str]:
    """Return the hashes of allocated claims, as many as an object has room for."""
    return frozenset(sorted(claim_hash(entry.name) for entry in entries)[:_MARKS])


class AllocatedClaim(msgspec.Struct, frozen=True):
    """An allocated claim in the status of its pool."""

    name: str
    uid: str
    amounts: Mapping[str, int]


class PoolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record in the stored status of a pool: allocated claims, and by namespace the released amounts that may still be in use.

    A record only holds amounts. The ResourceQuota grants them, or a claim whose own status shows the allocation.

    `lost`: the status was never written, or was wiped; then the ResourceQuotas name the allocated claims.
    """

    claims: Mapping[str, tuple[AllocatedClaim, ...]] = msgspec.field(default_factory=dict)
    releasing: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    lost: bool = False
