"""Buckets over S3: created once, owned by one instance, emptied in pages, and every failure with its reason. The server is in memory."""

import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
from pools.memory_s3 import MemoryBucket, MemoryS3

from konverge.reconcilers.pools.buckets import (
    BucketFailure,
    BucketReady,
    BucketReason,
    BucketRequest,
    S3Access,
    S3Buckets,
)
from konverge.reconcilers.pools.buckets.act import HttpS3Connections
from konverge.reconcilers.pools.buckets.api import Upload
from konverge.reconcilers.pools.buckets.failures import failure_of
from konverge.reconcilers.pools.buckets.words import OWNER_TAG

CTX: Final[Any] = None  # S3 needs no Kubernetes
OURS: Final = S3Access(endpoint="https://s3.test", access_key="ours", secret_key="hunter2")
WANTED: Final = BucketRequest(name="nc-a-1f2e", owner="uid-1", namespace="pool", object_name="nc-a", access=OURS)
SLOW: Final = failure_of("any", "SlowDown", 503)
TIMEOUT: Final = BucketFailure(BucketReason.UNREACHABLE, "HeadBucket: no response within 30 s")


def provider(server: MemoryS3, **options: Any) -> S3Buckets:
    return S3Buckets(server, Random(1), **options)


def filled(server: MemoryS3, versions: int) -> MemoryBucket:
    """Create the bucket of the request, with content."""
    made = server.fill(WANTED.name, versions)
    made.tags[OWNER_TAG] = WANTED.owner
    return made


async def test_bucket_creation_tags_the_owner_and_a_second_call_changes_nothing() -> None:
    server = MemoryS3()
    for _ in range(2):
        assert await provider(server).ensure(WANTED, CTX) == BucketReady(
            bucket="nc-a-1f2e", endpoint="https://s3.test", region="us-east-1"
        )
    assert server.buckets["nc-a-1f2e"].tags == {OWNER_TAG: "uid-1"}
    assert (server.log["CreateBucket"], server.log["PutBucketTagging"]) == (1, 1)


async def test_a_bucket_that_a_crash_left_without_its_tag_gets_it() -> None:
    server = MemoryS3()
    server.fill("nc-a-1f2e", 0)
    await provider(server).ensure(WANTED, CTX)
    assert server.buckets["nc-a-1f2e"].tags == {OWNER_TAG: "uid-1"}


async def test_a_server_without_tags_is_used_by_the_name_alone() -> None:
    server = MemoryS3()
    server.has_tags = False
    await provider(server).ensure(WANTED, CTX)
    assert await provider(server).remove(WANTED, CTX) is None
    assert server.log["PutBucketTagging"] == 0
    assert not server.buckets


@pytest.mark.parametrize("verb", ["ensure", "remove"])
@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        (lambda: MemoryBucket("ours", {OWNER_TAG: "uid-2"}), BucketReason.TAKEN),
        (lambda: MemoryBucket("ours"), BucketReason.TAKEN),
        (lambda: MemoryBucket("theirs"), None),
    ],
    ids=["tagged with another instance", "with content and without a tag", "of another account"],
)
async def test_the_bucket_of_another_owner_is_neither_used_nor_emptied(
    verb: str, bucket: Callable[[], MemoryBucket], reason: str | None
) -> None:
    server = MemoryS3()
    server.buckets[WANTED.name] = bucket()
    server.fill(WANTED.name, 7)
    with pytest.raises(BucketFailure) as raised:
        await getattr(provider(server), verb)(WANTED, CTX)
    # A HEAD has no body, so it cannot distinguish a foreign bucket from rejected keys; the response to a create does.
    expected = reason or (BucketReason.TAKEN if verb == "ensure" else BucketReason.CREDENTIALS)
    assert raised.value.reason == expected
    assert len(server.buckets[WANTED.name].versions) == 7
    assert server.log["DeleteObjects"] == 0


async def test_twelve_thousand_versions_are_deleted_in_pages_of_a_thousand() -> None:
    server = MemoryS3()
    filled(server, 12_000)
    assert await provider(server).remove(WANTED, CTX) is None
    assert server.log["DeleteObjects"] == 12
    assert server.deleted_buckets == [WANTED.name]


