import asyncio
import json
from typing import Any

import pytest

from konverge.client import ClientSettings
from konverge.client.discovery import Discovery, discovery_path, read_resources
from konverge.errors import NotFound, NotServed, ServerFailure, Unreachable
from konverge.kinds import kind

DEPLOYMENT = kind("apps/v1", "Deployment")
SCALE = kind("apps/v1", "Scale")
LIST = json.dumps(
    {
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "singularName": "deployment", "namespaced": True, "kind": "Deployment",
             "verbs": ["get", "list"], "shortNames": ["deploy"], "categories": ["all"]},
            {"name": "deployments/scale", "namespaced": True, "group": "autoscaling", "kind": "Scale", "verbs": ["get"]},
            {"name": "deployments/status", "namespaced": True, "kind": "Deployment", "verbs": ["get"]},
            {"name": "aliases", "namespaced": True, "kind": "Deployment", "verbs": []},
        ],
    }
).encode()  # fmt: skip


class Server:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Any = LIST
        self.delay = 0.0

    async def fetch(self, path: str) -> bytes:
        self.asked.append(path)
        answer = self.answer
        await asyncio.sleep(self.delay)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes)
        return answer


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def discovery(server: Server) -> Discovery:
    return Discovery(server.fetch, ClientSettings(discovery_seconds=600.0, discovery_absent_seconds=5.0))


def test_paths_tell_the_core_group_apart() -> None:
    assert discovery_path("v1") == "/api/v1"
    assert discovery_path("apps/v1") == "/apis/apps/v1"


def test_subresources_belong_to_their_resource_and_do_not_count_as_kinds() -> None:
    found = read_resources("apps/v1", LIST)
    assert set(found) == {"Deployment"}
    info = found["Deployment"]
    assert (info.plural, info.singular, info.namespaced) == ("deployments", "deployment", True)
    assert info.subresources == {"scale", "status"}
    assert info.has_status
    assert info.verbs == {"get", "list"}
    assert (info.short_names, info.categories) == (("deploy",), ("all",))
    assert (info.group, info.version, info.group_resource) == ("apps", "v1", "deployments.apps")


def test_a_discovery_response_without_a_list_is_an_error() -> None:
    with pytest.raises(ServerFailure):
        read_resources("apps/v1", b"<html>")


async def test_concurrent_callers_of_discovery_share_one_request(discovery: Discovery, server: Server) -> None:
    server.delay = 1.0
    found = await asyncio.gather(*(discovery.resource(DEPLOYMENT) for _ in range(20)))
    assert {info.plural for info in found} == {"deployments"}
    assert server.asked == ["/apis/apps/v1"]


async def test_a_cancelled_caller_of_discovery_does_not_cancel_the_others(discovery: Discovery, server: Server) -> None:
    server.delay = 1.0
    first, second = (asyncio.create_task(discovery.resource(DEPLOYMENT)) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert (await second).plural == "deployments"
    assert first.cancelled()


async def test_an_answer_is_believed_for_a_while(discovery: Discovery, server: Server) -> None:
    await discovery.resource(DEPLOYMENT)
    await asyncio.sleep(599)
    await discovery.resource(DEPLOYMENT)
    assert len(server.asked) == 1
    await asyncio.sleep(2)
    await discovery.resource(DEPLOYMENT)
    assert len(server.asked) == 2


async def test_not_served_is_believed_only_briefly(discovery: Discovery, server: Server) -> None:
    server.answer = NotFound("404 page not found", status=404)
    for _ in range(3):
        with pytest.raises(NotServed):
            await discovery.resource(DEPLOYMENT)
    assert len(server.asked) == 1
    server.answer = LIST
    await asyncio.sleep(5.1)
    assert (await discovery.resource(DEPLOYMENT)).plural == "deployments"


async def test_kind_missing_from_a_known_group_is_requested_again_soon(discovery: Discovery, server: Server) -> None:
    await discovery.resource(DEPLOYMENT)
    with pytest.raises(NotServed, match=r"no Scale in apps/v1"):
        await discovery.resource(SCALE)
    assert len(server.asked) == 1
    await asyncio.sleep(5.1)
    with pytest.raises(NotServed):
        await discovery.resource(SCALE)
    assert len(server.asked) == 2


async def test_forgetting_makes_the_next_question_go_out(discovery: Discovery, server: Server) -> None:
    await discovery.resource(DEPLOYMENT)
    discovery.forget("other/v1")
    await discovery.resource(DEPLOYMENT)
    assert len(server.asked) == 1
    for which in ("apps/v1", None):
        discovery.forget(which)
        await discovery.resource(DEPLOYMENT)
    assert len(server.asked) == 3


async def test_a_failure_of_discovery_reaches_all_waiting_callers_and_is_not_cached(
    discovery: Discovery, server: Server
) -> None:
    server.answer, server.delay = Unreachable("refused"), 1.0
    found = await asyncio.gather(*(discovery.resource(DEPLOYMENT) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(one, Unreachable) for one in found)
    assert len(server.asked) == 1
    server.answer = LIST
    assert (await discovery.resource(DEPLOYMENT)).plural == "deployments"
