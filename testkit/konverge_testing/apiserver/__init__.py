"""An API server in memory: Kubernetes' API machinery in the test's own process. See `MemoryServer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from konverge_testing.apiserver.server import MemoryServer

__all__ = ["MemoryServer"]


def __getattr__(name: str) -> Any:
    """Load the server at its first use: its packages import each other's contracts from this package."""
    if name != "MemoryServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from konverge_testing.apiserver.server import MemoryServer

    return MemoryServer
