"""Labs on a real control plane of a slow, busy machine."""

from __future__ import annotations

import pytest
from patience import PATIENCE

from konverge.testing import Lab


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab of the plugin, whose timeouts are made for a quiet machine, with more of them."""
    lab._patience = PATIENCE
    return lab
