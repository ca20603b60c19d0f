"""How `make test` shares the tests among its two processes (pytest-xdist): no test knows of it, and without `-n` nothing happens here."""

from __future__ import annotations

from typing import Any

import pytest

_TOGETHER = ("tests/e2e/", "tests/conformance/")
"""Folders whose tests share a control plane. They wait for it most of the time, so the other process has a core for itself."""


def _unit_of(nodeid: str) -> str:
    """What goes to one process as a whole: a folder with a control plane, else a file."""
    return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, those with the most tests first, and each folder with a control plane as if it were one."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # annotated, but without a marker

    class ByPlane(LoadScopeScheduling):  # type: ignore[misc]  # for the same reason
        def _split_scope(self, nodeid: str) -> str:
            return _unit_of(nodeid)

    return ByPlane(config, log)
