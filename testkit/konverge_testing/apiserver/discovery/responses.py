"""`Discovery`: the responses to discovery, OpenAPI, version and health paths.

Guarantees: no I/O. A body is generated for its first request, and kept until the set of resources changes. Of the OpenAPI documents,
only groups with changed resources are generated again, built-in groups once in a process. Every list and document has an ETag
of its content, and the URLs in the index of /openapi/v3 contain it too, since kubectl keeps documents on disk by their URL.

Left out: Protobuf (406, but for /openapi/v2), `?verbose` of the health checks, OpenAPI documents of the lists themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.discovery.accept_header import accepts_json, json_form, openapi_form
from konverge_testing.apiserver.discovery.documents import document
from konverge_testing.apiserver.discovery.groups import Group, groups
from konverge_testing.apiserver.discovery.lists import aggregated, group_body, group_list, resource_list, versions_body
from konverge_testing.apiserver.discovery.openapi_proto import encoded
from konverge_testing.apiserver.discovery.openapi_v2 import document_v2
from konverge_testing.apiserver.requests import Response
from konverge_testing.apiserver.resources import Resource

__all__ = ["Discovery"]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_CHECKS: Final = ("", "/etcd", "/log", "/ping")
_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_Body = tuple[bytes, str]
"""A body and its ETag."""


class Discovery:
    """Responses to discovery, OpenAPI, version and health; `resources` is called at each request, so a changed set is served at once.

    >>> Discovery(lambda: []).answer("/healthz", "").body
    b'ok'
    """

    def __init__(self, resources: Callable[[], Sequence[Resource]], version: str = "v1.36.3+konverge") -> None:
        self._resources = resources
        self._version = version
        self._seen: tuple[Resource, ...] = ()
        self._groups: dict[str, Group] = {}
        self._bodies: dict[tuple[str, str], _Body] = {}
        self._documents: dict[tuple[str, str], tuple[tuple[Resource, ...], _Body]] = {}

    def answer(self, path: str, accept: str, if_none_match: str = "") -> Response | None:
        """Return the document under a path, or a plain 404 if the path is unknown; raises StatusError 406 for an unsupported form.

        None: the path belongs to a served group (an unknown version of it, a resource); such a 404 is a Status.
        """
        if path.startswith("/openapi/v2/"):
            return _nowhere()
        path = path.rstrip("/") or "/"
        top = path.partition("/")[2].partition("/")[0]
        if top in ("api", "apis"):
            return self._listed(path, accept, if_none_match)
        if path.startswith("/openapi/"):
            return self._openapi(path, accept, if_none_match)
        if path == "/version":
            return Response(body=_encode(self._info()))
        if f"/{top}" in _HEALTH and path.removeprefix(f"/{top}") in _CHECKS:
            headers = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
            return Response(body=b"ok", content_type="text/plain; charset=utf-8", headers=headers)
        if path == "/":
            self._refresh()
            return Response(body=_encode({"paths": self._paths()}))
        return _nowhere()

    def reads_only(self, path: str) -> bool:
        """Tell whether a served path refuses methods other than GET; oddly, the other paths respond as to a GET."""
        path = path.rstrip("/")
        if path in ("/version", "/api", "/api/v1"):
            return True
        group, version = (*path.removeprefix("/apis/").split("/"), "")[:2]
        found = self._groups.get(group) if path.startswith("/apis/") else None
        served = [] if found is None else found.versions.get(version, [])
        return any(not each.resource.custom for each in served)

    def _refresh(self) -> None:
        now = tuple(self._resources())
        if now != self._seen:
            self._seen, self._groups = now, groups(now)
            self._bodies.clear()
            for key in [key for key in self._documents if not self._group_version(*key)]:
                del self._documents[key]

    def _group_version(self, group: str, version: str) -> Group | None:
        found = self._groups.get(group)
        return found if found is not None and version in found.versions else None

    def _paths(self) -> list[str]:
        found = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version", *_HEALTH]
        for group in self._groups.values():
            root = f"/apis/{group.name}" if group.name else "/api"
            found += [root, *(f"{root}/{version}" for version in group.versions)]
        return sorted(set(found))

    # -- groups and resources -------------------------------------------------------------------------------------

    def _listed(self, path: str, accept: str, if_none_match: str) -> Response | None:
        self._refresh()
        parts = path.split("/")[1:]
        if "" in parts or (parts[0] == "apis" and len(parts) > 1 and parts[1] not in self._groups):
            return _nowhere()
        if len(parts) > (2 if parts[0] == "api" else 3):
            return None
        form = json_form(accept, aggregated=len(parts) == 1)
        body = self._cached(path, form, lambda: self._list_body(parts, form))
        if body is None:
            return None
        answer = _answer(body, if_none_match, {"Cache-Control": "public", "Vary": "Accept"})
        if form == "aggregated":
            answer.content_type = _AGGREGATED
        return answer

    def _list_body(self, parts: list[str], form: str) -> Any:
        core = parts[0] == "api"
        if form == "aggregated":
            return aggregated(self._groups, core=core)
        if len(parts) == 1:
            return versions_body(self._groups.get("")) if core else group_list(self._groups.values())
        name = "" if core else parts[1]
        if not core and len(parts) == 2:
            group = self._groups.get(name) if name else None
            return group_body(group) if group else None
        group = self._group_version(name, parts[-1])
        return resource_list(group, parts[-1]) if group else None

    def _cached(self, path: str, form: str, make: Callable[[], Any]) -> _Body | None:
        body = self._bodies.get((path, form))
        if body is None and (made := make()) is not None:
            body = self._bodies[path, form] = _hashed(_encode(made))
        return body

    # -- OpenAPI --------------------------------------------------------------------------------------------------

    def _openapi(self, path: str, accept: str, if_none_match: str) -> Response:
        if path == "/openapi/v2":
            return self._v2(accept, if_none_match)
        if path != "/openapi/v3" and not path.startswith("/openapi/v3/"):
            return _nowhere()
        self._refresh()
        if path == "/openapi/v3":
            answer = _answer(_hashed(_encode({"paths": self._index()})), if_none_match, {"Vary": "Accept"})
            answer.content_type = "text/plain; charset=utf-8"
            return answer
        if not accepts_json(accept):
            return Response(406, content_type="")
        match path.removeprefix("/openapi/v3/").split("/"):
            case ["api", version]:
                group = self._group_version("", version)
            case ["apis", name, version] if name:
                group = self._group_version(name, version)
            case _:
                group = None
        if group is None:
            return Response(404, content_type="")
        return _answer(self._document(group, version), if_none_match, {"Vary": "Accept"})

    def _index(self) -> dict[str, Any]:
        found = {}
        for group in self._groups.values():
            for version in group.versions:
                path = f"apis/{group.name}/{version}" if group.name else f"api/{version}"
                tag = self._document(group, version)[1]
                found[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={tag}"}
        return dict(sorted(found.items()))

    def _document(self, group: Group, version: str) -> _Body:
        resources = tuple(served.resource for served in group.versions[version])
        kept = self._documents.get((group.name, version))
        if kept is None or kept[0] != resources:
            release = ".".join(self._numbers())
            if any(resource.custom for resource in resources):
                body = _hashed(_encode(document(group, version, release)))
            else:
                body = _builtin(
                    _Builtin((group.name, version, release, tuple(each.plural for each in resources)), group)
                )
            kept = self._documents[group.name, version] = (resources, body)
        return kept[1]

    def _v2(self, accept: str, if_none_match: str) -> Response:
        """Return the OpenAPI v2 document, as JSON or in Protobuf."""
        form = openapi_form(accept)
        if form is None:
            return Response(406, content_type="")
        self._refresh()
        kept = self._bodies.get(("/openapi/v2", form))
        if kept is None:
            release = ".".join(self._numbers())
            documents = (
                document(group, version, release) for group in self._groups.values() for version in group.versions
            )
            made = document_v2(documents, release)
            kept = self._bodies["/openapi/v2", form] = _hashed(_encode(made) if form == "json" else encoded(made))
        answer = _answer(kept, if_none_match, {"Vary": "Accept"})
        if form == "protobuf" and answer.status == 200:
            answer.content_type = _V2
        return answer

    # -- version --------------------------------------------------------------------------------------------------

    def _numbers(self) -> tuple[str, str]:
        major, minor, *_ = self._version.removeprefix("v").split(".")
        return major, minor

    def _info(self) -> dict[str, str]:
        major, minor = self._numbers()
        return {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": self._version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "none",
            "platform": "memory",
        }


@dataclass(frozen=True)
class _Builtin:
    """A version of a built-in group: equal to another server's version if it has the same resources, since their data are the same."""

    key: tuple[str, str, str, tuple[str, ...]]
    group: Group = field(compare=False)


@lru_cache(maxsize=64)
def _builtin(asked: _Builtin) -> _Body:
    _, version, release, _ = asked.key
    return _hashed(_encode(document(asked.group, version, release)))


def _nowhere() -> Response:
    headers = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8", headers)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _hashed(body: bytes) -> _Body:
    return body, hashlib.sha512(body).hexdigest().upper()


def _answer(body: _Body, if_none_match: str, headers: dict[str, str]) -> Response:
    text, tag = body
    headers = {**headers, "ETag": f'"{tag}"'}
    if if_none_match.strip().removeprefix("W/").strip('"') == tag:
        return Response(304, headers=headers)
    return Response(body=text, headers=headers)
