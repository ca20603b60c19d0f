"""The object or collection that a request is about, by its path. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["ObjectId", "RequestTarget", "target_of", "template_of"]

_OF_NAMESPACES = frozenset({"status", "finalize"})
"""The subresources of a Namespace, whose paths look like a namespaced resource's."""


class ObjectId(NamedTuple):
    """An object, in whatever version of its kind."""

    group: str
    plural: str
    namespace: str
    name: str


class RequestTarget(NamedTuple):
    """An object, a subresource of an object, or (without a name) a collection."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        """The group and version, as an object names them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def object_id(self) -> ObjectId:
        """The identity of the object."""
        return ObjectId(self.group, self.plural, self.namespace, self.name)

    def covers(self, object_id: ObjectId) -> bool:
        """Return whether this collection may contain an object."""
        return (self.group, self.plural) == object_id[:2] and self.namespace in ("", object_id.namespace)


def target_of(path: str) -> RequestTarget | None:
    """Return what a path names; None for a path of no resource, for instance of discovery.

    >>> target_of("/apis/apps/v1/namespaces/web/deployments/shop/scale")
    RequestTarget(group='apps', version='v1', plural='deployments', namespace='web', name='shop', subresource='scale')
    """
    parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return RequestTarget(group, version, rest[0], namespace, name, "/".join(rest[2:]))


def template_of(path: str) -> str:
    """Return a path with placeholders for the names of objects, so that few different texts exist.

    >>> template_of("/apis/apps/v1/namespaces/web/deployments/shop/scale")
    '/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale'
    """
    target = target_of(path)
    if target is None:
        return path.partition("?")[0]
    subresource, _, rest = target.subresource.partition("/")
    steps = (
        f"/apis/{target.api_version}" if target.group else f"/api/{target.api_version}",
        "/namespaces/{namespace}" if target.namespace else "",
        f"/{target.plural}",
        "/{name}" if target.name else "",
        f"/{subresource}" if subresource else "",
        "/{path}" if rest else "",
    )
    return "".join(steps)
