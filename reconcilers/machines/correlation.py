"""Instances and their Nodes: the ids of servers are bare (`i-0a`), the ids of Nodes name provider and zone (`aws:///us-west-2a/i-0a`).

Cluster API pairs a Node with an id of a pool by the exact text, and deletes a paired Node if its id leaves the pool. So the id of a matched
Node stays in the list as long as its instance exists: a single change back to the bare id would delete a live Node.

Source: https://github.com/kubernetes-sigs/cluster-api/blob/main/core/reconcilers/machinepool/machinepool_controller_noderef.go.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["matches", "pool_provider_ids", "the_match"]

_WITH_ZONES = ("aws://", "gce://")


def matches(node_id: str, instance_id: str) -> bool:
    """Tell whether the provider id of a Node names an instance.

    >>> matches("aws:///us-west-2a/i-0a", "i-0a"), matches("dev:///i-0a", "i-0a"), matches("", "")
    (True, False, False)
    """
    if not node_id or not instance_id:
        return False
    if node_id == instance_id:
        return True
    return node_id.startswith(_WITH_ZONES) and node_id.rpartition("/")[2] == instance_id


def the_match(instance_id: str, node_ids: Iterable[str]) -> str:
    """Return the only one of these provider ids that names an instance, "" if none or several do.

    Names of GCE instances repeat among projects and zones: a guess could drain or delete another instance's Node.
    """
    matching = {node_id for node_id in node_ids if matches(node_id, instance_id)}
    return matching.pop() if len(matching) == 1 else ""


def pool_provider_ids(
    instance_ids: Iterable[str], *, published: Iterable[str], node_ids: Iterable[str]
) -> tuple[str, ...]:
    """Return the list of a pool, sorted: for each instance the published full id, else its Node's id, else the bare id.

    >>> pool_provider_ids(["i-0a", "i-0b"], published=["aws:///z/i-0a"], node_ids=[])
    ('aws:///z/i-0a', 'i-0b')
    """
    before, nodes = list(published), list(node_ids)

    def shown(instance_id: str) -> str:
        full = [provider_id for provider_id in before if provider_id != instance_id]
        return the_match(instance_id, full) or the_match(instance_id, nodes) or instance_id

    return tuple(sorted({shown(instance_id) for instance_id in instance_ids if instance_id}))
