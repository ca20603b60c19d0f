"""The test of an operator whose kind has no namespace: it watches every namespace, and not only the lab's."""

import pytest
from team_operator import NAMESPACE, QUOTA, Team, TeamSpec, build

import konverge as kv
from konverge_testing import Lab


@pytest.mark.scenario
async def test_a_team_has_a_namespace_with_a_quota(lab: Lab) -> None:
    await lab.start(build, settings=kv.ManagerSettings(namespace=None, strict=True))
    await lab.create(Team.new("red", spec=TeamSpec(members=2)))
    await lab.until(Team, "red", kv.is_true("Ready"))
    assert (await lab.get(NAMESPACE, "team-red")).metadata.owner_references[0].name == "red"
    assert (await lab.get(QUOTA, "pods", "team-red")).spec["hard"] == {"pods": "20"}
    await lab.delete(Team, "red")
    await lab.until_gone(NAMESPACE, "team-red")