async def test_a_large_bucket_is_emptied_by_several_calls() -> None:
    server = MemoryS3()
    filled(server, 5_500)
    found = [await provider(server, pages=2).remove(WANTED, CTX) for _ in range(3)]
    assert [one.reason if one else None for one in found] == [BucketReason.EMPTYING, BucketReason.EMPTYING, None]


async def test_an_upload_that_was_not_completed_does_not_keep_a_bucket() -> None:
    server = MemoryS3()
    filled(server, 1).uploads.append(Upload("big", "upload-1"))
    assert await provider(server).remove(WANTED, CTX) is None
    assert not server.buckets


async def test_a_locked_version_fails_the_deletion_and_says_how_many_stay() -> None:
    server = MemoryS3()
    filled(server, 100).locked.add("file-7")
    with pytest.raises(BucketFailure, match=r"1 x AccessDenied") as raised:
        await provider(server).remove(WANTED, CTX)
    assert raised.value.reason == BucketReason.KEPT
    assert "file-7" not in str(raised.value)
    assert server.buckets


async def test_a_bucket_that_is_gone_is_removed() -> None:
    assert await provider(MemoryS3()).remove(WANTED, CTX) is None


@pytest.mark.parametrize("failure", [SLOW, TIMEOUT], ids=["503 SlowDown", "a timeout"])
@pytest.mark.parametrize("verb", ["ensure", "remove"])
async def test_a_busy_server_is_tried_again_with_growing_delays(verb: str, failure: BucketFailure) -> None:
    server = MemoryS3()
    filled(server, 0)
    server.fail(failure, times=4)
    await getattr(provider(server), verb)(WANTED, CTX)


@pytest.mark.parametrize("verb", ["ensure", "remove"])
async def test_a_server_that_stays_busy_is_a_failure_after_five_attempts(verb: str) -> None:
    server = MemoryS3()
    server.down = SLOW
    with pytest.raises(BucketFailure, match="SlowDown") as raised:
        await getattr(provider(server), verb)(WANTED, CTX)
    assert raised.value.reason == BucketReason.BUSY
    assert server.log["HeadBucket"] == 5


async def test_keys_revoked_during_a_deletion_stop_it_and_new_keys_continue() -> None:
    server = MemoryS3()
    filled(server, 2_500)
    assert await provider(server, pages=1).remove(WANTED, CTX) is not None
    server.revoked.add("ours")
    with pytest.raises(BucketFailure) as raised:
        await provider(server).remove(WANTED, CTX)
    assert raised.value.reason == BucketReason.CREDENTIALS
    assert server.log["CreateBucket"] == 0
    server.revoked.clear()
    assert await provider(server).remove(WANTED, CTX) is None


async def test_a_request_without_an_account_says_what_to_set() -> None:
    unset = BucketRequest(name="nc-a-1f2e", owner="uid-1", namespace="pool", object_name="nc-a")
    with pytest.raises(BucketFailure, match="credentialsSecret"):
        await provider(MemoryS3()).ensure(unset, CTX)


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("SlowDown", 503, BucketReason.BUSY),
        ("", 503, BucketReason.BUSY),
        ("", 429, BucketReason.BUSY),
        ("InternalError", 500, BucketReason.BUSY),
        ("BucketAlreadyExists", 409, BucketReason.TAKEN),
        ("InvalidAccessKeyId", 403, BucketReason.CREDENTIALS),
        ("ExpiredToken", 400, BucketReason.CREDENTIALS),
        ("", 403, BucketReason.CREDENTIALS),
        ("InvalidBucketName", 400, BucketReason.REFUSED),
        ("TooManyBuckets", 400, BucketReason.REFUSED),
        ("<script>", 418, BucketReason.REFUSED),
    ],
)
def test_each_server_error_has_a_reason_and_code_of_fixed_sets(code: str, status: int, reason: str) -> None:
    failure = failure_of("CreateBucket", code, status)
    assert (failure.reason, "<" in str(failure)) == (reason, False)


def test_an_account_does_not_show_its_keys() -> None:
    assert "ours" not in repr(WANTED)
    assert "hunter2" not in repr(OURS)


async def test_without_the_client_the_failure_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    with pytest.raises(BucketFailure, match=r"pip install 'konverge\[pools\]'") as raised:
        await S3Buckets(HttpS3Connections(), Random(1)).ensure(WANTED, CTX)
    assert raised.value.reason == BucketReason.CLIENT_MISSING
