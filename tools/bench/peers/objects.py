"""The objects of the benchmark: the custom resource, the rights of a contestant, and what an item of about 2 KB holds. Pure data."""

from typing import Any

GROUP, VERSION = "bench.konverge.dev", "v1"
ITEMS = f"/apis/{GROUP}/{VERSION}/namespaces/{{}}/items"
NAMESPACE, WARM = "bench", "warm"

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "format": "int64"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}


def _fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_CONDITION = {
    **_fields(
        type=_TEXT,
        status=_TEXT,
        reason=_TEXT,
        message=_TEXT,
        observedGeneration=_NUMBER,
        lastTransitionTime={"type": "string", "format": "date-time"},
    ),
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
}
_CONDITIONS = {
    "type": "array",
    "items": _CONDITION,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
_SPEC = _fields(
    revision=_NUMBER, title=_TEXT, labels=_TEXTS, env={"type": "array", "items": _fields(name=_TEXT, value=_TEXT)}
)

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"items.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "items", "singular": "item", "kind": "Item", "listKind": "ItemList"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": _fields(
                        spec=_SPEC, status=_fields(observedGeneration=_NUMBER, conditions=_CONDITIONS)
                    )
                },
            }
        ],
    },
}


def rights(account: str) -> list[tuple[str, dict[str, Any]]]:
    """The role of a contestant and its binding, with their collections: the same rights for all contestants.

    kopf reads definitions and namespaces beside its own objects, and writes its annotations into them.
    """
    rules = [
        {"apiGroups": [GROUP], "resources": ["items", "items/status"], "verbs": ["get", "list", "watch", "patch", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "update"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "list", "watch"]},
    ]  # fmt: skip
    metadata = {"name": f"bench-{account}"}
    path = "/apis/rbac.authorization.k8s.io/v1"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
    return [(f"{path}/clusterroles", role), (f"{path}/clusterrolebindings", binding)]


def item_name(number: int) -> str:
    """The name of an item by its number."""
    return f"item-{number:06d}"


def item(number: int, namespace: str) -> dict[str, Any]:
    """One item; as it is stored, with managedFields, it has about 2 KB."""
    env = [{"name": f"VARIABLE_{index:02d}", "value": f"{number:08d}-{index:02d}-" + "v" * 40} for index in range(12)]
    labels = {f"example.com/label-{index}": f"value-{number % 10}-{index}" for index in range(4)}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Item",
        "metadata": {"name": item_name(number), "namespace": namespace, "labels": {"app": "bench", "tier": "load"}},
        "spec": {"revision": 1, "title": f"the item with the number {number}", "labels": labels, "env": env},
    }


def status_intent(name: str, generation: int) -> dict[str, Any]:
    """A status apply as the contestants send it, for the warming of the server."""
    condition = {
        "type": "Stalled",
        "status": "False",
        "reason": "InStep",
        "message": "revision 1 is in place",
        "observedGeneration": generation,
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Item",
        "metadata": {"name": name},
        "status": {"observedGeneration": generation, "conditions": [condition]},
    }


def in_step(document: dict[str, Any]) -> bool:
    """Whether a contestant has nothing left to do for an item."""
    generation, status = document["metadata"]["generation"], document.get("status", {})
    reached = [
        status.get("observedGeneration"),
        *(each.get("observedGeneration") for each in status.get("conditions", ())),
    ]
    return len(reached) > 1 and set(reached) == {generation}
