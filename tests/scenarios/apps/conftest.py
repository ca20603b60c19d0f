"""The kit of the scenarios and the applications of a lab, as fixtures; the kit is in tests/support/flux_dry.py."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from apps.lab import Apps
from flux_dry import ReconcileServices

from konverge_testing import Lab


@pytest.fixture
def kit() -> ReconcileServices:
    return ReconcileServices()


@pytest_asyncio.fixture
async def apps(lab: Lab) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        yield Apps(lab, stack)
