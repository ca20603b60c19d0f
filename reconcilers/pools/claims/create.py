"""New instances of Nextclouds without a pool. The Nextcloud copies the status from the stored instance.

Guarantees: an instance is created only after the status of the Nextcloud has its name and the digest of its nonce.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from konverge.crds.pools_v1alpha1 import Nextcloud, NominatedInstance
from konverge.errors import Conflict, RetryAfter
from konverge.objects import Object
from konverge.reconcilers.pools.allowance import may_create
from konverge.reconcilers.pools.claims.decide import Choice, ClaimMode, creation_not_allowed, mode_of
from konverge.reconcilers.pools.claims.lock import count_wait
from konverge.reconcilers.pools.claims.observe import recorded_instance
from konverge.reconcilers.pools.claims.render import tenant_intent, tenant_spec
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.names import name_for
from konverge.reconcilers.pools.nonces import digest_of, new_nonce
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import check_tenant, policy_of
from konverge.reconcilers.pools.words import PoolsEvent

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Created", "NewInstances"]

_TRIES: Final = 4
"""The most names that are tried for a new instance."""
_NO_FREE_NAME: Final = 60.0
"""Seconds until names are tried again."""


@dataclass(frozen=True, slots=True)
class Created:
    """An instance that this reconcile created, with everything that the tenant set."""

    instance: Object


class NewInstances:
    """Creates instances, and remembers their nonces until then: a nonce is secret until its instance exists."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._random = random
        self._nonces: dict[str, str] = {}

    def forget(self, uid: str) -> None:
        """Drop the nonce of a Nextcloud."""
        self._nonces.pop(uid, None)

    def choose(
        self, nextcloud: Nextcloud, nominated: NominatedInstance | None, ctx: Context[Nextcloud], *, exclude: str = ""
    ) -> Choice:
        """Return a new instance, whose name is derived from the UID of the Nextcloud, except the name `exclude`."""
        settings = self._settings
        if not may_create(settings.namespaces_without_pool, nextcloud.namespace):
            return creation_not_allowed(nextcloud.namespace)
        nonce = self._nonces.get(nextcloud.uid, "")
        if nominated is not None and nonce and nominated.nonce_digest == digest_of(nonce):
            return nominated
        for attempt in range(_TRIES):
            name = name_for(nextcloud.uid, attempt, settings.adjectives, settings.nouns)
            if name == exclude or ctx.cache(INSTANCE).metadata(settings.instance_namespace, name) is not None:
                continue
            nonce = self._nonces[nextcloud.uid] = new_nonce(self._random)
            return NominatedInstance(name=name, namespace=settings.instance_namespace, nonce_digest=digest_of(nonce))
        raise RetryAfter(_NO_FREE_NAME, "no free name for a new instance; trying again")

    async def create(
        self, nextcloud: Nextcloud, nominated: NominatedInstance, defaults: dict[str, Any], ctx: Context[Nextcloud]
    ) -> Created | Object | None:
        """Create the recorded instance with everything that the tenant set; None if another writer's instance has its name.

        An Object is the instance of a former request whose response was lost. Raises FieldsRefused.
        """
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
        except Conflict:
            return await recorded_instance(nextcloud, nominated, ctx)
        count_wait(nextcloud, self._metrics, ctx)
        if mode_of(nextcloud.spec) is ClaimMode.VANILLA:
            message = f"created {created.metadata.path} without pool and profile: SQLite and no S3, unless the spec says otherwise"
            ctx.event(PoolsEvent.BARE_FRESH_CREATION, message)
        return Created(created)
