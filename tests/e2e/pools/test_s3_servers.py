"""Buckets on independent S3 servers: moto's in this process, and versitygw as a program."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from go_programs import VERSITYGW, go_program
from pools.s3_faults import FaultyS3, faulty
from pools.servers import MOTO_KEY, SECRET_KEY, MotoServer, moto_server
from versitygw_runner import Versitygw, versitygw

from konverge.reconcilers.pools.buckets import (
    BucketFailure,
    BucketInProgress,
    BucketReady,
    BucketReason,
    BucketRequest,
    S3Access,
    S3Buckets,
    S3Folders,
)
from konverge.reconcilers.pools.buckets.act import HttpS3Connections
from konverge_testing.failures import BinariesMissing

CTX: Final[Any] = None  # S3 needs no Kubernetes


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return go_program(VERSITYGW, os.environ, tell=None)
    except BinariesMissing:
        pytest.skip("no versitygw in the cache: python tools/go_programs.py versitygw")


@pytest.fixture(scope="module")
def moto_running() -> Iterator[MotoServer]:
    with moto_server() as running:
        yield running


@pytest.fixture
def moto(moto_running: MotoServer) -> S3Access:
    return moto_running.access


@pytest.fixture
async def gateway(program: Path, tmp_path: Path) -> AsyncIterator[Versitygw]:
    async with versitygw(program, tmp_path) as running:
        yield running


@pytest.fixture
async def access(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[S3Access]:
    if request.param == "moto":
        yield request.getfixturevalue("moto")
    else:
        async with versitygw(request.getfixturevalue("program"), tmp_path) as running:
            yield await running.account("ours")


BOTH = pytest.mark.parametrize("access", ["moto", "versitygw"], indirect=True)


@pytest.fixture
async def connections() -> AsyncIterator[HttpS3Connections]:
    made = HttpS3Connections()
    yield made
    await made.close()


def wanted(access: S3Access, name: str, owner: str = "uid-1") -> BucketRequest:
    return BucketRequest(name=name, owner=owner, namespace="pool", object_name="nc-a", access=access)


def buckets(connections: HttpS3Connections, **options: Any) -> S3Buckets:
    return S3Buckets(connections, Random(1), **options)


@asynccontextmanager
async def client(connections: HttpS3Connections, access: S3Access) -> AsyncIterator[Any]:
    """The library's own client, to put something into a bucket."""
    async with connections.of(access) as api:
        yield api._client  # type: ignore[attr-defined]  # the operations of buckets put nothing into them


@BOTH
async def test_bucket_with_versions_markers_and_an_upload_is_deleted_completely(
    access: S3Access, connections: HttpS3Connections
) -> None:
    request = wanted(access, "nc-life-cycle")
    made = BucketReady(bucket="nc-life-cycle", endpoint=access.endpoint, region="us-east-1")
    assert await buckets(connections).ensure(request, CTX) == made
    assert await buckets(connections).ensure(request, CTX) == made
    async with client(connections, access) as s3:
        await s3.put_bucket_versioning(Bucket="nc-life-cycle", VersioningConfiguration={"Status": "Enabled"})
        for content in (b"one", b"two"):
            await s3.put_object(Bucket="nc-life-cycle", Key="folder/ä b.txt", Body=content)
        await s3.delete_object(Bucket="nc-life-cycle", Key="folder/ä b.txt")
        await s3.create_multipart_upload(Bucket="nc-life-cycle", Key="big")
    assert await buckets(connections).remove(request, CTX) is None
    assert await buckets(connections).remove(request, CTX) is None


@BOTH
async def test_the_bucket_of_another_instance_of_the_same_account_is_left_alone(
    access: S3Access, connections: HttpS3Connections
) -> None:
    await buckets(connections).ensure(wanted(access, "nc-shared"), CTX)
    async with client(connections, access) as s3:
        await s3.put_object(Bucket="nc-shared", Key="file", Body=b"data")
    for verb in (buckets(connections).ensure, buckets(connections).remove):
        with pytest.raises(BucketFailure) as raised:
            await verb(wanted(access, "nc-shared", owner="uid-2"), CTX)
        assert raised.value.reason == BucketReason.TAKEN
    async with client(connections, access) as s3:
        assert (await s3.list_objects_v2(Bucket="nc-shared"))["KeyCount"] == 1


