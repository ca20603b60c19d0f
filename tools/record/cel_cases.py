"""Rules for a real API server and for ours: over single values, over whole objects, and rules that do not compile.

Guarantees: pure data. `VALUES` are rules on a property with its values; `WALKS` are schemas with the successive specs of an object (the
first is created, the others are updates; a rejected update leaves the object unchanged); `REFUSED` are rules that every server rejects.
"""

from __future__ import annotations

from typing import Any, Final

from record.cel_values import (
    BYTES,
    INT,
    INTS,
    LABELS,
    NUMBER,
    POINT,
    POINTS,
    PORT,
    SET,
    SPAN,
    TEXT,
    TEXTS,
    VALUES,
    WHEN,
    fields,
    ruled,
)

__all__ = ["REFUSED", "VALUES", "WALKS", "definition", "fields", "ruled"]

Data = dict[str, Any]


def definition(plural: str, spec: Data, root: Data | None = None) -> Data:
    """Return a CustomResourceDefinition whose objects have this spec."""
    schema = {"type": "object", "properties": {"spec": spec}, **(root or {})}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": plural.capitalize()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cel.example.com"},
        "spec": {"group": "cel.example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


WALKS: Final[list[tuple[str, Data, list[Data]]]] = [
    (
        "messages",
        ruled(
            fields(n=INT, s=TEXT),
            {"rule": "self.n > 0", "message": "  n must be positive "},
            {"rule": "self.n < 10", "messageExpression": "string(self.n)"},
            {"rule": "self.n < 10", "messageExpression": "self.s", "message": "fallback"},
            {"rule": "self.n < 10", "messageExpression": "'  '", "message": "blank"},
            {"rule": "self.n < 10", "messageExpression": "'a\\nb'", "message": "broken"},
            {"rule": "self.n != 5", "reason": "FieldValueForbidden", "message": "no five"},
            {"rule": "self.n != 6", "reason": "FieldValueRequired", "fieldPath": ".s"},
            {"rule": "self.n != 7", "reason": "FieldValueDuplicate", "fieldPath": ".n"},
            {"rule": "self.n != 8", "reason": "FieldValueInvalid", "fieldPath": ".s", "message": "not eight"},
        ),
        [{"n": 1}, {"n": 0}, {"n": 11}, {"n": 11, "s": "said"}, {"n": 5}, {"n": 6}, {"n": 7}, {"n": 8}],
    ),
    (
        "transitions",
        fields(
            fixed=ruled(TEXT, "self == oldSelf"),
            grows=ruled(INT, {"rule": "self >= oldSelf", "messageExpression": "oldSelf > 1 ? 'was more' : 'was less'"}),
            once=ruled(TEXT, {"rule": "oldSelf.hasValue() || self != 'late'", "optionalOldSelf": True}),
            kept=ruled(
                TEXT,
                {
                    "rule": "self == oldSelf.orValue(self)",
                    "optionalOldSelf": True,
                    "messageExpression": "oldSelf.hasValue() ? 'had one' : 'had none'",
                },
            ),
        ),
        [
            {"once": "late"},
            {"fixed": "a", "grows": 1, "kept": "a"},
            {"fixed": "b", "grows": 0, "kept": "b"},
            {"grows": 2, "once": "late"},
            {"fixed": "z", "grows": 2, "once": "x", "kept": "a"},
            {"fixed": "z", "grows": 2, "once": "late", "kept": "a"},
        ],
    ),
    (
        "items",
        fields(
            points={
                **POINTS,
                "items": ruled(POINTS["items"], "!has(oldSelf.y) || self.y == oldSelf.y", "self.x < 100"),
            },
            plain={"type": "array", "maxItems": 5, "items": ruled(INT, "self < 10")},
            labels={
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": ruled(TEXT, "self != oldSelf || self != 'x'", "self != ''"),
            },
        ),
        [
            {"points": [{"x": 1, "y": 1}, {"x": 2}, {"x": 100}], "plain": [1, 10], "labels": {"a": "", "b": "y"}},
            {"points": [{"x": 1, "y": 1}, {"x": 2}], "plain": [1], "labels": {"b": "x"}},
            {"points": [{"x": 2, "y": 5}, {"x": 1, "y": 2}], "labels": {"b": "x"}},
            {"points": [{"x": 2, "y": 5}, {"x": 3, "y": 2}], "labels": {"b": "y"}},
        ],
    ),
    (
        "orders",
        ruled(
            fields(tags=SET, points=POINTS, plain=TEXTS, nested={"type": "object", "properties": {"tags": SET}}),
            "!has(self.tags) || !has(oldSelf.tags) || self.tags == oldSelf.tags",
            "!has(self.points) || !has(oldSelf.points) || self.points == oldSelf.points",
            "!has(self.plain) || !has(oldSelf.plain) || self.plain == oldSelf.plain",
            "!has(self.nested) || !has(oldSelf.nested) || self.nested == oldSelf.nested",
        ),
        [
            {"tags": ["a", "b"], "points": [{"x": 1}, {"x": 2}], "plain": ["a", "b"], "nested": {"tags": ["a", "b"]}},
            {"tags": ["b", "a"], "points": [{"x": 2}, {"x": 1}], "plain": ["a", "b"], "nested": {"tags": ["b", "a"]}},
            {"tags": ["b", "a"], "points": [{"x": 2}, {"x": 1}], "plain": ["b", "a"], "nested": {"tags": ["b", "c"]}},
            {"tags": ["b", "c"], "points": [{"x": 2, "y": 1}, {"x": 1}]},
            {"tags": ["b", "a", "c"], "points": [{"x": 2}]},
        ],
    ),
    (
        "names",
        ruled(
            fields(a_DASH_b=INT, namespace=TEXT, a__b=INT, plain_name=INT, **{"x.y": INT, "$odd": INT}),
            "!has(self.a__dash__b) || self.a__dash__b == 1",
            "!has(self.__namespace__) || self.__namespace__ == 'n'",
            "!has(self.a__underscores__b) || self.a__underscores__b == 1",
            "!has(self.x__dot__y) || self.x__dot__y == 1",
            "!has(self.plain_name) || self.plain_name == 1",
        ),
        [
            {"a-b": 1, "namespace": "n", "a__b": 1, "x.y": 1, "plain_name": 1, "$odd": 2},
            {"a-b": 2, "namespace": "m", "a__b": 2, "x.y": 2, "plain_name": 2, "$odd": 2},
        ],
    ),
    (
        "depths",
        ruled(
            fields(
                deep=fields(list={"type": "array", "maxItems": 3, "items": fields(n=ruled(INT, "self > 0"))}),
                both=ruled(fields(n=ruled(INT, "self > 0")), "self.n > 1"),
                either={**fields(n=ruled(INT, "self > 5")), "allOf": [{"properties": {"n": {"minimum": 1}}}]},
                maybe=ruled({**INT, "nullable": True}, "self > 0"),
            ),
            "has(self.both) || has(self.deep) || has(self.either) || has(self.maybe)",
        ),
        [
            {"deep": {"list": [{"n": 1}, {"n": 0}, {}]}, "both": {"n": 0}},
            {},
            {"both": {"n": 1}},
            {"either": {"n": 1}},
            {"either": {"n": 7}, "maybe": None},
            {"either": {"n": 7}, "maybe": 0},
        ],
    ),
    (
        "errors",
        ruled(
            fields(n=INT, list=INTS, map=LABELS, any={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            "self.n > 0",
            "self.list[1] == 1",
            "self.map['a'] == 'b'",
            {"rule": "self.list[5] == 1", "message": "my list"},
            "!has(self.any) || self.any == self.any",
        ),
        [{}, {"n": 1, "list": [1, 1], "map": {}}, {"n": 1, "list": [1], "map": {"a": "b"}, "any": {"x": [1, None]}}],
    ),
    (
        "ratchets",
        fields(
            open=TEXT,
            wrong=TEXT,
            inner=fields(a=INT, b=INT),
            list={"type": "array", "maxItems": 5, "items": fields(n=INT)},
            keyed=POINTS,
        ),
        [
            {
                "open": "a",
                "wrong": "w",
                "inner": {"a": -1, "b": 1},
                "list": [{"n": -1}],
                "keyed": [{"x": -1, "y": 1}, {"x": 2}],
            }
        ],
    ),
]
"""`ratchets` gets its rules later: see `RATCHETED`."""

RATCHETED: Final[Data] = fields(
    open=TEXT,
    wrong=ruled(TEXT, "self != 'w'"),
    inner=ruled(fields(a=ruled(INT, "self > 0"), b=INT), "self.a > 0"),
    list={"type": "array", "maxItems": 5, "items": fields(n=ruled(INT, "self > 0"))},
    keyed={**POINTS, "items": ruled(POINTS["items"], "self.x > 0")},
)
RATCHET_STEPS: Final[list[Data]] = [
    {
        "open": "b",
        "wrong": "w",
        "inner": {"a": -1, "b": 1},
        "list": [{"n": -1}],
        "keyed": [{"x": -1, "y": 1}, {"x": 2}],
    },
    {
        "open": "c",
        "wrong": "w",
        "inner": {"a": -1, "b": 2},
        "list": [{"n": -1}],
        "keyed": [{"x": 2}, {"x": -1, "y": 1}],
    },
    {
        "open": "d",
        "wrong": "w",
        "inner": {"a": -1, "b": 1},
        "list": [{"n": -1}, {"n": 2}],
        "keyed": [{"x": -1, "y": 2}],
    },
    {"open": "e", "wrong": "v", "inner": {"a": -2, "b": 1}},
]

ROOT: Final[Data] = {
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('good')"},
        {"rule": "self.apiVersion == 'cel.example.com/v1' && self.kind == 'Roots'"},
        {"rule": "!has(self.spec.n) || self.spec.n > 0", "fieldPath": ".spec.n", "message": "n counts"},
        {"rule": "!has(oldSelf.spec.n) || has(self.spec.n)", "message": "n stays"},
    ]
}
ROOT_SPEC: Final[Data] = fields(n=INT)

REFUSED: Final[list[tuple[Data, str]]] = [
    (NUMBER, "self == 1"),
    (INT, "self == 'a'"),
    (INT, "self"),
    (INT, "self.size() > 0"),
    (INT, "self + 1.5 > 2.0"),
    (INT, "self > 0 &&"),
    (INT, "self > "),
    (INT, "self ++ 1"),
    (INT, "undeclared > 0"),
    (INT, "self.nothing"),
    (INT, "nothing(self)"),
    (INT, "self.nothing()"),
    (INT, "self == null"),
    (INT, "self > 0 ? true : 1"),
    (INT, "[1, 'a'].size() > self"),
    (INT, "{'a': 1, 'b': 'c'}.size() > self"),
    (INT, "self && true"),
    (INT, "!self"),
    (INT, "self.all(x, x > 0)"),
    (INT, "math.greatest(1, self) > 0"),
    (INT, "cel.bind(x, self, x > 0)"),
    (INT, "base64.encode(b'a') == 'b'"),
    (INT, "self.format([1]) == ''"),
    (INT, "has(self)"),
    (INT, "self > 0; true"),
    (INT, "type(self) == nothing"),
    (TEXT, "self.matches('(')"),
    (TEXT, "duration('x') > duration('1s')"),
    (TEXT, "timestamp('x') > timestamp('2020-01-01T00:00:00Z')"),
    (TEXT, "self.startsWith(1)"),
    (TEXT, "self.find(1) == ''"),
    (TEXT, "quantity(1).isInteger()"),
    (TEXT, "quantity(self) == 1"),
    (TEXT, "quantity(self) > quantity('1')"),
    (TEXT, "ip(self) == 'a'"),
    (TEXT, "url(self).host == 'a'"),
    (TEXT, "semver(self).foo()"),
    (TEXT, "format.nothing().validate(self).hasValue()"),
    (TEXT, "self.reverse() == 'a'"),
    (TEXT, "'%d'.format(['x']) == self"),
    (TEXT, "'%s %s'.format(['x']) == self"),
    (TEXT, "'%s'.format(['x', 'y']) == self"),
    (TEXT, "'%q'.format(['x']) == self"),
    (TEXT, "'%f'.format([1]) == self"),
    (TEXT, "'%s %'.format(['x']) == self"),
    (TEXT, "self == 'unfinished"),
    (TEXT, "self.nothing(self.other) && self.another"),
    (TEXT, "self > 0 &&\n  self.size() > 'a'"),
    (TEXT, "'ä' + self + 1 == 'ä'"),
    (POINT, "self.z == 1"),
    (POINT, "has(self.z)"),
    (POINT, "self.x == self"),
    (POINT, "self.x.y == 1"),
    (POINT, "self['x'] == 1"),
    (POINT, "self == {'x': 1}"),
    (POINT, "self.all(k, true)"),
    (POINT, "self.x in self"),
    (POINT, "size(self) > 0"),
    (POINT, "self.?z.hasValue()"),
    (POINT, "self.x.orValue(1) == 1"),
    (POINTS, "self[0].z == 1"),
    (POINTS, "self.map(p, p.z) == [1]"),
    (POINTS, "self == [1]"),
    (POINTS, "self['a'].x == 1"),
    (LABELS, "self.a == 1"),
    (LABELS, "self[1] == 'a'"),
    (LABELS, "1 in self"),
    (INTS, "self.exists(x, x == 'a')"),
    (INTS, "self.map(x, x + 'a') == []"),
    (INTS, "self.sum() == 'a'"),
    (INTS, "self.join(',') == ''"),
    (INTS, "self.first() == 1"),
    (WHEN, "self == '2020'"),
    (SPAN, "self > 5"),
    (BYTES, "self == 'abc'"),
    (PORT, "self == 1 && self.nothing() == 1"),
]
