"""The paths of additionalPrinterColumns: a compiled subset of kubectl's JSONPath.

Guarantees: pure; `compile_path` is cached. Supported: `.name` (dots escaped by a backslash), `['name']`, `[0]`, `[-1]`, `[1:3]`, `[0,2]`,
`[*]`, `.*`, `..name`, and filters `[?(@.a.b == "x")]` with == != < <= > >= or without an operator (exists). A path to a missing field has
no result. An unsupported path has no results either; a real server shows an empty cell for it.

Source: k8s.io/client-go `util/jsonpath`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

__all__ = ["compile_path", "find"]

_Step = Callable[[Any], Iterable[Any]]

_TOKEN: Final = re.compile(
    r"""
    (?P<deep>\.\.)(?P<deep_name>(?:\\.|[^.\[\]\s*])+|\*)
    | \.?\[\s*\?\((?P<filter>.*?)\)\s*\]
    | \.?\[(?P<index>(?:'(?:\\.|[^'])*'|"(?:\\.|[^"])*"|[^\]])*)\]
    | \.(?P<star>\*)
    | \.?(?P<name>(?:\\.|[^.\[\]\s])+)
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(r"^\s*@(?P<path>.*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?$", re.DOTALL)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def find(path: str, value: Any) -> list[Any]:
    """Return all results of a path.

    >>> find('.status.conditions[?(@.type=="Ready")].status', {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    ['True']
    """
    steps = compile_path(path)
    if steps is None:
        return []
    found: list[Any] = [value]
    for step in steps:
        found = [below for each in found for below in step(each)]
    return found


@lru_cache(maxsize=4096)
def compile_path(path: str) -> tuple[_Step, ...] | None:
    """Return the steps of a path, or None if the path is unsupported."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    steps: list[_Step] = []
    place = 0
    while place < len(text) and text[place:] != ".":
        token = _TOKEN.match(text, place)
        step = None if token is None else _step(token)
        if token is None or step is None:
            return None
        steps.append(step)
        place = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> _Step | None:
    if (name := token["deep_name"]) is not None:
        return _deep("*" if name == "*" else _unescaped(name))
    if token["filter"] is not None:
        return _filter(token["filter"])
    if token["index"] is not None:
        return _index(token["index"])
    if token["star"] is not None:
        return _children
    return _field(_unescaped(token["name"]))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return step


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return tuple(value[key] for key in sorted(value))
    return tuple(value) if isinstance(value, list) else ()


def _deep(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if name == "*":
            yield value
        elif isinstance(value, dict) and name in value:
            yield value[name]
        for below in _children(value):
            yield from step(below)

    return step


def _index(text: str) -> _Step | None:
    parts = [part.strip() for part in re.findall(r"""'(?:\\.|[^'])*'|"(?:\\.|[^"])*"|[^,]+""", text)]
    steps = [_one_index(part) for part in parts]
    if not steps or None in steps:
        return None

    def step(value: Any) -> Iterator[Any]:
        for each in steps:
            assert each is not None
            yield from each(value)

    return step


def _one_index(part: str) -> _Step | None:
    if part == "*":
        return _children
    if part[:1] in ("'", '"') and part[-1:] == part[:1] and len(part) > 1:
        return _field(_unescaped(part[1:-1]))
    if re.fullmatch(r"-?\d+", part):
        return _slice(int(part), None, 1, single=True)
    if re.fullmatch(r"(-?\d+)?:(-?\d+)?(:\d+)?", part):
        first, last, *rest = part.split(":")
        return _slice(int(first or 0), int(last) if last else None, int(rest[0]) if rest else 1)
    return None


def _slice(first: int, last: int | None, stride: int, *, single: bool = False) -> _Step:
    def step(value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        if single:
            return (value[first],) if -len(value) <= first < len(value) else ()
        return value[first:last:stride] if stride else ()

    return step


def _filter(text: str) -> _Step | None:
    found = _FILTER.match(text)
    if found is None or (below := compile_path(found["path"])) is None:
        return None
    wanted, compare = _literal(found["value"] or "true"), _COMPARE.get(found["op"] or "")

    def matches(item: Any) -> bool:
        results: list[Any] = [item]
        for step in below:
            results = [each for result in results for each in step(result)]
        if compare is None:
            return bool(results)
        return bool(results) and _compared(compare, results[0], wanted)

    return lambda value: [item for item in _children(value) if matches(item)]


def _compared(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    number = (int, float)
    both_numbers = isinstance(left, number) and isinstance(right, number) and not isinstance(left, bool)
    if (
        both_numbers
        or (isinstance(left, str) and isinstance(right, str))
        or (isinstance(left, bool) and isinstance(right, bool))
    ):
        return compare(left, right)
    return compare is operator.ne


def _literal(text: str) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        return _unescaped(text[1:-1])
    try:
        return json.loads(text)
    except ValueError:
        return text
