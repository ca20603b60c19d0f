"""Which instance a Nextcloud shall have, or the reason why it has none. Pure.

The modes in their order: the instance that it names, an idle instance of a pool, a new instance with the defaults of a profile, a new bare
instance. No mode falls back to another mode: a named object that is missing blocks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudSpec, NominatedInstance
from konverge.reconcilers.pools.claims.observe import NamedInstance, Shortage, Stock, is_own
from konverge.reconcilers.pools.claims.pairing import WaitingClaim, candidates
from konverge.reconcilers.pools.members import is_taken
from konverge.reconcilers.pools.words import InstanceReason, PoolsCondition

__all__ = [
    "BlockedClaim",
    "Choice",
    "ClaimMode",
    "assignment_reason",
    "blocked_by_shortage",
    "choose_from_stock",
    "choose_named",
    "creation_not_allowed",
    "is_created",
    "mode_of",
    "profile_not_found",
]


class ClaimMode(enum.Enum):
    """How a Nextcloud gets its instance."""

    REFERENCE = "reference"
    POOL = "pool"
    PROFILE = "profile"
    VANILLA = "vanilla"


_REASONS: Final = {
    ClaimMode.REFERENCE: InstanceReason.BOUND,
    ClaimMode.POOL: InstanceReason.ASSIGNED,
    ClaimMode.PROFILE: InstanceReason.CREATED,
    ClaimMode.VANILLA: InstanceReason.CREATED,
}


@dataclass(frozen=True, slots=True)
class BlockedClaim:
    """Why a Nextcloud has no instance yet: reason and message of InstanceAssigned=False."""

    reason: str
    message: str


Choice: TypeAlias = NominatedInstance | BlockedClaim
"""The instance to record before it is taken or created, or why there is none."""


def mode_of(spec: NextcloudSpec) -> ClaimMode:
    """Return the mode; an empty selector counts as none.

    >>> mode_of(NextcloudSpec(profile="small")), mode_of(NextcloudSpec())
    (<ClaimMode.PROFILE: 'profile'>, <ClaimMode.VANILLA: 'vanilla'>)
    """
    if spec.instance_ref is not None:
        return ClaimMode.REFERENCE
    if spec.pool_selector is not None and spec.pool_selector.match_labels:
        return ClaimMode.POOL
    return ClaimMode.VANILLA if spec.profile is None else ClaimMode.PROFILE


def assignment_reason(nextcloud: Nextcloud) -> str:
    """Return the reason of InstanceAssigned=True: how the Nextcloud got its instance, whatever its present spec is."""
    assigned = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
    return assigned.reason if assigned is not None and assigned.is_true else _REASONS[mode_of(nextcloud.spec)]


def is_created(nextcloud: Nextcloud) -> bool:
    """Whether the instance was created for the Nextcloud."""
    return assignment_reason(nextcloud) == InstanceReason.CREATED


def choose_named(nextcloud: Nextcloud, named: NamedInstance, nominated: NominatedInstance | None) -> Choice:
    """Return the instance that the Nextcloud names, or why the Nextcloud cannot have it.

    The message does not identify the tenant that has the instance.
    """
    instance = named.instance
    if instance is None or not named.allowed:
        return _unusable(named.path, nextcloud.namespace)
    choice = NominatedInstance(
        name=named.name, namespace=named.namespace, uid=instance.metadata.uid, pool=named.pool or None
    )
    if nominated is not None and is_own(instance, nextcloud, nominated):
        return choice
    if is_taken(instance):
        message = f"NextcloudInstance {named.path} belongs to another Nextcloud; name another instance"
        return BlockedClaim(InstanceReason.INSTANCE_TAKEN, message)
    return _unusable(named.path, nextcloud.namespace) if instance.metadata.deleting else choice


def choose_from_stock(
    nextcloud: Nextcloud, stock: Stock, nominated: NominatedInstance | None, *, exclude: str = ""
) -> NominatedInstance | None:
    """Return the next instance of a pool for the claim, except the UID `exclude`; the recorded instance if it is free."""
    claim = WaitingClaim.of(nextcloud.metadata, stock.selector)
    recorded = (nominated.uid if nominated is not None else None) or ""
    free = candidates(claim, stock.line, stock.ready, stock.membership.serves, first=recorded)
    chosen = next((instance for instance in free if instance.uid != exclude), None)
    if chosen is None:
        return None
    pool = stock.membership.pool_of(chosen)
    return NominatedInstance(name=chosen.name, namespace=chosen.namespace, uid=chosen.uid, pool=pool)


def blocked_by_shortage(shortage: Shortage, namespace: str) -> BlockedClaim:
    """Return why no pool serves the claim; how many other Nextclouds wait is not the tenant's business.

    >>> blocked_by_shortage(Shortage("tier=small", admitted=True, ready=0, idle=2), "acme").message
    'no idle instance is left with the labels tier=small: 0 are ready, 2 are being made; older Nextclouds come first'
    """
    selector, ready, idle = shortage.selector, shortage.ready, shortage.idle
    if not shortage.admitted:
        return BlockedClaim(
            InstanceReason.POOL_NOT_ALLOWED,
            f"no NextcloudPool with the labels {selector} serves the namespace {namespace}; "
            "an administrator adds it to spec.allowedNamespaces of the pool",
        )
    return BlockedClaim(
        InstanceReason.POOL_EXHAUSTED,
        f"no idle instance is left with the labels {selector}: {ready} are ready, {idle - ready} are being made; "
        "older Nextclouds come first",
    )


def profile_not_found(name: str | None) -> BlockedClaim:
    """Return that the profile of the Nextcloud does not exist."""
    message = f"there is no NextcloudProfile {name}; create it, or name another one"
    return BlockedClaim(InstanceReason.PROFILE_NOT_FOUND, message)


def _unusable(path: str, namespace: str) -> BlockedClaim:
    """Return that the namespace has no instance of this name: the same for an absent instance and for an instance that it may not use."""
    return BlockedClaim(
        InstanceReason.INSTANCE_NOT_FOUND,
        f"there is no NextcloudInstance {path} that Nextclouds of the namespace {namespace} may take; create it, "
        "or have its owner add the namespace to its spec.allowedNamespaces",
    )


def creation_not_allowed(namespace: str) -> BlockedClaim:
    """Return that the namespace may have no instance without a pool."""
    return BlockedClaim(
        InstanceReason.CREATION_NOT_ALLOWED,
        f"Nextclouds of the namespace {namespace} get instances only from a pool: set poolSelector, "
        "or have an administrator add the namespace to the setting pools.namespaces_without_pool",
    )
