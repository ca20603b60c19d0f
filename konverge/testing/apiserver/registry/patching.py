"""PATCH in its four forms, and PUT: how a request becomes the `make` of a change.

Source: apiserver `pkg/endpoints/handlers/{patch,update}.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver import patch as patches
from konverge.testing.apiserver import schemas
from konverge.testing.apiserver.apply import apply
from konverge.testing.apiserver.registry.ask import APPLY_TYPES, Ask
from konverge.testing.apiserver.registry.core import Data, Registry
from konverge.testing.apiserver.registry.creating import create
from konverge.testing.apiserver.registry.pipeline import (
    api_version_of,
    conform,
    decode_body,
    identify,
    kind_of,
    owned,
    report,
    reset_of,
)
from konverge.testing.apiserver.registry.updating import MODIFIED, change
from konverge.testing.apiserver.statuses import bad_request, conflict, not_found, unsupported_media_type

__all__ = ["patch", "update"]

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


async def update(registry: Registry, ask: Ask) -> tuple[Data, bool]:
    """PUT: replace an object; returns it, and whether it was created."""
    wanted = decode_body(ask)
    entry = registry.entry(ask)
    if entry is None:
        _named(ask, wanted)
        if not ask.resource.strategy.allow_create_on_update or ask.resource.custom or ask.place.subresource:
            raise not_found(ask.group, ask.plural, ask.place.name)
        return await create(registry, ask, wanted), True

    def make(old: Data) -> Data:
        new = {**wanted, "metadata": dict(wanted["metadata"])}
        _named(ask, new)
        owned(ask, old, new, registry.now())
        return new

    return await change(registry, ask, entry, make), False


def _named(ask: Ask, wanted: Data) -> None:
    name, namespace = wanted["metadata"].get("name"), wanted["metadata"].get("namespace")
    if not name:
        raise bad_request("the name of the object ( based on URL) was undeterminable: name must be provided")
    if name != ask.place.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({ask.place.name})")
    if ask.resource.namespaced and namespace and namespace != ask.namespace:
        text = f"the namespace of the object ({namespace}) does not match the namespace on the URL ({ask.namespace})"
        raise bad_request(text)


async def patch(registry: Registry, ask: Ask) -> tuple[Data, bool]:
    """PATCH: change an object, or create it by apply; returns it, and whether it was created."""
    if ask.media_type in APPLY_TYPES:
        return await _apply(registry, ask)
    document = _document(ask)
    entry = registry.entry(ask)
    if entry is None:
        raise not_found(ask.group, ask.plural, ask.place.name)

    def make(old: Data) -> Data:
        version = old["metadata"]["resourceVersion"]
        new = _patched(ask, old, document)
        identify(ask, new)
        conform(ask, new)
        if new["metadata"].get("resourceVersion") == version:
            del new["metadata"][
                "resourceVersion"
            ]  # not named by the patch: the change may be made anew on a newer object
        owned(ask, old, new, registry.now())
        return new

    return await change(registry, ask, entry, make), False


def _document(ask: Ask) -> Any:
    offers = [JSON, MERGE, "application/apply-patch+yaml"]
    if not ask.resource.custom:
        offers.insert(2, STRATEGIC)
    if ask.media_type not in offers:
        raise unsupported_media_type(offers)
    return patches.decode_patch(ask.call.body, ask.media_type)


def _patched(ask: Ask, old: Data, document: Any) -> Data:
    if ask.media_type == JSON:
        return patches.json_patch(old, document)
    if ask.media_type == MERGE:
        return patches.merge_patch(old, document)
    return patches.strategic_merge(old, document, ask.version.schema)


async def _apply(registry: Registry, ask: Ask) -> tuple[Data, bool]:
    found = schemas.decode(ask.call.body, "application/yaml", strict=ask.options.validation != "Ignore")
    intent = found.data
    entry = registry.entry(ask)
    _fitting(ask, intent)
    if entry is None:
        if ask.place.subresource:
            raise not_found(ask.group, ask.plural, ask.place.name)
        if (intent.get("metadata") or {}).get("uid"):
            why = f"uid mismatch: the provided object specified uid {intent['metadata']['uid']}, and no existing object was found"
            raise conflict(ask.group, ask.plural, ask.place.name, why)
        new = _applied(registry, ask, None, intent, found.duplicates)
        return await create(registry, ask, new, track=False), True
    fresh = [found]  # what `apply` returns shares parts with the intent, so a second attempt needs one of its own

    def make(old: Data) -> Data:
        given = fresh.pop() if fresh else schemas.decode(ask.call.body, "application/yaml", strict=False)
        return _applied(registry, ask, old, given.data, given.duplicates)

    return await change(registry, ask, entry, make), False


def _fitting(ask: Ask, intent: Data) -> None:
    kind, api_version = intent.get("kind"), intent.get("apiVersion")
    if not kind or not api_version:
        return  # `apply` words what is missing
    if (kind, api_version) != (kind_of(ask), api_version_of(ask)):
        identify(ask, intent)


def _applied(registry: Registry, ask: Ask, live: Data | None, intent: Data, duplicates: list[str]) -> Data:
    version = None if live is None else live["metadata"].get("resourceVersion")
    given = (intent.get("metadata") or {}).get("resourceVersion")
    if live is not None and given and given != version:
        raise conflict(ask.group, ask.plural, ask.place.name, MODIFIED)
    intent = _pruned(ask, intent, duplicates)
    new = apply(
        ask.version.schema,
        live,
        intent,
        manager=ask.options.manager,
        force=ask.options.force,
        api_version=ask.api_version,
        subresource=ask.place.subresource,
        now=registry.now(),
        reset=reset_of(ask),
        kind=kind_of(ask),
        versions={ask.resource.api_version(one.name): one.schema for one in ask.resource.versions},
    )
    if new is live:
        new = {**new}
    new["metadata"] = dict(new["metadata"])
    if new["metadata"].get("resourceVersion") == version:
        new["metadata"].pop("resourceVersion", None)
    conform(ask, new)
    return new


def _pruned(ask: Ask, intent: Data, duplicates: list[str]) -> Data:
    """Drop what the schema does not know from an intent, and report it."""
    unknown = schemas.prune(ask.version.schema, intent)
    report(ask, [*unknown, *duplicates])
    return intent
