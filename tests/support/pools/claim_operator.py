"""The controller of Nextclouds as a program that serves the Nextclouds of one namespace: `konverge run claim_operator.py:build`.

Two such programs share the instances but no decision: neither knows of the other's waiting Nextclouds, so only the lock keeps them apart.
The test marks instances ready. `claim_operator.py:pools` is the controller of pools.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import SystemRandom
from typing import Any

import msgspec

import konverge as kv
from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.reconcilers.pools.claims.indexes import BEGINNINGS, WAITING
from konverge.reconcilers.pools.claims.reconciler import NextcloudReconciler
from konverge.reconcilers.pools.installation import claim_controller, pool_controller
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.runtime.builder.watched import Indexed


class OfOneTenant(NextcloudReconciler):
    """Leaves the Nextclouds of other namespaces to other processes."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, tenant: str) -> None:
        super().__init__(settings, metrics, SystemRandom())
        self._tenant = tenant

    async def reconcile(self, nextcloud: Nextcloud, ctx: kv.Context[Nextcloud]) -> kv.Outcome:
        if nextcloud.namespace == self._tenant:
            return await super().reconcile(nextcloud, ctx)
        ctx.status.skip_write()
        return kv.Done()


def build(manager: kv.Manager) -> None:
    serve(manager, os.environ["INSTANCES"], os.environ["TENANT"])


def serve(manager: kv.Manager, instances: str, tenant: str) -> None:
    """Add the controller of Nextclouds, limited to one namespace."""
    settings = PoolSettings(instance_namespace=instances, claims_at_once=8)
    metrics = PoolMetrics.within(manager.metrics)
    controller = claim_controller(settings, metrics).reconciled_by(OfOneTenant(settings, metrics, tenant))
    manager.add(msgspec.structs.replace(controller, indexed=tuple(_within(tenant, one) for one in controller.indexed)))


def _within(tenant: str, index: Indexed) -> Indexed:
    """Leave the Nextclouds of other namespaces out of the queue."""

    def values(nextcloud: Any) -> Iterable[str]:
        return index.values(nextcloud) if nextcloud.namespace == tenant else ()

    return msgspec.structs.replace(index, values=values) if index.name in (WAITING, BEGINNINGS) else index


def pools(manager: kv.Manager) -> None:
    manager.add(
        pool_controller(PoolSettings(instance_namespace=os.environ["INSTANCES"]), PoolMetrics.within(manager.metrics))
    )
