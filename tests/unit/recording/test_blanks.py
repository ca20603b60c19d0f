"""Placeholders of secret values: their places, and their equality."""

import base64
import json
from typing import Any

import pytest

from konverge.recording.blanks import Blanks, is_placeholder

VALUE = 'p<a&s"s\nword'


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def blanked(document: Any, *, secret: bool = False, blanks: Blanks | None = None) -> Any:
    return json.loads((blanks or Blanks(b"key")).body(json.dumps(document).encode(), secret=secret))


SECRET = {"kind": "Secret", "metadata": {"name": "a"}, "data": {"key": encoded(VALUE)}}


@pytest.mark.parametrize(
    ("document", "secret"),
    [
        (SECRET, False),
        ({"kind": "Secret", "stringData": {"key": VALUE}}, False),
        ({"kind": "SecretList", "items": [{"data": {"key": encoded(VALUE)}}]}, False),
        ({"kind": "List", "items": [SECRET]}, False),
        ({"data": {"key": encoded(VALUE)}}, True),
        ([{"op": "replace", "path": "/data/key", "value": encoded(VALUE)}], True),
        ([{"op": "add", "path": "/data", "value": {"key": encoded(VALUE)}}], True),
        ({"kind": "TokenRequest", "status": {"token": VALUE, "expirationTimestamp": "2030"}}, False),
        ({"kind": "TokenReview", "spec": {"token": VALUE}}, False),
        ({"spec": {"containers": [{"env": [{"name": "DB_PASSWORD", "value": VALUE}]}]}}, False),
        (
            {
                "kind": "Secret",
                "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": VALUE}},
            },
            False,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_secret_value_is_blanked_in_each_of_its_places(document: Any, secret: bool) -> None:
    text = json.dumps(blanked(document, secret=secret))
    assert json.dumps(VALUE)[1:-1] not in text
    assert encoded(VALUE) not in text


@pytest.mark.parametrize(
    "copy",
    [VALUE, f"url=//{VALUE}@host", encoded(VALUE), VALUE.replace("<", "\\u003c").replace("&", "\\u0026")],
    ids=["plain", "within", "base64", "as Go writes it"],
)
def test_a_copy_of_a_known_value_is_blanked_in_any_document(copy: str) -> None:
    blanks = Blanks(b"key")
    blanked(SECRET, blanks=blanks)
    raw = json.dumps({"data": {"copy": copy}}).replace("\\\\u", "\\u").encode()
    shown = json.loads(blanks.body(raw))["data"]["copy"]
    assert VALUE not in shown
    assert is_placeholder(shown)


def test_equal_values_have_equal_placeholders_of_their_process_only() -> None:
    first, second = Blanks(b"one"), Blanks(b"two")
    assert first.placeholder(VALUE) == first.placeholder(VALUE) != first.placeholder("another")
    assert first.placeholder(VALUE) != second.placeholder(VALUE)
    assert base64.b64decode(blanked(SECRET)["data"]["key"]).decode() == Blanks(b"key").placeholder(VALUE)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "ConfigMap", "data": {"token": "abc"}},
        {"spec": {"containers": [{"env": [{"name": "MODE", "value": "plain"}]}]}},
        {"kind": "Secret", "metadata": {"labels": {"app": "shop"}}, "type": "Opaque"},
    ],
    ids=str,
)
def test_other_values_are_recorded_as_they_are(document: Any) -> None:
    assert blanked(document) == document


@pytest.mark.parametrize("raw", [b"not json: [", b"\xff\xfe", b"a: 1"], ids=str)
def test_a_body_of_another_type_becomes_json(raw: bytes) -> None:
    json.loads(Blanks(b"key").body(raw))
