"""Rules of paths of files that stay below their root."""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.strategies.rules import must, struct

__all__ = ["descending", "no_backsteps", "reserved"]

no_backsteps: Final = must(lambda path: ".." not in (path or "").split("/"), "must not contain '..'")
descending: Final = struct(
    must(lambda path: not (path or "").startswith("/"), "must be a relative path"),
    no_backsteps,
)
reserved: Final = struct(
    descending,
    must(lambda path: (path or "")[:2] != ".." or path[:3] == "../", "must not start with '..'"),
)
"""The rule of a path whose first step may not begin with two dots either."""
