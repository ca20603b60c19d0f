"""Deleting objects: at once, or with a deletionTimestamp until finalizers are removed, children are deleted, or a pod has ended.

Source: apiserver `pkg/registry/rest/delete.go`, `pkg/registry/generic/registry/store.go` (deletionFinalizersForGarbageCollection).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from konverge.clock import rfc3339
from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.catalog import returns_deleted
from konverge_testing.apiserver.reading import stored
from konverge_testing.apiserver.registry.converting import read_in, written
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.pipeline import as_version, schema_of
from konverge_testing.apiserver.registry.request import ResourceRequest, options_of
from konverge_testing.apiserver.registry.reviewing import reviewed
from konverge_testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    invalid,
    not_found,
    success,
)
from konverge_testing.apiserver.storage import Changed, Entry

__all__ = ["CRD_CLEANUP", "FOREGROUND", "ORPHAN", "Deletion", "delete", "delete_options", "require"]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_POLICIES: Final = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a deletion."""

    policy: str = ""
    grace: int | None = None
    uid: str = ""
    version: str = ""


def delete_options(request: ResourceRequest) -> Deletion:
    """Read and check the options from body and parameters; sets the request's options too."""
    body: dict[str, Any] = {}
    if request.call.body.strip():
        body = _decoded(request)
    query = request.call.query
    request.options = options_of(request.call, "DeleteOptions", body=body)
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query.flag("orphanDependents")
    if orphan is not None and policy:
        both = FieldError(
            "Invalid", "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
        )
        raise invalid("meta.k8s.io", "DeleteOptions", "", [both])
    if policy and policy not in _POLICIES:
        supported = ", ".join(f'"{one}"' for one in ("Foreground", "Background", "Orphan", "nil"))
        wrong = FieldError("NotSupported", "propagationPolicy", policy, f"supported values: {supported}")
        raise invalid("meta.k8s.io", "DeleteOptions", "", [wrong])
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if not policy and orphan is None and request.resource.id == ("batch", "jobs"):
        policy = "Orphan"
        request.warnings.append(_JOB_WARNING)
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds") or None)
    preconditions = body.get("preconditions") or {}
    return Deletion(
        policy,
        None if grace is None else _seconds(grace),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
    )


def _decoded(request: ResourceRequest) -> dict[str, Any]:
    try:
        body = schemas.decode(request.call.body, request.media_type or "application/json", strict=False).data
    except StatusError as error:
        words = error.message.partition("(must be of type ): ")[2].rpartition(" (")[0]
        raise bad_request(words or error.message) from None
    # Imported here: these packages are slow to load, and few deletions have a body.
    from konverge_testing.apiserver.catalog import schema_node
    from konverge_testing.apiserver.strategies import decode_errors

    if unfit := decode_errors("DeleteOptions", "v1", schema_node(_OPTIONS), body):
        raise bad_request(unfit.message.partition("cannot be handled as a DeleteOptions: ")[2])
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if kind and kind != "DeleteOptions":
        words = f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
        raise bad_request(words)
    return body


def _seconds(given: Any) -> int:
    try:
        return max(int(given), 0)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds {given!r} is no number of seconds") from None


async def delete(
    registry: Registry, request: ResourceRequest, entry: Entry | None, deletion: Deletion, *, admit: bool = True
) -> Data:
    """Delete one object; returns the response: the object as stored now, or a Status if it was removed.

    `admit` False: admission has already admitted the request that causes this deletion.
    """
    while True:
        if entry is None:
            raise not_found(request.group, request.plural, request.info.name)
        require(request, entry, deletion)
        resource = request.resource
        old = await read_in(registry, entry, resource, request.version) if resource.custom else stored(entry, resource)
        if admit:
            await reviewed(registry, request, "DELETE", None, old)
        new, gone = _marked(registry, request, old, deletion)
        if request.options.dry_run:
            return _answer(request, new, gone)
        try:
            if gone:
                if request.resource.strategy.grace_period is not None and not request.resource.custom:
                    entry = registry.store.update(request.resource.id, entry, new)  # marked first, then removed
                    new = entry.object()
                # Of several versions, the last state is the stored object: a removed object is not converted back.
                several = resource.custom and len(resource.versions) > 1
                last = registry.store.delete(resource.id, entry, None if several else new)
                new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(last.version)}}
            elif new != old:
                changed = await written(registry, new, resource) if resource.custom else new
                entry = registry.store.update(resource.id, entry, changed, schema=schema_of(request))
                new = await read_in(registry, entry, resource, request.version) if resource.custom else entry.object()
        except Changed:
            entry = registry.store.get(request.resource.id, entry.namespace, entry.name)
            continue
        return _answer(request, new, gone)


