import pytest

from konverge.objects import Metadata
from konverge.runtime.controller.pipeline import FinalizerStep, adding, next_step, removing

OURS = "example.com/backup"


@pytest.mark.parametrize(
    ("deleting", "finalizers", "declared", "step"),
    [
        (False, (), "", FinalizerStep.RECONCILE),
        (False, (), OURS, FinalizerStep.ADD),
        (False, (OURS,), OURS, FinalizerStep.RECONCILE),
        (True, (OURS,), OURS, FinalizerStep.FINALIZE),
        (True, ("other/one",), OURS, FinalizerStep.IGNORE),
        (True, (), "", FinalizerStep.IGNORE),
    ],
)
def test_deletion_and_finalizers_decide_the_step(
    deleting: bool, finalizers: tuple[str, ...], declared: str, step: FinalizerStep
) -> None:
    stamp = "2030-01-01T00:00:00Z" if deleting else None
    assert next_step(Metadata(name="a", finalizers=finalizers, deletion_timestamp=stamp), declared) is step


@pytest.mark.parametrize("finalizers", [(), ("other/one",)])
def test_a_controller_that_reconciles_deleting_objects_never_ignores_them(finalizers: tuple[str, ...]) -> None:
    deleting = Metadata(name="a", finalizers=finalizers, deletion_timestamp="2030-01-01T00:00:00Z")
    assert next_step(deleting, "", also_deleting=True) is FinalizerStep.RECONCILE


def test_adding_to_a_list_tests_the_list_it_saw() -> None:
    patch = adding(Metadata(name="a", uid="u", finalizers=("other/one",)), OURS)
    assert {"op": "test", "path": "/metadata/finalizers", "value": ["other/one"]} in patch
    assert patch[-1] == {"op": "add", "path": "/metadata/finalizers/-", "value": OURS}


def test_adding_without_a_list_tests_the_version() -> None:
    patch = adding(Metadata(name="a", uid="u", resource_version="7"), OURS)
    assert {"op": "test", "path": "/metadata/resourceVersion", "value": "7"} in patch
    assert patch[-1] == {"op": "add", "path": "/metadata/finalizers", "value": [OURS]}


def test_removing_tests_place_and_uid_and_leaves_the_others() -> None:
    patch = removing(Metadata(name="a", uid="u", finalizers=("other/one", OURS)), OURS)
    assert patch == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]
