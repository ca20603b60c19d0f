"""The defaults that the webhooks of Cluster API write, and the webhooks. The defaults are pure.

Source: docs/reference/machines.md#the-core-of-cluster-api.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.objects import Object
from konverge.runtime import AdmissionRequest, Allow, Webhook
from konverge_testing.capi.kinds import CLUSTER_LABEL, MACHINE, MACHINE_POOL

__all__ = ["machine_defaults", "machine_pool_defaults", "webhooks"]

_NODE_DELETION: Final = 10
_MIN: Final = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
_MAX: Final = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


def _common(data: dict[str, Any], machine: dict[str, Any]) -> None:
    labels = data["metadata"].setdefault("labels", {})
    labels[CLUSTER_LABEL] = data["spec"].get("clusterName", "")
    machine.setdefault("deletion", {}).setdefault("nodeDeletionTimeoutSeconds", _NODE_DELETION)


def machine_pool_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Write the defaults into a MachinePool, and return it: replicas are 1, or the least that both annotations of the autoscaler allow.

    >>> bare = {"metadata": {"name": "p"}, "spec": {"clusterName": "c", "template": {"spec": {}}}}
    >>> machine_pool_defaults(bare)["spec"]["replicas"], bare["metadata"]["labels"]
    (1, {'cluster.x-k8s.io/cluster-name': 'c'})
    """
    spec = data["spec"]
    _common(data, spec["template"].setdefault("spec", {}))
    if spec.get("replicas") is None:
        given = data["metadata"].get("annotations") or {}
        spec["replicas"] = int(given[_MIN]) if _MIN in given and _MAX in given else 1
    return data


def machine_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Write the defaults into a Machine, and return it."""
    _common(data, data["spec"])
    return data


def _default_pool(request: AdmissionRequest[Object]) -> Allow:
    return Allow(Object(machine_pool_defaults(request.object.to_dict())))


def _default_machine(request: AdmissionRequest[Object]) -> Allow:
    return Allow(Object(machine_defaults(request.object.to_dict())))


def webhooks() -> tuple[Webhook[Any], ...]:
    """Return the webhooks, for `Manager.add`."""
    return (
        Webhook.mutating(MACHINE_POOL).handled_by(_default_pool),
        Webhook.mutating(MACHINE).handled_by(_default_machine),
    )
