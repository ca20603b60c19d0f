"""Labs on a real control plane of a slow, busy machine, and a lab with an audit log for replicas that are killed, paused and cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from patience import PATIENCE

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
