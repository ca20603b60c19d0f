"""Changing objects: the common part of PUT and every kind of PATCH.

Guarantees: a change is computed from the newest object and stored only if that is still current; after a concurrent write it is computed
again, as etcd3's GuaranteedUpdate does, so that only the client's resourceVersion can lead to a conflict. A change without effect is not
stored, and the version stays. An object under deletion is removed with its last finalizer. Source: apiserver
`pkg/registry/generic/registry/store.go` (Update), `pkg/registry/rest/update.go`, `pkg/storage/etcd3/store.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeAlias

from konverge_testing.apiserver.apply import apply_unchanged
from konverge_testing.apiserver.reading import in_form
from konverge_testing.apiserver.registry.converting import read_in, through_storage, with_views, written
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.creating import allocated
from konverge_testing.apiserver.registry.pipeline import once, read, schema_of, validated
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.registry.reviewing import mutated, reviewed
from konverge_testing.apiserver.schemas.copying import copied
from konverge_testing.apiserver.statuses import FieldError, StatusError, bad_request, conflict, invalid
from konverge_testing.apiserver.storage import Changed, Entry

__all__ = ["MODIFIED", "Make", "Uses", "change", "restore"]

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"

Make = Callable[[Data, bool], Data]
"""Computes the changed object from the stored object (in the URL's version), with the owners recorded in it; raises StatusError.

The flag is true if the stored object already passed the current schema and its parts are not changed in place.
"""

Uses: TypeAlias = Literal["copy", "parts", "look"]
"""How a `Make` uses the stored object: it consumes a copy; it returns parts of it unchanged; it only reads it."""

_PREFIXES: Final = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_KEPT: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


async def change(
    registry: Registry, request: ResourceRequest, entry: Entry, make: Make, *, uses: Uses = "copy"
) -> Data:
    """Change a stored object; returns the object as stored now."""
    while True:
        old = await read_in(registry, entry, request.resource, request.version)
        steady = _has_current_schema(registry, request, entry)
        if request.resource.conversion is None:
            shared = uses == "look" or (uses == "parts" and steady)
            new = make(old if shared else read(entry, request.resource, request.version), steady)
        else:
            new = await with_views(registry, request, partial(_made, make, old))
        _check_identity(request, new, entry)
        once(request, new)
        if request.info.verb == "patch" and not new["metadata"].get("resourceVersion"):
            # A patch without a version applies to the newest object, and webhooks get that object's version.
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = await mutated(registry, request, "UPDATE", new, old)
        _check_version(request, new, entry)
        restore(request, new, old)
        _count_generation(request, new, old)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        validated(request, new, old)
        allocated(registry, request, new, old)
        charges = await reviewed(registry, request, "UPDATE", new, old)
        if (new == old or apply_unchanged(old, new)) and not await _stored_otherwise(registry, request, entry, old):
            return old
        if request.options.dry_run:
            return await through_storage(registry, new, request.resource, request.version)
        try:
            stored = await _store(registry, request, entry, new)
        except Changed:
            newest = registry.entry(request)
            if newest is None:
                raise conflict(request.group, request.plural, request.info.name, MODIFIED) from None
            entry = newest
            continue
        charges()
        return stored


def _made(make: Make, old: Data) -> Data:
    return make(copied(old), False)


async def _stored_otherwise(registry: Registry, request: ResourceRequest, entry: Entry, old: Data) -> bool:
    """Tell whether storing an unchanged object would still change its stored form.

    Its schema or the storage version may have changed since, or the storage version has fields that the request's version lacks.
    """
    resource = request.resource
    if not resource.custom or (len(resource.versions) == 1 and in_form(entry, resource)):
        return False
    return await written(registry, old, resource) != entry.object()


def _has_current_schema(registry: Registry, request: ResourceRequest, entry: Entry) -> bool:
    """Tell whether an object was stored under the current schema; its parts must not be changed in place then."""
    own = schema_of(request) is not None and in_form(entry, request.resource)
    return own and not registry.admission.needed(request.resource.id, "UPDATE")


def _check_identity(request: ResourceRequest, new: Data, entry: Entry) -> None:
    """Check the requested name and uid against the stored object."""
    metadata = new["metadata"]
    if request.namespace and not metadata.get("namespace"):
        metadata["namespace"] = request.namespace
    if not metadata.get("name"):
        metadata["name"] = request.info.name
    if metadata["name"] != request.info.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({request.info.name})"
        )
    if request.info.verb == "update" and metadata.get("uid") and metadata["uid"] != entry.uid:
        why = (
            f"StorageError: invalid object, Code: 4, Key: {_key(request)}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {entry.uid}"
        )
        raise conflict(request.group, request.plural, request.info.name, why)


def _check_version(request: ResourceRequest, new: Data, entry: Entry) -> None:
    """Check the requested version, as admission left it, against the stored object."""
    given = new["metadata"].get("resourceVersion")
    if given in (None, "", "0"):
        strategy = request.resource.strategy
        if (
            (request.info.verb == "update" or given == "0")
            and (request.resource.custom or not strategy.unconditional_update)
            and request.info.subresource != "scale"
        ):
            wrong = FieldError("Invalid", "metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(request.group, request.plural, request.info.name, [wrong])
    elif not given.isdigit():
        raise StatusError(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
    elif given != str(entry.version):
        raise conflict(request.group, request.plural, request.info.name, MODIFIED)


def _key(request: ResourceRequest) -> str:
    """Return the key of the object in a real server's etcd: refusals contain it."""
    where = (
        f"{request.group}/{request.plural}"
        if request.resource.custom or request.group.endswith("apiextensions.k8s.io")
        else request.plural
    )
    where = _PREFIXES.get(request.resource.id, where)
    return "/".join(filter(None, ("/registry", where, request.namespace, request.info.name)))


def restore(request: ResourceRequest, new: Data, old: Data) -> None:
    """Restore, in place, the fields that a client cannot change."""
    metadata, before = new["metadata"], old["metadata"]
    for name in _KEPT:
        if name not in metadata and name in before:
            metadata[name] = before[name]
    metadata["creationTimestamp"] = before["creationTimestamp"]
    if not request.resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", before["namespace"]) != before["namespace"]:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    for name in ("generation", "selfLink"):
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]
    if request.resource.custom:
        _restore_custom(request, new, old)
    elif request.info.subresource == "status":
        request.resource.strategy.prepare_status(new, old)
    else:
        request.resource.strategy.prepare_update(new, old)


