"""The definitions of Cluster, MachinePool and Machine, cut to what infrastructure providers and their tests use.

Guarantees: required fields and limits are those of Cluster API v1.12.11, so an object that it refuses is refused here. Fields that are not
named here are kept as they are.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["GROUP", "definitions"]

GROUP: Final = "cluster.x-k8s.io"

_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CLUSTER_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 63}
_REFERENCE: Final = {
    "type": "object",
    "required": ["apiGroup", "kind", "name"],
    "properties": {
        "apiGroup": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
    },
}
_MACHINE_SPEC: Final = {
    **_OPEN,
    "required": ["bootstrap", "clusterName", "infrastructureRef"],
    "properties": {
        "bootstrap": {
            **_OPEN,
            "minProperties": 1,
            "properties": {"dataSecretName": {"type": "string", "minLength": 0, "maxLength": 253}},
        },
        "clusterName": _CLUSTER_NAME,
        "infrastructureRef": _REFERENCE,
        "providerID": {"type": "string", "minLength": 1, "maxLength": 512},
    },
}
_CLUSTER_SPEC: Final = {
    **_OPEN,
    "properties": {"paused": {"type": "boolean"}, "infrastructureRef": _REFERENCE, "controlPlaneRef": _REFERENCE},
}
_POOL_SPEC: Final = {
    **_OPEN,
    "required": ["clusterName", "template"],
    "properties": {
        "clusterName": _CLUSTER_NAME,
        "replicas": {"type": "integer", "format": "int32"},
        "providerIDList": {"type": "array", "items": {"type": "string"}},
        "template": {**_OPEN, "required": ["spec"], "properties": {"spec": _MACHINE_SPEC}},
    },
}
_SCALE: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _definition(kind: str, spec: dict[str, Any], **subresources: Any) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": spec, "status": _OPEN}, "required": ["spec"]}
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **subresources},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions.

    >>> [one["spec"]["names"]["kind"] for one in definitions()]
    ['Cluster', 'MachinePool', 'Machine']
    """
    return [
        _definition("Cluster", _CLUSTER_SPEC),
        _definition("MachinePool", _POOL_SPEC, scale=_SCALE),
        _definition("Machine", _MACHINE_SPEC),
    ]
