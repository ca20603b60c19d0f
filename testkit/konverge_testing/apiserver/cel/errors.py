"""Errors of expressions. In a module of their own, so that importing the names is cheap."""

from __future__ import annotations

__all__ = ["CompileError", "EvalError", "TooCostly", "TooManyIterations"]


class CompileError(Exception):
    """An expression does not compile; the text has every error with its position. Raised by the constructor of `Program`."""


class EvalError(Exception):
    """An expression has no value; the text is the server's. Raised when a `Program` is evaluated."""


class TooManyIterations(Exception):
    """The loops of an expression exceed the library's iteration limit."""


class TooCostly(Exception):
    """An expression was stopped because its cost exceeds the limit of a single call."""
