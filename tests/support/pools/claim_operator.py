"""The controllers of pools and claims as a program: `konverge run claim_operator.py:build`. Instances are made ready by the test."""

from __future__ import annotations

import os

import konverge as kv
from konverge.reconcilers.pools.install import controllers
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings

__all__ = ["build"]


def build(manager: kv.Manager) -> None:
    settings = PoolSettings(instance_namespace=os.environ["INSTANCES"], claims_at_once=8)
    for controller in controllers(settings, PoolMetrics.within(manager.metrics)):
        manager.add(controller)
