"""The steps of every write to the store: decode, check against the URL, prune, default, validate, and record the field owners.

Guarantees: the order is the real server's (k8s.io/apiserver `pkg/endpoints/handlers/{create,update,patch}.go`, `pkg/registry/rest`).
Nothing here reads or writes storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.admission import AdmissionCall
from konverge_testing.apiserver.apply import manager_name, track_update
from konverge_testing.apiserver.catalog import definition_of
from konverge_testing.apiserver.conversion import unknown_version
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.reading import stored
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.schemas.copying import copied
from konverge_testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    internal,
    invalid,
    unsupported_media_type,
)
from konverge_testing.apiserver.storage import Entry

__all__ = [
    "READ",
    "SCHEME",
    "api_version_of",
    "as_stored",
    "as_version",
    "check_identity",
    "conform",
    "decode_body",
    "decode_other",
    "identify",
    "kind_of",
    "manager_of",
    "once",
    "owned",
    "read",
    "report",
    "reset_of",
    "schema_of",
    "settled",
    "validated",
]

Data = dict[str, Any]

READ: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
"""The media types of bodies, as in the server's message."""
SCHEME: Final = "pkg/runtime/scheme.go:111"
"""The name of the set of known kinds, as in the server's messages."""
_FINALIZERS: Final = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
_STATUS_RESET: Final = (("status",),)
_OF_STATUS: Final = (("metadata",), ("spec",))


def decode_body(request: ResourceRequest) -> Data:
    """Decode the body of a create or update into an object of the URL's version, conformed to its schema."""
    strict = request.options.validation != "Ignore"
    custom = request.resource.custom and not request.info.subresource
    media_type = request.media_type or "application/json"
    if media_type not in READ:
        raise unsupported_media_type(READ)
    if request.call.body == b"null" and not custom:
        request.call.body = b"{}"
    found = schemas.decode(request.call.body, media_type, strict=strict, kind=kind_of(request), custom=custom)
    if request.resource.custom:
        found.data = schemas.with_floats(found.data, request.call.body)
    identify(request, found.data)
    conform(request, found.data, found.duplicates)
    return found.data


def decode_other(request: ResourceRequest) -> Data:
    """Decode a body of the kind of a subresource or of an unstored request: Eviction, TokenRequest, TokenReview."""
    # Imported here: these packages are slow to load, and such requests are rare.
    from konverge_testing.apiserver.catalog import definition_of, schema_node
    from konverge_testing.apiserver.strategies import decode_errors

    kind = kind_of(request)
    media_type = request.media_type or "application/json"
    if media_type not in READ:
        raise unsupported_media_type(READ)
    found = schemas.decode(request.call.body, media_type, kind=kind).data
    identify(request, found)
    group, _, version = api_version_of(request).rpartition("/")
    wrong = decode_errors(kind, version, schema_node(definition_of(group, version, kind)), found)
    if wrong is not None:
        raise wrong
    return found


def check_identity(request: ResourceRequest, wanted: Data) -> None:
    """Refuse the body of a PUT whose name or namespace differs from the URL's."""
    name, namespace = wanted["metadata"].get("name"), wanted["metadata"].get("namespace")
    if not name:
        text = f"the name of the object ({request.info.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if name != request.info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.info.name})")
    if request.resource.namespaced and namespace and namespace != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def identify(request: ResourceRequest, data: Data) -> None:
    """Refuse a body whose kind or version differs from the URL's; fill in both if they are missing."""
    kind, api_version = data.get("kind"), data.get("apiVersion")
    wanted_kind, wanted_version = kind_of(request), api_version_of(request)
    if not request.resource.custom and (api_version in (None, "") or kind in (None, "")):
        kind, api_version = kind or wanted_kind, api_version or wanted_version
    if api_version != wanted_version or kind != wanted_kind:
        raise _wrong_kind(request, data, kind, api_version, wanted_kind, wanted_version)
    data["kind"], data["apiVersion"] = wanted_kind, wanted_version
    metadata = data.get("metadata")
    if metadata is None:
        data["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")


