"""The kit of the scenarios of Operations; it is in tests/support/apps/operations.py."""

import pytest
from apps.operations import Operations

from konverge_testing import Lab


@pytest.fixture
def ops(lab: Lab) -> Operations:
    return Operations(lab)
