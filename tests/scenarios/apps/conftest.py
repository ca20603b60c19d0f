"""The kit of the scenarios, as a fixture; it is in tests/support/flux_dry.py."""

from __future__ import annotations

import pytest
from flux_dry import ReconcileServices


@pytest.fixture
def kit() -> ReconcileServices:
    return ReconcileServices()
