"""Fixtures for tests of commands that import a user's module."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def untouched_imports() -> Iterator[None]:
    """Undo the changes to this process by a user's module."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("backup_admission", "backup_operator", "mirror_operator"):
        sys.modules.pop(name, None)
