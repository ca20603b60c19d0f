"""The rules of the definitions that this repository generates and ships."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import konverge.crds
import konverge_testing
from konverge_testing.apiserver.cel import compile_message, compile_rule, uses_old_self, validate_rules
from konverge_testing.apiserver.nodes import Node

MANIFESTS = Path(konverge.crds.__file__).parent / "manifests"
FLUX = Path(konverge_testing.__file__).parent / "flux" / "crds"
FILES = sorted([*MANIFESTS.glob("*.yaml"), *FLUX.glob("*.yaml")])


def schemas(path: Path) -> Iterator[Node]:
    """Return the schemas of a file."""
    for document in yaml.safe_load_all(path.read_text()):
        for version in document["spec"]["versions"]:
            yield Node(version["schema"]["openAPIV3Schema"])


def ruled(node: Node, root: bool = True) -> Iterator[tuple[Node, dict[str, Any], bool]]:
    """Return the rules of a schema with their places."""
    for rule in node.schema.get("x-kubernetes-validations", ()):
        yield node, rule, root
    below = [*node.properties.values(), *(child for child in (node.items, node.additional) if child is not None)]
    for child in below:
        yield from ruled(child, root=False)


def application() -> Node:
    """Return the schema of ApplicationInstance."""
    return next(schemas(MANIFESTS / "applicationinstances.apps.vworkspace.io.yaml"))


MANAGED: dict[str, Any] = {
    "mode": "managed",
    "chart": {"sourceType": "helm", "url": "https://example.com"},
    "release": {"name": "a"},
    "values": {"source": "inline", "inline": {}},
}


def instance(**spec: Any) -> dict[str, Any]:
    """Return an ApplicationInstance that its rules accept."""
    return {"metadata": {"name": "a"}, "spec": {**MANAGED, **spec}}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_rule_of_a_definition_compiles(path: Path) -> None:
    for node in schemas(path):
        for place, rule, root in ruled(node):
            assert compile_rule(place, rule["rule"], root=root, optional_old=rule.get("optionalOldSelf", False)) is None
            if "messageExpression" in rule:
                assert compile_message(place, rule["messageExpression"], root=root) is None


def test_our_own_definitions_have_rules() -> None:
    assert sum(1 for path in FILES for node in schemas(path) for _ in ruled(node)) >= 8


def test_an_application_that_keeps_the_rules_is_accepted() -> None:
    assert validate_rules(application(), instance(), None) == []
    assert validate_rules(application(), instance(), instance()) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"chart": {"sourceType": "helm", "url": "ftp://example.com"}}, "spec.chart.url"),
        ({"values": {"source": "inline"}}, "spec.values"),
        ({"mode": "placeholder"}, "spec"),
        ({"release": None}, "spec"),
    ],
)
def test_an_application_that_breaks_a_rule_is_refused(spec: dict[str, Any], field: str) -> None:
    given = instance(**spec)
    given["spec"] = {name: value for name, value in given["spec"].items() if value is not None}
    assert [error.field for error in validate_rules(application(), given, None)] == [field]


LONG, FITS = "a" * 64, "a" * 63
PLACEHOLDER = {"mode": "placeholder"}
BLOCKED: dict[str, Any] = {"conditions": [{"type": "Blocked", "status": "True"}]}
OWNER: dict[str, Any] = {"helmReleaseRef": {"name": "a", "namespace": "b"}}


def stored(spec: dict[str, Any], name: str = "a", **status: Any) -> dict[str, Any]:
    """Return a stored ApplicationInstance, without a check of the rules."""
    return {"metadata": {"name": name}, "spec": spec, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("name", "spec", "old", "refused"),
    [
        pytest.param(FITS, MANAGED, None, False, id="63 characters"),
        pytest.param(LONG, MANAGED, None, True, id="64 characters"),
        pytest.param(LONG, PLACEHOLDER, None, False, id="a placeholder"),
        pytest.param(LONG, MANAGED, stored(MANAGED, LONG), False, id="one that is stored already"),
        pytest.param(LONG, MANAGED, stored(PLACEHOLDER, LONG), True, id="a placeholder becomes managed"),
    ],
)
def test_name_of_a_managed_instance_fits_flux_labels_at_creation(
    name: str, spec: dict[str, Any], old: dict[str, Any] | None, refused: bool
) -> None:
    errors = validate_rules(application(), stored(spec, name), old)
    assert [("has at most 63 characters" in error.detail) for error in errors] == [True] * refused


@pytest.mark.parametrize(
    ("old", "refused"),
    [
        pytest.param(stored({"mode": "managed"}), False, id="a bare managed instance"),
        pytest.param(stored({"mode": "managed"}, **BLOCKED), False, id="a bare one that is blocked"),
        pytest.param(stored({"mode": "managed"}, **OWNER), True, id="a bare one that had a release"),
        pytest.param(stored({"mode": "managed", "release": {"name": "a"}}), True, id="one that names a release"),
        pytest.param(stored({"mode": "managed", "chart": MANAGED["chart"]}), True, id="one that names a chart"),
        pytest.param(stored(MANAGED), True, id="one that was not looked at yet"),
        pytest.param(stored(MANAGED, **BLOCKED), False, id="one that was blocked from the start"),
        pytest.param(stored(MANAGED, **BLOCKED, **OWNER), True, id="one that is blocked over its release"),
    ],
)
def test_an_instance_becomes_a_placeholder_only_if_it_cannot_own_a_release(old: dict[str, Any], refused: bool) -> None:
    errors = validate_rules(application(), stored(PLACEHOLDER), old)
    assert [("cannot become a placeholder" in error.detail) for error in errors] == [True] * refused


def test_a_rule_that_compares_with_the_old_value_is_a_transition_rule() -> None:
    found = [
        rule["rule"] for place, rule, root in ruled(application()) if uses_old_self(place, rule["rule"], root=root)
    ]
    assert found
    assert all("oldSelf" in rule for rule in found)
