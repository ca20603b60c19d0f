"""Labs on a real control plane of a slow, busy machine, and a lab with an audit log for replicas that are killed, paused and cut off."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from crd_cases import Answer
from patience import PATIENCE
from quota.plane import Plane, open_plane

from konverge_testing import ControlPlane, ControlPlaneConfig, Lab


@pytest.fixture(scope="session")
def audited_plane() -> Iterator[ControlPlane]:
    with ControlPlane(ControlPlaneConfig(audit=True)) as plane:
        yield plane


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab of the plugin with longer timeouts, because the default timeouts fit a quiet machine."""
    lab._patience = PATIENCE
    return lab


@pytest_asyncio.fixture
async def here(lab: Lab, control_plane: ControlPlane) -> AsyncIterator[Plane]:
    """A namespace with the family quota on a real control plane."""
    async with open_plane(lab, control_plane) as plane:
        yield plane


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, control_plane: ControlPlane) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """The responses of the real server and of the in-memory server to the `TABLE` of the module."""
    both: tuple[dict[str, Answer], dict[str, Answer]] = request.module.TABLE.on_both(control_plane)
    return both
