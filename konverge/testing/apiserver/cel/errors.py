"""Errors of expressions. Nothing else, so that it costs nothing to know the names."""

from __future__ import annotations

__all__ = ["CompileError", "EvalError"]


class CompileError(Exception):
    """An expression is wrong; the text tells every error with its place. Raised when a `Program` is made."""


class EvalError(Exception):
    """An expression has no value; the text is the server's. Raised when a `Program` is evaluated."""
