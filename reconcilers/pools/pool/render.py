"""A new member of a pool. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from konverge.crds.pools_v1alpha1 import GROUP, NextcloudPool
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.profiles import merge
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

__all__ = ["new_member", "selector_of"]


def selector_of(pool: str) -> str:
    """Return the selector of the unassigned instances of a pool.

    >>> selector_of("small")
    'k8s.bnerd.com/pool=small,k8s.bnerd.com/assigned=false'
    """
    return f"{PoolsLabel.POOL}={pool},{PoolsLabel.ASSIGNED}={PoolsLabel.FALSE}"


def new_member(
    pool: NextcloudPool,
    name: str,
    namespace: str,
    profile: str,
    defaults: Mapping[str, Any],
    digest: str,
    nonce: str,
) -> Object:
    """Return a new unassigned instance: the template over the defaults of the profile, without labels of the family's own."""
    template = pool.spec.template
    labels = {key: value for key, value in template.metadata.labels.items() if not key.startswith(f"{GROUP}/")}
    spec = merge(defaults, template.spec.wire())
    return INSTANCE.new(
        name,
        namespace,
        labels={**labels, PoolsLabel.ASSIGNED: PoolsLabel.FALSE, PoolsLabel.POOL: pool.name},
        annotations={
            PoolsAnnotation.CREATION_NONCE: nonce,
            **({PoolsAnnotation.PROFILE_DIGEST: digest} if digest else {}),
        },
        spec={
            **spec,
            "reclaimPolicy": pool.spec.lifecycle.reclaim_policy,
            **({"profile": profile} if profile else {}),
        },
    )
