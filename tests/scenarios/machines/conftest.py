"""The kit of the scenarios of machines; it is in tests/support/machines_lab.py."""

from collections.abc import AsyncIterator

import pytest
from machines_lab import Farm

from konverge_testing import Lab


@pytest.fixture
async def farm(lab: Lab) -> AsyncIterator[Farm]:
    made = Farm(lab)
    yield made
    await lab.stop()
    await made.world.close()
