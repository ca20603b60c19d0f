"""Objects as the rooms `auth` and `admission` read them, from plain lists: the stand-in for storage in their unit tests."""

import copy
from collections.abc import Iterable
from typing import Any

Data = dict[str, Any]
Id = tuple[str, str]


class Stored:
    """Implements `Objects`; every read is a fresh copy."""

    def __init__(self, objects: Iterable[Data] = ()) -> None:
        self._found: dict[Id, dict[tuple[str, str], Data]] = {}
        self._changed: dict[Id, int] = {}
        self._version = 0
        for each in objects:
            self.put(each)

    def put(self, found: Data, plural: str = "") -> None:
        """Store an object; the plural is derived from the kind unless it is given."""
        group = found["apiVersion"].rpartition("/")[0]
        id_ = (group, plural or _plural(found["kind"]))
        metadata = found["metadata"]
        self._found.setdefault(id_, {})[metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(found)
        self._touch(id_)

    def remove(self, resource: Id, namespace: str, name: str) -> None:
        """Remove an object."""
        del self._found[resource][namespace, name]
        self._touch(resource)

    def _touch(self, id_: Id) -> None:
        self._version += 1
        self._changed[id_] = self._version

    def get(self, resource: Id, namespace: str, name: str) -> Data | None:
        """Return an object."""
        return copy.deepcopy(self._found.get(resource, {}).get((namespace, name)))

    def list(self, resource: Id, namespace: str | None = None) -> list[Data]:
        """Return the objects of a namespace, or all."""
        found = self._found.get(resource, {}).items()
        return [copy.deepcopy(each) for key, each in found if namespace is None or key[0] == namespace]

    def changed(self, resource: Id) -> int:
        """Return the version of the last change."""
        return self._changed.get(resource, 0)


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("ss"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
