"""A recording of Flux, replayed through the whole reconciler on a real API server; tests/scenarios/apps replays all of them in memory."""

import pytest
from apps.flux_ends import HEALTHY
from apps.player import Player

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane


async def test_install_and_upgrade_are_ready_and_the_deletion_ends(lab: Lab) -> None:
    player = await (await Player(lab, "install-upgrade").start()).feed(before="delete release")
    assert {type_: player.last(type_) for type_ in HEALTHY} == HEALTHY
    assert player.changes("Ready") == ["False", "True", "False", "True", "False", "True"]
    assert not player.ever("Degraded", "True")
    await player.feed()
    await lab.until_gone(ApplicationInstance, "shop")
