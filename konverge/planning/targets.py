"""The object or collection that a request is about, by its path and its parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from konverge.client.requests import Request
from konverge.planning.documents import Document
from konverge.selectors import FieldSelector, LabelSelector

__all__ = ["ObjectId", "Selected", "RequestTarget", "in_form_of", "target_of"]

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


class _Fields(Mapping[str, str]):
    """The fields of an object by their paths, as a field selector names them."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def __getitem__(self, path: str) -> str:
        value: Any = self._document
        for step in path.split("."):
            if not isinstance(value, dict) or step not in value:
                raise KeyError(path)
            value = value[step]
        return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)

    def __iter__(self) -> Any:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)


@dataclass(frozen=True, slots=True)
class Selected:
    """The objects that a list or a watch selects."""

    target: RequestTarget
    labels: LabelSelector
    fields: FieldSelector

    @classmethod
    def by(cls, request: Request, target: RequestTarget) -> Selected:
        """Return the selection of a list or watch; raises ValueError for a malformed selector."""
        params = dict(request.params)
        labels = LabelSelector.parse(params.get("labelSelector", ""))
        return cls(target, labels, FieldSelector.parse(params.get("fieldSelector", "")))

    def takes(self, document: Document | None) -> bool:
        """Return whether an object, None if it does not exist, is selected."""
        if document is None:
            return False
        labels = document["metadata"].get("labels") or {}
        return self.labels.matches(labels) and self.fields.matches(_Fields(document))


def in_form_of(document: Document, request: Request, target: RequestTarget) -> Document:
    """Return an object in the version and form that a request accepts: whole, or its metadata."""
    if "as=PartialObjectMetadata" in request.accept:
        head = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
        return {**head, "metadata": document["metadata"]}
    return {**document, "apiVersion": target.api_version}
