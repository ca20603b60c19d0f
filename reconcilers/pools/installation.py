"""The family's controllers in a manager: their watches, predicates, indexes and RBAC rules.

Guarantees: claims, pools and the sweeper read instances and Nextclouds as thin views, so an object that does not fit its model stays
visible to all others.
"""

from __future__ import annotations

from functools import partial
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any

from konverge.crds.pools_v1alpha1 import GROUP, Nextcloud, NextcloudPool
from konverge.errors import UsageError
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.pools import records
from konverge.reconcilers.pools.buckets.act import HttpS3Connections, s3_client_installed
from konverge.reconcilers.pools.buckets.api import S3Connections
from konverge.reconcilers.pools.claims import indexes
from konverge.reconcilers.pools.claims.reconciler import NextcloudReconciler
from konverge.reconcilers.pools.instances.install import instance_controller
from konverge.reconcilers.pools.kinds import INSTANCE, NAMESPACE, NEXTCLOUD, POOL, PROFILE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.orphans.indexes import claim_changed, instances_of_claim, is_deleted
from konverge.reconcilers.pools.orphans.reconciler import OrphanReconciler
from konverge.reconcilers.pools.pool.indexes import (
    BY_POOL,
    by_pool,
    changes_service,
    counts_for_pool,
    pool_of,
    pools_of_nextcloud,
    pools_of_profile,
)
from konverge.reconcilers.pools.pool.reconciler import NextcloudPoolReconciler
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import Finalizer, PoolsCondition, PoolsController
from konverge.runtime import Controller, Rule

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime import Manager
    from konverge.runtime.builder.reconciler import Gate

__all__ = [
    "claim_controller",
    "controllers",
    "install",
    "metrics_of",
    "orphan_controller",
    "pool_controller",
]

_NO_STATUS = "orphans"
"""The suffix of the field manager of the sweeper, which writes no status."""


def _none(*_: Any) -> tuple[()]:
    """Map an object that is only looked up to no key."""
    return ()


def pool_controller(
    settings: PoolSettings, metrics: PoolMetrics, random: Random | None = None
) -> Controller[NextcloudPool]:
    """Return the controller of NextcloudPools."""
    chosen = SystemRandom() if random is None else random  # a nonce must not be predictable from known names
    # Not shared: it takes from the stock of instances that claims take from.
    return (
        Controller.of(NextcloudPool)
        .named(PoolsController.POOL)
        .finalizer(Finalizer.POOL)
        .counts_conditions()
        .watches(INSTANCE, to=partial(pool_of, default_namespace=settings.instance_namespace), when=counts_for_pool)
        .watches(PROFILE, to=pools_of_profile)
        .watches(NEXTCLOUD, to=pools_of_nextcloud, when=changes_service)
        .indexes(INSTANCE, BY_POOL, by=by_pool)
        .indexes(INSTANCE, records.BY_UID, by=records.by_uid)
        .indexes(POOL, records.HOME, by=records.home)
        .indexes(POOL, records.MEMBER, by=records.members)
        .indexes(NEXTCLOUD, records.RECORDED, by=records.recorded)
        .indexes(NEXTCLOUD, records.SERVED, by=records.served)
        .reads_live(INSTANCE, POOL)
        .needs(Rule(GROUP, (str(INSTANCE.plural),), ("create", "delete", "list", "patch")))
        .with_(concurrency=settings.pools_at_once, barrier=settings.barrier)
        .reconciled_by(NextcloudPoolReconciler(settings, metrics, chosen))
    )


