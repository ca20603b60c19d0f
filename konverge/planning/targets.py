"""The objects that a list or a watch selects, and their form in its response. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from konverge.client.requests import Request
from konverge.client.targets import RequestTarget
from konverge.planning.documents import Document
from konverge.selectors import FieldSelector, LabelSelector

__all__ = ["Selected", "in_form_of"]


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
