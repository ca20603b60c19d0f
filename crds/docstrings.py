"""The docstrings under the fields of models, read from the sources when a schema with descriptions is generated.

Guarantees: `Docstrings.of(cls)` finds the same texts as pydantic's `use_attribute_docstrings`. That option reads and parses a file for each
class that is created, in every program that imports one, although only manifests need the texts. A field belongs to the class that
annotated it last, so a subclass that overrides a field without a docstring has none for it. Classes in functions are found; among several
classes of one name in one place, the class with the same fields is taken.

Caveats: without source (a frozen program, `exec`, the prompt), or if the source does not parse, a field has no description; no error is
raised. Only `konverge.model.Model`s are read, unless they set `use_attribute_docstrings` to False; other pydantic models use that setting.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from pydantic import BaseModel

from konverge.model import Model

__all__ = ["Docstrings"]

_Classes: TypeAlias = dict[str, list[ast.ClassDef]]


class Docstrings:
    """Docstrings of fields; each file is read once in the life of this object."""

    def __init__(self) -> None:
        self._files: dict[str, _Classes] = {}

    def of(self, cls: type[BaseModel]) -> dict[str, str]:
        """Return the docstrings by the names of the fields in Python; a field without one is not in it."""
        texts: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if not issubclass(base, BaseModel):
                continue
            written = self._written(base) if _is_read(base) else {}
            for name in inspect.get_annotations(base):
                texts.pop(name, None)
                if name in written:
                    texts[name] = written[name]
        return texts

    def _written(self, cls: type[BaseModel]) -> dict[str, str]:
        annotated = set(inspect.get_annotations(cls))
        definitions = self._classes(cls.__module__).get(cls.__qualname__, ()) if annotated else ()
        first_line = cls.__dict__.get("__firstlineno__")  # from Python 3.13 on
        fits = [definition for definition in definitions if annotated <= _fields(definition).keys()]
        exact = [definition for definition in fits if _first_line(definition) == first_line] or [
            definition for definition in fits if annotated == _fields(definition).keys()
        ]
        return {name: text for name, text in _fields((exact or fits)[-1]).items() if text} if fits else {}

    def _classes(self, module: str) -> _Classes:
        """Return the class definitions of a module by their qualified names; none without source."""
        loaded = sys.modules.get(module)
        try:
            file = loaded and inspect.getsourcefile(loaded)
        except TypeError:
            return {}
        if loaded is None or not file:
            return {}
        if file not in self._files:
            linecache.checkcache(file)
            self._files[file] = _parsed("".join(linecache.getlines(file, loaded.__dict__)))
        return self._files[file]


def _is_read(cls: type[BaseModel]) -> bool:
    return issubclass(cls, Model) and cls.model_config.get("use_attribute_docstrings", True)


def _parsed(source: str) -> _Classes:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    classes: _Classes = defaultdict(list)
    for name, definition in _definitions(tree, ""):
        classes[name].append(definition)
    return dict(classes)


def _definitions(inside: ast.AST, path: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(inside):
        if isinstance(node, ast.ClassDef):
            yield path + node.name, node
            yield from _definitions(node, f"{path}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _definitions(node, f"{path}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(node, path)


def _first_line(definition: ast.ClassDef) -> int:
    return min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])


def _fields(definition: ast.ClassDef) -> dict[str, str]:
    """Return the annotated names in the body of a class, each with the string below it or ""."""
    texts: dict[str, str] = {}
    for block in _blocks(definition):
        for node, below in itertools.zip_longest(block, block[1:]):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                texts[node.target.id] = _text(below)
    return texts


def _blocks(inside: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the body and the bodies of `if` and `try` statements in it, but not those of functions and classes."""
    for name in ("body", "orelse", "finalbody"):
        block: list[ast.stmt] = getattr(inside, name, [])
        yield block
        for node in block:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _blocks(node)


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""
