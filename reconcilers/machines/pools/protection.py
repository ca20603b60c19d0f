"""The webhook that protects static pools: what no server would do, or what would delete machines that their configuration wants.

Guarantees: of a static pool, template, subnets and shards stay (the order of shards does not count), and instance type, vars and the
replicas of its MachinePool may change. It is deleted with an annotation or with its namespace. Writes of status, metadata and provider
ids pass. That the group of a pool stays is a rule of its definition.

Caveats: failurePolicy Ignore. Without it a server refuses the change, and the pool shows so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.objects import Object
from konverge.reconcilers.machines.kinds import NAMESPACE, POOL
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["protecting", "refused_changes"]

_SECONDS: Final = 3
"""The timeout of a request: the response needs caches only."""
_CHANGES_THE_SPEC: Final = "request.operation == 'DELETE' || object.spec != oldObject.spec"
_STATIC: Final = "the group is static: change it in the configuration of the servers"


def refused_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a static pool's spec that must not be changed so, with the reason.

    >>> refused_changes({"shards": ["a", "b"]}, {"shards": ["b", "a"], "instanceType": "c7"})
    {}
    """
    found = {}
    if (old.get("template") or "") != (new.get("template") or ""):
        found["spec.template"] = _STATIC
    for field in ("subnets", "shards"):
        if set(old.get(field) or ()) != set(new.get(field) or ()):
            found[f"spec.{field}"] = _STATIC
    return found


def _check(request: AdmissionRequest[Object]) -> Allow | Deny:
    old = request.old
    if old is None:
        return Allow()
    if old.get("status", "isStatic", default=False) is not True:
        return Allow()
    if request.operation == "DELETE":
        return _deleted(old, request)
    if old.metadata.deleting:
        return Allow()
    wrong = refused_changes(old.get("spec", default={}) or {}, request.object.get("spec", default={}) or {})
    return Deny(f"pool {old.name} cannot be changed so", fields=wrong) if wrong else Allow()


def _deleted(old: Object, request: AdmissionRequest[Object]) -> Allow | Deny:
    if old.metadata.deleting or MachinesAnnotation.ALLOW_DELETION in (old.metadata.annotations or {}):
        return Allow()
    namespaces = request.cache(NAMESPACE)
    namespace = namespaces.metadata("", request.namespace) if namespaces.synced else None
    if namespace is None or namespace.deleting:
        return Allow()
    return Deny(
        f"pool {old.name} is static, and the servers would make it again: remove the group from their configuration, or set the "
        f"annotation {MachinesAnnotation.ALLOW_DELETION}"
    )


def protecting() -> Webhook[Object]:
    """Return the webhook; each call creates a new one.

    >>> protecting().path, protecting().failure
    ('/validate-infrastructure-cluster-x-k8s-io-v1beta1-nstancemachinepool', 'Ignore')
    """
    return (
        Webhook.validating(POOL)
        .on("UPDATE", "DELETE")
        .reads(NAMESPACE, metadata_only=True)
        .only_if("changes-the-spec", _CHANGES_THE_SPEC)
        .within(_SECONDS)
        .ignoring_failures()
        .handled_by(_check)
    )
