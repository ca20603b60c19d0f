"""An API server in memory: Kubernetes' API machinery in the test's own process. See `MemoryServer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from konverge_testing.apiserver.pod_sessions import AcceptedConnection, RunningCommand
    from konverge_testing.apiserver.server import MemoryServer

__all__ = ["AcceptedConnection", "MemoryServer", "RunningCommand"]


def __getattr__(name: str) -> Any:
    """Load the server at its first use: its packages import each other's contracts from this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from konverge_testing.apiserver import pod_sessions, server

    return getattr(server if name == "MemoryServer" else pod_sessions, name)
