"""The calls of one check of a Node that is drained: cordon and mark it, list its pods, evict those pods that have to leave."""

from __future__ import annotations

from dataclasses import dataclass

from konverge.client import Client
from konverge.errors import ApiError, Conflict, EvictionRefused, NotFound
from konverge.objects import Object
from konverge.reconcilers.machines.drains.decide import pods_left
from konverge.reconcilers.machines.kinds import NODE, POD
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

__all__ = ["NodeLook", "cordon", "look_at_node"]


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The pods that are left after a check of a Node."""

    left: int
    blocked: str = ""
    """The refusal of an eviction, with the name of the pod; "" if none was refused."""


async def cordon(client: Client, node: Object, *, cluster: str, instance: str) -> None:
    """Cordon a Node if its uid still matches, and mark it as drained for an instance."""
    labels, annotations = {MachinesLabel.DRAINED_BY: cluster}, {MachinesAnnotation.INSTANCE: instance}
    found = node.metadata
    marked = labels.items() <= (found.labels or {}).items() and annotations.items() <= (found.annotations or {}).items()
    if not marked or node.get("spec", "unschedulable", default=False) is not True:
        metadata = {"uid": found.uid, "labels": labels, "annotations": annotations}
        await client.patch(
            NODE, node.name, patch={"metadata": metadata, "spec": {"unschedulable": True}}, style="merge"
        )


async def look_at_node(client: Client, node: str) -> NodeLook:
    """List the pods of a Node, and evict the pods that have to leave. A pod that was deleted since the list counts until the next check."""
    found = pods_left((await client.list(POD, fields=f"spec.nodeName={node}")).items)
    blocked = ""
    for pod in found.evict:
        try:
            await _evict(client, pod)
        except EvictionRefused as error:
            blocked = f"pod {pod.namespace}/{pod.name}: {_budget_said(error)}"
        except (
            ApiError
        ) as error:  # several budgets select the pod, or a webhook or RBAC refuses the eviction: the others continue
            blocked = f"pod {pod.namespace}/{pod.name}: {error.message}"
    return NodeLook(len(found), blocked)


def _budget_said(error: EvictionRefused) -> str:
    return next((message for _, message in error.causes if message), error.message)


async def _evict(client: Client, pod: Object) -> None:
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
    }
    try:
        await client.raw("POST", path, body=body)
    except (NotFound, Conflict):
        return  # deleted or changed: the next check finds out
