"""Recordings of Velero, Argo and VolSync through the translation of their engine: each object, state by state."""

from __future__ import annotations

import pytest
from apps.engine_replay import RECORDINGS
from apps.recorded_ways import RECORDED, WAYS, Recorded


@pytest.mark.parametrize("engine", WAYS)
def test_every_recording_has_its_row(engine: str) -> None:
    assert {path.stem for path in (RECORDINGS / engine).glob("*.jsonl")} == WAYS[engine].keys()


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_an_operation_goes_the_recorded_way(recorded: Recorded) -> None:
    assert recorded.played(cancel_at=recorded.cancel_at).states() == recorded.way
