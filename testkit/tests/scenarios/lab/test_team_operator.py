"""The example of a cluster-scoped operator: a namespace for each team, under every plan."""

import pytest
from team_operator import NAMESPACE, QUOTA, Team, TeamSpec, build

import konverge as kv
from konverge_testing import Lab

EVERYWHERE = kv.ManagerSettings(namespace=None, strict=True)


@pytest.mark.scenario(quick=30)
async def test_a_team_keeps_its_quota_when_its_namespace_is_deleted(lab: Lab) -> None:
    await lab.start(build, settings=EVERYWHERE)
    await lab.create(Team.new("red", spec=TeamSpec(members=2)))
    await lab.until(Team, "red", kv.is_true("Ready"))
    before = await lab.get(NAMESPACE, "team-red")
    await lab.delete(NAMESPACE, "team-red")
    await lab.until(NAMESPACE, "team-red", lambda namespace: namespace.metadata.uid != before.metadata.uid)
    await lab.until(Team, "red", kv.is_true("Ready"))
    await lab.patch(Team, "red", {"spec": {"members": 3}})
    await lab.until(Team, "red", lambda team: team.status.observed_generation == 2)
    quota = await lab.get(QUOTA, "pods", "team-red")
    assert quota.spec["hard"] == {"pods": "30"}


async def test_a_wait_for_a_team_names_no_namespace(lab: Lab) -> None:
    await lab.start(build, settings=EVERYWHERE)
    with pytest.raises(AssertionError, match=r"^Team red: waited 1 s"):
        await lab.until(Team, "red", kv.is_true("Ready"), timeout=1)
