"""The lines of conformance cases for one kind: its path, its smallest body, and the assembly of a case."""

import copy
from typing import Any

from conformance.cases import Case, Kind, Step

Data = dict[str, Any]


def merged(one: Any, other: Any) -> Any:
    """Return a JSON merge of two documents."""
    if not isinstance(other, dict) or not isinstance(one, dict):
        return copy.deepcopy(other)
    found = {**one, **{key: merged(one.get(key), value) for key, value in other.items()}}
    return {key: value for key, value in found.items() if value is not None}


class KindLines:
    """Writes the lines for one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.alias = kind.alias
        self.prefix = "" if kind.namespaced else "$ns-"
        self.all = "labelSelector=case=$ns"

    def at(self, name: str, rest: str = "") -> str:
        return f"{self.alias}/{self.prefix}{name}{rest}"

    def body(self, name: str = "", change: bool = False, **metadata: Any) -> Data:
        body = merged(dict(self.kind.body), dict(self.kind.change)) if change else copy.deepcopy(dict(self.kind.body))
        about: Data = {"labels": {"case": "$ns"}, **body.pop("metadata", {}), **metadata}
        if name:
            about["name"] = self.prefix + name
        return {**body, "metadata": about}

    def post(self, name: str, query: str = "", **options: Any) -> Step:
        metadata = options.pop("metadata", {})
        return Step(f"POST {self.alias}{query}", self.body(name, **metadata), **options)

    def case(self, verb: str, title: str, features: str, *steps: Step) -> Case:
        cells = tuple(f"{verb} {self.alias} {feature}" for feature in features.split())
        return Case(f"{verb} {self.kind.plural}: {title}", cells, steps, "generic")
