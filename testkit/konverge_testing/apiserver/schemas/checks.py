"""Only whether a value is valid: schemas compiled to tables of predicates, for the common case of valid values.

Guarantees: pure; agrees with `explain` (which writes the errors) on every value: a property test compares the two. A table maps the
class of a value to True (valid as it is), or to a predicate; a missing class is a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64, same
from konverge_testing.apiserver.schemas.bounds import in_range, is_json_integer, number_problems
from konverge_testing.apiserver.schemas.formats import effective, matches
from konverge_testing.apiserver.schemas.patterns import compiled

__all__ = ["Table", "compile_checks", "enum_has", "type_fits", "types_of", "valid"]

Predicate = Callable[[Any], bool]
Table = dict[type, "bool | Predicate"]
Schema = Mapping[str, Any]

_KINDS: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_NUMERIC: Final = ("maximum", "minimum", "multipleOf")


def types_of(schema: Schema) -> tuple[str, ...]:
    """Return the types that a schema allows; () allows any."""
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def type_fits(kind: str, types: tuple[str, ...], form: str) -> bool:
    """Tell whether a value of a JSON type is valid here; the caller allows whole floats for integers.

    A format without a number's type lets lists pass for strings, as kube-openapi does.
    """
    if not types and not form:
        return True
    if kind in ("string", "array"):
        if form and "number" not in types and "integer" not in types:
            return True
        return kind in types
    return kind in types or (kind == "integer" and "number" in types)


def valid(table: Table, value: Any) -> bool:
    """Tell whether a value is valid by a compiled schema."""
    found = table.get(value.__class__)
    return found is True or (found is not None and found is not False and found(value))


def compile_checks(schema: Schema) -> Table:
    """Compile a schema and everything below it."""
    types, form = types_of(schema), effective(schema)
    table: Table = {}
    junctors = _junctors(schema)
    enum = schema.get("enum")
    for cls, kind in _KINDS.items():
        whole = cls is float and "integer" in types and "number" not in types
        if not whole and not type_fits(kind, types, form):
            continue
        checks: list[Predicate] = [is_json_integer] if whole else []
        checks += _checks_of_type(schema, cls, form)
        checks += junctors
        if enum:
            checks.append(_enum(enum))
        table[cls] = _all_of(checks)
    if int in table:
        table[int] = _bounded(table[int], table.get(float, False))
    if (not types or schema.get("nullable")) and not enum:
        table[type(None)] = True
    return table


def _all_of(checks: list[Predicate]) -> bool | Predicate:
    if not checks:
        return True
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        one, other = checks
        return lambda value: one(value) and other(value)
    return lambda value: all(check(value) for check in checks)


def _bounded(whole: bool | Predicate, real: bool | Predicate) -> Predicate:
    """Return the check of an integer: an integer beyond int64 is a float to Kubernetes, as in Go's JSON."""
    inside, outside = ((lambda _, found=found: found) if isinstance(found, bool) else found for found in (whole, real))
    return lambda value: inside(value) if MIN_INT64 <= value <= MAX_INT64 else outside(float(value))


def _checks_of_type(schema: Schema, cls: type, form: str) -> list[Predicate]:
    if cls is dict:
        return _object(schema)
    if cls is list:
        return _array(schema)
    if cls is str:
        return _string(schema, form)
    return _number(schema) if cls in (int, float) else []


def _number(schema: Schema) -> list[Predicate]:
    if schema.get("format") == "float" or any(name in schema for name in _NUMERIC):
        return [lambda value: not number_problems(schema, "", value)]
    if types_of(schema) == ("integer",) and schema.get("format") in ("int32", "int64"):
        kind, form = "integer", schema["format"]
        return [lambda value: in_range(value, kind, form)]
    return []


def _string(schema: Schema, form: str) -> list[Predicate]:
    checks: list[Predicate] = []
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None:
        checks.append(lambda value: len(value) <= most)
    if least:
        checks.append(lambda value: len(value) >= least)
    if pattern:
        search = compiled(pattern).search
        checks.append(lambda value: search(value) is not None)
    if form:
        checks.append(lambda value: matches(form, value))
    return checks


def _array(schema: Schema) -> list[Predicate]:
    checks: list[Predicate] = []
    most, least, items = schema.get("maxItems"), schema.get("minItems"), schema.get("items")
    if isinstance(items, Mapping):
        table = compile_checks(items)
        checks.append(_items(table))
    if most is not None:
        checks.append(lambda value: len(value) <= most)
    if least:
        checks.append(lambda value: len(value) >= least)
    if schema.get("uniqueItems"):
        checks.append(lambda value: not any(same(one, other) for at, one in enumerate(value) for other in value[:at]))
    return checks


def _items(table: Table) -> Predicate:
    def check(value: list[Any]) -> bool:
        for item in value:
            found = table.get(item.__class__)
            if found is True:
                continue
            if found is None or found is False or not found(item):
                return False
        return True

    return check


def _object(schema: Schema) -> list[Predicate]:
    tables = {name: compile_checks(child) for name, child in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    rest = compile_checks(additional) if isinstance(additional, Mapping) else None
    closed = additional is False
    required = tuple(schema.get("required") or ())
    checks: list[Predicate] = []
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None:
        checks.append(lambda value: len(value) <= most)
    if least:
        checks.append(lambda value: len(value) >= least)
    if required:
        needed = frozenset(required)
        checks.append(lambda value: needed <= value.keys())
    if tables or rest is not None or closed:
        checks.append(_fields(tables, rest, closed))
    return checks


def _fields(tables: dict[str, Table], rest: Table | None, closed: bool) -> Predicate:
    def check(value: dict[str, Any]) -> bool:
        for name, item in value.items():
            table = tables.get(name, rest)
            if table is None:
                if closed:
                    return False
                continue
            found = table.get(item.__class__)
            if found is True:
                continue
            if found is None or found is False or not found(item):
                return False
        return True

    return check


def _junctors(schema: Schema) -> list[Predicate]:
    checks: list[Predicate] = []
    if anys := [compile_checks(one) for one in schema.get("anyOf") or ()]:
        checks.append(lambda value: any(valid(table, value) for table in anys))
    if ones := [compile_checks(one) for one in schema.get("oneOf") or ()]:
        checks.append(lambda value: sum(valid(table, value) for table in ones) == 1)
    if alls := [compile_checks(one) for one in schema.get("allOf") or ()]:
        checks.append(lambda value: all(valid(table, value) for table in alls))
    if (none := schema.get("not")) is not None:
        unwanted = compile_checks(none)
        checks.append(lambda value: not valid(unwanted, value))
    return checks


def enum_has(enum: list[Any], value: Any) -> bool:
    """Tell whether a value is in an enum; numbers compare after conversion to the enum's kind."""
    for one in enum:
        if same(one, value):
            return True
        if one.__class__ is int and value.__class__ is float and abs(value) < 2**63 and int(value) == one:
            return True
        if one.__class__ is float and value.__class__ is int and float(value) == one:
            return True
    return False


def _enum(enum: list[Any]) -> Predicate:
    if all(one.__class__ is str for one in enum):
        allowed = frozenset(enum)
        return lambda value: value.__class__ is str and value in allowed
    return lambda value: enum_has(enum, value)
