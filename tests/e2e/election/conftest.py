"""A control plane with an audit log, for replicas that are killed, paused and cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from konverge.testing import ControlPlane, ControlPlaneConfig


@pytest.fixture(scope="session")
def audited_plane() -> Iterator[ControlPlane]:
    with ControlPlane(ControlPlaneConfig(audit=True)) as plane:
        yield plane
