"""The fixture `lab` in a test run without pytest-asyncio: it fails with what is missing."""

from __future__ import annotations

import pytest

__all__ = ["lab"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of lab tests, so that strict marks do not hide the reason."""
    for mark in ("lab_on(*places)", "scenario"):
        config.addinivalue_line("markers", f"{mark}: of tests that ask for `lab`, which needs pytest-asyncio")


@pytest.fixture
def lab() -> None:
    """Fail with what is missing."""
    pytest.fail(
        "the fixture `lab` needs pytest-asyncio, which is not installed or is switched off (-p no:asyncio): "
        "pip install 'konverge[testing]'",
        pytrace=False,
    )
