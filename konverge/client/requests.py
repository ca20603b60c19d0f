"""Requests as data: pure building, apart from sending.

Guarantees: no I/O and no state. A `Request` carries everything that is sent except credentials and server address, so that tests compare
requests instead of faking servers. `repeatable` means that sending it twice is harmless; retries depend on it.

Invariants: names and namespaces are escaped into the path; a namespaced kind needs a namespace and a cluster-scoped one must not
have any (UsageError before anything is sent); bodies are bytes; `what` never contains any part of a body.

Source of the rules: Kubernetes API concepts (paths, patch media types, field manager, dry run, metadata-only responses).
https://kubernetes.io/docs/reference/using-api/api-concepts/, https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

import msgspec

from konverge.client.resources import ListQuery, ResourceInfo, WatchQuery
from konverge.client.settings import FieldValidation
from konverge.errors import UsageError

__all__ = [
    "APPLY",
    "JSON",
    "MERGE",
    "METADATA",
    "METADATA_LIST",
    "PATCHES",
    "Propagation",
    "Request",
    "Style",
    "Validation",
]

Style = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]
Validation = FieldValidation | Literal[""]
"""The field validation of one write; "" leaves it to the server, which warns."""

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"  # the body is JSON, cheaper to write, with the deviations of `yaml_of`
MERGE: Final = "application/merge-patch+json"
PATCHES: Final[Mapping[str, str]] = {
    "merge": MERGE,
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
# A server without this representation (some aggregated API servers) falls back to whole objects, which decode just as well.
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

_JSON_OF = msgspec.json.Encoder().encode
_ODD_IN_YAML = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
"""DEL, C1, U+2028, U+2029, U+FEFF, U+FFFE and U+FFFF, in UTF-8."""
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"(:?)')
_LONGEST_KEY = 1000
"""In bytes: the colon of a key must follow within 1,024 characters, unless the key is marked with a question mark."""
_LONG_TAIL = re.compile(rb'(?:"|\A)(?:[^"\\]|\\.){%d,}+\Z' % (_LONGEST_KEY - 2))
_UNRESERVED = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*").fullmatch
"""Nearly every name: nothing in it needs escaping, and it is neither "." nor ".."."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the API: method, path, parameters, body.

    `repeatable` means that a second sending leaves the server in the same state as the first, so the request may be sent again if its
    response was lost. `what` is the name of the request in messages. The body stays out of the repr. `protocols` are the subprotocols
    that the opening request of a websocket offers.
    """

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = ""
    accept: str = JSON
    repeatable: bool = False
    what: str = ""
    protocols: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of this request only, for instance of its trace."""

    @property
    def target(self) -> str:
        """Path and query, escaped."""
        return f"{self.path}?{_query(self.params)}" if self.params else self.path

    def __repr__(self) -> str:
        return f"<{self.method} {self.target}>"

    @property
    def writes(self) -> bool:
        """Whether the server may change something because of it."""
        return self.method not in {"GET", "HEAD"} or bool(self.protocols)


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Encode the parameters as a query; cached, because writes have nearly always the same few."""
    return urlencode(params)


def _segment(text: str) -> str:
    if _UNRESERVED(text):
        return text
    if not text or text in {".", ".."}:
        raise UsageError(f"{text!r} cannot be part of a path of the API")
    return quote(text, safe="")


def collection_path(info: ResourceInfo, namespace: str | None) -> str:
    """Return the path of all objects of a resource: of one namespace, or (None) of the whole cluster."""
    prefix = f"/apis/{info.api_version}" if info.group else f"/api/{info.api_version}"
    if namespace is None:
        return f"{prefix}/{info.plural}"
    if not info.namespaced:
        raise UsageError(f"{info.kind} is cluster-scoped and has no namespace, but {namespace!r} was given")
    return f"{prefix}/namespaces/{_segment(namespace)}/{info.plural}"


def object_path(info: ResourceInfo, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object or of its subresource."""
    if info.namespaced and not namespace:
        raise UsageError(f"{info.kind} {name!r} lives in a namespace, and none was given")
    path = f"{collection_path(info, namespace or None)}/{_segment(name)}"
    return f"{path}/{_segment(subresource)}" if subresource else path


