"""What few objects keep beside the fields of their model, and the others must not pay for.

Promises: what is kept is copied, pickled and compared with the model as pydantic does with private attributes, in whose place it stands;
those of a user's subclass live beside it. An object that keeps nothing costs nothing: of a private attribute that is declared, pydantic
makes a dict for each object that is read, in Python. Where every object has a value, a private attribute is the better way.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

__all__ = ["keep", "kept"]

_PREFIX = "__konverge_"


def keep(model: BaseModel, **aside: Any) -> None:
    """Keep values by name; those that were kept before under other names stay."""
    named = {_PREFIX + name: value for name, value in aside.items()}
    model.__pydantic_private__ = {**(model.__pydantic_private__ or {}), **named}


def kept(model: BaseModel, name: str) -> Any:
    """Return a kept value, None where there is none."""
    aside = model.__pydantic_private__
    return None if aside is None else aside.get(_PREFIX + name)
