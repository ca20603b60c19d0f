"""Creating objects: POST, and the PUT or apply of an absent object.

Guarantees: the order of steps is the real server's: fields that the system fills, field owners recorded, mutating admission, the kind's own
preparation, validation, validating admission, storage. Nothing is stored in a dry run. Source: `pkg/registry/generic/registry/store.go`,
`pkg/registry/rest/create.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.registry.converting import read_in, through_storage, written
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.pipeline import (
    once,
    owned,
    schema_of,
    validated,
)
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.registry.reviewing import mutated, reviewed
from konverge_testing.apiserver.statuses import (
    StatusError,
    already_exists,
    bad_request,
    being_deleted,
    forbidden,
    invalid,
)
from konverge_testing.apiserver.storage import Exists

__all__ = ["allocated", "create", "placed"]

_GENERATED_ATTEMPTS = 8


async def create(registry: Registry, request: ResourceRequest, data: Data, *, track: bool = True) -> Data:
    """Create an object that has passed `conform`; returns it as stored. `track` False: its managedFields are settled already (apply)."""
    metadata = data["metadata"]
    if request.resource.id in registry.ending:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(request.group, request.plural, metadata.get("name", ""), why)
    placed(request, data)
    _check_name(request, data)
    _wipe(data)
    once(request, data)
    if track:
        owned(request, None, data, registry.now())
    data = await mutated(registry, request, "CREATE", data, None)
    placed(request, data)
    generated = _name(registry, request, data)
    _system_fields(registry, data)
    _prepare(request, data)
    if request.resource.strategy.generation or request.resource.custom:
        data["metadata"]["generation"] = 1
    validated(request, data, None)
    allocated(registry, request, data, None)
    charges = await reviewed(registry, request, "CREATE", data, None)
    if not request.options.dry_run:
        _without_version(data)
    # A failed conversion is reported before an existing name, as on a server, but not in a dry run.
    stored = data if request.options.dry_run else await written(registry, data, request.resource)
    for attempt in range(_GENERATED_ATTEMPTS):
        there = registry.store.get(request.resource.id, request.namespace, data["metadata"]["name"])
        if there is None:
            break
        if not generated or attempt == _GENERATED_ATTEMPTS - 1:
            if b'"deletionTimestamp"' in there.raw and there.metadata().get("deletionTimestamp"):
                raise being_deleted(request.group, request.plural, data["metadata"]["name"])
            raise already_exists(request.group, request.plural, data["metadata"]["name"])
        data["metadata"]["name"] = stored["metadata"]["name"] = _generated(registry, request, data)
    if request.options.dry_run:
        return await through_storage(registry, data, request.resource, request.version)
    try:
        entry = registry.store.create(request.resource.id, stored, schema=schema_of(request))
    except Exists:
        raise already_exists(request.group, request.plural, data["metadata"]["name"]) from None
    charges()
    return await read_in(registry, entry, request.resource, request.version)


def _without_version(data: Data) -> None:
    """Refuse an object with a resourceVersion, with the message of storage; drop an invalid or zero version, in place."""
    given = data["metadata"].pop("resourceVersion", None) or "0"
    if given.isdigit() and 0 < int(given) < 2**64:
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")


def allocated(registry: Registry, request: ResourceRequest, new: Data, old: Data | None) -> None:
    """Let a kind allocate from a shared pool (a service its addresses and ports), in place."""
    allocate = getattr(request.resource.strategy, "allocate", None)
    if allocate is None or request.resource.custom or request.info.subresource:
        return
    place = request.namespace, new["metadata"]["name"]
    others = [one.object() for one in registry.store.list(request.resource.id) if (one.namespace, one.name) != place]
    errors = allocate(new, old, others, registry.draws.of(request.resource.kind, new))
    if errors:
        raise invalid(request.group, request.resource.kind, place[1], errors)


def placed(request: ResourceRequest, data: Data) -> None:
    """Give an object the URL's namespace, or refuse another namespace."""
    metadata = data["metadata"]
    if not request.resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace") or request.namespace
    if given != request.namespace:
        raise _wrong_namespace()
    metadata["namespace"] = given


def _wrong_namespace() -> Exception:
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _check_name(request: ResourceRequest, data: Data) -> None:
    """Give an object the URL's name, or refuse another name."""
    metadata, wanted = data["metadata"], request.info.name
    if not wanted:
        return
    if metadata.get("name") and metadata["name"] != wanted:
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({wanted})"
        raise bad_request(text)
    if request.info.verb != "create":  # a POST to the path of a custom object ignores the name in it
        metadata["name"] = wanted


def _name(registry: Registry, request: ResourceRequest, data: Data) -> bool:
    """Generate the name from generateName; return whether a name was generated."""
    metadata = data["metadata"]
    if metadata.get("name"):
        return False
    if not metadata.get("generateName"):
        if request.resource.id == ("", "limitranges"):
            metadata["name"] = registry.draws.of(request.resource.kind, data).named_by_uid()
        return False  # validation refuses the object
    metadata["name"] = _generated(registry, request, data)
    return True


def _generated(registry: Registry, request: ResourceRequest, data: Data) -> str:
    prefix = data["metadata"]["generateName"][:58]
    return registry.draws.of(request.resource.kind, data).suffixed("name", prefix)


def _wipe(data: Data) -> None:
    """Drop the fields that only the system sets, before any webhook gets the object."""
    metadata = data["metadata"]
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(name, None)


def _system_fields(registry: Registry, data: Data) -> None:
    data["metadata"]["uid"] = registry.draws.uid()
    data["metadata"]["creationTimestamp"] = registry.now()


def _prepare(request: ResourceRequest, data: Data) -> None:
    if request.resource.custom:
        if request.version.has_status:
            data.pop("status", None)
            schemas.default(request.version.schema, data, keep_nulls=True)
        return
    request.resource.strategy.prepare_create(data)
