"""Server-side apply: `apply` merges a configuration into the live object and returns the new field owners.

Guarantees: pure; arguments are never changed, but the result shares parts with them, so change copies only. Refusals are `StatusError`s in
the server's words. Facts: apimachinery `pkg/util/managedfields/internal/{structuredmerge,versioncheck,conflict,lastapplied*}.go`,
structured-merge-diff v6 `merge/update.go`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from konverge_testing.apiserver.apply import owners as entries
from konverge_testing.apiserver.apply.elements import go_json
from konverge_testing.apiserver.apply.fieldset import (
    Fields,
    difference,
    has,
    intersection,
    path_text,
    paths,
    recursive_difference,
    union,
)
from konverge_testing.apiserver.apply.merging import merge, remove, with_parents
from konverge_testing.apiserver.apply.owners import Key, Owner, Owners
from konverge_testing.apiserver.apply.shapes import Shape, shape_of
from konverge_testing.apiserver.apply.tracking import Changes, Versions, Views, deduct, reset_fields, settle, track
from konverge_testing.apiserver.apply.typed import Misfit, compare, field_set, same
from konverge_testing.apiserver.apply.wording import misfits
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["apply", "apply_unchanged"]

Data = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE: Final = "before-first-apply"
_ANNOTATIONS_LIMIT: Final = 256 * 1024

Conflicts = dict[Key, list[tuple[str, ...]]]


class _Conflict(Exception):
    """Other managers own fields that the configuration would change."""

    def __init__(self, conflicts: Conflicts) -> None:
        super().__init__()
        self.conflicts = conflicts


@dataclass(slots=True)
class _Request:
    node: Node
    live: Data | None
    patch: Data
    manager: str
    api_version: str
    subresource: str
    now: str
    reset: Sequence[tuple[str, ...]]
    versions: Versions
    settled: bool
    views: Views | None
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.shape = shape_of(self.node)


def apply(
    node: Node,
    live: Data | None,
    patch: Data,
    *,
    manager: str,
    force: bool,
    api_version: str,
    subresource: str,
    now: str,
    reset: Sequence[tuple[str, ...]] = (),
    kind: str = "",
    versions: Versions = None,
    settled: bool = False,
    views: Views | None = None,
) -> Data:
    """Return the object after an apply, managedFields included; `live` None creates it. The live object itself if nothing changes.

    The configuration's kind is checked against `kind`, or without `kind` against the live object's. A part that the apply empties
    becomes null, and null stays null, since pruning, defaulting and validation follow. `reset`, `versions` and `views` are as for
    `track_update`; `settled`: the live object's entries were written under the current schemas.

    Raises StatusError: 409 for fields of others unless forced, 400 for another kind or version and for managedFields in the configuration,
    500 (as the server) for a configuration that does not fit the schema.
    """
    request = _Request(node, live, patch, manager, api_version, subresource, now, reset, versions, settled, views)
    before = (live.get("metadata") or {}).get("managedFields") if live is not None else None
    owners = entries.read(before)
    if owners is None:
        raise StatusError(500, "", "failed to decode managed fields: the live object's entries make no sense")
    _check_type(patch, api_version, kind or (live or {}).get("kind", ""))
    try:
        merged = _apply(request, owners, force)
    except _Conflict as conflict:
        allowed = _allowed_by_kubectl(request) if manager == "kubectl" else None
        left = conflict.conflicts
        if allowed is not None:
            left = {key: [path for path in found if not has(allowed, path)] for key, found in left.items()}
        if any(left.values()):
            raise _refusal({key: found for key, found in left.items() if found}) from None
        merged = _apply(request, owners := entries.read(before) or {}, force=True)
    return _finished(live, merged, entries.write(owners), before, patch if manager == "kubectl" else None)


def _check_type(patch: Data, api_version: str, kind: str) -> None:
    given, shown_kind = patch.get("apiVersion") or "", patch.get("kind") or ""
    if given != api_version or (kind and shown_kind != kind) or not shown_kind:
        raise bad_request(f"invalid object type: {_gvk(patch)}")


def _gvk(object_: Data) -> str:
    version = object_.get("apiVersion") or ""
    return f"{version if '/' in version else f'/{version}'}, Kind={object_.get('kind') or ''}"


def _apply(request: _Request, owners: Owners, force: bool) -> Data:
    """Return the merged object, or the live object itself if it is equal. Changes `owners`."""
    live, patch, shape = request.live, request.patch, request.shape
    who = (request.manager, request.api_version, request.subresource)
    try:
        if not owners and live is not None:
            track(request.node, None, live, owners, (_BEFORE, *who[1:]), request.now, request.reset)
        metadata = patch.get("metadata")
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        config = _fields_of(request)
        if not request.settled:
            settle(request.node, owners, request.api_version, request.versions)
        base: Data = live if live is not None else {}
        merged: Data = merge(shape, base, patch)
        named = config
        if request.reset:
            named = recursive_difference(config, reset_fields(request.reset))
        key = entries.key_of(request.manager, "Apply", request.api_version, request.subresource)
        last = owners.get(key)
        mine = entries.strip(named)
        if last is not None and last.fields != mine and difference(last.fields, mine):
            owners[key] = Owner(named, request.api_version)
            merged = _pruned(request, merged, owners, last)
        if merged is not base and (request.views is not None or not _apart(owners, key, mine, last)):
            _take(request, owners, key, base, merged, force)
    except Misfit:
        _misfit(request)
    if live is not None and (merged is live or same(merged, live)):
        merged = live
    _record_ownership(owners, key, mine, request, last, changed=merged is not live)
    return merged


def _fields_of(request: _Request) -> Fields:
    try:
        return field_set(request.shape, request.patch, duplicates=False)
    except Misfit:
        words = misfits(request.shape, request.patch)
        raise StatusError(
            500, "", f"failed to create typed patch object ({_identified(request.patch)}): {words}"
        ) from None


def _misfit(request: _Request) -> NoReturn:
    words = misfits(request.shape, request.live or {}, duplicates=True) or "it does not fit its schema"
    raise StatusError(
        500, "", f"failed to create typed live object ({_identified(request.live or {})}): {words}"
    ) from None


def _identified(object_: Data) -> str:
    metadata = object_.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {_gvk(object_)}"


def _record_ownership(
    owners: Owners, key: Key, mine: Fields, request: _Request, last: Owner | None, *, changed: bool
) -> None:
    """Record the applier's fields. The time of its entry changes only with the object."""
    time = request.now if changed else last.time if last is not None else None
    if not mine:
        owners.pop(key, None)
    elif last is not None and last.fields == mine and last.version == request.api_version:
        owners[key] = Owner(last.fields, last.version, time, last.entry)
    else:
        owners[key] = Owner(mine, request.api_version, time)


