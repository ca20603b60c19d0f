"""Conditions of foreign kinds on a real API server, with its OpenAPI document and its own controllers."""

from typing import Any

import pytest
from foreign_kinds import CRDS, OBJECTS, OTHERS, says_it
from widgets import By

import konverge as kv
from konverge_testing import Lab, install_crds

pytestmark = pytest.mark.control_plane


@pytest.mark.parametrize(("what", "body"), OBJECTS)
async def test_condition_follows_the_published_schema_and_keeps_other_writers_conditions(
    lab: Lab, what: kv.Kind[kv.Object], body: dict[str, Any]
) -> None:
    await install_crds(lab.client, CRDS)
    await lab.create(what.new("one", **body))
    await lab.client.patch(
        what, "one", lab.namespace, patch={"status": {"conditions": [OTHERS]}}, style="merge", subresource="status"
    )
    await lab.start(lambda manager: manager.add(kv.Controller.of(what).named("seer").reconciled_by(By(says_it))))
    found = await lab.until(what, "one", lambda one: one.find_condition("Seen") is not None)
    await lab.until(what, "one", lambda one: {"Theirs", "Seen"} <= {each.type for each in one.conditions})
    (entry,) = (each for each in found.get("status", "conditions") if each["type"] == "Seen")
    shape = await lab.client.condition_shape(what)
    assert shape is not None
    assert ("observedGeneration" in entry) is ("observedGeneration" in shape.fields)
    history = lab.manager.runner("seer").history
    # A controller of the cluster may write the same status in between: that conflict is retried, and is the only problem.
    assert [one.error for one in history.recent() if one.error and "Conflict" not in one.error] == []
