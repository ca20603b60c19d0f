"""NamespaceLifecycle: no create in a missing or terminating namespace, and three namespaces cannot be deleted.

Guarantees: pure apart from reading the namespace. The rules are those of k8s.io/apiserver
`pkg/admission/plugin/namespace/lifecycle/admission.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.admission.call import AdmissionCall, denied
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.statuses import forbidden, not_found

__all__ = ["ANYWHERE", "NAMESPACES", "check_namespace"]

NAMESPACES: Final = ("", "namespaces")
_IMMORTAL: Final = frozenset({"default", "kube-public", "kube-system"})
ANYWHERE: Final = ("authorization.k8s.io", "localsubjectaccessreviews")
"""Resources that can be created in a namespace that does not exist."""


def check_namespace(call: AdmissionCall, objects: Objects) -> None:
    """Raise the refusal if the state of the namespace forbids the call."""
    if call.id == NAMESPACES:
        if call.operation == "DELETE" and call.name in _IMMORTAL:
            raise forbidden("", "namespaces", call.name, "this namespace may not be deleted")
        return
    if not call.namespace or call.operation not in ("CREATE", "UPDATE") or call.id == ANYWHERE:
        return
    namespace = objects.get(NAMESPACES, "", call.namespace)
    if namespace is None:
        raise not_found("", "namespaces", call.namespace)
    if call.operation == "CREATE" and (namespace.get("status") or {}).get("phase") == "Terminating":
        name = call.namespace
        error = denied(call, f"unable to create new content in namespace {name} because it is being terminated")
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error
