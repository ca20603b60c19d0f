"""When the Secret by which Cluster API reaches the Nodes is written anew, whatever another writer left in it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

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
