"""When Cluster API's Secret for the access to the Nodes is rewritten, whatever another writer left in it."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from konverge.clock import rfc3339
from konverge.objects import Object
from konverge.reconcilers.machines.clusters.kubeconfig import is_due, kubeconfig, kubeconfig_secret
from konverge.reconcilers.machines.kinds import SECRET
from konverge.reconcilers.machines.words import MachinesAnnotation

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SERVER = {"server": "https://10.0.0.1"}
TEXT = kubeconfig("acme--blue", SERVER, "account", "token")


def secret(text: str = TEXT, *, left: timedelta = timedelta(minutes=30), expiry: str | None = None) -> Object:
    made = kubeconfig_secret("acme--blue", "ns", text, NOW + left, {}).to_dict()
    if expiry is not None:
        made["metadata"]["annotations"][MachinesAnnotation.TOKEN_EXPIRY] = expiry
    return SECRET.decode(made)


def due(found: Object) -> bool:
    return is_due(found, "acme--blue", SERVER, NOW)


def token(claims: Any) -> str:
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


def with_token(made: Any) -> str:
    return json.dumps({**json.loads(TEXT), "users": [{"name": "account", "user": {"token": made}}]})


@pytest.mark.parametrize(
    "made",
    [None, 5, [], {"a": 1}],
    ids=["null", "a number", "a list", "a map"],
)
def test_a_token_of_another_type_than_text_is_replaced(made: Any) -> None:
    assert due(secret(with_token(made)))


def test_a_token_that_says_that_it_lives_for_years_is_replaced() -> None:
    foreign = with_token(token({"iat": 0, "exp": 2_000_000_000}))
    assert due(secret(foreign, left=timedelta(days=9_000)))
    assert not due(secret(foreign, left=timedelta(hours=5)))


@pytest.mark.parametrize(
    "claims",
    [5, [], {"exp": "x", "iat": "y"}, {"exp": 10**400, "iat": 0}, {"exp": float("nan"), "iat": 0}, {}],
    ids=["a number", "a list", "words", "400 digits", "no number", "none"],
)
def test_token_without_a_lifetime_claim_counts_as_a_token_of_an_hour(claims: Any) -> None:
    assert not due(secret(with_token(token(claims)), left=timedelta(minutes=59)))
    assert due(secret(with_token(token(claims)), left=timedelta(minutes=61)))


@pytest.mark.parametrize(("minutes", "expected"), [(60, False), (10, False), (9, True), (0, True), (-60, True)])
def test_a_token_is_replaced_with_less_than_ten_minutes_left(minutes: int, expected: bool) -> None:
    assert due(secret(left=timedelta(minutes=minutes))) == expected


@pytest.mark.parametrize(
    "expiry",
    [
        "",
        "soon",
        "9" * 400,
        "2030-01-01T00:30:00",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
        rfc3339(NOW + timedelta(days=2)),
    ],
    ids=["empty", "a word", "400 digits", "no zone", "year 9999", "beyond the calendar", "in two days"],
)
def test_an_end_that_no_token_of_ours_has_is_replaced(expiry: str) -> None:
    assert due(secret(expiry=expiry))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"clusters": 5}',
        "9" * 5000,
        "[" * 100_000,
        "\x00",
        kubeconfig("acme--blue", {"server": "other"}, "a", "t"),
    ],
    ids=["empty", "a list", "a number", "5,000 digits", "deep", "a control character", "another server"],
)
def test_a_content_that_is_not_ours_is_replaced(text: str) -> None:
    assert due(secret(text))


def test_data_that_is_not_base64_is_replaced() -> None:
    made = secret().to_dict()
    assert due(SECRET.decode({**made, "data": {"value": "é"}}))
    assert due(SECRET.decode({**made, "data": {"value": base64.b64encode(b"\xff").decode()}}))
    assert due(SECRET.decode({**made, "data": None}))