def _wrong_kind(
    request: ResourceRequest, data: Data, kind: Any, api_version: Any, wanted_kind: str, wanted_version: str
) -> StatusError:
    _, _, version = str(api_version or "").rpartition("/")
    if not kind:
        return bad_request("Object 'Kind' is missing in body")
    if request.resource.custom and api_version == wanted_version:
        wrong = FieldError("Invalid", "kind", kind, f"must be {wanted_kind}")
        name = str((data.get("metadata") or {}).get("name") or "")
        return invalid(request.group, str(kind), name, [wrong])
    if not request.resource.custom:
        words = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"'
        group, _, version = str(api_version).rpartition("/")
        if definition_of(group, version, str(kind)):
            if kind == wanted_kind and group == wanted_version.rpartition("/")[0]:
                return bad_request(_unequal_versions(api_version, wanted_version))
            words = f"converting ({version}.{kind}) to ({_package(wanted_version)}.{wanted_kind}): unknown conversion"
        return bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted_kind}: {words}')
    return bad_request(_unequal_versions(api_version, wanted_version))


def _unequal_versions(given: Any, wanted: str) -> str:
    return f"the API version in the data ({given or ''}) does not match the expected API version ({wanted})"


def _package(api_version: str) -> str:
    """Return the Go package of a group's internal types.

    >>> _package("v1"), _package("rbac.authorization.k8s.io/v1")
    ('core', 'rbac')
    """
    group = api_version.rpartition("/")[0]
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


def kind_of(request: ResourceRequest) -> str:
    """Return the required kind of the body; Scale for a scale subresource."""
    return {"scale": "Scale", "eviction": "Eviction", "token": "TokenRequest", "binding": "Binding"}.get(
        request.info.subresource, request.resource.kind
    )


def api_version_of(request: ResourceRequest) -> str:
    """Return the required apiVersion of the body."""
    return {
        "scale": "autoscaling/v1",
        "eviction": "policy/v1",
        "token": "authentication.k8s.io/v1",
        "binding": "v1",
    }.get(request.info.subresource, request.api_version)


def conform(
    request: ResourceRequest,
    data: Data,
    duplicates: list[str] | tuple[str, ...] = (),
    *,
    like: Mapping[str, Any] | None = None,
    applied: bool = False,
) -> None:
    """Prune, report unknown fields as the client requested, normalise and default, in place.

    `like` is an object that has passed this function: a part of `data` that is the same object in memory is skipped. `applied`: the object
    is the result of an apply; nulls of custom resources then stay until validation.
    """
    node = request.version.schema
    if request.resource.custom:
        done = schemas.in_order(node, data, like)
        report(request, [*duplicates, *schemas.prune(node, data, done=done)])
        schemas.default(node, data, done=done, keep_nulls=applied)
        return
    from konverge_testing.apiserver.strategies import decode_errors, normalise

    wrong = decode_errors(request.resource.kind, request.version.name, node, data)
    if wrong is not None:
        raise wrong
    report(request, [*duplicates, *schemas.prune(node, data)])
    normalise(node, data)
    request.resource.strategy.default(data)


def schema_of(request: ResourceRequest) -> Node | None:
    """Return the schema of a custom resource with a single version; else None."""
    return request.version.schema if request.resource.custom and len(request.resource.versions) == 1 else None


def settled(call: AdmissionCall, data: Data) -> Data:
    """Complete a patched object before the next webhook is called: check its types, prune and default it."""
    version = call.resource.version(call.version)
    if version is None or call.group_kind is not None:
        return data
    if call.resource.custom:
        schemas.prune(version.schema, data)
        schemas.default(version.schema, data)
        return data
    from konverge_testing.apiserver.strategies import decode_errors, normalise

    wrong = decode_errors(call.resource.kind, version.name, version.schema, data)
    if wrong is not None:
        raise internal(wrong.message.partition(f" cannot be handled as a {call.resource.kind}: ")[2])
    schemas.prune(version.schema, data)
    normalise(version.schema, data)
    call.resource.strategy.default(data)
    return data


def report(request: ResourceRequest, problems: list[str]) -> None:
    """Refuse, warn of, or ignore fields that are unknown or given twice."""
    if not problems or request.options.validation == "Ignore":
        return
    if request.options.validation == "Strict":
        raise bad_request(_strict_text(request, problems))
    request.warnings += problems


def _strict_text(request: ResourceRequest, problems: list[str]) -> str:
    kind, version = request.resource.kind, request.version.name
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {schemas.strict_words(problems)}'


def once(request: ResourceRequest, data: Data) -> None:
    """Drop owner references that are given twice, in place, and warn of them."""
    references = data["metadata"].get("ownerReferences")
    if not references or len(references) < 2:
        return
    kept: list[Any] = []
    twice: dict[str, None] = {}
    for one in references:
        if one in kept:
            twice[str(one.get("uid", ""))] = None
        else:
            kept.append(one)
    if twice:
        data["metadata"]["ownerReferences"] = kept
        request.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
            f"such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(twice)}"
        )


