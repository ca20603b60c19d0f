"""The kit of the engines' tests, as fixtures; it is in tests/support/apps/engine_replay.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from apps import engine_replay

from konverge.reconcilers.apps.operations.engines.engine import EngineRequest


@pytest.fixture
def request_of() -> Callable[..., EngineRequest]:
    return engine_replay.request


@pytest.fixture
def replay() -> Callable[..., Any]:
    return engine_replay.EngineReplay
