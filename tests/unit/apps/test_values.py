"""When Flux gets a request to read values again, and when not."""

from typing import Any

import pytest

from konverge.objects import Metadata
from konverge.reconcilers.shared.helm_release.freshness import FluxRelease
from konverge.reconcilers.shared.helm_release.values import ValuesFrom, request_annotations, token_of

ASK = "reconcile.fluxcd.io/requestedAt"
NOTE = "apps.vworkspace.io/values-token"


def values(token: str) -> ValuesFrom:
    return ValuesFrom(kind="Secret", namespace="team", name="vals", key="values.yaml", token=token)


def before(make: Any, requested: str = "", handled: str = "") -> FluxRelease:
    return FluxRelease.of(make.release(annotations={ASK: requested} if requested else {}, handled=handled))


def test_inline_values_lead_to_no_request_to_flux(make: Any) -> None:
    assert request_annotations(None, before(make), "") == {}


def test_missing_values_lead_to_no_request_to_flux(make: Any) -> None:
    assert request_annotations(values(""), before(make), "old") == {}


def test_values_of_a_release_just_created_are_recorded_without_a_request() -> None:
    assert request_annotations(values("new"), None, "") == {NOTE: "new"}


def test_changed_values_are_requested_and_recorded_in_one_write(make: Any) -> None:
    assert request_annotations(values("new"), before(make, requested="old", handled="old"), "old") == {
        ASK: "new",
        NOTE: "new",
    }


def test_unchanged_values_lead_to_no_request_to_flux(make: Any) -> None:
    assert request_annotations(values("same"), before(make, requested="same", handled="same"), "same") == {}


def test_a_users_later_reconcile_request_is_not_overwritten(make: Any) -> None:
    assert (
        request_annotations(values("ours"), before(make, requested="2030-01-01T00:00:00Z", handled="ours"), "ours")
        == {}
    )


@pytest.mark.parametrize(("requested", "handled"), [("new", "old"), ("human", "new")], ids=["asked", "handled"])
def test_a_request_sent_before_a_crash_is_recorded_and_not_repeated(make: Any, requested: str, handled: str) -> None:
    assert request_annotations(values("new"), before(make, requested, handled), "old") == {NOTE: "new"}


def test_the_token_depends_on_uid_and_version_and_not_on_the_content() -> None:
    one, two = Metadata(uid="u", resource_version="1"), Metadata(uid="u", resource_version="2")
    assert token_of(one) == token_of(one)
    assert len({token_of(one), token_of(two), token_of(Metadata(uid="v", resource_version="1")), token_of(None)}) == 4


def test_values_are_missing_only_if_object_or_key_certainly_is() -> None:
    assert values("").lacking
    assert not values("t").lacking
    assert ValuesFrom(kind="Secret", namespace="t", name="v", key="k", token="t", has_key=False).lacking