def read(entry: Entry, resource: Resource, version: Version) -> Data:
    """Return a stored object in a version of a resource."""
    return as_version(stored(entry, resource), resource, version)


def as_version(data: Data, resource: Resource, version: Version) -> Data:
    """Return a stored object in a version of a resource; the argument may be changed, no webhook is called (see `converting`)."""
    if resource.alias is not None:
        return resource.alias.read(data)
    wanted = resource.api_version(version.name)
    if resource.custom:
        _converted(data, wanted, resource, version)
    return resource.strategy.convert(data, wanted)


def _converted(data: Data, wanted: str, resource: Resource, version: Version) -> None:
    """Set the version of an object, in place: no field is converted, but fields that the version does not have are pruned."""
    if data["apiVersion"] != wanted:
        if resource.written_in(data["apiVersion"]) is None:
            raise unknown_version(data["apiVersion"])
        data["apiVersion"] = wanted
        schemas.prune(version.schema, data)


def as_stored(data: Data, resource: Resource) -> Data:
    """Return an object as it is stored; the argument is not changed."""
    if resource.alias is not None:
        return resource.alias.write(data)
    wanted = resource.api_version(resource.storage.name)
    if resource.custom and data.get("apiVersion") != wanted:
        data = copied(data)
        _converted(data, wanted, resource, resource.storage)
    elif len(resource.versions) > 1:
        data = resource.strategy.convert(copied(data), wanted)
    return {**data, "apiVersion": wanted}


def reset_of(request: ResourceRequest) -> tuple[tuple[str, ...], ...]:
    """Return the paths that a write through this subresource does not own."""
    if request.resource.custom:
        if not request.version.has_status:
            return ()
        return _OF_STATUS if request.info.subresource == "status" else _STATUS_RESET
    return request.resource.strategy.reset_fields.get(request.info.subresource, ())


def versions_of(resource: Resource) -> dict[str, Node] | None:
    """Return the schemas of a built-in kind with several versions, by apiVersion; None if one schema holds for all fields."""
    if resource.custom or len(resource.versions) == 1:
        return None
    return {resource.api_version(one.name): one.schema for one in resource.versions}


def manager_of(request: ResourceRequest) -> str:
    """Return the field manager: as given, else from the User-Agent."""
    return manager_name(request.options.manager, request.agent)


def owned(request: ResourceRequest, live: Data | None, new: Data, now: str, *, settled: bool = False) -> None:
    """Record in `new`, in place, the field owners after this create or update; `settled` is as for `track_update`."""
    managed = track_update(
        request.version.schema,
        live,
        new,
        manager=manager_of(request),
        api_version=request.api_version,
        subresource=request.info.subresource,
        now=now,
        reset=reset_of(request),
        versions=versions_of(request.resource),
        settled=settled,
        views=request.views,
    )
    if managed:
        new["metadata"]["managedFields"] = managed
    else:
        new["metadata"].pop("managedFields", None)


def validated(request: ResourceRequest, new: Data, old: Data | None) -> None:
    """Refuse an invalid object, with all its errors; collect warnings."""
    resource, errors = request.resource, list[FieldError]()
    if old is None:
        errors += schemas.validate_metadata(new, namespaced=resource.namespaced, name_rule=_name_rule(resource))
    else:
        errors += schemas.validate_metadata_update(new, old)
    if resource.custom:
        errors += schemas.validate(
            request.version.schema,
            new,
            old,
            subresource=request.info.subresource,
            scale=request.version.scale,
            prior=errors,
            warnings=request.warnings,
        )
    else:
        errors += _plain_finalizers(new)
    errors += resource.strategy.validate(new, old, request.info.subresource)
    if errors:
        group = (
            "" if resource.group == "events.k8s.io" else resource.group
        )  # they are validated under their internal type
        raise invalid(group, resource.kind, new["metadata"].get("name", ""), errors)
    if resource.custom:
        request.warnings += schemas.finalizer_warnings(new, old)
    request.warnings += resource.strategy.warnings(new, old)


def _plain_finalizers(new: Data) -> list[FieldError]:
    """Refuse finalizers of built-in kinds that are neither qualified nor Kubernetes' own."""
    words = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        FieldError("Invalid", f"metadata.finalizers[{index}]", name, words)
        for index, name in enumerate(new["metadata"].get("finalizers") or ())
        if "/" not in name and name not in _FINALIZERS
    ]


def _name_rule(resource: Resource) -> str:
    return getattr(resource.strategy, "name_rule", "subdomain")
