"""S3 in a plan: each effect is shown to later reads, and reaches no server."""

from pools.memory_s3 import MemoryS3

from konverge.reconcilers.pools.buckets.api import ObjectVersion, S3Access, Upload
from konverge.reconcilers.pools.buckets.planned import PlannedS3

ACCOUNT = S3Access(endpoint="https://s3.example.com", access_key="ours", secret_key="k")


async def test_planned_effects_are_shown_and_change_no_bucket() -> None:
    server = MemoryS3()
    stored = server.fill("old", 3)
    upload = Upload("file", "1")
    stored.uploads.append(upload)
    planned = PlannedS3(server)
    async with planned.of(ACCOUNT) as api:
        await api.create("new")
        await api.tag("new", {"owner": "a"})
        await api.tag("old", {"owner": "b"})
        await api.delete_versions("old", [ObjectVersion("file-0", "0")])
        await api.abort("old", upload)
    async with planned.of(ACCOUNT) as api:
        assert (await api.head("new"), await api.tags("new"), await api.tags("old")) == (
            True,
            {"owner": "a"},
            {"owner": "b"},
        )
        assert (
            list((await api.first_versions("old")).versions) == list((await api.first_versions("new")).versions) == []
        )
        assert list(await api.uploads("old")) == list(await api.uploads("new")) == []
        assert (await api.delete("old"), await api.head("old")) == (True, False)
    assert list(server.buckets) == ["old"]
    assert (stored.tags, len(stored.versions), stored.uploads) == ({}, 3, [upload])
    assert set(server.log) <= {"HeadBucket", "GetBucketTagging", "ListObjectVersions", "ListMultipartUploads"}


async def test_unplanned_buckets_are_read_from_the_server() -> None:
    server = MemoryS3()
    server.fill("old", 2).tags["owner"] = "a"
    async with PlannedS3(server).of(ACCOUNT) as api:
        assert (await api.head("old"), await api.head("none"), await api.tags("old")) == (True, False, {"owner": "a"})
        assert len((await api.first_versions("old")).versions) == 2
        await api.create("old")
        assert len((await api.first_versions("old")).versions) == 2
