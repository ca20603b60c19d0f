"""The two halves of value validation, the fast check that decides and the slow walk that explains, agree on every value."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from konverge_testing.apiserver.schemas.checks import compile_checks, valid
from konverge_testing.apiserver.schemas.explain import explain

numbers = st.one_of(st.integers(-4, 4), st.floats(-4, 4, width=16), st.just(2**40), st.just(2**70), st.just(1e39))
scalars = st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(["", "a", "ab", "abc", "2020-01-01", "1.2.3.4"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)
small = st.integers(0, 3)
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "object", "array"]),
        "format": st.sampled_from(["date", "ipv4", "int32", "float", "odd"]),
        "nullable": st.booleans(),
        "enum": st.lists(scalars, min_size=1, max_size=2),
        "maximum": st.sampled_from([1, 2.5, -1]),
        "minimum": st.sampled_from([0, 0.5]),
        "exclusiveMaximum": st.booleans(),
        "multipleOf": st.sampled_from([2, 0.5]),
        "maxLength": small,
        "minLength": small,
        "pattern": st.sampled_from(["^a", "b$"]),
        "maxItems": small,
        "minItems": small,
        "maxProperties": small,
        "minProperties": small,
        "required": st.lists(st.sampled_from("abc"), max_size=2),
        "x-kubernetes-int-or-string": st.booleans(),
    },
)


def _deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=2)
    more = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": st.one_of(inner, st.booleans()),
            "items": inner,
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
        },
    )
    return st.tuples(leaves, more).map(lambda pair: {**pair[0], **pair[1]})


schemas = st.recursive(leaves, _deeper, max_leaves=5)


@settings(max_examples=400, deadline=None)
@given(schema=schemas, value=values)
def test_checks_and_explanations_agree_on_every_value(schema: dict[str, Any], value: Any) -> None:
    assert valid(compile_checks(schema), value) == (not explain(schema, value))
