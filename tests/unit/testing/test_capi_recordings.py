"""The double of Cluster API's core does what the real controller was recorded doing.

Each recording is played: the double gets what users and the provider did, step by step in the recorded time, and at the end of each step
every object must show what the recorded one showed: owners, label, finalizers, phases, ids, replicas, paired Nodes, conditions, and whether
it exists.
"""

from __future__ import annotations

import pytest
from capi_replay import NAMES, CapiReplay

from konverge.testing import Lab


@pytest.mark.parametrize("name", NAMES)
async def test_the_double_does_what_the_core_was_recorded_doing(lab: Lab, name: str) -> None:
    compared = await CapiReplay(lab, name).run()
    assert len(compared) >= 2
    for text, recorded, played in compared:
        if text.startswith("set-up"):
            continue  # the recordings go on before the core has seen all of it
        for at in recorded.keys() | played.keys():
            assert played.get(at) == recorded.get(at), f"{at} at the end of {text!r}"
