"""The interface to the CEL library: parse, prepare, run.

Guarantees: the library is imported when the first expression is compiled, and the error for its absence names the extra that installs it.
Each set of variable names has one environment, which is cached. Run-time errors are translated to cel-go's messages if the two libraries
differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import product
from types import ModuleType
from typing import Any, Final

from konverge_testing.apiserver.cel.errors import EvalError, TooManyIterations
from konverge_testing.apiserver.cel.functions import FUNCTIONS
from konverge_testing.apiserver.cel.kinds import CelType
from konverge_testing.apiserver.cel.rewrite import OWN
from konverge_testing.apiserver.cel.signatures import functions
from konverge_testing.apiserver.cel.stepping import Stepper
from konverge_testing.apiserver.cel.syntax import Expr, Parsed, decode, encode
from konverge_testing.apiserver.cel.values import spelled
from konverge_testing.apiserver.statuses import StatusError, not_implemented

__all__ = ["Activation", "Executable", "SyntaxProblem", "parse"]

_EXTENSIONS: Final = ("two-var-comprehensions", "sets", "lists", "strings", "optional")
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name.upper(),)
        for name in ["bool", "bytes", "double", "duration", "int", "list", "map", "string", "timestamp", "uint"]
    },
    "struct": ("MAP",),
    "opaque": ("MAP",),
    "dyn": ("BOOL", "BYTES", "DOUBLE", "DURATION", "INT", "LIST", "MAP", "NULL", "STRING", "TIMESTAMP", "UINT"),
}
_WORDS: Final = (
    (re.compile(r'Key not found in map : "?(.*?)"?'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
    (re.compile(r"integer overflow|.*overflow.*"), "integer overflow"),
    (re.compile(r"No matching overloads found : .*"), "no such overload"),
    (re.compile(r"Applying SELECT to non-message type"), "no such overload"),
    (re.compile(r"optional\.none\(\) dereference"), "optional.none() dereference"),
    (re.compile(r"cannot convert (\w+) to (\w+)"), r"type conversion error from '\1' to '\2'"),
    (re.compile(r"Type conversion error (.*)"), r"type conversion error \1"),
    (
        re.compile(r"String to (Timestamp|Duration) conversion failed"),
        r"type conversion error from 'string' to 'google.protobuf.\1'",
    ),
    (re.compile(r"invalid regular expression: (.*)"), r"error parsing regexp: \1"),
)
_OURS: Final = "kubernetes: "
"""Prefix that marks errors of our own functions inside the library; their messages need no translation."""
_MOST_ITERATIONS: Final = "Iteration budget exceeded"
"""The library's message at its iteration limit, which cannot be configured."""
_NOT_PLAIN: Final = "Non-CEL value type"
_CODE: Final = re.compile(r"^[A-Z_]+: ")


class SyntaxProblem(Exception):
    """An expression cannot be parsed; the text has every error with its position."""


@cache
def _library() -> ModuleType:
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # it has stubs but no marker
    except ImportError as missing:
        text = "CEL rules need the package cel-expr-python: install konverge[testing]"
        raise ImportError(text) from missing
    module: ModuleType = cel
    return module


@cache
def _environment(variables: tuple[str, ...]) -> Any:
    cel = _library()
    lines = ["extensions:", *(f"- name: {name}\n  version: latest" for name in _EXTENSIONS)]
    lines += ["variables:", *(f"- name: {json.dumps(name)}\n  type: dyn" for name in variables)] if variables else []
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml("\n".join(lines) + "\n"), functions=_declarations(cel))


def _declarations(cel: ModuleType) -> list[Any]:
    """Declare our functions for every possible combination of run-time kinds of arguments."""
    shapes: dict[str, set[tuple[str, ...]]] = {}
    for name, overloads in functions().items():
        for overload in overloads:
            if overload.own:
                shapes.setdefault(name, set()).update(product(*map(_runtime, overload.args)))
    shapes["same"] = {(one, two, "STRING") for one, two in product(_KINDS["dyn"], _KINDS["dyn"])}
    shapes["spelled"] = {("TIMESTAMP",), ("DURATION",)}
    shapes["union"] = {("LIST", "LIST", "STRING")}
    shapes["mapInsert"] = {("MAP", "MAP"), *(("MAP", *pair) for pair in product(_KINDS["dyn"], _KINDS["dyn"]))}
    for name in ("indexOf", "lastIndexOf"):
        shapes[name] |= {("STRING", "STRING"), ("STRING", "STRING", "INT")}
    return [
        cel.FunctionDecl(OWN + name, [_overload(cel, name, shape) for shape in sorted(found)])
        for name, found in shapes.items()
    ]


def _overload(cel: ModuleType, name: str, shape: tuple[str, ...]) -> Any:
    types = [getattr(cel.Type, kind) for kind in shape]
    return cel.Overload(f"{name}({','.join(shape)})", cel.Type.DYN, types, impl=partial(_run, FUNCTIONS[name]))


def _run(function: Any, *args: Any) -> Any:
    try:
        value = function(*args)
    except Exception as error:
        raise RuntimeError(_OURS + str(error)) from error
    return spelled(value) if isinstance(value, (datetime, timedelta)) else value


def _runtime(kind: CelType) -> tuple[str, ...]:
    return _KINDS.get(kind.kind, _KINDS["dyn"])


def parse(text: str, variables: Iterable[str]) -> Parsed:
    """Read an expression; raise SyntaxProblem if that fails."""
    try:
        return decode(_environment(tuple(variables)).compile(text, disable_check=True).serialize())
    except RuntimeError as error:
        words = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise SyntaxProblem(
            words.replace("has() argument must be a field selection", "invalid argument to has() macro")
        ) from None


@dataclass(frozen=True, slots=True)
class Activation:
    """Values of variables, prepared for the library."""

    values: Mapping[str, Any]
    native: Any


class Executable:
    """An expression that is ready to run."""

    def __init__(self, expr: Expr, variables: Iterable[str]) -> None:
        self._expr = expr
        self._environment = _environment(tuple(variables))
        self._run = self._environment.deserialize(encode(expr)).eval

    def activation(self, values: Mapping[str, Any]) -> Activation:
        """Prepare values, to be shared by several expressions over the same variables."""
        return Activation(values, self._environment.Activation(values))

    def run(self, activation: Activation, *, most: int | None = None) -> Any:
        """Return the value as plain data; raise EvalError if there is none, TooCostly for a cost beyond `most`.

        Raises StatusError (501) if loops are too long for one run of the library, and cannot be divided.
        """
        try:
            return self._native(activation.native)
        except TooManyIterations:
            return Stepper(_program, most).run(self._expr, activation.values)

    def _native(self, native: Any) -> Any:
        try:
            result = self._run(native)
        except RuntimeError as error:
            if _MOST_ITERATIONS not in str(error):
                raise
            raise TooManyIterations from None
        name = result.type().name()
        if name == "ERROR":
            text = str(result.value())
            if _NOT_PLAIN in text:
                raise _indivisible() from None
            raise EvalError(_worded(text))
        try:
            return result.plain_value()
        except (SystemError, TypeError):  # of an optional value
            raise _indivisible() from None


def _indivisible() -> StatusError:
    return not_implemented("CEL expressions with more than 10,000 iterations that accumulate times or optional values")


def _program(expr: Expr, variables: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    made = Executable(expr, variables)
    return lambda values: made._native(made._environment.Activation(dict(values)))


def _worded(text: str) -> str:
    text = _CODE.sub("", text, count=1)
    if text.startswith(_OURS):
        return text.removeprefix(_OURS)
    for pattern, words in _WORDS:
        if (found := pattern.fullmatch(text)) is not None:
            return found.expand(words)
    return text
