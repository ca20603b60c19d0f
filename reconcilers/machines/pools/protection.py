"""The webhook that protects static pools from changes that no server would accept, and from changes that would delete machines.

Guarantees: of a static pool, template, subnets and shards stay (the order of shards does not count), and instance type, vars and the
replicas of its MachinePool may change. It is deleted with an annotation or with its namespace. Writes of status, metadata and provider
ids pass. A template or subnet pool that is not the servers' may be taken out, or set to theirs.

Caveats: failurePolicy Ignore. Rules of the definition refuse the same changes; the deletion is refused by the webhook only.
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


def refused_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], servers: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the fields of a static pool's spec that must not change in this way, with the reason.

    `servers` are the settings that the servers have, as the status shows them: a field that differs may be taken out, or set to theirs.

    >>> refused_changes({"shards": ["a", "b"]}, {"shards": ["b", "a"], "instanceType": "c7"})
    {}
    >>> refused_changes({"template": "gpu"}, {"template": "std"}, {"template": "std"})
    {}
    """
    shown, refused = servers or {}, {}
    before, after, theirs = (str(spec.get("template") or "") for spec in (old, new, shown))
    if after != before and (before == theirs or after not in ("", theirs)):
        refused["spec.template"] = _STATIC
    has, gets, shows = (set(spec.get("subnets") or ()) for spec in (old, new, shown))
    if gets != has and (has <= shows or not gets <= shows):
        refused["spec.subnets"] = _STATIC
    if set(old.get("shards") or ()) != set(new.get("shards") or ()):
        refused["spec.shards"] = _STATIC
    return refused


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
    before, after = (pool.get("spec", default={}) or {} for pool in (old, request.object))
    wrong = refused_changes(before, after, old.get("status", default={}) or {})
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
    """Return the webhook; each call creates a new webhook.

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
