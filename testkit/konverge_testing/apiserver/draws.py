"""`Draws`: all random values that the server generates for an object, each declared with its field.

Guarantees: the same seed gives the same draws. A value that is drawn for a field (an address, a port, a generated name) is declared with
its draw, so a comparison of two servers can mask it wherever it was copied to. A uid is declared by the object's own metadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

__all__ = ["Draws", "ObjectDraws"]

T = TypeVar("T", str, int)

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated suffixes: no vowels, and no characters that are easily confused (apiserver `pkg/storage/names`)."""


class Draws:
    """The source of uids and of the values of allocated fields."""

    def __init__(self, random: Random) -> None:
        self.random = random
        """Also the source of values that no object shows: jitter, the ids of reviews and tokens."""
        self.drawn: dict[str | int, str] = {}
        """The drawn values, each with a description of its field."""

    def uid(self) -> str:
        """Return a new uid."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def of(self, kind: str, data: Mapping[str, Any]) -> ObjectDraws:
        """Return the draws for the fields of an object."""
        metadata = data.get("metadata") or {}
        return ObjectDraws(self, f"{kind} {metadata.get('name') or metadata.get('generateName', '')}")


class ObjectDraws:
    """The draws for the fields of one object."""

    def __init__(self, draws: Draws, what: str) -> None:
        self._draws = draws
        self._what = what

    def pick(self, field: str, options: Sequence[T]) -> T:
        """Return one of the options, for a field."""
        value = self._draws.random.choice(options)
        self._draws.drawn[value] = f"{field} of {self._what}"
        return value

    def suffixed(self, field: str, prefix: str) -> str:
        """Return a prefix with a generated suffix, for a field."""
        value = prefix + "".join(self._draws.random.choice(_LETTERS) for _ in range(5))
        self._draws.drawn[value] = f"{field} {prefix}(drawn)"
        return value

    def named_by_uid(self) -> str:
        """Return a name that is a uid."""
        value = self._draws.uid()
        self._draws.drawn[value] = f"name of a {self._what.strip()}"
        return value
