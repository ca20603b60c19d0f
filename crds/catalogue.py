"""The custom resources that konverge itself serves.

Guarantees: `own_resources` is the only list of them; the daemon, the chart and the generated manifests use it.
"""

from __future__ import annotations

from typing import Any

from konverge.crds.manifest import crd_manifests
from konverge.crds.resource import CustomResource

__all__ = ["all_manifests", "own_resources"]


def own_resources() -> tuple[type[CustomResource[Any, Any]], ...]:
    """Return the classes of konverge's own kinds; this call imports their modules."""
    from konverge.crds.apps_v1alpha1 import ApplicationInstance
    from konverge.crds.machines_v1beta1 import (
        NstanceCluster,
        NstanceControlPlane,
        NstanceMachine,
        NstanceMachinePool,
        NstanceMachineTemplate,
        NstanceShardGroup,
    )
    from konverge.crds.ops_v1alpha1 import Cluster, Operation
    from konverge.crds.pools_v1alpha1 import (
        Nextcloud,
        NextcloudInstance,
        NextcloudPool,
        NextcloudProfile,
        NextcloudVersionMap,
    )
    from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
    from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim

    pools = (Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile, NextcloudVersionMap)
    machines = (
        NstanceCluster,
        NstanceControlPlane,
        NstanceMachine,
        NstanceMachinePool,
        NstanceMachineTemplate,
        NstanceShardGroup,
    )
    return (ApplicationInstance, Cluster, Operation, ResourcePool, ResourcePoolClaim, WorkspaceClaim, *machines, *pools)


def all_manifests() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of our own kinds, sorted by name."""
    return crd_manifests(own_resources())
