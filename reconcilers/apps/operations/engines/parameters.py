"""Checked reads of `spec.parameters`: an engine names all parameters that it takes, and gets values of the right types.

Guarantees: pure; the message of a refusal names the parameter and what to write, and quotes no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["BadParameter", "Parameters"]


class BadParameter(Exception):
    """A parameter that can never work."""


class Parameters:
    """The parameters of one Operation.

    >>> Parameters({"image": "busybox"}, known=("image",)).text("image")
    'busybox'
    """

    def __init__(self, given: Mapping[str, Any], *, known: Iterable[str]) -> None:
        """Raises BadParameter for a parameter that the engine does not know."""
        names = tuple(known)
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise BadParameter(f"parameters.{unknown[0]} is not known here; write one of {', '.join(names)}")
        self._given = given

    def _found(self, *names: str) -> tuple[str, Any]:
        """Return the spelling that was written, of several allowed spellings, with its value."""
        given = [name for name in names if self._given.get(name) is not None]
        if len(given) > 1:
            raise BadParameter(f"parameters.{given[0]} and parameters.{given[1]} mean the same; write one of them")
        return (given[0], self._given[given[0]]) if given else (names[0], None)

    def text(self, *names: str, required: bool = False) -> str:
        """Return a text, "" if it is absent."""
        name, value = self._found(*names)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or not value:
            raise BadParameter(f"parameters.{name} is missing or not a text; write a text")
        return value

    def whole(self, *names: str, least: int = 0, most: int = 2**31 - 1) -> int | None:
        """Return a whole number, None if it is absent."""
        name, value = self._found(*names)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise BadParameter(f"parameters.{name} is not a whole number from {least} to {most}; write one")
        return value

    def switch(self, name: str) -> bool | None:
        """Return true or false, None if it is absent."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise BadParameter(f"parameters.{name} is neither true nor false; write one of them")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, empty if it is absent."""
        value = self._given.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise BadParameter(f"parameters.{name} is not a list of texts; write a list of texts")
        return list(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a map, empty if it is absent."""
        value = self._given.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise BadParameter(f"parameters.{name} is not a map; write a map")
        return dict(value)
