"""Converts pydantic's errors into one `InvalidObject` without any value in it.

Guarantees: the error names the object, the path of the first mistake as the API spells it, and the problem, in our own words
(`sentences.py`) or in the words of a validator. It never quotes a value: the text of a validator is shown only if none of its words is part
of the value. It has no pydantic error as cause or context, because those quote values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from konverge.crds.sentences import SENTENCES, sentence_of
from konverge.errors import InvalidObject

__all__ = ["misfit", "misfits", "name_of", "path_of", "problem_words"]

_OF_VALIDATORS = frozenset({"value_error", "assertion_error"})
_WORD = re.compile(r"[^\s'\"`.,:;()\[\]{}<>=]+")
_TELLING = 4
_FALLBACK = "refused by a validator of the model (its words are not shown, they quote the value)"
_PLAIN_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def misfits(error: ValidationError) -> list[ErrorDetails]:
    """Return pydantic's error details, in its order."""
    return error.errors(include_url=False)


def misfit(what: str, details: ErrorDetails, *, below: str = "") -> InvalidObject:
    """Return the error for one of pydantic's details; `below` is the path of the validated value."""
    return InvalidObject(what, below + path_of(details["loc"]) or ".", problem_words(details))


def path_of(location: Sequence[int | str]) -> str:
    """Write the path of a field as kubectl does.

    >>> path_of(("spec", "rules", 0, "host")), path_of(("spec", "limits", "a/b"))
    ('.spec.rules[0].host', '.spec.limits["a/b"]')
    """
    steps = []
    for step in location:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step == "[key]":
            continue
        else:
            steps.append(f".{step}" if _PLAIN_STEP.fullmatch(step) else f'["{step}"]')
    return "".join(steps)


def name_of(kind: str, data: Mapping[str, Any]) -> str:
    """Name an object that does not decode, for instance `Backup web/nightly`."""
    metadata = data.get("metadata")
    if not isinstance(metadata, Mapping):
        return kind
    parts = [str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)]
    return f"{kind} {'/'.join(parts)}" if parts else kind


def problem_words(details: ErrorDetails, *, quoting: bool = False) -> str:
    """Return our sentence for an error of pydantic, or the text of a validator: with `quoting` even if it quotes the value."""
    if details["type"] in SENTENCES and details["type"] not in _OF_VALIDATORS:
        return sentence_of(details)
    text = details["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if quoting:
        return text
    words = set(_WORD.findall(text))
    for value in _texts(details["input"]):
        if any(word == value or (len(word) >= _TELLING and word in value) for word in words):
            return _FALLBACK
    return text or _FALLBACK


def _texts(value: Any) -> Iterable[str]:
    """Yield every scalar inside a value as text, without keys, which are names and not content."""
    if isinstance(value, BaseModel):
        value = value.__dict__
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list | tuple | set | frozenset):
        for member in value:
            yield from _texts(member)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
