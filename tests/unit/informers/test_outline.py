"""One object takes a bounded amount of memory, and of time in one step of the event loop, whatever its writer puts into it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.client import LEFT_OUT, WatchEvent
from konverge.fields import Owner, _decode_cached, decode_fields
from konverge.informers.decode import Decoder, Interner
from konverge.informers.outline import MOST_VALUES, has_too_many_values, outline
from konverge.informers.settings import Selection
from konverge.kinds import kind
from konverge.objects import Metadata, OwnerReference

WIDGET = kind("tests.konverge.dev/v1", "Widget", namespaced=True, plural="widgets")
WIDE = {
    "empty lists": "[" + "[]," * 450_000 + "[]]",
    "empty objects": "[" + "{}," * 450_000 + "{}]",
    "numbers": "[" + "0," * 700_000 + "0]",
    "empty texts": "[" + '"",' * 450_000 + '""]',
    "texts of a quote": "[" + '"\\"",' * 250_000 + '""]',
    "texts of a backslash": "[" + '"\\\\",' * 250_000 + '""]',
    "objects": "[" + '{"a":0},' * 170_000 + "{}]",
    "keys": "{" + ",".join(f'"{number:x}":0' for number in range(150_000)) + "}",
}
LONG = {
    "a text with commas and brackets": json.dumps("[{," * 400_000),
    "a text with quotes": json.dumps('"' * 400_000),
    "JSON in a text": json.dumps(json.dumps([{"a": "b"}] * 50_000)),
    "a few values": "[" + "0," * 50_000 + "0]",
}


def body(spec: str) -> bytes:
    head = '"apiVersion":"tests.konverge.dev/v1","kind":"Widget"'
    return f'{{{head},"metadata":{{"name":"one","namespace":"web","resourceVersion":"7"}},"spec":{spec}}}'.encode()


def cached(text: bytes) -> bytes:
    """Return the cached form of a watch event's object."""
    decoder = Decoder(Selection(WIDGET), frozenset({"konverge"}), lambda *_: pytest.fail("an object was dropped"))
    (items,) = decoder.events([WatchEvent("ADDED", text)])  # type: ignore[arg-type]  # msgspec decodes bytes as well as Raw
    (change,) = items.changes  # type: ignore[union-attr]  # the decoder returns items for an event
    assert change.new is not None
    return change.new.body


@pytest.mark.parametrize("name", WIDE)
def test_the_members_of_an_object_with_too_many_values_are_left_out(name: str) -> None:
    assert len(WIDE[name]) > 1_000_000
    assert LEFT_OUT in cached(body(WIDE[name]))
    assert len(cached(body(WIDE[name]))) < 1_000


@pytest.mark.parametrize("name", LONG)
def test_an_object_with_long_texts_is_cached_as_it_is(name: str) -> None:
    assert cached(body(LONG[name])) == body(LONG[name])


def test_an_object_with_too_many_values_and_levels_keeps_its_metadata() -> None:
    metadata = Metadata(name="one", namespace="web", resource_version="7")
    text = outline(body("[" * 5_000 + "[]," * 100_000 + "[]" + "]" * 5_000), metadata)
    assert json.loads(text)["metadata"] == {"name": "one", "namespace": "web", "resourceVersion": "7"}
    assert LEFT_OUT in text


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_object_of_few_values_is_cut(value: Any) -> None:
    assert not has_too_many_values(json.dumps(value).encode() + b" " * MOST_VALUES)


def test_large_values_are_not_kept_beyond_their_objects() -> None:
    interner, large = Interner(), b"{" + b"0" * (1 << 17)
    owner = Owner("konverge", "Apply", "")
    assert interner.fields({owner: large}) is not interner.fields({owner: large})
    for uid, count in (("u" * 1_000_000, 1), ("u", 1_000)):
        owners = tuple(OwnerReference("v1", "Pod", f"p{number}", uid) for number in range(count))
        first, second = (interner.metadata(Metadata(owner_references=tuple(owners))) for _ in range(2))
        assert first == second
    labels = {f"l{number}": "x" for number in range(1_000)}
    interner.metadata(Metadata(labels=labels))
    assert not any(len(repr(key)) > 10_000 for key in interner._known)
    before = _decode_cached.cache_info().currsize
    assert decode_fields(b'{"f:spec":{' + b'"f:a":{},' * 20_000 + b'"f:b":{}}}')["f:spec"]["f:b"] == {}
    assert _decode_cached.cache_info().currsize == before