@BOTH
async def test_folder_is_deleted_with_all_versions_and_neighbours_stay(
    access: S3Access, connections: HttpS3Connections
) -> None:
    await buckets(connections).ensure(wanted(access, "nc-folders"), CTX)
    async with client(connections, access) as s3:
        await s3.put_bucket_versioning(Bucket="nc-folders", VersioningConfiguration={"Status": "Enabled"})
        for key in ("nc-a/1", "nc-a/1", "nc-a/ä 2", "nc-ab/3", "4"):
            await s3.put_object(Bucket="nc-folders", Key=key, Body=b"x")
        await s3.delete_object(Bucket="nc-folders", Key="nc-a/1")
    folders = S3Folders(connections, Random(1))
    assert await folders.remove(access, "nc-folders", "nc-a") is None
    assert await folders.remove(access, "nc-gone", "nc-a") is None
    with pytest.raises(ValueError, match="whole bucket"):
        await folders.remove(access, "nc-folders", "")
    async with connections.of(access) as api:
        assert sorted(one.key for one in (await api.first_versions("nc-folders")).versions) == ["4", "nc-ab/3"]


async def test_the_bucket_of_another_account_is_taken_and_is_never_deleted(
    gateway: Versitygw, connections: HttpS3Connections
) -> None:
    ours, theirs = await gateway.account("ours"), await gateway.account("theirs")
    await buckets(connections).ensure(wanted(theirs, "nc-theirs"), CTX)
    with pytest.raises(BucketFailure, match="BucketAlreadyExists") as raised:
        await buckets(connections).ensure(wanted(ours, "nc-theirs"), CTX)
    assert raised.value.reason == BucketReason.TAKEN
    with pytest.raises(BucketFailure) as raised:
        await buckets(connections).remove(wanted(ours, "nc-theirs"), CTX)
    assert raised.value.reason == BucketReason.CREDENTIALS
    assert await buckets(connections).remove(wanted(theirs, "nc-theirs"), CTX) is None


async def test_keys_revoked_between_calls_are_a_credentials_failure(
    gateway: Versitygw, connections: HttpS3Connections
) -> None:
    ours = await gateway.account("ours")
    request = wanted(ours, "nc-revoked")
    await buckets(connections).ensure(request, CTX)
    async with client(connections, ours) as s3:
        await s3.put_object(Bucket="nc-revoked", Key="file", Body=b"data")
    await gateway.revoke(ours)
    for verb in (buckets(connections).ensure, buckets(connections).remove):
        with pytest.raises(BucketFailure) as raised:
            await verb(request, CTX)
        assert raised.value.reason == BucketReason.CREDENTIALS
        assert "secret" not in str(raised.value)


async def test_versions_of_the_same_objects_are_deleted_in_pages(
    moto_running: MotoServer, connections: HttpS3Connections
) -> None:
    request = wanted(moto_running.access, "nc-versions")
    await buckets(connections).ensure(request, CTX)
    moto_running.put("nc-versions", "file", versions=1_100, keys=100)
    assert isinstance(await buckets(connections, pages=1).remove(request, CTX), BucketInProgress)
    assert moto_running.versions("nc-versions") == 100
    assert await buckets(connections).remove(request, CTX) is None
    assert "nc-versions" not in moto_running.buckets()


async def test_bucket_of_another_account_is_reported_taken_on_a_server_without_separation(
    moto_running: MotoServer, connections: HttpS3Connections
) -> None:
    moto_running.foreign_bucket("nc-foreign")
    moto_running.put("nc-foreign", "file", account="999999999999")
    for verb in (buckets(connections).ensure, buckets(connections).remove):
        with pytest.raises(BucketFailure) as raised:
            await verb(wanted(moto_running.access, "nc-foreign"), CTX)
        assert raised.value.reason == BucketReason.TAKEN


async def test_twelve_thousand_versions_and_delete_markers_are_deleted_in_pages(
    gateway: Versitygw, tmp_path: Path, connections: HttpS3Connections
) -> None:
    request = wanted(gateway.root, "nc-large")
    await buckets(connections).ensure(request, CTX)
    async with client(connections, gateway.root) as s3:
        await s3.put_bucket_versioning(Bucket="nc-large", VersioningConfiguration={"Status": "Enabled"})
        for number in range(100):
            gateway.put_deleted("nc-large", f"file-{number}", versions=119)
        pages = [page async for page in s3.get_paginator("list_object_versions").paginate(Bucket="nc-large")]
    assert sum(len(page.get("Versions", ())) for page in pages) == 11_900
    assert sum(len(page.get("DeleteMarkers", ())) for page in pages) == 100
    assert isinstance(await buckets(connections, pages=7).remove(request, CTX), BucketInProgress)
    assert await buckets(connections).remove(request, CTX) is None
    left = [path for part in ("buckets", "versions") for path in (tmp_path / part).rglob("*") if path.is_file()]
    assert left == []


