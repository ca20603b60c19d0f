"""A bucket is emptied for any keys, including keys with characters that XML cannot carry."""

from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio
from pools.xml_s3 import XmlS3

from konverge.reconcilers.pools.buckets import BucketFailure, BucketRequest, S3Access, S3Buckets, S3Folders
from konverge.reconcilers.pools.buckets.act import HttpS3Connections

pytest.importorskip("aiobotocore", reason="the package phase of CI installs konverge without the extra pools")

UNCARRIED = ("notes/a\x01b.txt", "x\x08", "\x1b[0m", "a\x0bb", "a\ufffe", "\uffff", "a+b \x02%41")
CARRIED = ("notes/plain.txt", "a<b>&'\"c", "a\nb", "a\rb", "a\tb", "\x7f\x85", "ä 😀", "a+b c%41", " ", "..")
OWNER = "uid-1"


@pytest_asyncio.fixture
async def connections() -> AsyncIterator[HttpS3Connections]:
    made = HttpS3Connections()
    yield made
    await made.close()


def request(access: S3Access) -> BucketRequest:
    return BucketRequest(name="nc-bugs", owner=OWNER, namespace="pool", object_name="nc-a", access=access)


async def test_a_bucket_is_emptied_and_deleted_whatever_its_keys_are(connections: HttpS3Connections) -> None:
    keys = (*CARRIED, *UNCARRIED)
    server = XmlS3(OWNER, {(key, version) for key in keys for version in ("1", "null")})
    server.uploads |= {(key, "u-1") for key in keys}
    async with server.serve() as access:
        buckets = S3Buckets(connections, Random(1))
        assert await buckets.remove(request(access), None) is None  # type: ignore[arg-type]  # S3 needs no context
    assert (server.versions, server.uploads, server.exists) == (set(), set(), False)
    assert sorted(server.deletions) == sorted(["list", *UNCARRIED, *UNCARRIED])


async def test_a_folder_of_a_foreign_bucket_is_emptied_whatever_its_keys_are(connections: HttpS3Connections) -> None:
    server = XmlS3("theirs", {(f"nc-a/{key}", "1") for key in (*CARRIED, *UNCARRIED)})
    async with server.serve() as access:
        assert await S3Folders(connections, Random(1)).remove(access, "safe", "nc-a") is None
    assert (server.versions, server.exists) == (set(), True)


@pytest.mark.parametrize("key", [CARRIED[0], UNCARRIED[0]], ids=ascii)
async def test_a_locked_version_is_counted_whatever_its_key_is(connections: HttpS3Connections, key: str) -> None:
    server = XmlS3(OWNER, {(key, "1"), ("other", "1")}, locked=frozenset({key}))
    async with server.serve() as access:
        with pytest.raises(BucketFailure, match="cannot be deleted \\(1 x AccessDenied\\)") as raised:
            await S3Buckets(connections, Random(1)).remove(request(access), None)  # type: ignore[arg-type]  # S3 needs no context
    assert key not in str(raised.value)
