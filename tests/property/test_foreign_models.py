"""Every object survives a round trip through generated models, whatever fields were selected and whatever the object holds."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from konverge.clock import from_rfc3339
from konverge.crds import all_manifests
from konverge.crds.foreign.documents import ForeignKind, find_kind, kinds_in
from konverge.crds.foreign.rendering import generated
from konverge.kinds import Kind
from konverge_testing.admitted_values import admitted
from konverge_testing.apiserver.catalog import definitions
from konverge_testing.flux import flux_crds

RECORDINGS = Path(__file__).parents[1] / "recordings"
BUILT_IN = list(kinds_in({"openapi": "3.0.0", "components": {"schemas": definitions()}}, "the catalog"))
CUSTOM = [each for manifest in (*all_manifests(), *flux_crds()) for each in kinds_in(manifest, "a definition")]


@cache
def model_of(api_version: str, kind: str, *fields: str) -> Kind[Any]:
    """Return the generated kind of a kind."""
    chosen = find_kind([*BUILT_IN, *CUSTOM], api_version, kind, "the tests")
    text = generated([chosen], fields)
    name = f"generated_{kind}_{len(sys.modules)}"
    module = sys.modules[name] = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    [result] = [value for value in vars(module).values() if isinstance(value, Kind)]
    return result


def recorded() -> Iterator[tuple[str, Any]]:
    """Yield the file and the object of each recorded event of a Job; the recordings leave out parts of the spec."""
    for path in sorted((RECORDINGS / "job").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            found = json.loads(line).get("object") or {}
            if found.get("kind") == "Job":
                yield path.name, found


@pytest.mark.parametrize(
    "fields", [("status",), ("status.conditions",), ("status.startTime", "spec.activeDeadlineSeconds")]
)
def test_recorded_objects_survive_a_round_trip(fields: tuple[str, ...]) -> None:
    number = 0
    for name, found in recorded():
        kind = model_of(found["apiVersion"], found["kind"], *fields)
        assert kind.decode(copy.deepcopy(found)).to_dict() == found, name
        number += 1
    assert number > 100


def as_moments(value: Any) -> Any:
    """Return a value with moments in place of their spellings."""
    if isinstance(value, dict):
        return {name: as_moments(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_moments(member) for member in value]
    try:
        return from_rfc3339(value) if isinstance(value, str) else value
    except (ValueError, OverflowError):
        return value


def paths_in(kind: ForeignKind) -> list[str]:
    """Return the paths of the fields of a spec and a status."""
    parts = kind.schema["properties"]
    return [f"{part}.{name}" for part in ("spec", "status") for name in parts.get(part, {}).get("properties", {})]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_admitted_objects_survive_a_round_trip(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([each for each in CUSTOM if paths_in(each)]), label="kind")
    fields = data.draw(st.lists(st.sampled_from(paths_in(kind)), max_size=3, unique=True), label="fields")
    parts = {name: schema for name, schema in kind.schema["properties"].items() if name in ("spec", "status")}
    stored = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "a"},
        **{name: data.draw(admitted(schema), label=name) for name, schema in parts.items()},
    }
    decoded = model_of(kind.api_version, kind.kind, *sorted(fields)).decode(copy.deepcopy(stored))
    assert as_moments(decoded.to_dict()) == as_moments(stored)
