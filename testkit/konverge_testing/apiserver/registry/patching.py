"""PATCH in its four forms, and PUT: the conversion of a request to the function that computes the changed object.

Source: apiserver `pkg/endpoints/handlers/{patch,update}.go`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from konverge_testing.apiserver import patch as patches
from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.apply import apply
from konverge_testing.apiserver.golang import plain
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.creating import create
from konverge_testing.apiserver.registry.pipeline import (
    check_identity,
    conform,
    decode_body,
    identify,
    kind_of,
    owned,
    report,
    reset_of,
)
from konverge_testing.apiserver.registry.request import APPLY_TYPES, ResourceRequest
from konverge_testing.apiserver.registry.updating import MODIFIED, change
from konverge_testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    not_found,
    unsupported_media_type,
)

__all__ = [
    "conformed",
    "decode_configuration",
    "patch",
    "patch_document",
    "patched",
    "repeated_fields",
    "update",
]

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


_UNFIT: Final = re.compile(
    r"json: cannot unmarshal (?P<given>\w+) into Go (?:struct field \S+|value) of type (?P<type>\S+)"
)


async def update(registry: Registry, request: ResourceRequest) -> tuple[Data, bool]:
    """PUT: replace an object; returns it, and whether it was created."""
    _addressed(request)
    wanted = decode_body(request)
    entry = registry.entry(request)
    if entry is None:
        check_identity(request, wanted)
        if not request.resource.strategy.allow_create_on_update or request.resource.custom or request.info.subresource:
            raise not_found(request.group, request.plural, request.info.name)
        wanted["metadata"].pop("resourceVersion", None)
        return await create(registry, request, wanted), True

    def make(old: Data, steady: bool) -> Data:
        new = {**wanted, "metadata": dict(wanted["metadata"])}
        check_identity(request, new)
        owned(request, old, new, registry.now(), settled=steady)
        return new

    return await change(registry, request, entry, make, uses="look"), False


def _addressed(request: ResourceRequest) -> None:
    """Refuse a change of a whole collection."""
    if not request.info.name:
        raise bad_request("name must be provided") if request.resource.custom else method_not_allowed()


async def patch(registry: Registry, request: ResourceRequest) -> tuple[Data, bool]:
    """PATCH: change an object, or create it by apply; returns it, and whether it was created."""
    _addressed(request)
    if request.media_type in APPLY_TYPES:
        return await _apply(registry, request)
    document = patch_document(request)
    repeated = repeated_fields(request)
    entry = registry.entry(request)
    if entry is None:
        raise not_found(request.group, request.plural, request.info.name)

    def make(old: Data, steady: bool) -> Data:
        version = old["metadata"]["resourceVersion"]
        new = patched(request, old, document)
        conformed(request, new, document, repeated)
        check_identity(request, new)
        if new["metadata"].get("resourceVersion") == version:
            del new["metadata"][
                "resourceVersion"
            ]  # not in the patch: the change may be computed again on a newer object
        owned(request, old, new, registry.now(), settled=steady)
        return new

    return await change(registry, request, entry, make), False


def conformed(request: ResourceRequest, new: Data, document: Any, repeated: Sequence[str] = ()) -> None:
    """Complete a patched object, in place; an object that cannot be decoded is an error of the patch (422)."""
    try:
        identify(request, new)
        conform(request, new, list(repeated))
    except StatusError as error:
        if error.code != 400:
            raise
        words = error.message.partition("cannot be handled as a ")[2].partition(": ")[2] or error.message
        if request.media_type == STRATEGIC:
            shown = plain(document)
            words = _restored(words)
        else:
            shown = json.dumps(new, separators=(",", ":"))
        raise invalid("", "", "", [FieldError("Invalid", "patch", shown, words)]) from None


def _restored(words: str) -> str:
    """Return the error of Go's converter from maps to structs, which reads strategic patches."""
    found = _UNFIT.fullmatch(words)
    if found is None:
        return words
    given = {"object": "map", "array": "slice", "number": "int64"}.get(found["given"], found["given"])
    if found["type"].startswith("[]"):
        return f"cannot restore slice from {given}"
    if found["type"].startswith("map["):
        return f"cannot restore map from {given}"
    if "." in found["type"]:
        return f"cannot restore struct from: {given}"
    return f"unrecognized type: {found['type']}"


