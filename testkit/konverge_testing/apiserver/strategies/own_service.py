"""The Service `default/kubernetes` of the API server, which each server creates for itself.

Guarantees: pure; a fresh object with every call, as kube-apiserver stores it. It has no Endpoints and no EndpointSlice, as on a real
server that listens on loopback. Source: `pkg/controlplane/controller/kubernetesservice/controller.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.strategies.service_numbers import KUBERNETES_RANGE

__all__ = ["SERVICES", "own_service"]

SERVICES: Final = ("", "services")
_ADDRESS: Final = str(KUBERNETES_RANGE[1])
_FIELDS: Final = {
    "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
    "f:spec": {
        "f:clusterIP": {},
        "f:internalTrafficPolicy": {},
        "f:ipFamilyPolicy": {},
        "f:ports": {
            ".": {},
            'k:{"port":443,"protocol":"TCP"}': {
                ".": {},
                "f:name": {},
                "f:port": {},
                "f:protocol": {},
                "f:targetPort": {},
            },
        },
        "f:sessionAffinity": {},
        "f:type": {},
    },
}


def own_service(now: str) -> dict[str, Any]:
    """Return the Service, ready to be stored."""
    manager = {"manager": "kube-apiserver", "operation": "Update", "apiVersion": "v1", "time": now}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "managedFields": [{**manager, "fieldsType": "FieldsV1", "fieldsV1": _FIELDS}],
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "clusterIP": _ADDRESS,
            "clusterIPs": [_ADDRESS],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }
