"""The kinds of OpenAPI documents and of CustomResourceDefinitions.

Guarantees: pure. OpenAPI v3 documents of an API server (`/openapi/v3/apis/batch/v1`), its v2 document (`/openapi/v2`), and definitions as
YAML or JSON, several in one text, are read alike. Lists of a kind are left out.

Caveats: the v2 document has no defaults, and a quantity is a text in it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from konverge.errors import UsageError

__all__ = ["ForeignKind", "Schema", "find_kind", "kinds_in", "near", "parsed"]

Schema = Mapping[str, Any]

_OF_RESOURCE = re.compile(
    r"^/(api|apis/[^/]+)/[^/]+/(?P<namespaced>namespaces/\{namespace\}/)?(?P<plural>[^/{}]+)(/\{name\})?$"
)


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """A kind with its schema; `definitions` are the targets of `$ref` by name."""

    api_version: str
    kind: str
    schema: Schema
    definitions: Mapping[str, Schema] = field(default_factory=dict)
    namespaced: bool | None = None
    plural: str | None = None
    stored: bool = True
    """Whether objects are stored in this version; True for kinds of OpenAPI documents, which do not have this fact."""


def parsed(text: str, source: str) -> list[Any]:
    """Return the documents in a text of JSON or YAML; raises UsageError that names the source."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    try:
        return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise UsageError(
            f"{source} is neither JSON nor YAML: {getattr(error, 'problem', None) or error}{line}"
        ) from error


def kinds_in(document: Any, source: str) -> Iterator[ForeignKind]:
    """Yield the kinds of a document; raises UsageError for a document of another form."""
    if isinstance(document, Mapping):
        if "openapi" in document or "swagger" in document:
            yield from _of_openapi(document)
            return
        if document.get("kind") == "CustomResourceDefinition":
            yield from _of_definition(document)
            return
        if str(document.get("kind", "")).endswith("List"):
            for item in document.get("items") or ():
                yield from kinds_in({"kind": str(document["kind"]).removesuffix("List"), **item}, source)
            return
    shown = document.get("kind") if isinstance(document, Mapping) else type(document).__name__
    raise UsageError(
        f"{source} holds {shown or 'an object without a kind'}; give an OpenAPI document (kubectl get --raw /openapi/v3/apis/batch/v1) or "
        "CustomResourceDefinitions (kubectl get crd NAME -o yaml)"
    )


def find_kind(kinds: Iterable[ForeignKind], api_version: str, name: str, source: str) -> ForeignKind:
    """Return a kind by its version and name; raises UsageError with similar names."""
    known = list(kinds)
    for each in known:
        if (each.api_version, each.kind) == (api_version, name):
            return each
    elsewhere = sorted(each.api_version for each in known if each.kind == name)
    of_version = [each for each in known if each.api_version == api_version]
    plurals = [each.kind for each in of_version if each.plural == name.lower()]
    if elsewhere:
        hint = f"{name} is in {', '.join(elsewhere)}"
    elif plurals:
        hint = f"write the kind: {plurals[0]}"
    elif of_version:
        hint = near(name, {each.kind for each in of_version})
    else:
        hint = near(api_version, {each.api_version for each in known})
    raise UsageError(f"{source} has no {api_version} {name}; {hint}")


def near(name: str, names: Iterable[str]) -> str:
    """Return the hint of an error: similar names, or else the names that exist.

    >>> near("suspnd", ["suspend", "template"]), near("x", ["b", "a"]), near("x", [])
    ('did you mean suspend?', 'it has a, b', 'it has none')
    """
    known = sorted(names)
    folded = {each.lower(): each for each in known}
    similar = difflib.get_close_matches(name.lower(), folded, n=3)
    if similar:
        return f"did you mean {' or '.join(folded[each] for each in similar)}?"
    shown = known[:_SHOWN]
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"it has {', '.join(shown) or 'none'}{more}"


_SHOWN = 12


def _of_openapi(document: Schema) -> Iterator[ForeignKind]:
    definitions = document.get("definitions") or (document.get("components") or {}).get("schemas") or {}
    places = _places(document.get("paths") or {})
    for schema in definitions.values():
        named: Sequence[Mapping[str, str]] = schema.get("x-kubernetes-group-version-kind") or ()
        properties = schema.get("properties") or {}
        if (
            len(named) != 1
            or "metadata" not in properties
            or (named[0]["kind"].endswith("List") and "items" in properties)
        ):
            continue
        names = named[0]
        api_version = f"{names['group']}/{names['version']}" if names["group"] else names["version"]
        plural, namespaced = places.get((api_version, names["kind"]), (None, None))
        yield ForeignKind(api_version, names["kind"], schema, definitions, namespaced, plural)


def _places(paths: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return the plural of each kind, and whether its objects are in namespaces, from the paths of its resource."""
    places: dict[tuple[str, str], tuple[str, bool]] = {}
    for path, item in paths.items():
        match = _OF_RESOURCE.match(path)
        if match is None:
            continue
        for operation in item.values():
            named = operation.get("x-kubernetes-group-version-kind") if isinstance(operation, Mapping) else None
            if not isinstance(named, Mapping):
                continue
            group, version, kind = named["group"], named["version"], named["kind"]
            key = (f"{group}/{version}" if group else version, kind)
            namespaced = match["namespaced"] is not None or places.get(key, ("", False))[1]
            places[key] = (match["plural"], namespaced)
    return places


def _of_definition(definition: Schema) -> Iterator[ForeignKind]:
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None and version.get("served", True):
            yield ForeignKind(
                f"{spec['group']}/{version['name']}",
                names["kind"],
                schema,
                namespaced=spec.get("scope") == "Namespaced",
                plural=names["plural"],
                stored=bool(version.get("storage")),
            )
