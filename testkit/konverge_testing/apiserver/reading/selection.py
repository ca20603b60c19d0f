"""The objects that a LIST or WATCH selects: a namespace, a label selector, a field selector. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from konverge_testing.apiserver.reading.decoded import stored
from konverge_testing.apiserver.reading.fields import NAME, NAMESPACE, FieldClause, field_values
from konverge_testing.apiserver.reading.labels import ALL_LABELS, Labels
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.storage import Entry

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested objects; `matches` decides by the entry, and decodes the object only for fields that need it."""

    resource: Resource
    version: str
    """The requested version; field selectors refer to its fields."""
    namespace: str = ""
    """"" for all namespaces, and for cluster-scoped resources."""
    labels: Labels = ALL_LABELS
    fields: tuple[FieldClause, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether neither a label nor a field selector is given (a namespace does not count)."""
        return not self.labels.clauses and not self.fields

    @property
    def all(self) -> bool:
        """Whether every object of the resource is selected."""
        return not self.namespace and self.plain

    @property
    def single(self) -> tuple[str, str] | None:
        """The namespace and name if the selectors match only one key; the server then reads that key and does not page."""
        name = self._required(NAME)
        namespace = self.namespace or self._required(NAMESPACE)
        if not name or (self.resource.namespaced and not namespace):
            return None
        return (namespace if self.resource.namespaced else ""), name

    def matches(self, entry: Entry) -> bool:
        """Tell whether an object is selected."""
        if self.namespace and entry.namespace != self.namespace:
            return False
        return self.selects(entry)

    def selects(self, entry: Entry) -> bool:
        """Tell whether the selectors hold, whatever the namespace."""
        labels = entry.labels
        for clause in self.labels.clauses:
            if not clause.matches(labels):
                return False
        return not self.fields or self._fields(entry)

    def _decoded(self, entry: Entry) -> dict[str, Any]:
        alias = self.resource.alias
        return stored(entry, self.resource) if alias is None else alias.read(entry.object())

    def _fields(self, entry: Entry) -> bool:
        rest = []
        for clause in self.fields:
            if clause.field == NAME:
                if (entry.name == clause.value) is not clause.equal:
                    return False
            elif clause.field == NAMESPACE:
                if (entry.namespace == clause.value) is not clause.equal:
                    return False
            else:
                rest.append(clause)
        if not rest:
            return True
        values = field_values(self.resource, self.version, self._decoded(entry))
        return all((values.get(clause.field, "") == clause.value) is clause.equal for clause in rest)

    def _required(self, field: str) -> str:
        return next((clause.value for clause in self.fields if clause.field == field and clause.equal), "")