def claim_controller(
    settings: PoolSettings, metrics: PoolMetrics, random: Random | None = None
) -> Controller[Nextcloud]:
    """Return the controller of Nextclouds."""
    chosen = SystemRandom() if random is None else random
    # Not shared: the order of a pool's claims is decided over all of them.
    return (
        Controller.of(Nextcloud)
        .named(PoolsController.NEXTCLOUD)
        .finalizer(Finalizer.NEXTCLOUD)
        .counts_conditions(PoolsCondition.INSTANCE_ASSIGNED, PoolsCondition.DRIFT_FIGHT, PoolsCondition.READY)
        .watches(NEXTCLOUD, to=indexes.others_in_line, when=indexes.leaves_the_line)
        .watches(INSTANCE, to=partial(indexes.claims_of_instance, default_namespace=settings.instance_namespace))
        .watches(PROFILE, to=indexes.claims_of_profile)
        .watches(POOL, to=indexes.claims_of_pool, when=indexes.opens_pool)
        .watches(NAMESPACE, to=indexes.claims_of_namespace, metadata_only=True, when=indexes.labels_changed)
        .indexes(NEXTCLOUD, indexes.WAITING, by=indexes.waiting)
        .indexes(NEXTCLOUD, indexes.BEGINNINGS, by=indexes.beginnings)
        .indexes(NEXTCLOUD, indexes.NAMED, by=indexes.named)
        .indexes(NEXTCLOUD, indexes.PROFILED, by=indexes.profiled)
        .indexes(INSTANCE, indexes.BY_CLAIM, by=indexes.by_claim)
        .indexes(INSTANCE, indexes.READY_IDLE, by=indexes.ready_idle)
        .indexes(INSTANCE, indexes.IDLE, by=indexes.idle)
        .indexes(NEXTCLOUD, indexes.LIVES_IN, by=indexes.lives_in)
        .indexes(NEXTCLOUD, records.RECORDED, by=records.recorded)
        .indexes(POOL, records.MEMBER, by=records.members)
        .indexes(POOL, records.SERVES, by=records.serves)
        .indexes(POOL, records.TEMPLATED, by=records.templated)
        .reads_live(INSTANCE, NEXTCLOUD)
        .needs(Rule(GROUP, (str(INSTANCE.plural),), ("create", "delete", "patch")))
        .with_(concurrency=settings.claims_at_once)
        .reconciled_by(NextcloudReconciler(settings, metrics, chosen))
    )


def orphan_controller(settings: PoolSettings) -> Controller[Object]:
    """Return the sweeper of instances whose Nextcloud was deleted."""
    return (
        Controller.of(INSTANCE)
        .named(PoolsController.ORPHANS)
        .writes_status_as(_NO_STATUS)
        .when(claim_changed)
        .reconciles_deleting()
        .watches(NEXTCLOUD, to=instances_of_claim, when=is_deleted)
        .watches(POOL, to=_none)
        .indexes(INSTANCE, indexes.BY_CLAIM, by=indexes.by_claim)
        .indexes(NEXTCLOUD, records.RECORDED, by=records.recorded)
        .indexes(POOL, records.MEMBER, by=records.members)
        .reads_live(INSTANCE, NEXTCLOUD)
        .needs(Rule(GROUP, (str(INSTANCE.plural),), ("delete", "patch")))
        .reconciled_by(OrphanReconciler(settings))
    )


def controllers(
    settings: PoolSettings, metrics: PoolMetrics, random: Random | None = None
) -> tuple[Controller[Any], ...]:
    """Return the controllers that fill pools and assign instances, without the controller that materialises instances."""
    return (
        pool_controller(settings, metrics, random),
        claim_controller(settings, metrics, random),
        orphan_controller(settings),
    )


def metrics_of(manager: Manager) -> PoolMetrics:
    """Return the metrics of the family in a manager, which shows pools only while it leads. Once for each manager."""
    metrics = PoolMetrics.within(manager.metrics)
    manager.after_leading(metrics.clear)
    return metrics


async def _note_missing_client(gate: Gate | None, client: Client) -> str:
    """Log that the S3 client is missing when the controller starts, and not when its rights or webhooks are printed."""
    obstacle = "" if gate is None else await gate(client)
    if not obstacle:
        get_logger("konverge.pools").warning(
            "no S3 client is installed: buckets are neither created nor deleted; pip install 'konverge[pools]'"
        )
    return obstacle


def install(manager: Manager, settings: PoolSettings | None = None, *, s3: S3Connections | None = None) -> None:
    """Add the family's controllers and metrics to a manager, which closes the connections to S3 servers at its end.

    `s3` replaces the connections over HTTP.

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['nextcloudpool', 'nextcloud', 'nextcloud-orphans', 'nextcloudinstance']
    """
    if manager.settings.namespace:
        raise UsageError(
            "the family of pools reconciles cluster-wide objects: install it into a manager without a namespace"
        )
    chosen = PoolSettings() if settings is None else settings
    for controller in controllers(chosen, metrics_of(manager)):
        manager.add(controller)
    without_client = s3 is None and chosen.instances.bucket_provider == "s3" and not s3_client_installed()
    s3 = HttpS3Connections() if s3 is None else s3
    manager.closes(s3.close)
    instances = instance_controller(chosen.instances, s3=s3, namespaces=chosen.instance_namespaces)
    manager.add(instances.starts_when(partial(_note_missing_client, instances.gate)) if without_client else instances)
