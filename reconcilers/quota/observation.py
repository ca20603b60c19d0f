"""What a pass over a pool decides upon: frozen views, independent of how they were read.

Promises: nothing here reads a cache or decides anything. A view holds what the rules look at and no more, so that it can be kept from
pass to pass for as long as the object's version stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final

from konverge.conditions import Condition
from konverge.quantities import Format, Quantity
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.words import QuotaCondition, QuotaReason, Semantics

__all__ = [
    "NOWHERE",
    "AllocatedClaim",
    "ClaimPlace",
    "ClaimView",
    "PoolObservation",
    "PoolRecord",
    "PoolView",
    "QuotaView",
    "claim_hash",
    "claim_hashes",
]

_MARK = 12
_MARKS = 15_000
"""Characters of a mark, and how many of them stay below the 256 KiB that all annotations of an object may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """What a ResourcePool asks for. `defaults` are those of the spec; `zero` is defaultsZero."""

    name: str
    uid: str = ""
    hard: Mapping[str, Quantity]
    defaults: Mapping[str, Quantity] = field(default_factory=dict)
    zero: bool = False
    ordered: bool = False

    def default(self, resource: str) -> int | None:
        """Return what a namespace gets of a resource without any claim; None where there is no limit without one."""
        given = self.defaults.get(resource)
        if given is not None:
            return given.billionths
        return 0 if self.zero and resource in self.hard else None


@dataclass(frozen=True, slots=True)
class ClaimPlace:
    """Where a claim stands: with the pool that it belongs to, or, while it names none, in the queue of one. Each is name and uid.

    With both it is tried in a pool that has room for it, and keeps its place in the queue of another until it is allocated.
    """

    pool: tuple[str, str] = ("", "")
    """status.pool."""
    queue: tuple[str, str] = ("", "")
    """status.queue."""

    @property
    def name(self) -> str:
        """The name of the pool that looks after the claim, "" where none does."""
        return self.pool[0] or self.queue[0]


NOWHERE: Final = ClaimPlace()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A ResourcePoolClaim. `problem` says why its amounts can never be allocated, "" where they can."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    created: str = ""
    generation: int = 1
    pool: str = ""
    """spec.pool."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    """How the amounts are written."""
    problem: str = ""
    release: bool = False
    """Whether the release annotation asks to let it go."""
    deleting: bool = False
    assigned: tuple[str, str] = ("", "")
    """status.pool: name and uid."""
    queue: tuple[str, str] = ("", "")
    """status.queue: name and uid."""
    condition: Condition | None = None
    """How far the claim has come, of whatever form its status is."""
    conditions: tuple[Condition, ...] = ()
    """Those of the form v0.14, as they are stored."""
    semantics: str = Semantics.V012
    """The form in which the status is written."""
    has_stale_conditions: bool = False
    """Whether the status has conditions beside the one of the form v0.12: a newer Capsule left them."""
    in_use: bool = False
    """Whether its status says, in the form v0.14, that pods use it."""

    @property
    def place(self) -> ClaimPlace:
        """Where the claim's own status says that it stands."""
        return ClaimPlace(self.assigned, self.queue)

    def is_offered_elsewhere(self, pool: PoolView) -> bool:
        """Tell whether the claim stands in the queue of this pool while another one, which has room, is asked."""
        this = (pool.name, pool.uid)
        return not self.pool and self.queue == this and bool(self.assigned[0]) and self.assigned != this

    def is_bound_to(self, pool: str, uid: str) -> bool:
        """Tell whether the claim's own status says that it is allocated in the pool of this name and uid."""
        said = self.condition
        return said is not None and said.type == QuotaCondition.BOUND and said.is_true and self.assigned == (pool, uid)

    @property
    def needs_new_pool(self) -> bool:
        """Whether a waiting claim that names no pool was edited since it was given one: its pool was taken out, say."""
        said = self.condition
        if self.pool or not self.assigned[0] or said is None or (said.type == QuotaCondition.BOUND and said.is_true):
            return False
        return said.observed_generation != self.generation

    @property
    def released(self) -> bool:
        """Whether the claim says that it was let go by its annotation."""
        return self.condition is not None and self.condition.reason == QuotaReason.RELEASED

    def stays_released(self) -> bool:
        """Tell whether the claim was let go by its annotation, and has not been edited since."""
        said = self.condition
        return said is not None and self.released and said.observed_generation == self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
    """The ResourceQuota of a pool in one namespace. `intact`: labels, owner and scopes are as we make them."""

    hard: Mapping[str, int] = field(default_factory=dict)
    status_hard: Mapping[str, int] = field(default_factory=dict)
    """status.hard: what the resourcequota controller and admission go by."""
    used: Mapping[str, int] = field(default_factory=dict)
    intact: bool = True
    claims: frozenset[str] = frozenset()
    """Marks of the claims that it grants, and of some that it granted before."""
    defaults: Mapping[str, int] | None = None
    """The defaults that are part of its hard; None where it does not say (Capsule's), and those of the pool are taken for them."""


@lru_cache(maxsize=16384)
def claim_hash(claim: str) -> str:
    """Return the mark of a claim of this name on its ResourceQuota: short, so that thousands fit.

    >>> claim_hash("database")
    '3549b0028b75'
    """
    return sha256(claim.encode()).hexdigest()[:_MARK]


def claim_hashes(entries: Iterable[AllocatedClaim]) -> frozenset[str]:
    """Return the marks of allocated claims: of as many as an object has room for."""
    return frozenset(sorted(claim_hash(entry.name) for entry in entries)[:_MARKS])


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """An allocated claim, as the status of its pool lists it."""

    name: str
    uid: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecord:
    """What the stored status of a pool records: allocated claims, and what namespaces may still use of what they let go.

    `lost`: the status was never written, or was wiped; then the ResourceQuotas tell who was allocated.
    """

    claims: Mapping[str, tuple[AllocatedClaim, ...]] = field(default_factory=dict)
    releasing: Mapping[str, Amounts] = field(default_factory=dict)
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObservation:
    """Everything that an allocation is decided upon.

    `selected` are the namespaces that the pool selects and that live; `ending` all that are being deleted. `claims` are all that name
    this pool, or that were assigned to it. `refused` are claims, by uid, whose ResourceQuota the API server would not take, and why.
    """

    pool: PoolView
    selected: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()
    claims: tuple[ClaimView, ...] = ()
    quotas: Mapping[str, QuotaView] = field(default_factory=dict)
    recorded: PoolRecord = field(default_factory=PoolRecord)
    refused: Mapping[str, str] = field(default_factory=dict)
    semantics: str = Semantics.V012
    max_claims: int = 5000
    max_status_bytes: int = 1_300_000
    """Bytes that the listed claims may take in the status."""
    namespace_share: float = 1.0
    """The part of both that the claims of one namespace may take."""