def _apart(owners: Owners, key: Key, mine: Fields, last: Owner | None) -> bool:
    """Tell whether the applier is the only owner in the changed parts of the object: then no other owner loses a field."""
    here = mine.keys() if last is None else mine.keys() | last.fields.keys()
    return all(key == other or here.isdisjoint(owner.fields) for other, owner in owners.items())


def _take(request: _Request, owners: Owners, key: Key, base: Data, merged: Data, force: bool) -> None:
    """Refuse fields that others own, or (forced) take them over; fields that the object no longer has have no owner."""
    changes = Changes(request.node, request.api_version, (base, merged), request.reset, request.views)
    if not force:
        conflicts: Conflicts = {}
        for other, owner in owners.items():
            if other != key and (both := intersection(owner.fields, changes.of(owner.version).touched)):
                conflicts[other] = list(paths(both))
        if conflicts:
            raise _Conflict(conflicts)
    deduct(owners, changes, but=key)


# --- fields no longer applied ---------------------------------------------------------------------------------------


def _pruned(request: _Request, merged: Data, owners: Owners, last: Owner) -> Data:
    """Remove the fields that this applier applied last time and omits now, unless another manager owns them."""
    shape = _shape_at(request, last.version)
    if shape is None:
        return merged
    dropped = with_parents(shape, last.fields)
    there = _shown(request, merged, last.version)
    pruned: Data = remove(shape, there, dropped) or {}
    managed: dict[str, Fields] = {}
    for owner in owners.values():
        managed[owner.version] = union(managed.get(owner.version, {}), owner.fields)
    for version in sorted(managed, key=lambda version: version != last.version):
        if (at := _shape_at(request, version)) is not None:
            here, left = _shown(request, merged, version), _shown(request, pruned, version)
            whole = with_parents(at, field_set(at, here))
            kept = union(with_parents(at, field_set(at, left)), with_parents(at, managed[version]))
            pruned = remove(at, here, difference(whole, kept)) or {}
    whole = with_parents(shape, field_set(shape, there))
    gone = difference(whole, with_parents(shape, field_set(shape, _shown(request, pruned, last.version))))
    result: Data = remove(shape, there, intersection(gone, dropped)) or {}
    return _shown(request, result, request.api_version)


