"""The Job of a command, as it is made from the parameters of an Operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from konverge.reconcilers.apps.operations.engines.engine import EngineRequest, Refused, Rendered
from konverge.reconcilers.apps.operations.engines.job import JobEngine

Requests = Callable[..., EngineRequest]


def container(request_of: Requests, **parameters: Any) -> dict[str, Any]:
    made = JobEngine().render(request_of("RunCommand", image="busybox", **parameters))
    assert isinstance(made, Rendered)
    found: dict[str, Any] = made.object.spec["template"]["spec"]["containers"][0]
    return found


SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "app", "key": "token"}}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"A": "1", "B": ""}, [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]),
        ([{"name": "A", "value": "1"}, SECRET], [{"name": "A", "value": "1"}, SECRET]),
    ],
    ids=["a map", "a list"],
)
def test_the_environment_of_a_command_is_a_map_or_a_list(request_of: Requests, given: Any, written: Any) -> None:
    assert container(request_of, env=given)["env"] == written


@pytest.mark.parametrize(
    "given", ["A=1", ["A=1"], {"A": 1}, [{"name": ""}], [{"name": 1}], [{"name": "A", "from": "x"}]]
)
def test_an_environment_of_another_form_is_refused(request_of: Requests, given: Any) -> None:
    found = JobEngine().render(request_of("RunCommand", image="busybox", env=given))
    assert isinstance(found, Refused)
    assert "parameters.env is neither a map of texts nor a list" in found.message