def _object_suffix(namespace: str | None, name: str = "") -> str:
    if namespace and name:
        return f" {namespace}/{name}"
    return f" {namespace or name}".rstrip()


def describe(verb: str, info: ResourceInfo, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """Return the name of a request in messages: `apply helmreleases.helm.toolkit.fluxcd.io/status web/shop`."""
    resource = f"{info.group_resource}/{subresource}" if subresource else info.group_resource
    return f"{verb} {resource}{_object_suffix(namespace, name)}"


def _params(**named: str | bool) -> tuple[tuple[str, str], ...]:
    return tuple((name, "true" if value is True else str(value)) for name, value in named.items() if value)


@lru_cache(maxsize=64)
def _write_params(manager: str, dry_run: bool, validation: str, *, force: bool = False) -> tuple[tuple[str, str], ...]:
    return _params(fieldManager=manager, force=force, dryRun="All" if dry_run else "", fieldValidation=validation)


def _json(body: Any, what: str) -> bytes:
    try:
        return _JSON_OF(body)
    except UnicodeEncodeError as error:
        raise _lone_surrogate(what) from error


def _lone_surrogate(what: str) -> UsageError:
    return UsageError(
        f"{what}: a text in it holds half of a surrogate pair (U+D800 to U+DFFF), which JSON cannot carry; "
        "decode what it came from with errors='replace'"
    )


def yaml_of(body: Any, what: str = "") -> bytes:
    r"""Encode as JSON that a YAML parser reads in the same way as a JSON parser.

    YAML 1.1 folds U+0085, U+2028 and U+2029 as line ends into spaces and refuses all other control characters and long keys (go-yaml v2
    `readerc.go` and `yaml_simple_key_is_valid`; the API server reads applies with it). Surrogate pairs of escapes are refused too, so
    characters beyond U+FFFF stay as they are. Nearly every body is sent after two scans of its bytes.

    >>> yaml_of({"a": "b\u2028c"})
    b'{"a":"b\\u2028c"}'
    """
    try:
        text = _JSON_OF(body)
    except UnicodeEncodeError as error:
        raise _lone_surrogate(what) from error
    if not text.isascii() or b"\x7f" in text:
        text = _ODD_IN_YAML.sub(_escape, text)
    if len(text) > _LONGEST_KEY and _has_long_key(text):
        text = _STRINGS.sub(_mark_long_key, text)
    return text


def _has_long_key(text: bytes) -> bool:
    """Whether a key may be too long. A long list of short texts has no key for a while, but no long key."""
    start = 0
    while start + _LONGEST_KEY < len(text):
        end = text.rfind(b'":', start, start + _LONGEST_KEY)
        if end < 0:
            end = text.find(b'":', start)
            if end < 0:
                return False
            if text[end - 1 : end] == b"\\" or _LONG_TAIL.search(text, start, end):
                return True
        start = end + 2
    return False


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match.group().decode())


def _mark_long_key(match: re.Match[bytes]) -> bytes:
    text = match.group()
    return b"? " + text if match[1] and len(text) > _LONGEST_KEY else text


def connect(
    info: ResourceInfo,
    namespace: str,
    name: str,
    subresource: str,
    *,
    params: Sequence[tuple[str, str]],
    protocols: tuple[str, ...],
) -> Request:
    """Open a websocket to a subresource; not repeatable, because a second one runs the command again."""
    return Request(
        method="GET",
        path=object_path(info, namespace, name, subresource),
        params=tuple(params),
        accept="*/*",
        what=describe("connect", info, namespace, name, subresource),
        protocols=protocols,
    )


def _is_idempotent(intent: Mapping[str, Any]) -> bool:
    """Whether an apply may be sent twice: with a resourceVersion, the second request would conflict with the first."""
    metadata = intent.get("metadata")
    return not (isinstance(metadata, (dict, Mapping)) and metadata.get("resourceVersion"))


