"""Recordings of Velero, Argo and VolSync through the translation of their engine: each object, state by state."""

import pytest
from apps.recorded_ways import RECORDED, WAYS, Recorded
from recordings import scenarios


@pytest.mark.parametrize("engine", WAYS)
def test_every_recording_has_its_row(engine: str) -> None:
    assert set(scenarios(engine)) == WAYS[engine].keys()


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_an_operation_goes_the_recorded_way(recorded: Recorded) -> None:
    assert recorded.played(cancel_at=recorded.cancel_at).states() == recorded.way
