"""The kit of the scenarios, as a fixture; it is in tests/support/flux_dry.py."""

from __future__ import annotations

import pytest
from flux_dry import Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()