@pytest.fixture
async def proxy(access: S3Access) -> AsyncIterator[FaultyS3]:
    async with faulty(access) as running:
        yield running


@BOTH
async def test_slow_server_delays_each_step_and_lost_responses_are_retried(
    proxy: FaultyS3, connections: HttpS3Connections
) -> None:
    request = wanted(proxy.access, "nc-slow")
    provider = S3Buckets(connections, _Hurried())
    proxy.refuse("^(HEAD|PUT)", "SlowDown", 503, times=3)
    proxy.lose("^PUT", times=2)  # the bucket and its tag exist, and their responses were lost
    await provider.ensure(request, CTX)
    assert proxy.met == 5
    async with client(connections, proxy.access) as s3:
        await s3.put_object(Bucket="nc-slow", Key="file", Body=b"data")
    proxy.refuse("^(GET|POST|DELETE)", "SlowDown", 503, times=3)
    proxy.lose("^(POST|DELETE)", times=2)
    assert await provider.remove(request, CTX) is None
    assert proxy.met == 10
    assert await provider.remove(request, CTX) is None


@BOTH
@pytest.mark.parametrize("fault", ["stall", "hang"])
async def test_late_or_partial_response_is_retried_after_the_time_limit(proxy: FaultyS3, fault: str) -> None:
    connections = HttpS3Connections(seconds=0.5)
    request = wanted(proxy.access, "nc-stalled")
    provider = S3Buckets(connections, _Hurried())
    later: Callable[..., None] = getattr(proxy, fault)
    later("^PUT", times=2)
    await provider.ensure(request, CTX)
    async with client(connections, proxy.access) as s3:
        await s3.put_object(Bucket="nc-stalled", Key="file", Body=b"data")
    later("^POST", times=5)
    with pytest.raises(BucketFailure, match="DeleteObjects") as raised:
        await provider.remove(request, CTX)
    assert raised.value.reason == BucketReason.UNREACHABLE
    assert proxy.met == 7
    async with client(connections, proxy.access) as s3:
        assert (await s3.list_objects_v2(Bucket="nc-stalled"))["KeyCount"] == 1
    later("^(GET|DELETE)", times=2)
    assert await provider.remove(request, CTX) is None
    assert await provider.remove(request, CTX) is None
    await connections.close()


@BOTH
async def test_server_that_stays_busy_is_a_failure_and_nothing_is_deleted(
    proxy: FaultyS3, connections: HttpS3Connections
) -> None:
    request = wanted(proxy.access, "nc-busy")
    provider = S3Buckets(connections, _Hurried())
    proxy.refuse("^PUT", "SlowDown", 503, times=5)
    with pytest.raises(BucketFailure) as raised:
        await provider.ensure(request, CTX)
    assert raised.value.reason == BucketReason.BUSY
    await provider.ensure(request, CTX)
    async with client(connections, proxy.access) as s3:
        await s3.put_object(Bucket="nc-busy", Key="file", Body=b"data")
    proxy.refuse("^POST", "SlowDown", 503, times=5)
    with pytest.raises(BucketFailure):
        await provider.remove(request, CTX)
    async with client(connections, proxy.access) as s3:
        assert (await s3.list_objects_v2(Bucket="nc-busy"))["KeyCount"] == 1
    assert await provider.remove(request, CTX) is None


@BOTH
async def test_keys_refused_during_emptying_end_the_step_and_next_step_continues(
    proxy: FaultyS3, connections: HttpS3Connections
) -> None:
    request = wanted(proxy.access, "nc-midway")
    await buckets(connections).ensure(request, CTX)
    async with client(connections, proxy.access) as s3:
        for number in range(3):
            await s3.put_object(Bucket="nc-midway", Key=f"file-{number}", Body=b"data")
    proxy.refuse("^POST", "InvalidAccessKeyId", 403)
    with pytest.raises(BucketFailure) as raised:
        await buckets(connections).remove(request, CTX)
    assert raised.value.reason == BucketReason.CREDENTIALS
    assert "hunter2" not in str(raised.value)
    async with client(connections, proxy.access) as s3:
        assert (await s3.list_objects_v2(Bucket="nc-midway"))["KeyCount"] == 3
    assert await buckets(connections).remove(request, CTX) is None


