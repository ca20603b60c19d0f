"""`misfits`: the places of an object that do not fit its schema, in the server's words.

Guarantees: pure. Several misfits are in random order on the server (Go maps), and here sorted by name. Facts:
structured-merge-diff v6 `typed/validate.go` and `typed/helpers.go`, as kube-apiserver 1.36 prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from konverge_testing.apiserver.apply.elements import text
from konverge_testing.apiserver.apply.shapes import ListShape, MapShape, Shape
from konverge_testing.apiserver.apply.typed import Misfit, element_of, fits_scalar, reading_of
from konverge_testing.apiserver.golang import plain, syntax

__all__ = ["misfits"]

_Report = Callable[[str, str], None]


def misfits(shape: Shape, value: Any, *, duplicates: bool = False) -> str:
    """Return the server's message for everything in an object that does not fit; "" if all of it fits."""
    found: list[tuple[str, str]] = []
    _validate(shape, value, "", duplicates, lambda path, why: found.append((path, why)))
    shown = [f"{path}: {why}" if path else why for path, why in found]
    return "\n".join(["errors:", *(f"  {line}" for line in shown)]) if len(shown) > 1 else "".join(shown)


def _validate(shape: Shape, value: Any, path: str, duplicates: bool, report: _Report) -> None:
    reading = reading_of(shape, value)
    if value is None:
        return
    if reading is dict:
        if not isinstance(value, dict):
            report(path, f"expected map, got &{{{plain(value)}}}")
        elif shape.map is not None:
            _validate_map(shape.map, value, path, duplicates, report)
    elif reading is list:
        if not isinstance(value, list):
            report(path, f"expected list, got &{{{plain(value)}}}")
        elif shape.list is not None:
            _validate_list(shape.list, value, path, duplicates, report)
    elif isinstance(value, (dict, list)) or not fits_scalar(shape.scalar, value):
        report(path, _scalar_words(shape.scalar, value))


def _validate_map(shape: MapShape, value: dict[str, Any], path: str, duplicates: bool, report: _Report) -> None:
    for name in sorted(value):
        below = shape.fields.get(name) or shape.element
        if below is None:
            report(f"{path}.{name}", "field not declared in schema")
            return
        _validate(below, value[name], f"{path}.{name}", duplicates, report)


def _validate_list(shape: ListShape, value: list[Any], path: str, duplicates: bool, report: _Report) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if shape.associative:
            try:
                element = element_of(shape, item)
            except Misfit as misfit:
                report(path, f"element {index}: {misfit}")
                return
            if element in seen and not duplicates:
                report(path, f"duplicate entries for key {text(element)}")
            seen.add(element)
        _validate(shape.element, item, path + text(element), duplicates, report)


def _scalar_words(kind: str, value: Any) -> str:
    if kind == "numeric":
        names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
        return f"expected numeric (int or float), got {names[type(value)]}"
    if kind == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{syntax(value)}}}"
    return f"expected {'boolean' if kind == 'boolean' else 'any scalar'}, got &{{{plain(value)}}}"
