"""Every object survives a round trip through generated models, whatever fields were selected and whatever the object holds."""

import ast
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
from konverge.errors import UsageError
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


NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["from", "copy", "model_config", "list", '"""', "a-b", "a_b", "aB", "2", "_x"]
)
WORDS = st.text(max_size=12) | st.sampled_from(['"""', "\\", "a | b", "x" * 99, "\0", "\u202e", "e.g. a. B", '"]'])
SCALARS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "description": WORDS,
        "default": WORDS,
        "enum": st.lists(WORDS, min_size=1, max_size=3, unique=True),
        "nullable": st.booleans(),
    },
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner})
        | st.fixed_dictionaries({"properties": st.dictionaries(NAMES, inner, max_size=3), "description": WORDS})
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=4))
def test_any_names_and_words_of_a_schema_give_a_module_of_models(properties: dict[str, Any]) -> None:
    spec = {"type": "object", "properties": properties}
    text = generated([ForeignKind("example.com/v1", "Tank", {"type": "object", "properties": {"spec": spec}})])
    statements = ast.parse(text).body
    assert {type(each) for each in statements} <= {ast.Expr, ast.ImportFrom, ast.Import, ast.ClassDef, ast.Assign}
    assert len([each for each in statements if isinstance(each, ast.Assign)]) == 1
    module = sys.modules["generated_tank"] = ModuleType("generated_tank")
    exec(compile(text, "generated_tank", "exec"), module.__dict__)
    aliases = {field.alias for field in module.TankSpec.model_fields.values()}
    assert aliases == properties.keys()


@pytest.mark.parametrize(
    ("version", "kind"), [("v1", 'A"""'), ("v1\n", "A"), ("v1", "A\n"), ("v1", "A\nimport os"), ("v1", "")]
)
def test_a_malformed_name_of_a_kind_is_an_error(version: str, kind: str) -> None:
    with pytest.raises(UsageError):
        generated([ForeignKind(version, kind, {"type": "object"})])
