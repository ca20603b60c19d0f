"""The parts of the Accept header that discovery uses.

Guarantees: pure. The first clause that can be served wins, by `q` and then by order. Responses are JSON; a client that accepts only
Protobuf or YAML is refused with 406.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from konverge_testing.apiserver.statuses import not_acceptable

__all__ = ["AcceptedType", "accepts_json", "clauses", "json_form", "openapi_form"]

_OPENAPI: Final = frozenset(f"application/com.github.proto-openapi.spec.v2{mark}v1.0+protobuf" for mark in "@.")
_ANY: Final = frozenset({"application/json", "application/*", "*/*"})


@dataclass(frozen=True, slots=True)
class AcceptedType:
    """One media type that is accepted, with its parameters."""

    type: str
    parameters: Mapping[str, str]


def clauses(accept: str) -> list[AcceptedType]:
    """Return the clauses of an Accept header, the most wanted first; an empty header accepts everything."""
    found = sorted(_clauses(accept or "*/*"), key=lambda each: -each[0])
    return [clause for weight, clause in found if weight > 0]


def _clauses(accept: str) -> Iterator[tuple[float, AcceptedType]]:
    for text in accept.split(","):
        type_, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 0.0
        yield weight, AcceptedType(type_.lower(), parameters)


def accepts_json(accept: str) -> bool:
    """Whether JSON in any form is accepted."""
    return any(clause.type in _ANY for clause in clauses(accept))


def openapi_form(accept: str) -> Literal["json", "protobuf"] | None:
    """Return the most preferred form of the OpenAPI v2 document; None if no form of it is accepted."""
    for clause in clauses(accept):
        if clause.type in _ANY:
            return "json"
        if clause.type in _OPENAPI:
            return "protobuf"
    return None


def json_form(accept: str, *, aggregated: bool = False) -> Literal["aggregated", "plain"]:
    """Return the requested form; raises 406 if no form can be served. `aggregated`: whether an aggregated form exists."""
    for clause in clauses(accept):
        if clause.type not in _ANY:
            continue
        if "as" not in clause.parameters:
            return "plain"
        wanted = tuple(clause.parameters.get(name, "") for name in ("g", "v", "as"))
        if aggregated and wanted == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"):
            return "aggregated"
    raise not_acceptable(["application/json"])
