"""The log of a test, and the metrics of its parts."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog.testing

from konverge.metrics import Metrics


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()
