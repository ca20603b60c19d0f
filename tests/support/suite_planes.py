"""When a process of a test run ends the control planes that it shares among its tests: as soon as it has no more tests for them.

An idle plane takes about 2 % of a core. A process begins with the tests that use one (`suite_order`), so a plane that lived as long as
the session would be idle for most of it, and so would several planes in each process.

Caveats: which tests follow is guessed by folders. A test for which a plane has ended too early gets a new one.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from suite_order import waits

__all__ = ["PLANES", "pytest_fixture_setup", "pytest_runtest_setup"]

PLANES: Final = frozenset({"control_plane", "audited_plane", "fragile"})
"""The fixtures of the session that run a control plane."""

_running = pytest.StashKey[list[tuple[pytest.FixtureDef[Any], pytest.FixtureRequest]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Note each control plane of the session that starts; pytest sets it up itself, since this returns nothing."""
    if fixturedef.scope == "session" and fixturedef.argname in PLANES:
        request.config.stash.setdefault(_running, []).append((fixturedef, request))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End each control plane that the test before this one was the last to use."""
    running = item.config.stash.get(_running, [])
    for fixture in [one for one in running if not _may_need(item, one[0])]:
        running.remove(fixture)
        definition, request = fixture
        definition.finish(request)  # type: ignore[arg-type]  # the request of a fixture, which the hook declares as any request


def _may_need(item: pytest.Item, plane: pytest.FixtureDef[Any]) -> bool:
    """Tell whether a test, or one that follows it, uses a plane."""
    inside = item.nodeid.startswith(plane.baseid)
    return inside and (waits(item.nodeid) or plane.argname in getattr(item, "fixturenames", ()))
