"""The kit of the scenarios of workspaces; it is in tests/support/workspaces_lab.py."""

import pytest
from workspaces_lab import Workspaces

from konverge_testing import Lab


@pytest.fixture
def made(lab: Lab) -> Workspaces:
    return Workspaces(lab)
