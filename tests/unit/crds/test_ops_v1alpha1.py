from typing import Any

from konverge.crds import crd, declaration_of
from konverge.crds.ops_v1alpha1 import CANCEL, Operation

SPEC: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"},
    "type": "RunCommand",
    "engine": "job",
    "parameters": {"image": "busybox", "command": ["true"]},
}


def read(status: dict[str, Any] | None = None, **metadata: Any) -> Operation:
    return Operation.decode(
        {"metadata": {"name": "run", "namespace": "web", **metadata}, "spec": SPEC, "status": status or {}}
    )


def test_the_api_is_that_of_the_original() -> None:
    definition = crd(Operation)
    assert definition["metadata"]["name"] == "operations.ops.vworkspace.io"
    assert definition["spec"]["names"]["shortNames"] == ["op"]
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column["jsonPath"], column.get("priority", 0)) for column in columns] == [
        ("Phase", ".status.phase", 0),
        ("Type", ".spec.type", 0),
        ("Engine", ".spec.engine", 0),
        ("Reason", ".status.reason", 1),
        ("Age", ".metadata.creationTimestamp", 0),
    ]
    assert declaration_of(Operation).conditions == (
        *("Accepted", "Running", "Succeeded", "Failed", "Cancelled", "Blocked"),
    )


def test_a_phase_is_terminal_or_not() -> None:
    phases = (None, "Pending", "Running", "Succeeded", "Failed", "Cancelled")
    assert [read({"phase": phase} if phase else {}).finished for phase in phases] == [False] * 3 + [True] * 3


def test_an_annotation_cancels_as_the_field_does() -> None:
    assert not read().asked_to_cancel
    assert read(annotations={CANCEL: "true"}).asked_to_cancel
    assert not read(annotations={CANCEL: "false"}).asked_to_cancel


def test_parameters_are_kept_as_they_were_written() -> None:
    assert read().spec.parameters == SPEC["parameters"]
    assert read().to_dict()["spec"] == SPEC
