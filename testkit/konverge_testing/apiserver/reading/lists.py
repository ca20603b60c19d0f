"""The decisions of LIST and GET: the objects, the version, the continue token, and the body from stored bytes.

As on a server of 1.36 with its watch cache: unset reads the current version; "0" and NotOlderThan read any version that is not older (here
the current version); Exact, and a bare version with a limit, read that version. A limit with "0" is ignored. Source: k8s.io/apiserver
`pkg/storage/cacher` and KEP-2340, KEP-4988; texts recorded from a server of 1.36.

Caveats: a future version is refused at once; a real server waits three seconds for it first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.reading.options import EXACT, NOT_OLDER_THAN, ReadOptions, parse_version
from konverge_testing.apiserver.reading.selection import Selection
from konverge_testing.apiserver.reading.tokens import ContinuePosition, continued, encode_token, parse_token
from konverge_testing.apiserver.requests import Query
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.statuses import StatusError, bad_request, expired, not_found, too_large
from konverge_testing.apiserver.storage import Compacted, Encode, Entry, Store

__all__ = ["ExpiredToken", "Page", "list_body", "list_metadata", "list_page", "raw_of", "read_one", "typeless"]

_TYPE: Final = re.compile(rb'\{"apiVersion":"[^"\\]*","kind":"[^"\\]*",')

_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_PLACE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue"
    " parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token"
    " results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and"
    " now may show up in the list."
)


class ExpiredToken(StatusError):
    """410 with a token to continue with; the token is in the Status' own metadata."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _PLACE_TOO_OLD)
        self.token = token

    def body(self) -> dict[str, Any]:
        """Return the `metav1.Status`."""
        return {**super().body(), "metadata": {"continue": self.token}}


@dataclass(frozen=True, slots=True)
class Page:
    """The response of a LIST."""

    entries: Sequence[Entry]
    version: int
    token: str = ""
    """The continue token, "" on the last page."""
    remaining: int | None = None


def raw_of(entry: Entry) -> bytes:
    """Return an object as it is stored: the default of every `encode`."""
    return entry.raw


def read_one(store: Store, resource: Resource, namespace: str, name: str, query: Query) -> Entry:
    """Serve a GET of one object. Raises StatusError (404, 500, 504)."""
    try:
        version = parse_version(query.get("resourceVersion"))
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    if version > store.version:
        raise too_large(version, store.version)
    entry = store.get(resource.id, namespace, name)
    if entry is None:
        raise not_found(resource.group, resource.plural, name)
    return entry


def list_page(store: Store, options: ReadOptions) -> Page:
    """Serve a LIST. Raises StatusError (400, 410, 504)."""
    selection = options.selection
    if options.token:
        place = parse_token(options.token)
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if place.version < 0:
            return _page(store.list(selection.resource.id), store.version, options, options.limit, place.start)
        return _page(
            _exactly(store, selection, place.version, place), place.version, options, options.limit, place.start
        )
    try:
        version = parse_version(options.version)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    if version and (options.match == EXACT or (options.limit and options.match != NOT_OLDER_THAN)):
        return _page(_exactly(store, selection, version, None), version, options, options.limit)
    if version > store.version:
        raise too_large(version, store.version)
    limit = 0 if options.version and not version else options.limit
    entries = store.list(selection.resource.id, selection.namespace or None)
    return _page(entries, store.version, options, limit)


def list_metadata(page: Page, *, custom: bool = False) -> dict[str, Any]:
    """Return the `ListMeta` of a page; lists of custom objects have an empty `continue` on the last page, other lists omit it."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.token or custom:
        metadata["continue"] = page.token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def list_body(
    page: Page,
    api_version: str,
    list_kind: str,
    encode: Encode = raw_of,
    *,
    custom: bool = False,
    typed: bool | None = None,
) -> bytes:
    """Return a list object without decoding its items. `typed` items (custom objects, PartialObjectMetadata) keep apiVersion and kind."""
    keep = custom if typed is None else typed
    items = [encode(entry) for entry in page.entries]
    if not keep:
        items = [typeless(item) for item in items]
    head = msgspec.json.encode(
        {"kind": list_kind, "apiVersion": api_version, "metadata": list_metadata(page, custom=custom)}
    )
    if not items:
        return head[:-1] + b',"items":[]}'
    # A single pass over possibly a hundred megabytes.
    items[0] = head[:-1] + b',"items":[' + items[0]
    items[-1] += b"]}"
    return b",".join(items)


def typeless(raw: bytes) -> bytes:
    """Return an object without its apiVersion and kind, as the items of a built-in kind's list are."""
    found = _TYPE.match(raw)
    if found is not None:
        return b"{" + raw[found.end() :]
    data = msgspec.json.decode(raw)
    return msgspec.json.encode({key: value for key, value in data.items() if key not in ("apiVersion", "kind")})


def _exactly(store: Store, selection: Selection, version: int, place: ContinuePosition | None) -> Sequence[Entry]:
    if version > store.version:
        raise too_large(version, store.version)
    try:
        return store.at(selection.resource.id, version)
    except Compacted:
        raise (expired(_TOO_OLD) if place is None else ExpiredToken(continued(place))) from None


def _page(entries: Sequence[Entry], version: int, options: ReadOptions, limit: int, start: str = "") -> Page:
    selection = options.selection
    if (single := selection.single) is not None:
        return Page([entry for entry in _one(entries, single) if selection.selects(entry)], version)
    entries = _range(entries, selection.namespace, start)
    if not limit:
        return Page(entries if selection.plain else [entry for entry in entries if selection.selects(entry)], version)
    found: list[Entry] = []
    for entry in entries:
        if len(found) == limit:
            break
        if selection.selects(entry):
            found.append(entry)
    else:
        return Page(found, version)
    last = found[-1]
    below = last.name if selection.namespace else last.key
    token = encode_token(ContinuePosition(f"/{below}\0", version))
    return Page(found, version, token, len(entries) - limit if selection.plain else None)


def _range(entries: Sequence[Entry], namespace: str, start: str) -> Sequence[Entry]:
    first, last = 0, len(entries)
    if namespace:
        first = bisect_left(entries, f"{namespace}/", key=_key)
        last = bisect_left(entries, f"{namespace}0", first, key=_key)
    if start:
        first = max(first, bisect_left(entries, f"{namespace}{start}" if namespace else start[1:], key=_key))
    return entries[first:last]


def _one(entries: Sequence[Entry], single: tuple[str, str]) -> Sequence[Entry]:
    key = f"{single[0]}/{single[1]}" if single[0] else single[1]
    position = bisect_left(entries, key, key=_key)
    return entries[position : position + 1] if position < len(entries) and entries[position].key == key else ()


def _key(entry: Entry) -> str:
    return entry.key