def get(info: ResourceInfo, namespace: str, name: str, *, metadata_only: bool = False) -> Request:
    """Read one object."""
    return Request(
        method="GET",
        path=object_path(info, namespace, name),
        accept=METADATA if metadata_only else JSON,
        repeatable=True,
        what=describe("get", info, namespace, name),
    )


def _selection(query: ListQuery | WatchQuery) -> dict[str, str]:
    return {
        "labelSelector": query.labels,
        "fieldSelector": query.fields,
        "resourceVersion": query.resource_version,
        "resourceVersionMatch": query.match,
    }


def list_page(info: ResourceInfo, query: ListQuery) -> Request:
    """Read one page of a list. A continued list must not name a version again: the token carries it."""
    chosen = _selection(query)
    if query.continue_:
        chosen["resourceVersion"] = chosen["resourceVersionMatch"] = ""
    return Request(
        method="GET",
        path=collection_path(info, query.namespace),
        params=_params(**chosen, limit=str(query.limit) if query.limit else "", **{"continue": query.continue_}),
        accept=METADATA_LIST if query.metadata_only else JSON,
        repeatable=True,
        what=describe("list", info, query.namespace),
    )


def watch(info: ResourceInfo, query: WatchQuery) -> Request:
    """Watch a collection; with `send_initial_events` it begins with a streaming list."""
    match = query.match or ("NotOlderThan" if query.send_initial_events else "")
    chosen = {**_selection(query), "resourceVersionMatch": match}
    return Request(
        method="GET",
        path=collection_path(info, query.namespace),
        params=_params(
            watch=True,
            allowWatchBookmarks=True,
            sendInitialEvents=query.send_initial_events,
            timeoutSeconds=str(query.timeout_seconds),
            **chosen,
        ),
        accept=METADATA if query.metadata_only else JSON,
        repeatable=True,
        what=describe("watch", info, query.namespace),
    )


def create(
    info: ResourceInfo, body: Mapping[str, Any], *, manager: str, dry_run: bool, validation: Validation = ""
) -> Request:
    """Create an object; not repeatable, because a second create fails with AlreadyExists."""
    metadata = body.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    if info.namespaced and not namespace:
        raise UsageError(f"{info.kind} {name!r} lives in a namespace, and none was given")
    if not name and not metadata.get("generateName"):
        raise UsageError(f"a new {info.kind} needs a name or a generateName")
    what = describe("create", info, namespace, name or f"{metadata['generateName']}*")
    return Request(
        method="POST",
        path=collection_path(info, namespace or None),
        params=_write_params(manager, dry_run, validation),
        body=_json(body, what),
        content_type=JSON,
        repeatable=dry_run,
        what=what,
    )


def replace(
    info: ResourceInfo,
    body: Mapping[str, Any],
    *,
    manager: str,
    subresource: str,
    dry_run: bool,
    validation: Validation = "",
) -> Request:
    """Replace an object or one of its subresources."""
    metadata = body.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    what = describe("replace", info, namespace, name, subresource)
    return Request(
        method="PUT",
        path=object_path(info, namespace, name, subresource),
        params=_write_params(manager, dry_run, validation),
        body=_json(body, what),
        content_type=JSON,
        repeatable=dry_run,
        what=what,
    )


def patch(
    info: ResourceInfo,
    namespace: str,
    name: str,
    change: Mapping[str, Any] | Sequence[Any],
    *,
    style: Style,
    manager: str,
    subresource: str,
    dry_run: bool,
    validation: Validation = "",
) -> Request:
    """Patch an object; not repeatable, because a JSON patch may add twice and a merge patch may undo a change made in between."""
    if style not in PATCHES:
        raise UsageError(f"patch style {style!r}: it is one of {', '.join(PATCHES)}")
    if (style == "json") is isinstance(change, Mapping):
        raise UsageError("a JSON patch is a list of operations; merge and strategic patches are mappings")
    what = describe("patch", info, namespace, name, subresource)
    return Request(
        method="PATCH",
        path=object_path(info, namespace, name, subresource),
        params=_write_params(manager, dry_run, validation),
        body=_json(change, what),
        content_type=PATCHES[style],
        repeatable=dry_run,
        what=what,
    )


