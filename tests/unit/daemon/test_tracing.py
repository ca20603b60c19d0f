"""The resource of the spans of a process."""

import pytest

from konverge.daemon.tracing import resource_of


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "backup-operator"),
        ({"OTEL_SERVICE_NAME": "copies"}, "copies"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=copies,k8s.pod.name=backup-0"}, "copies"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=backup-0"}, "backup-operator"),
    ],
)
def test_service_has_the_operators_name_unless_a_variable_names_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], service: str
) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = resource_of("backup-operator", variables).attributes
    assert found["service.name"] == service
    assert found.get("k8s.pod.name") == ("backup-0" if "k8s" in str(variables) else None)
