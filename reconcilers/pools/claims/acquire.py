"""The steps of a Nextcloud to its instance: choose an instance, record it in the status, then take or create it.

Guarantees
- An instance becomes the Nextcloud's only if the status of the Nextcloud had it before: by its UID, or, if the operator creates it, by the
  digest of a nonce. A claim that another writer put into an instance is not adopted.
- An instance is taken by one write that names the version that was read.
- Before that write the record is read live and has to be unchanged: the cache of a new leader may be behind the last write of the
  former leader.
- An instance of a pool is taken only from a pool that serves the namespace, and an instance of another namespace only if it allows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from konverge.crds.pools_v1alpha1 import Nextcloud, NominatedInstance
from konverge.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound, ObjectChanged, RetryAfter
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.allowance import allowed, allows, may_create
from konverge.reconcilers.pools.claims.decide import (
    ClaimMode,
    Hindrance,
    check_named,
    creation_not_allowed,
    exhausted,
    mode_of,
    not_allowed,
    unusable,
)
from konverge.reconcilers.pools.claims.indexes import IDLE, READY_IDLE, competitors
from konverge.reconcilers.pools.claims.render import lock_patch, spec_text, tenant_intent, tenant_spec
from konverge.reconcilers.pools.claims.turns import WaitingClaim, candidates, matches, selector_key
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, POOL, PROFILE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.names import name_for
from konverge.reconcilers.pools.nonces import digest_of, has_nonce, new_nonce
from konverge.reconcilers.pools.records import NAMESPACE, PoolMembership
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import FieldsRefused, check_tenant, defaults_without_pool, policy_of
from konverge.reconcilers.pools.words import InstanceReason, PoolsEvent
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Acquirer", "Acquisition", "Created", "is_own"]

_TRIES: Final = 4
"""The most names that are tried for a new instance."""
_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)


@dataclass(frozen=True, slots=True)
class Created:
    """An instance that this reconcile created, with everything that the tenant set."""

    instance: Object


Acquisition: TypeAlias = Object | Created | NominatedInstance | Hindrance
"""The instance that the Nextcloud has now, the instance to record before it is taken, or why there is none."""


def is_own(instance: Object | None, nextcloud: Nextcloud, nominated: NominatedInstance) -> bool:
    """Whether an instance is the recorded instance of a Nextcloud, and has its claim."""
    if instance is None or instance.get("spec", "claimRef", "uid", default="") != nextcloud.uid:
        return False
    if nominated.uid:
        return instance.metadata.uid == nominated.uid
    return has_nonce(instance.metadata, nominated.nonce_digest)


class Acquirer:
    """Gets instances for Nextclouds that have none."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._random = random
        self._nonces: dict[str, str] = {}

    def forget(self, uid: str) -> None:
        """Drop the nonce of a Nextcloud."""
        self._nonces.pop(uid, None)

    async def next_step(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Acquisition:
        """Take the recorded instance, or return the instance to record."""
        nominated = nextcloud.status.nominated_instance
        if nominated is not None:
            cached = ctx.cache(INSTANCE).find(nominated.namespace, nominated.name)
            if cached is not None and is_own(cached, nextcloud, nominated):
                return cached
        try:
            return await self._acquire(nextcloud, nominated, ctx)
        except _REFUSALS as error:
            return Hindrance(InstanceReason.INVALID, f"the API server refuses the instance: {error.message}")
        except FieldsRefused as problem:
            return Hindrance(InstanceReason.FIELDS_REFUSED, str(problem))

    async def _acquire(
        self, nextcloud: Nextcloud, nominated: NominatedInstance | None, ctx: Context[Nextcloud]
    ) -> Acquisition:
        spec = nextcloud.spec
        defaults: dict[str, Any] = {}
        if spec.profile is not None:
            profile = ctx.cache(PROFILE).find("", spec.profile)
            if profile is None or profile.metadata.deleting:
                message = f"there is no NextcloudProfile {spec.profile}; create it, or name another one"
                return await self._unless_own(
                    Hindrance(InstanceReason.PROFILE_NOT_FOUND, message), nextcloud, nominated, ctx
                )
            defaults = defaults_without_pool(profile.get("spec", "defaults", default={}) or {})
        mode = mode_of(spec)
        choice: NominatedInstance | Hindrance
        match mode:
            case ClaimMode.REFERENCE:
                choice = await self._named(nextcloud, nominated, ctx)
            case ClaimMode.POOL:
                choice = self._of_pool(nextcloud, nominated, ctx)
            case _:
                choice = self._new(nextcloud, nominated, ctx)
        if choice != nominated or nominated is None:
            return await self._unless_own(choice, nextcloud, nominated, ctx)
        await self._confirm_record(nextcloud, nominated, ctx)
        if nominated.uid is None:
            return await self._create(nextcloud, nominated, mode, defaults, ctx)
        return await self._take(nextcloud, nominated, mode, ctx)

    # --- the choice ----------------------------------------------------------------------------------------------------------

    async def _named(
        self, nextcloud: Nextcloud, nominated: NominatedInstance | None, ctx: Context[Nextcloud]
    ) -> NominatedInstance | Hindrance:
        """Return the instance that the Nextcloud names, if its namespace may take it."""
        ref = nextcloud.spec.instance_ref
        assert ref is not None
        namespace = ref.namespace or self._settings.instance_namespace
        path = f"{namespace}/{ref.name}"
        instance = await ctx.live(INSTANCE).find(namespace, ref.name)
        if instance is None:
            return unusable(path, nextcloud.namespace)
        membership = self._membership(ctx)
        pool = membership.pool_of(instance.metadata)
        rule = allowed(instance.get("spec", "allowedNamespaces", default=None))
        within = membership.admits(pool, nextcloud.namespace) if pool else namespace == nextcloud.namespace
        if not within and not allows(rule, nextcloud.namespace, membership.labels_of(nextcloud.namespace)):
            return unusable(path, nextcloud.namespace)
        choice = NominatedInstance(name=ref.name, namespace=namespace, uid=instance.metadata.uid, pool=pool or None)
        if nominated is not None and is_own(instance, nextcloud, nominated):
            return choice
        return check_named(path, instance, nextcloud.namespace) or choice

    def _of_pool(
        self,
        nextcloud: Nextcloud,
        nominated: NominatedInstance | None,
        ctx: Context[Nextcloud],
        *,
        but: str = "",
    ) -> NominatedInstance | Hindrance:
        """Return an instance of a pool that serves the namespace, and not of the UID `but`; the recorded instance if it is free."""
        selector = nextcloud.spec.pool_selector
        assert selector is not None
        key = selector_key(selector.match_labels)
        pairs, instances, membership = key.split(","), ctx.cache(INSTANCE), self._membership(ctx)
        ready = _matching(key, instances.metadata_by_index(READY_IDLE, pairs[0]), membership)
        me = WaitingClaim(
            nextcloud.metadata.creation_timestamp or "", nextcloud.uid, nextcloud.namespace, nextcloud.name, key
        )
        line = competitors(ready, ctx.cache(NEXTCLOUD), instances, but=nextcloud.uid)
        free = [instance for instance in candidates(me, line, ready, membership.serves) if instance.uid != but]
        if free:
            by_uid = {instance.uid: instance for instance in free}
            chosen = by_uid.get((nominated.uid if nominated is not None else None) or "", free[0])
            pool = membership.pool_of(chosen)
            return NominatedInstance(name=chosen.name, namespace=chosen.namespace, uid=chosen.uid, pool=pool)
        pools = membership.pools_with(pairs)
        if pools and not any(membership.admits(pool, nextcloud.namespace) for pool in pools):
            return not_allowed(key, nextcloud.namespace)
        idle = _matching(key, instances.metadata_by_index(IDLE, pairs[0]), membership)
        counts = [
            sum(membership.serves(instance, nextcloud.namespace) for instance in instances)
            for instances in (ready, idle)
        ]
        return exhausted(key, *counts)

    def _new(
        self,
        nextcloud: Nextcloud,
        nominated: NominatedInstance | None,
        ctx: Context[Nextcloud],
        *,
        but: str = "",
    ) -> NominatedInstance | Hindrance:
        """Return a new instance, whose name is derived from the UID of the Nextcloud; without the name `but`."""
        settings = self._settings
        if not may_create(settings.namespaces_without_pool, nextcloud.namespace):
            return creation_not_allowed(nextcloud.namespace)
        nonce = self._nonces.get(nextcloud.uid, "")
        digest = "" if nominated is None else nominated.nonce_digest
        if nominated is not None and nonce and digest == digest_of(nonce) and nominated.name != but:
            return nominated
        for attempt in range(_TRIES):
            name = name_for(nextcloud.uid, attempt, settings.adjectives, settings.nouns)
            if name == but or ctx.cache(INSTANCE).metadata(settings.instance_namespace, name) is not None:
                continue
            nonce = self._nonces[nextcloud.uid] = new_nonce(self._random)
            return NominatedInstance(name=name, namespace=settings.instance_namespace, nonce_digest=digest_of(nonce))
        raise RetryAfter(60, "no free name for a new instance; trying again")

    # --- the record ----------------------------------------------------------------------------------------------------------

    async def _unless_own(
        self,
        choice: NominatedInstance | Hindrance,
        nextcloud: Nextcloud,
        nominated: NominatedInstance | None,
        ctx: Context[Nextcloud],
    ) -> Acquisition:
        """Return the choice, unless the recorded instance was taken already: the cache may be behind the write that took it."""
        if nominated is None:
            return choice
        stored = await ctx.live(INSTANCE).find(nominated.namespace, nominated.name)
        return stored if stored is not None and is_own(stored, nextcloud, nominated) else choice

    async def _confirm_record(
        self, nextcloud: Nextcloud, nominated: NominatedInstance, ctx: Context[Nextcloud]
    ) -> None:
        """Raise RetryAfter unless the API server has the same record of the same Nextcloud."""
        stored = await ctx.live(NEXTCLOUD).find(nextcloud.namespace, nextcloud.name)
        record = None if stored is None else stored.get("status", "nominatedInstance", default=None)
        if (
            stored is None
            or stored.metadata.uid != nextcloud.uid
            or stored.metadata.deleting
            or stored.get("status", "instanceRef", default=None)
            or record is None
            or NominatedInstance.model_validate(record) != nominated
        ):
            raise RetryAfter(READ_AGAIN, "the Nextcloud changed; reading it again")

    # --- the instance --------------------------------------------------------------------------------------------------------

    async def _take(
        self, nextcloud: Nextcloud, nominated: NominatedInstance, mode: ClaimMode, ctx: Context[Nextcloud]
    ) -> Acquisition:
        """Take the recorded instance by one write; after a conflict return the next instance to record."""
        instance = ctx.cache(INSTANCE).find(nominated.namespace, nominated.name)
        try:
            if instance is None or instance.metadata.uid != nominated.uid:
                raise RetryAfter(READ_AGAIN, "the recorded instance is not in the cache yet; reading it again")
            return await self._lock(nextcloud, instance, nominated.pool or "", ctx)
        except ObjectChanged:
            self._metrics.conflicts.inc()  # another claim, a trim or the instance itself was faster
        stored = await ctx.live(INSTANCE).find(nominated.namespace, nominated.name)
        if stored is not None and is_own(stored, nextcloud, nominated):
            return stored
        if mode is ClaimMode.POOL:
            choice = self._of_pool(nextcloud, None, ctx, but=nominated.uid or "")
            if isinstance(choice, NominatedInstance):
                return choice
        raise RetryAfter(
            READ_AGAIN, f"NextcloudInstance {nominated.namespace}/{nominated.name} changed; reading it again"
        )

    async def _lock(self, nextcloud: Nextcloud, instance: Object, pool_name: str, ctx: Context[Nextcloud]) -> Object:
        """Take exactly this version of an instance; raises Conflict if it changed, FieldsRefused for fields that its pool keeps."""
        spec = instance.to_dict().get("spec") or {}
        check_tenant(tenant_spec(nextcloud), policy_of(spec, self._settings.instances))
        metadata = instance.metadata
        pool = ctx.cache(POOL).find("", pool_name) if pool_name else None
        # An instance without a pool has the policy since its creation.
        policy = "" if pool is None else str(pool.get("spec", "lifecycle", "reclaimPolicy", default="Delete"))
        patch = lock_patch(nextcloud, metadata, policy, spec_text(spec))
        taken = await ctx.patch(INSTANCE, expect=metadata, patch=patch)
        self._served(nextcloud, ctx)
        return taken

    async def _create(
        self,
        nextcloud: Nextcloud,
        nominated: NominatedInstance,
        mode: ClaimMode,
        defaults: dict[str, Any],
        ctx: Context[Nextcloud],
    ) -> Acquisition:
        """Create the recorded instance with everything that the tenant set; if its name is taken, return the next instance to record."""
        check_tenant(tenant_spec(nextcloud), policy_of(defaults, self._settings.instances))
        intent = tenant_intent(
            nextcloud,
            nominated.name,
            nominated.namespace,
            creates=True,
            defaults=msgspec.json.encode(defaults, order="deterministic").decode() if defaults else "",
            profile=nextcloud.spec.profile or "",
            nonce=self._nonces.get(nextcloud.uid, ""),
        )
        try:
            created = await ctx.apply(intent, force=True)
        except Conflict:  # an instance of the name exists: of another writer, or of a request whose response was lost
            stored = await ctx.live(INSTANCE).find(nominated.namespace, nominated.name)
            if stored is not None and is_own(stored, nextcloud, nominated):
                return stored
            return self._new(nextcloud, None, ctx, but=nominated.name)
        self._served(nextcloud, ctx)
        if mode is ClaimMode.VANILLA:
            message = f"created {created.metadata.path} without pool and profile: SQLite and no S3, unless the spec says otherwise"
            ctx.event(PoolsEvent.BARE_FRESH_CREATION, message)
        return Created(created)

    def _served(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> None:
        """Count the wait of a claim at the one write that ends the wait: later steps may be repeated."""
        created = nextcloud.metadata.created
        if created is not None:
            self._metrics.wait.observe(max(0.0, (ctx.now() - created).total_seconds()))

    def _membership(self, ctx: Context[Nextcloud]) -> PoolMembership:
        return PoolMembership(ctx.cache(POOL), ctx.cache(NAMESPACE), self._settings.instance_namespace)


def _matching(selector: str, instances: Iterable[Metadata], membership: PoolMembership) -> list[Metadata]:
    """Return the members of pools that have all labels of a selector."""
    return [instance for instance in instances if matches(selector, instance) and membership.pool_of(instance)]
