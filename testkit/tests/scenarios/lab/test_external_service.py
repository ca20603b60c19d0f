"""An operator whose state is in an HTTP service outside of the cluster: real sockets in virtual time, under every plan."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import konverge as kv
from konverge_testing import Lab


class BucketSpec(kv.Model):
    size: int


class BucketStatus(kv.Status):
    address: str | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Bucket(kv.CustomResource[BucketSpec, BucketStatus]):
    """A bucket of a storage service."""


class BucketReconciler:
    """Creates each bucket in the service from its spec, and deletes it there at the end."""

    def __init__(self, service: str) -> None:
        self._service = service

    async def reconcile(self, bucket: Bucket, ctx: kv.Context[Bucket]) -> kv.Outcome:
        made = await self._call("PUT", bucket, {"size": bucket.spec.size})
        ctx.status.draft.address = made["address"]
        ctx.status.set_condition("Ready", True, "Made", f"{made['size']} GiB")
        return kv.Done()

    async def finalize(self, bucket: Bucket, _: kv.Context[Bucket]) -> kv.Outcome:
        await self._call("DELETE", bucket)
        return kv.Done()

    async def _call(self, method: str, bucket: Bucket, body: dict[str, int] | None = None) -> dict[str, str]:
        url = f"{self._service}/buckets/{bucket.name}"
        timeout = aiohttp.ClientTimeout(total=10)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, url, json=body) as response,
            ):
                response.raise_for_status()
                found: dict[str, str] = await response.json()
                return found
        except (TimeoutError, aiohttp.ClientError) as error:
            raise kv.RetryAfter(5, f"the storage service does not respond: {error}") from error


class StorageService:
    """The service: buckets by name."""

    def __init__(self) -> None:
        self.buckets: dict[str, int] = {}

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_put("/buckets/{name}", self._put)
        app.router.add_delete("/buckets/{name}", self._delete)
        return app

    async def _put(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        size = self.buckets[name] = (await request.json())["size"]
        return web.json_response({"address": f"storage.example.com/{name}", "size": size})

    async def _delete(self, request: web.Request) -> web.Response:
        self.buckets.pop(request.match_info["name"], None)
        return web.json_response({})


def build(service: str) -> Callable[[kv.Manager], None]:
    def controllers(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Bucket).finalizer("example.com/bucket").reconciled_by(BucketReconciler(service)))

    return controllers


def _has_two_gibibytes(bucket: Bucket) -> bool:
    ready = bucket.find_condition("Ready")
    return ready is not None and ready.message == "2 GiB"


@pytest.mark.scenario
async def test_a_bucket_exists_in_the_service_as_long_as_its_object(lab: Lab) -> None:
    service = StorageService()
    server = await lab.enter(TestServer(service.app(), host="127.0.0.1"))
    await lab.start(build(str(server.make_url("")).rstrip("/")))
    await lab.create(Bucket.new("photos", spec=BucketSpec(size=1)))
    await lab.create(Bucket.new("films", spec=BucketSpec(size=9)))
    await lab.until(Bucket, "photos", kv.is_true("Ready"))
    await lab.patch(Bucket, "photos", {"spec": {"size": 2}})
    await lab.until(Bucket, "photos", _has_two_gibibytes)
    await lab.delete(Bucket, "films")
    await lab.until_gone(Bucket, "films")
    assert service.buckets == {"photos": 2}
