"""Replays the recorded results of rules on a real API server (`tools/record/cel.py`)."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from konverge_testing.apiserver.cel import check_rules, compile_rule, validate_rules
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import FieldError

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


def causes(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return the causes as the recording sorts them."""
    return sorted((error.cause for error in errors), key=lambda cause: (cause["field"], cause["message"]))


def named(entry: dict[str, Any]) -> str:
    """Return the name of a test."""
    return str(entry["schema"]["x-kubernetes-validations"][0]["rule"])[:60]


@pytest.mark.parametrize(
    "entry", RECORDED["values"], ids=lambda entry: f"{named(entry)}|{json.dumps(entry['value'])[:30]}"
)
def test_a_rule_over_a_value_answers_as_a_real_server_does(entry: dict[str, Any]) -> None:
    node = Node({"type": "object", "properties": {"value": entry["schema"]}})
    found = validate_rules(node.properties["value"], copy.deepcopy(entry["value"]), None, "value")
    assert causes(found) == entry["causes"]


@pytest.mark.parametrize("entry", RECORDED["refused"], ids=lambda entry: entry["rule"][:60])
def test_rule_that_does_not_compile_gets_the_recorded_error(entry: dict[str, Any]) -> None:
    assert (compile_rule(Node(entry["schema"]), entry["rule"]) or "") == entry["text"]


@pytest.mark.parametrize("walk", RECORDED["walks"], ids=lambda walk: walk["name"])
def test_object_under_rules_is_accepted_or_refused_as_recorded(walk: dict[str, Any]) -> None:
    for schema, steps in ((walk["schema"], walk["steps"]), (walk.get("then"), walk.get("later", []))):
        node = Node(schema or {})
        for step in steps:
            before = copy.deepcopy(step)
            findings = check_rules(node, step["new"], step["old"])
            assert causes(findings.errors) == step.get("causes", []), step["new"]
            assert sorted(map(str, findings.forgiven)) == sorted(step.get("warnings", [])) or step["code"] == 422
            assert step == before
