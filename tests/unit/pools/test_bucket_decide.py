"""Whose bucket it is and whether it is ready: the pure decisions of both providers."""

from typing import Any, Final

import pytest

from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure, BucketInProgress, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.decide import check_claim, claim_in_progress, claimed_bucket, has_owner
from konverge.reconcilers.pools.buckets.words import OWNER_TAG, BucketReason
from konverge.words import Label

WANTED: Final = BucketRequest(name="b", owner="u", namespace="clouds", object_name="i-s3")
DELETING: Final = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


def claim(phase: str | None = None, owner: str = "u", **metadata: Any) -> Object:
    labels = {Label.OWNER_UID: owner}
    return Object({"metadata": {"name": "i-s3", "labels": labels, **metadata}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("tags", "owned"),
    [(None, True), ({}, False), ({"other": "x"}, False), ({OWNER_TAG: ""}, False), ({OWNER_TAG: "u"}, True)],
)
def test_a_tag_or_a_server_without_tags_shows_the_owner(tags: dict[str, str] | None, owned: bool) -> None:
    assert has_owner(WANTED, tags) is owned


def test_another_owner_keeps_its_bucket_and_its_claim() -> None:
    for refused in (lambda: has_owner(WANTED, {OWNER_TAG: "another"}), lambda: check_claim(claim(owner="x"), WANTED)):
        with pytest.raises(BucketFailure) as raised:
            refused()
        assert raised.value.reason == BucketReason.TAKEN
    check_claim(claim(), WANTED)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (claim(), "ObjectBucketClaim i-s3 is Pending"),
        (claim("Released"), "ObjectBucketClaim i-s3 is Released"),
        (claim("Bound", **DELETING), "ObjectBucketClaim i-s3 is being deleted"),
        (claim("Failed", **DELETING), "ObjectBucketClaim i-s3 is being deleted"),
        (claim("Bound"), ""),
    ],
)
def test_a_claim_that_is_not_bound_is_waited_for(stored: Object, message: str) -> None:
    progress = claim_in_progress(stored)
    assert ("" if progress is None else progress.message) == message


def test_a_failed_claim_is_a_failure() -> None:
    with pytest.raises(BucketFailure) as raised:
        claim_in_progress(claim("Failed"))
    assert raised.value.reason == BucketReason.REFUSED


@pytest.mark.parametrize(
    ("port", "endpoint"),
    [("", "https://rook"), ("443", "https://rook"), ("80", "http://rook"), ("8080", "http://rook:8080")],
)
def test_the_port_of_a_claimed_bucket_decides_its_scheme(port: str, endpoint: str) -> None:
    config = Object({"data": {"BUCKET_HOST": "rook", "BUCKET_PORT": port, "BUCKET_NAME": "b2"}})
    bucket = claimed_bucket(WANTED, Object({}), config)
    assert bucket == BucketReady(bucket="b2", endpoint=endpoint, credentials_secret="i-s3")


@pytest.mark.parametrize(
    ("secret", "config", "missing"),
    [(None, None, "Secret"), (None, Object({}), "Secret"), (Object({}), None, "ConfigMap")],
)
def test_a_bound_claim_waits_for_its_secret_and_config_map(
    secret: Object | None, config: Object | None, missing: str
) -> None:
    bucket = claimed_bucket(WANTED, secret, config)
    assert isinstance(bucket, BucketInProgress)
    assert f"its {missing} does not exist yet" in bucket.message