def apply_body(info: ResourceInfo, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of an apply: the intent, with its kind and without managedFields, which the server refuses."""
    metadata = dict(body.get("metadata") or {})
    metadata.pop("managedFields", None)
    return {**body, "apiVersion": info.api_version, "kind": info.kind, "metadata": metadata}


def apply(
    info: ResourceInfo,
    body: Mapping[str, Any],
    *,
    manager: str,
    force: bool,
    subresource: str,
    dry_run: bool,
    normalized: bool = False,
    validation: Validation = "",
) -> Request:
    """Apply an intent by server-side apply; repeatable unless it carries a resourceVersion.

    A `normalized` intent names its kind and has no managedFields, so it is sent unchanged.
    """
    intent = body if normalized else apply_body(info, body)
    namespace, name = str(intent["metadata"].get("namespace") or ""), str(intent["metadata"].get("name") or "")
    what = describe("apply", info, namespace, name, subresource)
    return Request(
        method="PATCH",
        path=object_path(info, namespace, name, subresource),
        params=_write_params(manager, dry_run, validation, force=force),
        body=yaml_of(intent, what),
        content_type=APPLY,
        repeatable=dry_run or _is_idempotent(intent),
        what=what,
    )


def delete(
    info: ResourceInfo,
    namespace: str,
    name: str,
    *,
    uid: str,
    resource_version: str,
    propagation: Propagation,
    dry_run: bool,
) -> Request:
    """Delete an object; repeatable with a uid, since then a second sending cannot delete a successor of the same name."""
    return Request(
        method="DELETE",
        path=object_path(info, namespace, name),
        body=_delete_options(uid, resource_version, propagation, dry_run=dry_run),
        content_type=JSON,
        repeatable=dry_run or (bool(uid) and not resource_version),
        what=describe("delete", info, namespace, name),
    )


def _delete_options(uid: str, resource_version: str, propagation: Propagation, *, dry_run: bool) -> bytes:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    conditions = {"uid": uid, "resourceVersion": resource_version}
    if any(conditions.values()):
        options["preconditions"] = {key: value for key, value in conditions.items() if value}
    if dry_run:
        options["dryRun"] = ["All"]
    return _JSON_OF(options)


def delete_collection(info: ResourceInfo, query: ListQuery, *, propagation: Propagation, dry_run: bool) -> Request:
    """Delete the selected objects; not repeatable, because a second sending could delete objects that were created in between."""
    if info.namespaced and not query.namespace:
        raise UsageError(
            f"{info.kind} lives in namespaces, and the API deletes a collection of one namespace: give the namespace"
        )
    return Request(
        method="DELETE",
        path=collection_path(info, query.namespace or None),
        params=_params(labelSelector=query.labels, fieldSelector=query.fields),
        body=_delete_options("", "", propagation, dry_run=dry_run),
        content_type=JSON,
        repeatable=dry_run,
        what=describe("deletecollection", info, query.namespace),
    )


def raw(
    method: str,
    path: str,
    *,
    body: bytes | Mapping[str, Any] | None,
    content_type: str,
    params: Mapping[str, str] | None,
    accept: str,
    repeatable: bool | None,
) -> Request:
    """Build any request; by default only reads are repeatable."""
    if not path.startswith("/"):
        raise UsageError(f"a path of the API begins with a slash, got {path!r}")
    reads = method in {"GET", "HEAD"}
    if isinstance(body, Mapping):
        body = (yaml_of if "yaml" in content_type else _json)(body, f"{method} {path}")
    return Request(
        method=method,
        path=path,
        params=tuple((params or {}).items()),
        body=body,
        content_type=content_type if body is not None else "",
        accept=accept,
        repeatable=reads if repeatable is None else repeatable,
        what=f"{method} {path}",
    )
