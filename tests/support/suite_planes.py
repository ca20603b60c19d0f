"""When a process of a test run ends the control planes that it shares among its tests: as soon as it has no more tests for them.

An idle plane takes about 2 % of a core. A process begins with the tests that use a plane (`suite_order`), so a plane that lived as long as
the session would be idle for most of it, several times per process.

Caveats: which tests follow is guessed by folders. If a plane has ended too early for a test, the test starts another plane.
"""

from typing import Any, Final, TypeAlias

import pytest
from suite_order import waits

PLANES: Final = frozenset({"control_plane", "audited_plane", "fragile"})
"""The fixtures of the session that run a control plane."""

_Plane: TypeAlias = tuple[pytest.FixtureDef[Any], pytest.FixtureRequest]
_running = pytest.StashKey[list[_Plane]]()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Note each control plane of the session that starts; pytest sets it up itself, since this returns nothing.

    A replaced plane of the same name ends first: pytest keeps its dependent fixtures, such as a kubeconfig, as long as it runs.
    """
    if fixturedef.scope == "session" and fixturedef.argname in PLANES:
        running = request.config.stash.setdefault(_running, [])
        _end(running, [one for one in running if one[0].argname == fixturedef.argname])
        running.append((fixturedef, request))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End each control plane whose last test is the previous test."""
    running = item.config.stash.get(_running, [])
    _end(running, [one for one in running if not _may_need(item, one[0])])


def _end(running: list[_Plane], ended: list[_Plane]) -> None:
    for one in ended:
        running.remove(one)
        definition, request = one
        definition.finish(request)  # type: ignore[arg-type]  # the request of a fixture, which the hook declares as any request


def _may_need(item: pytest.Item, plane: pytest.FixtureDef[Any]) -> bool:
    """Tell whether a test, or a following test, uses a plane."""
    inside = item.nodeid.startswith(plane.baseid)
    return inside and (waits(item.nodeid) or plane.argname in getattr(item, "fixturenames", ()))
