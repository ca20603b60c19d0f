"""The name of a client: its field manager, and its User-Agent in the audit log."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from konverge.errors import UsageError

__all__ = ["checked_name", "library_version", "user_agent"]

_MAX_MANAGER = 128


def checked_name(name: str) -> str:
    """Return the name; raises UsageError if the API server would refuse it as a field manager."""
    if not name or len(name) > _MAX_MANAGER or not name.isascii() or not name.isprintable():
        raise UsageError(
            f"a client's name becomes the field manager: 1 to {_MAX_MANAGER} printable ASCII characters, got {name!r}"
        )
    return name


def user_agent(name: str) -> str:
    """Return the User-Agent for a client of that name, for instance `shop-operator (konverge/0.1)`."""
    return f"{name} (konverge/{library_version()})"


@cache
def library_version() -> str:
    """Return the version of konverge; "source" for a tree that is not installed."""
    try:
        return version("konverge")
    except PackageNotFoundError:
        return "source"