def _shown(request: _Request, data: Data, version: str) -> Data:
    return data if request.views is None else request.views.show(data, version)


def _shape_at(request: _Request, version: str) -> Shape | None:
    if request.versions is None or version == request.api_version:
        return request.shape
    node = request.versions.get(version)
    return None if node is None else shape_of(node)


# --- conflicts ------------------------------------------------------------------------------------------------------


def _refusal(conflicts: Conflicts) -> StatusError:
    keys = sorted(conflicts, key=entries.identity)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {entries.shown(key)}", "field": path_text(path)}
        for key in keys
        for path in conflicts[key]
    ]
    if len(causes) == 1:
        words = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for key in keys:
            lines += [f"conflicts with {entries.shown(key)}:", *(f"- {path_text(path)}" for path in conflicts[key])]
        words = f"{len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {words}", details={"causes": causes})


# --- kubectl's annotation -------------------------------------------------------------------------------------------


def _allowed_by_kubectl(request: _Request) -> Fields | None:
    """Return the fields that client-side apply set and no writer changed since: kubectl may take them over without force."""
    live = request.live or {}
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
    if not text:
        return None
    try:
        last = json.loads(text)
        if not isinstance(last, dict) or last.get("apiVersion") != request.api_version:
            return None
        fields = field_set(request.shape, last, duplicates=False)
        change = compare(request.shape, last, live)
    except (ValueError, Misfit):
        return None
    return difference(difference(fields, change.touched), change.removed)


def _with_last_applied(metadata: Data, patch: Data) -> Data:
    """Update kubectl's annotation if the object has it."""
    annotations = metadata.get("annotations")
    if not annotations or not annotations.get(_LAST_APPLIED):
        return metadata
    config = dict(patch)
    given = patch.get("metadata")
    if isinstance(given, dict) and isinstance(given.get("annotations"), dict):
        rest = {name: value for name, value in given["annotations"].items() if name != _LAST_APPLIED}
        config["metadata"] = {**given, "annotations": rest}
    after = {**annotations, _LAST_APPLIED: go_json(config) + "\n"}
    if sum(len(name.encode()) + len(value.encode()) for name, value in after.items()) > _ANNOTATIONS_LIMIT:
        del after[_LAST_APPLIED]
    return {**metadata, "annotations": after}


# --- the result -----------------------------------------------------------------------------------------------------


def _finished(live: Data | None, merged: Data, after: list[Data] | None, before: Any, kubectl: Data | None) -> Data:
    metadata = merged.get("metadata") or {}
    if kubectl is not None:
        metadata = _with_last_applied(metadata, kubectl)
    if live is not None and after == before:
        if merged is live and same(metadata, live.get("metadata") or {}):
            return live
        after = before
    metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    if after:
        metadata["managedFields"] = after
    return {**merged, "metadata": metadata}


def apply_unchanged(before: Data, after: Data) -> bool:
    """Tell whether two versions of an object differ at most in the times of managedFields: such a change is not stored."""
    if before is after:
        return True
    if before.keys() != after.keys():
        return False
    old, new = before.get("metadata") or {}, after.get("metadata") or {}
    if old.keys() != new.keys():
        return False
    if not all(name == "metadata" or same(value, before[name]) for name, value in after.items()):
        return False
    if not all(name == "managedFields" or same(value, old[name]) for name, value in new.items()):
        return False
    return _owned_alike(old.get("managedFields") or [], new.get("managedFields") or [])


def _owned_alike(old: list[Data], new: list[Data]) -> bool:
    pairs = zip(old, new, strict=False)
    return len(old) == len(new) and all(
        one is two or {**one, "time": None} == {**two, "time": None} for one, two in pairs
    )
