"""The controller of Nextclouds as a program that serves the Nextclouds of one namespace: `konverge run claim_operator.py:build`.

Two of them share the instances and no decision. Instances are made ready by the test. `claim_operator.py:pools` is the controller of pools.
"""

from __future__ import annotations

import os
from typing import Any

import konverge as kv
from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.reconcilers.pools.claims.reconciler import NextcloudReconciler
from konverge.reconcilers.pools.install import claim_controller, pool_controller
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings

__all__ = ["build", "pools"]


class OfOneTenant(NextcloudReconciler):
    """Leaves the Nextclouds of other namespaces to other processes."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, tenant: str) -> None:
        super().__init__(settings, metrics)
        self._tenant = tenant

    async def reconcile(self, nextcloud: Nextcloud, ctx: kv.Context[Any]) -> kv.Outcome:
        if nextcloud.namespace == self._tenant:
            return await super().reconcile(nextcloud, ctx)
        ctx.status.skip_write()
        return kv.Done()


def build(manager: kv.Manager) -> None:
    settings = PoolSettings(instance_namespace=os.environ["INSTANCES"], claims_at_once=8)
    metrics = PoolMetrics.within(manager.metrics)
    manager.add(claim_controller(settings, metrics).reconciled_by(OfOneTenant(settings, metrics, os.environ["TENANT"])))


def pools(manager: kv.Manager) -> None:
    manager.add(
        pool_controller(PoolSettings(instance_namespace=os.environ["INSTANCES"]), PoolMetrics.within(manager.metrics))
    )
