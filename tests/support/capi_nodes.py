"""Nodes as their kubelets create them, and the conditions that the core of Cluster API writes on objects."""

from collections.abc import Callable
from typing import Any

from konverge.clock import rfc3339, wall_clock
from konverge.crds import CustomResource
from konverge.errors import AlreadyExists
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import NODE
from konverge_testing import Lab


def shows(type_: str) -> Callable[[Object | CustomResource[Any, Any]], bool]:
    """Return the test whether a condition is true."""

    def test(found: Object | CustomResource[Any, Any]) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.is_true

    return test


def phase(wanted: str) -> Callable[[Object], bool]:
    """Return a test for the phase that Cluster API gives an object."""
    return lambda found: found.get("status", "phase", default="") == wanted


async def join_node(lab: Lab, name: str, provider_id: str) -> None:
    """Create a Node that is ready, as its kubelet does."""
    try:
        await lab.client.create(NODE.new(name, spec={"providerID": provider_id}))
    except AlreadyExists:
        return
    now = rfc3339(wall_clock())
    kinds = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    common = {"reason": "Kubelet", "message": "it says so", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await report_node(lab, name, [{"type": type_, "status": status, **common} for type_, status in kinds.items()])


async def report_node(lab: Lab, name: str, conditions: list[dict[str, Any]]) -> None:
    """Replace the conditions of a Node, as its kubelet does."""
    await lab.client.patch(
        NODE, name, patch={"status": {"conditions": conditions}}, style="merge", subresource="status"
    )