def patch_document(request: ResourceRequest) -> Any:
    """Decode the patch of a request; raises 415 for a type of patch that the kind does not support."""
    offers = [JSON, MERGE, "application/apply-patch+yaml"]
    if not request.resource.custom:
        offers.insert(2, STRATEGIC)
    if request.media_type not in offers:
        raise unsupported_media_type(offers)
    document = patches.decode_patch(request.call.body, request.media_type)
    return schemas.with_floats(document, request.call.body) if request.resource.custom else document


def repeated_fields(request: ResourceRequest) -> list[str]:
    """Return the problems of a patch that strict decoding finds: fields given twice, and unknown fields of a JSON patch."""
    if request.options.validation == "Ignore":
        return []
    return patches.strict_problems(request.call.body, request.media_type)


def patched(request: ResourceRequest, old: Data, document: Any) -> Data:
    """Return the patched object; it is not conformed yet."""
    if request.media_type == JSON:
        return patches.json_patch(old, document)
    if request.media_type == MERGE:
        return patches.merge_patch(old, document)
    return patches.strategic_merge(old, document, request.version.schema)


def decode_configuration(request: ResourceRequest) -> schemas.Decoded:
    """Decode the configuration of a server-side apply; raises 400 for fields given twice if the request refuses them."""
    found = _intent(request, strict=request.options.validation != "Ignore")
    if found.duplicates and request.options.validation == "Strict":
        lines = "".join(f"\n  {line}" for line in found.duplicates)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
    return found


def _intent(request: ResourceRequest, *, strict: bool = False) -> schemas.Decoded:
    found = schemas.decode_intent(request.call.body, strict=strict)
    if request.resource.custom:
        found.data = schemas.with_floats(found.data, request.call.body)
    return found


async def _apply(registry: Registry, request: ResourceRequest) -> tuple[Data, bool]:
    found = decode_configuration(request)
    intent = found.data
    entry = registry.entry(request)
    if entry is None:
        if request.info.subresource:
            raise not_found(request.group, request.plural, request.info.name)
        if (intent.get("metadata") or {}).get("uid"):
            why = f"uid mismatch: the provided object specified uid {intent['metadata']['uid']}, and no existing object was found"
            raise conflict(request.group, request.plural, request.info.name, why)
        new = _applied(registry, request, None, intent, found.duplicates)
        # A resourceVersion is ignored: no object exists that could be at another version.
        new["metadata"].pop("resourceVersion", None)
        return await create(registry, request, new, track=False), True
    fresh = [found]  # the result of `apply` shares parts with the intent, so a second attempt decodes a new intent

    def make(old: Data, steady: bool) -> Data:
        given = fresh.pop() if fresh else _intent(request)
        return _applied(registry, request, old, given.data, given.duplicates, steady=steady)

    return await change(registry, request, entry, make, uses="parts"), False


_NO_VERSION = (None, "", "0")


def _applied(
    registry: Registry,
    request: ResourceRequest,
    live: Data | None,
    intent: Data,
    duplicates: list[str],
    *,
    steady: bool = False,
) -> Data:
    version = None if live is None else live["metadata"].get("resourceVersion")
    given = (intent.get("metadata") or {}).get("resourceVersion")
    if live is not None and given not in _NO_VERSION and given != version:
        raise conflict(request.group, request.plural, request.info.name, MODIFIED)
    new = apply(
        request.version.schema,
        live,
        intent,
        manager=request.options.manager,
        force=request.options.force,
        api_version=request.api_version,
        subresource=request.info.subresource,
        now=registry.now(),
        reset=reset_of(request),
        kind=kind_of(request),
        versions={request.resource.api_version(one.name): one.schema for one in request.resource.versions},
        settled=steady,
        views=request.views,
    )
    report(request, duplicates)
    unchanged = live is not None and request.resource.custom and _owners_alone(live, new)
    if new is live:
        new = {**new}
    new["metadata"] = dict(new["metadata"])
    if new["metadata"].get("resourceVersion") == version:
        new["metadata"].pop("resourceVersion", None)
    if not unchanged:  # fields that an apply did not change are not defaulted in its version
        conform(request, new, like=live if steady else None, applied=True)
    check_identity(request, new)
    return new


def _owners_alone(live: Data, new: Data) -> bool:
    """Tell whether an apply changed only the owners of fields."""
    if new is live:
        return True
    before, after = ({**one["metadata"], "managedFields": None} for one in (live, new))
    return after == before and all(new.get(name) is live.get(name) for name in {*live, *new} - {"metadata"})
