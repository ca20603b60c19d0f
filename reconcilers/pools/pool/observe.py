"""Reads about a pool: its record, its profile, and its members, from the cache or from the API server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import from_rfc3339
from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.objects import Metadata
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, PROFILE
from konverge.reconcilers.pools.members import Member, MemberViews
from konverge.reconcilers.pools.pool.decide import PoolState
from konverge.reconcilers.pools.pool.indexes import BY_POOL
from konverge.reconcilers.pools.pool.memory import PoolMemory
from konverge.reconcilers.pools.pool.record import Census, MemberRecord, take_census
from konverge.reconcilers.pools.profiles import profile_digest
from konverge.reconcilers.pools.records import BY_UID, SERVED, is_confirmed
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

if TYPE_CHECKING:
    from konverge.objects import Object
    from konverge.runtime import Context, Reader

__all__ = [
    "ObservedNextcloudPool",
    "PoolProfile",
    "adoption_request",
    "observe_cached",
    "observe_listed",
    "stored_pool",
]

_MAX_REQUEST: Final = 256
"""The longest value of the annotation adopt-members that is compared."""


@dataclass(frozen=True, slots=True)
class PoolProfile:
    """The profile of a pool; `digest` is "" without a profile, None if the profile does not exist."""

    name: str
    defaults: dict[str, Any]
    digest: str | None


@dataclass(frozen=True, slots=True)
class ObservedNextcloudPool:
    """A pool with its members."""

    pool: NextcloudPool
    record: MemberRecord
    profile: PoolProfile
    census: Census
    assigned: int
    """How many Nextclouds have an instance of the pool."""
    refusal: str = ""
    """Why no instance may be in the namespace of the pool, "" if instances may be."""

    def creations(self, until: datetime) -> dict[str, datetime]:
        """Return the creations in the status, except later creations: another writer added these, and they would stop the pool."""
        return {name: moment for name, moment in _recorded(self.pool).items() if moment <= until}

    def state(self, memory: PoolMemory) -> PoolState:
        """Return the input of `decide_pool`."""
        status, lifecycle = self.pool.status, self.pool.spec.lifecycle
        return PoolState(
            replicas=self.pool.spec.replicas,
            members=self.census.members,
            assigned=self.assigned,
            digest=self.profile.digest,
            observed_digest=None if status.observed_profile is None else status.observed_profile.digest,
            recreate=lifecycle.recreate_on_profile_change,
            max_age=lifecycle.max_unassigned_age,
            recent=tuple(memory.created.items()),
            recorded=frozenset(_recorded(self.pool)),
            replace_after=memory.replace_after,
            refusal=self.refusal,
        )


async def stored_pool(pool: NextcloudPool, ctx: Context[NextcloudPool]) -> NextcloudPool:
    """Return the pool as the API server has it: the cache may lack the last record of a former leader."""
    stored = await ctx.live(NextcloudPool).find("", pool.name)
    return stored if stored is not None and stored.uid == pool.uid else pool


def observe_cached(
    pool: NextcloudPool, settings: PoolSettings, views: MemberViews, ctx: Context[NextcloudPool]
) -> ObservedNextcloudPool:
    """Return the pool with the members that the cache shows."""
    record, instances = _record(pool, settings), ctx.cache(INSTANCE)
    views.settle(pool.name, record.namespace)
    candidates = views.of_cached(_candidates(record, instances), instances.find, ctx.now())
    census = take_census(replace(record, adopts=False), candidates, partial(_is_served, ctx=ctx), complete=False)
    return ObservedNextcloudPool(
        pool,
        record,
        _profile(pool, ctx),
        census,
        assigned=_assigned(pool, ctx),
        refusal=settings.instance_namespaces.refusal(record.namespace),
    )


async def observe_listed(
    observed: ObservedNextcloudPool, views: MemberViews, ctx: Context[NextcloudPool]
) -> ObservedNextcloudPool:
    """Return the pool with its members from the API server, including members without the label or in a former namespace."""
    record = observed.record
    listed = list(await ctx.live(INSTANCE).list(record.namespace, labels=f"{PoolsLabel.POOL}={record.pool}"))
    seen = {(instance.data.get("metadata") or {}).get("uid", "") for instance in listed}
    for uid in [uid for uid in record.uids if uid not in seen]:
        for cached in ctx.cache(INSTANCE).metadata_by_index(BY_UID, uid):
            stored = await ctx.live(INSTANCE).find(cached.namespace, cached.name)
            if stored is not None and stored.metadata.uid == uid:
                listed.append(stored)
    census = take_census(record, views.of_listed(listed, ctx.now()), partial(_is_served, ctx=ctx), complete=True)
    return replace(observed, census=census, assigned=_assigned(observed.pool, ctx))


def adoption_request(pool: NextcloudPool) -> str:
    """Return the value of the annotation that requests an adoption, "" without a request."""
    return pool.metadata.annotation(PoolsAnnotation.ADOPT_MEMBERS)[:_MAX_REQUEST]


def _candidates(record: MemberRecord, instances: Reader[Object]) -> list[Metadata]:
    """Return the cached instances that the record names, in its order, then the other instances with the label of the pool."""
    labelled = {
        metadata.uid: metadata for metadata in instances.metadata_by_index(BY_POOL, f"{record.namespace}/{record.pool}")
    }
    named = {uid: labelled.get(uid) for uid in record.uids}
    absent = [uid for uid, metadata in named.items() if metadata is None]
    for uid in absent:  # without the label, or in a former namespace
        named[uid] = next(iter(instances.metadata_by_index(BY_UID, uid)), None)
    return [metadata for metadata in (named | labelled).values() if metadata is not None]


def _record(pool: NextcloudPool, settings: PoolSettings) -> MemberRecord:
    return MemberRecord(
        pool=pool.name,
        namespace=pool.spec.instance_namespace or settings.instance_namespace,
        uids=pool.status.members or (),
        digests={creation.name: creation.nonce_digest or "" for creation in pool.status.recent_creations or ()},
        adopts=adoption_request(pool) not in ("", pool.status.adopted),
    )


def _assigned(pool: NextcloudPool, ctx: Context[NextcloudPool]) -> int:
    return len(ctx.cache(NEXTCLOUD).metadata_by_index(SERVED, pool.name))


def _recorded(pool: NextcloudPool) -> Mapping[str, datetime]:
    """Return the creations in the status."""
    moments: dict[str, datetime] = {}
    for creation in pool.status.recent_creations or ():
        with suppress(ValueError):
            moments[creation.name] = from_rfc3339(creation.created_at)
    return moments


def _is_served(member: Member, ctx: Context[NextcloudPool]) -> bool:
    """Whether the Nextcloud of the claim of an instance has it in its status, or has released it."""
    released = member.metadata.annotation(PoolsAnnotation.RELEASED) == member.claim
    return released or is_confirmed(member.metadata, member.claim, ctx.cache(NEXTCLOUD))


def _profile(pool: NextcloudPool, ctx: Context[NextcloudPool]) -> PoolProfile:
    if pool.spec.profile_ref is None:
        return PoolProfile("", {}, "")
    name = pool.spec.profile_ref.name
    stored = ctx.cache(PROFILE).find("", name)
    if stored is None or stored.metadata.deleting:
        return PoolProfile(name, {}, None)
    defaults = stored.get("spec", "defaults", default={}) or {}
    return PoolProfile(name, defaults, profile_digest(name, defaults))