def require(request: ResourceRequest, entry: Entry, deletion: Deletion) -> None:
    """Raise 409 if an object has another uid or version than the preconditions."""
    name = entry.name
    if deletion.uid and deletion.uid != entry.uid:
        why = (
            f"the UID in the precondition ({deletion.uid}) does not match the UID in record ({entry.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(request.group, request.resource.kind, name, why)
    if deletion.version and deletion.version != str(entry.version):
        why = (
            f"the ResourceVersion in the precondition ({deletion.version}) does not match the ResourceVersion in record "
            f"({entry.version}). The object might have been modified"
        )
        raise conflict(request.group, request.resource.kind, name, why)


def _marked(registry: Registry, request: ResourceRequest, old: Data, deletion: Deletion) -> tuple[Data, bool]:
    """Return the object as its deletion leaves it, and whether it can be removed."""
    metadata = dict(old["metadata"])
    new = {**old, "metadata": metadata}
    finalizers = _finalizers(request, metadata, deletion.policy)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    grace = _grace(request, old, deletion)
    strategy = request.resource.strategy
    is_namespace = request.resource.id == ("", "namespaces")
    held = bool(finalizers) or grace > 0 or (is_namespace and bool((old.get("spec") or {}).get("finalizers")))
    graceful = strategy.grace_period is not None and not request.resource.custom
    if not held and not graceful:
        return new, True
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = rfc3339(registry.moment() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if _is_definition(request):
            _begin_ending(new, old, registry.now())
        if is_namespace:
            del metadata["deletionGracePeriodSeconds"]
            new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    elif grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        metadata["deletionGracePeriodSeconds"] = grace
    return new, not held


def _is_definition(request: ResourceRequest) -> bool:
    return request.resource.id == ("apiextensions.k8s.io", "customresourcedefinitions")


def _begin_ending(new: Data, old: Data, now: str) -> None:
    """Mark a definition for deletion as its own REST storage does: no grace period, no generation, a condition."""
    metadata = new["metadata"]
    del metadata["deletionGracePeriodSeconds"]
    if "generation" in old["metadata"]:
        metadata["generation"] = old["metadata"]["generation"]
    status = new.get("status") or {}
    conditions = [one for one in status.get("conditions") or () if one["type"] != "Terminating"]
    ending = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    new["status"] = {**status, "conditions": [*conditions, ending]}


def _grace(request: ResourceRequest, old: Data, deletion: Deletion) -> int:
    strategy = request.resource.strategy
    if strategy.grace_period is None or request.resource.custom:
        return 0
    spec, status = old.get("spec") or {}, old.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if deletion.grace is not None:
        return deletion.grace
    pending = old["metadata"].get("deletionGracePeriodSeconds")
    return int(pending if pending is not None else spec.get("terminationGracePeriodSeconds", strategy.grace_period))


def _finalizers(request: ResourceRequest, metadata: Data, policy: str) -> list[str]:
    """Return the finalizers, with the garbage collector's finalizers as the policy requires; without a policy they stay unchanged."""
    found: list[str] = [*metadata.get("finalizers", ())]
    if request.plural == "events" and not request.resource.custom:
        return found  # the garbage collector ignores events as owners
    if _is_definition(request) and CRD_CLEANUP not in found and not metadata.get("deletionTimestamp"):
        found.append(CRD_CLEANUP)
    orphan, foreground = ORPHAN in found, FOREGROUND in found
    if policy == "Orphan":
        orphan, foreground = True, False
    elif policy == "Foreground":
        orphan, foreground = False, True
    elif policy == "Background":
        orphan, foreground = False, False
    rest = [one for one in found if one not in (ORPHAN, FOREGROUND)]
    return [*rest, *([ORPHAN] if orphan else []), *([FOREGROUND] if foreground else [])]


def _answer(request: ResourceRequest, new: Data, gone: bool) -> Data:
    if not gone or returns_deleted(request.resource):
        return as_version(new, request.resource, request.version)
    return success(
        name=new["metadata"]["name"],
        **({"group": request.group} if request.group else {}),
        kind=request.plural,
        uid=new["metadata"].get("uid", ""),
    )
