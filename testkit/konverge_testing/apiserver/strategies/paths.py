"""Checks of paths that stay below their root."""

from __future__ import annotations

from konverge_testing.apiserver.strategies.base import Errors, invalid

__all__ = ["descending_path_errors", "no_backsteps"]


def no_backsteps(target: str, path: str) -> Errors:
    """Check that a path does not lead back."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def descending_path_errors(target: str, path: str, *, reserved: bool = False) -> Errors:
    """Check a path that has to stay below its root; `reserved`: it may not start with two dots either."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    errors += no_backsteps(target, path)
    if reserved and target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors
