"""The errors of a value, with the messages and choices of kube-openapi's validator; runs only after `checks` found an error.

Guarantees: pure. Errors have the order of the validators; if Go ranges over a map, the order of the schema or object. With a
correlation, errors in unchanged values are tolerated (ratcheting). Match counts decide which branch of anyOf and oneOf is reported, as
there. Sources: k8s.io/kube-openapi `pkg/validation/validate`, apiextensions `pkg/apiserver/validation/{validation,ratcheting}.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64, compact, quote, same
from konverge_testing.apiserver.schemas.bounds import is_json_integer, number_problems
from konverge_testing.apiserver.schemas.checks import enum_has, type_fits, types_of
from konverge_testing.apiserver.schemas.correlate import Correlated
from konverge_testing.apiserver.schemas.formats import effective, matches
from konverge_testing.apiserver.schemas.patterns import compiled
from konverge_testing.apiserver.statuses import FieldError, Kind

__all__ = ["NOWHERE", "SchemaProblem", "explain", "field_errors"]

NOWHERE: Final = "<nil>"
"""The field of an error without a field, as Go prints a nil path."""

Schema = Mapping[str, Any]

_INFERRED: Final[dict[type, tuple[str, str]]] = {
    dict: ("object", ""),
    list: ("array", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    bool: ("boolean", ""),
}


class SchemaProblem(NamedTuple):
    """One error: `name` is the place (None: no place), `words` identifies the error, `detail` and `value` go into the field error."""

    name: str | None
    kind: Kind
    value: Any
    words: str
    detail: str


class _Result:
    """Errors, without duplicates of the same text, and the number of passed checks."""

    __slots__ = ("count", "errors")

    def __init__(self, errors: list[SchemaProblem] | None = None) -> None:
        self.errors = errors or []
        self.count = 0

    def add(self, *problems: SchemaProblem) -> None:
        for problem in problems:
            if all(problem.words != known.words for known in self.errors):
                self.errors.append(problem)

    def merge(self, other: _Result) -> None:
        self.add(*other.errors)
        self.count += other.count


def explain(schema: Schema, value: Any, correlated: Correlated | None = None) -> list[SchemaProblem]:
    """Return all errors of a value; paths start at "" for the value itself."""
    return _ratcheted(schema, "", value, correlated).errors


def field_errors(problems: list[SchemaProblem], base: str = "") -> list[FieldError]:
    """Convert problems to field errors below `base`."""
    found = []
    for problem in problems:
        path = base or NOWHERE
        if problem.name:
            name = problem.name.removeprefix(".")
            path = f"{base}.{name}" if base else name
        found.append(FieldError(problem.kind, path, problem.value, problem.detail))
    return found


def _loose(words: str) -> SchemaProblem:
    return SchemaProblem(None, "Invalid", "", words, words)


def _ratcheted(schema: Schema, path: str, value: Any, correlated: Correlated | None) -> _Result:
    result = _validate(schema, path, value, correlated)
    if result.errors and correlated is not None and correlated.equal:
        result.errors = []
    return result


def _validate(schema: Schema, path: str, value: Any, correlated: Correlated | None) -> _Result:
    result = _Result()
    if value is None:
        _null(schema, path, result)
        return result
    if value.__class__ is int and not MIN_INT64 <= value <= MAX_INT64:
        value = float(value)
    form = effective(schema)
    if types_of(schema) or form:
        _type(schema, path, value, form, result)
        result.count += 1
    _junctors(schema, path, value, result)
    result.count += 2
    if isinstance(value, str):
        _string(schema, path, value, form, result)
    elif value.__class__ in (int, float):
        for problem in number_problems(schema, path, value):
            loose = problem.value is None
            result.add(
                _loose(problem.words)
                if loose
                else SchemaProblem(path, "Invalid", problem.value, problem.words, problem.words)
            )
        result.count += 2
    elif isinstance(value, list):
        _array(schema, path, value, correlated, result)
        result.count += 2
    if (enum := schema.get("enum")) and not enum_has(enum, value):
        result.add(_unsupported(path, value, enum))
    result.count += 1
    if isinstance(value, dict):
        _object(schema, path, value, correlated, result)
        result.count += 1
    result.count += 1
    return result


def _null(schema: Schema, path: str, result: _Result) -> None:
    types = types_of(schema)
    if types and not schema.get("nullable"):
        result.add(_wrong_type(path, ",".join(types), "null"))
    else:
        result.count += 1
    if enum := schema.get("enum"):
        result.add(_unsupported(path, None, enum))


def _wrong_type(path: str, wanted: str, found: str) -> SchemaProblem:
    words = f"{path} in body must be of type {wanted}: {quote(found)}"
    return SchemaProblem(path, "TypeInvalid", found, words, words)


def _unsupported(path: str, value: Any, enum: list[Any]) -> SchemaProblem:
    allowed = ", ".join(quote(one if isinstance(one, str) else compact(one)) for one in enum)
    return SchemaProblem(
        path, "NotSupported", value, f"{path} in body should be one of {allowed}", f"supported values: {allowed}"
    )


def _type(schema: Schema, path: str, value: Any, form: str, result: _Result) -> None:
    types = types_of(schema)
    kind, inferred = _INFERRED[value.__class__]
    whole = kind == "number" and is_json_integer(value) and "integer" in types
    if whole or type_fits(kind, types, form):
        result.count += 1
    elif form and kind not in ("string", "array"):
        result.add(_wrong_type(path, form, inferred))
    else:
        result.add(_wrong_type(path, ",".join(types), kind))


def _string(schema: Schema, path: str, value: str, form: str, result: _Result) -> None:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        unit = "byte" if most == 1 else "bytes"
        words = f"{path} in body should be at most {most} chars long"
        result.add(SchemaProblem(path, "TooLong", "", words, f"may not be more than {most} {unit}"))
    elif least is not None and len(value) < least:
        words = f"{path} in body should be at least {least} chars long"
        result.add(SchemaProblem(path, "Invalid", value, words, words))
    elif pattern and not compiled(pattern).search(value):
        words = f"{path} in body should match '{pattern}'"
        result.add(SchemaProblem(path, "Invalid", value, words, words))
    result.count += 1
    if form:
        if not matches(form, value):
            result.add(_wrong_type(path, form, value))
        result.count += 1


def _array(schema: Schema, path: str, value: list[Any], correlated: Correlated | None, result: _Result) -> None:
    items, size = schema.get("items"), len(value)
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            child = None if correlated is None else correlated.index(index)
            result.merge(_ratcheted(items, f"{path}[{index}]", item, child))
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and size < least:
        words = f"{path} in body should have at least {least} items"
        result.add(SchemaProblem(path, "Invalid", size, words, words))
    if most is not None and size > most:
        result.add(_too_many(path, size, most, "items"))
    if schema.get("uniqueItems") and any(same(one, other) for at, one in enumerate(value) for other in value[:at]):
        words = f"{path} in body shouldn't contain duplicates"
        result.add(SchemaProblem(path, "Invalid", "", words, words))


def _too_many(path: str, size: int, most: int, what: str) -> SchemaProblem:
    words = f"{path} in body should have at most {most} {what}"
    return SchemaProblem(path, "TooMany", size, words, f"must have at most {most} {'item' if most == 1 else 'items'}")


def _object(schema: Schema, path: str, value: dict[str, Any], correlated: Correlated | None, result: _Result) -> None:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and len(value) < least:
        words = f"{path} in body should have at least {least} properties"
        result.add(SchemaProblem(path, "Invalid", len(value), words, words))
    if most is not None and len(value) > most:
        result.add(_too_many(path, len(value), most, "properties"))
    fields, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    others = (
        [name for name in value if name not in fields] if additional is False or isinstance(additional, Mapping) else []
    )
    for name in others:
        if additional is False:
            words = f"{path}.{name} in body is a forbidden property"
            result.add(SchemaProblem(path, "Invalid", name, words, words))
        else:
            result.merge(_field(additional, path, f"{path}.{name}", name, value[name], correlated))
    for name, child in fields.items():
        if name in value:
            result.merge(_field(child, path, f"{path}.{name}" if path else name, name, value[name], correlated))
    for name in schema.get("required") or ():
        if name not in value:
            result.add(SchemaProblem(f"{path}.{name}", "Required", "", f"{path}.{name} in body is required", ""))


def _field(schema: Any, parent: str, path: str, name: str, value: Any, correlated: Correlated | None) -> _Result:
    child = None
    if correlated is not None and not (parent == "" and name in ("apiVersion", "kind")):
        child = correlated.key(name)
    return _ratcheted(schema, path, value, child)


def _junctors(schema: Schema, path: str, value: Any, result: _Result) -> None:
    main = _Result()
    if anys := schema.get("anyOf"):
        _any_of(anys, path, value, main)
    if ones := schema.get("oneOf"):
        _one_of(ones, path, value, main)
    if alls := schema.get("allOf"):
        good = 0
        for one in alls:
            found = _validate(one, path, value, None)
            good += not found.errors
            main.merge(found)
        if good != len(alls):
            main.add(_loose(f"{quote(path)} must validate all the schemas (allOf){'' if good else '. None validated'}"))
    if (none := schema.get("not")) is not None and not _validate(none, path, value, None).errors:
        main.add(_loose(f"{quote(path)} must not validate the schema (not)"))
    result.merge(main)


def _any_of(schemas: list[Schema], path: str, value: Any, main: _Result) -> None:
    best: _Result | None = None
    for one in schemas:
        found = _validate(one, path, value, None)
        if not found.errors:
            main.merge(found)
            return
        best = _better(best, found)
    main.add(_loose(f"{quote(path)} must validate at least one schema (anyOf)"))
    if best is not None:
        main.merge(best)


def _one_of(schemas: list[Schema], path: str, value: Any, main: _Result) -> None:
    good = 0
    best: _Result | None = None
    first: _Result | None = None
    for one in schemas:
        found = _validate(one, path, value, None)
        if not found.errors:
            good, best, first = good + 1, None, first or found
        elif not good:
            best = _better(best, found)
    if good == 1 and first is not None:
        main.merge(first)
        return
    more = f"Found {good} valid alternatives" if good else "Found none valid"
    main.add(_loose(f"{quote(path)} must validate one and only one schema (oneOf). {more}"))
    if best is not None:
        main.merge(best)


def _better(best: _Result | None, found: _Result) -> _Result:
    return found if best is None or found.count > best.count else best
