"""A custom kind for clients of other makers: `Robot`, with a status and a scale subresource, in a group of the test's own."""

from typing import Any

_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["task"],
            "properties": {
                "task": {"type": "string", "minLength": 1},
                "speed": {"type": "integer", "default": 3, "maximum": 10},
                "arms": {"type": "integer", "default": 2},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def group_of(namespace: str) -> str:
    """The group of one test: CRDs belong to the whole cluster, and tests share one."""
    return f"{namespace}.example.com"


def definition(group: str) -> dict[str, Any]:
    """Return the CRD."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.arms", "statusReplicasPath": ".status.arms"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"robots.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "robots", "singular": "robot", "kind": "Robot", "shortNames": ["rb"]},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def robot(group: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return a robot."""
    return {"apiVersion": f"{group}/v1", "kind": "Robot", "metadata": {"name": name}, "spec": spec}