def _restore_custom(request: ResourceRequest, new: Data, old: Data) -> None:
    if not request.version.has_status:
        return
    if request.info.subresource == "status":
        kept = {key: value for key, value in old.items() if key not in ("status", "metadata")}
        for key in [key for key in new if key not in ("status", "metadata")]:
            del new[key]
        new.update(kept)
        if new.get("status", old) is None and "status" not in old:
            del new["status"]  # the server does not validate a null status if there was none before
        managed = new["metadata"].get("managedFields")
        new["metadata"] = {**old["metadata"]}
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        return
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def _count_generation(request: ResourceRequest, new: Data, old: Data) -> None:
    """Increment metadata.generation if the desired state changed."""
    if request.info.subresource == "status" or not (request.resource.custom or request.resource.strategy.generation):
        return
    passed = {"metadata", "status"} if request.version.has_status or not request.resource.custom else {"metadata"}
    if request.resource.custom or not hasattr(request.resource.strategy, "intent_changed"):
        moved = any(new.get(key) != old.get(key) for key in {*new, *old} - passed)
    else:
        moved = bool(request.resource.strategy.intent_changed(new, old))
    if moved:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def ends(new: Data) -> bool:
    """Tell whether an object under deletion can be removed."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (
            new.get("kind") == "Namespace"
            and new.get("apiVersion") == "v1"
            and (new.get("spec") or {}).get("finalizers")
        )
    )


async def _store(registry: Registry, request: ResourceRequest, entry: Entry, new: Data) -> Data:
    if ends(new):
        registry.store.delete(request.resource.id, entry)
        return new
    stored = await written(registry, new, request.resource)
    updated = registry.store.update(
        request.resource.id, entry, stored, schema=schema_of(request), differs=schema_of(request) is not None
    )
    if request.resource.alias is None and stored["metadata"] is new["metadata"]:
        return new  # contains the new version: its metadata is the stored metadata itself
    return await read_in(registry, updated, request.resource, request.version)
