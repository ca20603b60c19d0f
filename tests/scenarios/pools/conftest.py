"""The kit of the scenarios of pools; it is in tests/support/pools/lab.py."""

import pytest
from pools.lab import Clouds, OneTenant

from konverge_testing import Lab


@pytest.fixture
def clouds(lab: Lab) -> Clouds:
    lab.always.append(OneTenant(lab))
    return Clouds(lab)
