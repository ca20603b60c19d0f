"""The built-in kinds of Kubernetes 1.36 as data: names, verbs, subresources, schemas; and `builtin()`, which returns `Resource`s."""

from konverge_testing.apiserver.catalog.kinds import (
    Subresource,
    builtin,
    registered,
    returns_deleted,
    storage_hash,
    subresources,
    verbs,
)
from konverge_testing.apiserver.catalog.schemas import definition_of, definitions, reachable, schema_node

__all__ = [
    "Subresource",
    "builtin",
    "definition_of",
    "definitions",
    "reachable",
    "registered",
    "returns_deleted",
    "schema_node",
    "storage_hash",
    "subresources",
    "verbs",
]
