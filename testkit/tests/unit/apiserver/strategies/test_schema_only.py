"""Kinds that are checked by their schema only, and defaults as tables."""

from pathlib import Path
from typing import Any

import pytest

from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.strategies import STRATEGIES
from konverge_testing.apiserver.strategies.defaulting import Tree
from konverge_testing.apiserver.strategies.schema_only import SCHEMA_ONLY

GUIDE = Path(__file__).parents[5] / "testkit" / "docs" / "conformance.md"


def test_guide_names_every_kind_that_is_checked_by_its_schema_only() -> None:
    text = GUIDE.read_text()
    kinds = [resource.kind for resource in builtin(STRATEGIES) if resource.id in SCHEMA_ONLY]
    assert len(kinds) == len(SCHEMA_ONLY)
    assert [kind for kind in kinds if f"\n- {kind}: " not in text] == []


def test_autoscaler_of_another_version_is_not_implemented() -> None:
    strategy = SCHEMA_ONLY["autoscaling", "horizontalpodautoscalers"]
    stored = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    assert strategy.convert(stored, "autoscaling/v2") is stored
    with pytest.raises(StatusError) as caught:
        strategy.convert(stored, "autoscaling/v1")
    assert caught.value.code == 501


def test_change_outside_metadata_and_status_raises_the_generation() -> None:
    slice_: dict[str, Any] = {"metadata": {"name": "a"}, "addressType": "IPv4", "ports": []}
    strategy = SCHEMA_ONLY["discovery.k8s.io", "endpointslices"]
    assert not strategy.intent_changed({**slice_, "metadata": {"name": "b"}}, slice_)
    assert strategy.intent_changed({**slice_, "ports": [{"port": 1}]}, slice_)


@pytest.mark.parametrize(
    ("path", "given", "filled"),
    [
        ("a", {}, {"a": 1}),
        ("a", {"a": 0}, {"a": 0}),
        ("a+", {"a": 0}, {"a": 1}),
        ("a.b", {}, {"a": {"b": 1}}),
        ("a?.b", {}, {}),
        ("a?.b", {"a": {}}, {"a": {"b": 1}}),
        ("a[].b", {}, {}),
        ("a[].b", {"a": [{}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 2}]}),
    ],
)
def test_path_of_a_default_states_which_structs_it_creates(
    path: str, given: dict[str, Any], filled: dict[str, Any]
) -> None:
    Tree([(path, 1)]).fill(given)
    assert given == filled
