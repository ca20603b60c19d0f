"""The runtime on a real API server."""

from types import ModuleType

import backup_operator as example
import pytest


@pytest.fixture(scope="session")
def backup_operator() -> ModuleType:
    return example
