"""Reads about a Nextcloud: its own instance, the instance that it names, and the idle instances of the pools that it selects.

Guarantees: an instance is the Nextcloud's only if the status of the Nextcloud had it before: by its UID, or, if the operator creates the
instance, by the digest of a nonce. A claim that another writer put into an instance is not adopted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from konverge.crds.pools_v1alpha1 import BoundInstance, Nextcloud, NominatedInstance
from konverge.errors import ApiError, FieldConflict
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.allowance import allowed, allows
from konverge.reconcilers.pools.claims.indexes import IDLE, READY_IDLE, competitors
from konverge.reconcilers.pools.claims.pairing import WaitingClaim, matches, selector_key
from konverge.reconcilers.pools.claims.render import spec_before
from konverge.reconcilers.pools.kinds import INSTANCE, NAMESPACE, NEXTCLOUD, POOL, PROFILE
from konverge.reconcilers.pools.nonces import has_nonce
from konverge.reconcilers.pools.records import PoolMembership
from konverge.reconcilers.pools.tenant_fields import defaults_without_pool
from konverge.reconcilers.pools.words import PoolsLabel
from konverge.runtime import FieldsHeld

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "NamedInstance",
    "Shortage",
    "Stock",
    "bound_instance",
    "conflicts_of",
    "defaults_of_profile",
    "former_spec",
    "instance_to_release",
    "is_own",
    "named_instance",
    "policy_of_pool",
    "pool_of",
    "recorded_instance",
    "shortage_of",
    "stock_of",
]


# --- the own instance ----------------------------------------------------------------------------------------------------------


def is_own(instance: Object | None, nextcloud: Nextcloud, nominated: NominatedInstance) -> bool:
    """Whether an instance is the recorded instance of a Nextcloud, and has its claim."""
    if instance is None or instance.get("spec", "claimRef", "uid", default="") != nextcloud.uid:
        return False
    if nominated.uid:
        return instance.metadata.uid == nominated.uid
    return has_nonce(instance.metadata, nominated.nonce_digest)


def _is_bound(instance: Object | None, uid: str, ref: BoundInstance) -> bool:
    """Whether an instance has the claim of a Nextcloud, and is the very instance of its status."""
    if instance is None or instance.get("spec", "claimRef", "uid", default="") != uid:
        return False
    return ref.uid in (None, instance.metadata.uid)


async def bound_instance(
    nextcloud: Nextcloud, ref: BoundInstance, default_namespace: str, ctx: Context[Nextcloud]
) -> Object | None:
    """Return the instance that the status names, if it has the claim of the Nextcloud."""
    namespace = ref.namespace or default_namespace
    cached = ctx.cache(INSTANCE).find(namespace, ref.name)
    if _is_bound(cached, nextcloud.uid, ref):
        return cached
    stored = await ctx.live(INSTANCE).find(namespace, ref.name)
    return stored if _is_bound(stored, nextcloud.uid, ref) else None


async def recorded_instance(
    nextcloud: Nextcloud, nominated: NominatedInstance, ctx: Context[Nextcloud]
) -> Object | None:
    """Return the recorded instance if the API server has it with the claim: the cache may be behind the write that took it."""
    stored = await ctx.live(INSTANCE).find(nominated.namespace, nominated.name)
    return stored if is_own(stored, nextcloud, nominated) else None


async def instance_to_release(nextcloud: Nextcloud, default_namespace: str, ctx: Context[Nextcloud]) -> Object | None:
    """Return the instance in the status as the API server has it: the cache may lack the last write of a former leader."""
    stored = await ctx.live(Nextcloud).find(nextcloud.namespace, nextcloud.name)
    status = stored.status if stored is not None and stored.uid == nextcloud.uid else nextcloud.status
    ref, nominated = status.instance_ref, status.nominated_instance
    if ref is not None:
        instance = await ctx.live(INSTANCE).find(ref.namespace or default_namespace, ref.name)
        return instance if _is_bound(instance, nextcloud.uid, ref) else None
    return None if nominated is None else await recorded_instance(nextcloud, nominated, ctx)


def pool_of(nextcloud: Nextcloud) -> str | None:
    """Return the recorded pool of the instance; the record was written before the instance was taken."""
    nominated = nextcloud.status.nominated_instance
    return nextcloud.status.pool or (None if nominated is None else nominated.pool)


# --- the instances that the Nextcloud may take -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedInstance:
    """The instance that a Nextcloud names; `instance` is None if it does not exist."""

    namespace: str
    name: str
    instance: Object | None = None
    pool: str = ""
    allowed: bool = False
    """Whether Nextclouds of the namespace may take the instance."""

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stock:
    """The ready instances with the first label of one claim, and the other claims that wait for one of them.

    `membership` decides which of the instances are members of a pool; the others serve no namespace.
    """

    selector: str
    ready: Sequence[Metadata]
    line: Sequence[WaitingClaim]
    membership: PoolMembership


@dataclass(frozen=True, slots=True)
class Shortage:
    """The pools that cannot serve a claim now."""

    selector: str
    admitted: bool
    """Whether no pool has the labels, or a pool with the labels serves the namespace."""
    ready: int = 0
    idle: int = 0
    """How many instances the namespace may take once they are ready, with the ready instances."""


async def named_instance(nextcloud: Nextcloud, default_namespace: str, ctx: Context[Nextcloud]) -> NamedInstance:
    """Read the instance that the Nextcloud names, and whether the pool or the instance allows the namespace."""
    ref = nextcloud.spec.instance_ref
    assert ref is not None, "the mode is REFERENCE"
    namespace = ref.namespace or default_namespace
    instance = await ctx.live(INSTANCE).find(namespace, ref.name)
    if instance is None:
        return NamedInstance(namespace, ref.name)
    membership = _membership(default_namespace, ctx)
    pool = membership.pool_of(instance.metadata)
    within = membership.admits(pool, nextcloud.namespace) if pool else namespace == nextcloud.namespace
    rule = allowed(instance.get("spec", "allowedNamespaces", default=None))
    admitted = within or allows(rule, nextcloud.namespace, membership.labels_of(nextcloud.namespace))
    return NamedInstance(namespace, ref.name, instance, pool, admitted)


def stock_of(nextcloud: Nextcloud, default_namespace: str, ctx: Context[Nextcloud]) -> Stock:
    """Return the ready instances with the first label of the claim, and the line of claims for them."""
    selector = nextcloud.spec.pool_selector
    assert selector is not None, "the mode is POOL"
    key, instances = selector_key(selector.match_labels), ctx.cache(INSTANCE)
    membership = _membership(default_namespace, ctx)
    ready = instances.metadata_by_index(READY_IDLE, key.split(",")[0])
    line = competitors(ready, ctx.cache(NEXTCLOUD), instances, exclude=nextcloud.uid)
    return Stock(key, ready, line, membership)


def shortage_of(nextcloud: Nextcloud, stock: Stock, ctx: Context[Nextcloud]) -> Shortage:
    """Return why the stock has no instance for the claim."""
    key, membership, namespace = stock.selector, stock.membership, nextcloud.namespace
    pairs = key.split(",")
    pools = membership.pools_with(pairs)
    if pools and not any(membership.admits(pool, namespace) for pool in pools):
        return Shortage(key, admitted=False)
    idle = ctx.cache(INSTANCE).metadata_by_index(IDLE, pairs[0])
    ready_number, idle_number = (
        sum([matches(key, instance) and membership.serves(instance, namespace) for instance in instances])
        for instances in (stock.ready, idle)
    )
    return Shortage(key, admitted=True, ready=ready_number, idle=idle_number)


def _membership(default_namespace: str, ctx: Context[Nextcloud]) -> PoolMembership:
    return PoolMembership(ctx.cache(POOL), ctx.cache(NAMESPACE), default_namespace)


# --- pools and profiles ----------------------------------------------------------------------------------------------------------


def defaults_of_profile(nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> dict[str, Any] | None:
    """Return the defaults of the profile that the Nextcloud names, {} if it names none, None if the profile does not exist."""
    name = nextcloud.spec.profile
    if name is None:
        return {}
    profile = ctx.cache(PROFILE).find("", name)
    if profile is None or profile.metadata.deleting:
        return None
    return defaults_without_pool(profile.get("spec", "defaults", default={}) or {})


def policy_of_pool(name: str, ctx: Context[Nextcloud]) -> str:
    """Return the reclaim policy of a pool, "" without a pool: its instance has the policy since its creation."""
    pool = ctx.cache(POOL).find("", name) if name else None
    return "" if pool is None else str(pool.get("spec", "lifecycle", "reclaimPolicy", default="Delete"))


def former_spec(nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> dict[str, Any]:
    """Return the spec that a taken instance had before, reconstructed from the present pool and profile."""
    pool = ctx.cache(POOL).find("", pool_of(nextcloud) or instance.metadata.label(PoolsLabel.POOL))
    name = "" if pool is None else str(pool.get("spec", "profileRef", "name", default="") or "")
    profile = ctx.cache(PROFILE).find("", name) if name else None
    return spec_before(nextcloud, instance, pool, profile)


async def conflicts_of(intent: Object, ctx: Context[Nextcloud]) -> tuple[FieldConflict, ...]:
    """Return the owners of the fields that differ from an intent, from a dry run without force."""
    try:
        await ctx.apply(intent, dry_run=True)
    except FieldsHeld as held:
        return held.held.conflicts
    except ApiError:
        return ()
    return ()
