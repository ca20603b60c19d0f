"""The kit of the family's tests, as fixtures; it is in tests/support/apps/."""

from collections.abc import Callable

import pytest
from apps.context import FakeContext
from apps.made import Make
from apps.replay import Replay


@pytest.fixture
def replay() -> Callable[..., Replay]:
    return Replay


@pytest.fixture
def make() -> type[Make]:
    return Make


@pytest.fixture
def context() -> type[FakeContext]:
    return FakeContext
