"""The writes of a drain: a Node is cordoned and marked, and pods are evicted.

A drain is background work without a plan, since its end depends on the API server's response to each eviction.
"""

from __future__ import annotations

from collections.abc import Iterable

from konverge.client import Client
from konverge.errors import ApiError, Conflict, EvictionRefused, NotFound
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import NODE
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

__all__ = ["cordon", "evict"]


async def cordon(client: Client, node: Object, *, cluster: str, instance: str) -> None:
    """Cordon a Node if its uid still matches, and mark it as drained for an instance."""
    labels, annotations = {MachinesLabel.DRAINED_BY: cluster}, {MachinesAnnotation.INSTANCE: instance}
    stored = node.metadata
    marked = (
        labels.items() <= (stored.labels or {}).items() and annotations.items() <= (stored.annotations or {}).items()
    )
    if not marked or node.get("spec", "unschedulable", default=False) is not True:
        metadata = {"uid": stored.uid, "labels": labels, "annotations": annotations}
        await client.patch(
            NODE, node.name, patch={"metadata": metadata, "spec": {"unschedulable": True}}, style="merge"
        )


async def evict(client: Client, pods: Iterable[Object]) -> str:
    """Evict pods; returns the last refusal with the name of the pod, "" if none was refused. A refusal keeps no other pod on the Node."""
    blocked = ""
    for pod in pods:
        try:
            await _evict(client, pod)
        except EvictionRefused as error:
            budget = next((message for _, message in error.causes if message), error.message)
            blocked = f"pod {pod.namespace}/{pod.name}: {budget}"
        except ApiError as error:  # several budgets select the pod, or a webhook or RBAC refuses the eviction
            blocked = f"pod {pod.namespace}/{pod.name}: {error.message}"
    return blocked


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
        return  # deleted or changed: the next check shows it
