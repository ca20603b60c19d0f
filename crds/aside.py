"""Values that a few objects keep beside the fields of their model, at no cost for the others.

Guarantees: kept values are copied, pickled and compared with the model, because they take the place of pydantic's private attributes;
private attributes of a user's subclass work beside them. An object without kept values costs nothing, whereas for a declared private
attribute pydantic creates a dict for each object that is read. If every object has a value, use a private attribute.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

__all__ = ["keep", "kept"]

_PREFIX = "__konverge_"


def keep(model: BaseModel, **aside: Any) -> None:
    """Keep values by name; values under other names stay."""
    named = {_PREFIX + name: value for name, value in aside.items()}
    model.__pydantic_private__ = {**(model.__pydantic_private__ or {}), **named}


def kept(model: BaseModel, name: str) -> Any:
    """Return a kept value, None if absent."""
    aside = model.__pydantic_private__
    return None if aside is None else aside.get(_PREFIX + name)