async def test_keys_revoked_between_pages_stop_deletion_and_new_keys_finish_it(
    gateway: Versitygw, tmp_path: Path, connections: HttpS3Connections
) -> None:
    ours = await gateway.account("ours")
    request = wanted(ours, "nc-paged")
    await buckets(connections).ensure(request, CTX)
    folder = tmp_path / "buckets" / "nc-paged"
    for number in range(1_200):
        (folder / f"file-{number}").touch()
    assert isinstance(await buckets(connections, pages=1).remove(request, CTX), BucketInProgress)
    await gateway.revoke(ours)
    with pytest.raises(BucketFailure) as raised:
        await buckets(connections).remove(request, CTX)
    assert raised.value.reason == BucketReason.CREDENTIALS
    assert len(list(folder.iterdir())) == 200
    await gateway.account("ours")
    assert await buckets(connections).remove(request, CTX) is None
    assert not folder.exists()


async def test_no_credential_is_in_an_error_or_in_our_log_lines(
    moto: S3Access, connections: HttpS3Connections, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = replace(moto, region="us-east-1", endpoint=moto.endpoint.replace("http:", "https:"))
    with pytest.raises(BucketFailure) as raised:
        await S3Buckets(connections, _Hurried()).ensure(wanted(broken, "nc-tls"), CTX)
    assert raised.value.reason == BucketReason.UNREACHABLE
    await buckets(connections).ensure(wanted(moto, "nc-logged"), CTX)
    seen = caplog.text + repr(raised.value) + repr(raised.value.__cause__) + repr(broken)
    assert SECRET_KEY not in seen
    assert MOTO_KEY not in seen


class _Hurried(Random):
    """No delays between the attempts."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0


@asynccontextmanager
async def _server(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[S3Access]:
    writers: list[asyncio.StreamWriter] = []

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await handle(reader, writer)

    server = await asyncio.start_server(kept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield S3Access(endpoint=f"http://127.0.0.1:{port}", access_key=MOTO_KEY, secret_key=SECRET_KEY)
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _responding(status: str, body: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    return handle


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        ("503 Slow Down", "<Error><Code>SlowDown</Code><Message>hunter2</Message></Error>", BucketReason.BUSY),
        ("502 Bad Gateway", "<html>hunter2</html>", BucketReason.BUSY),
        (
            "403 Forbidden",
            "<Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>hunter2</AWSAccessKeyId></Error>",
            "C",
        ),
        ("200 OK", "<html>hunter2", BucketReason.BUSY),
    ],
)
async def test_of_the_error_of_a_server_only_the_code_is_kept(
    status: str, body: str, reason: str, connections: HttpS3Connections
) -> None:
    async with _server(_responding(status, body)) as access, connections.of(access) as api:
        with pytest.raises(BucketFailure) as raised:
            await api.first_versions("nc-a")
    assert raised.value.reason == (BucketReason.CREDENTIALS if reason == "C" else reason)
    assert "hunter2" not in str(raised.value)


async def test_a_server_that_never_responds_is_given_up_after_the_time_limit() -> None:
    connections = HttpS3Connections(seconds=0.3)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with _server(silent) as access, connections.of(access) as api:
        with pytest.raises(BucketFailure) as raised:
            await api.head("nc-a")
    assert raised.value.reason == BucketReason.UNREACHABLE
    await connections.close()


@pytest.mark.parametrize(
    ("change", "match"),
    [({"ca_bundle": "no PEM"}, "CA bundle"), ({"endpoint": "http://[::"}, "endpoint")],
)
async def test_settings_that_no_client_can_use_are_named(
    change: dict[str, Any], match: str, connections: HttpS3Connections
) -> None:
    access = replace(S3Access(endpoint="https://s3.test", access_key=MOTO_KEY, secret_key=SECRET_KEY), **change)
    with pytest.raises(BucketFailure, match=match):
        async with connections.of(access):
            raise AssertionError("it was connected")
