"""Custom resources: a pydantic model and a small declaration give a typed class and its CustomResourceDefinition.

`resource.py` holds the class and the decorator, `markers.py` the markers of fields, `schema.py` the conversion of a model
to a structural schema, `manifest.py` the CustomResourceDefinition and its YAML, `partial.py` models of foreign kinds. The
resources that konverge itself serves are listed in `catalogue.py`; their YAML is generated into `manifests/`.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.crds; the folder at the root is the same room under another name")

from typing import TYPE_CHECKING

from konverge.conditions import Condition
from konverge.crds.declaration import Column, Declaration, Scale
from konverge.crds.markers import (
    Atomic,
    Cel,
    EmbeddedResource,
    Immutable,
    IntOrString,
    ListMap,
    ListSet,
    NotInSchema,
    Nullable,
    PreserveUnknown,
)
from konverge.crds.resource import CustomResource, declaration_of, resource, schema_of
from konverge.crds.status import Status
from konverge.lazy import at_first_use
from konverge.model import Model

if TYPE_CHECKING:
    from konverge.crds.catalogue import all_manifests, own_resources
    from konverge.crds.conversion import Conversion
    from konverge.crds.durations import Duration, format_duration, parse_duration
    from konverge.crds.manifest import crd, crd_manifests, crd_stub, to_yaml
    from konverge.crds.partial import PartialModel, PartialResource

__all__ = [
    "Atomic",
    "Cel",
    "Column",
    "Condition",
    "Conversion",
    "CustomResource",
    "Declaration",
    "Duration",
    "EmbeddedResource",
    "Immutable",
    "IntOrString",
    "ListMap",
    "ListSet",
    "Model",
    "NotInSchema",
    "Nullable",
    "PartialModel",
    "PartialResource",
    "PreserveUnknown",
    "Scale",
    "Status",
    "all_manifests",
    "crd",
    "crd_manifests",
    "crd_stub",
    "declaration_of",
    "format_duration",
    "own_resources",
    "parse_duration",
    "resource",
    "schema_of",
    "to_yaml",
]

_HOMES = {
    "catalogue": ("all_manifests", "own_resources"),
    "conversion": ("Conversion",),
    "durations": ("Duration", "format_duration", "parse_duration"),
    "manifest": ("crd", "crd_manifests", "crd_stub", "to_yaml"),
    "partial": ("PartialModel", "PartialResource"),
}
"""Names that the start of an operator does not need. `resource` is imported at once: it is the name of a module too."""
__getattr__ = at_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
