"""The fence of a controller's writes to other servers."""

from random import Random
from typing import Any

import pytest
from scripted_leadership import ScriptedLeadership
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.errors import NotLeading
from konverge.runtime import Manager
from konverge_testing import ApiServer


async def done(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def passes(manager: Manager, name: str) -> bool:
    try:
        manager.fence_of(name).check()
    except NotLeading:
        return False
    return True


async def test_controller_fence_is_open_while_leading_and_on_every_replica_while_running() -> None:
    leadership = ScriptedLeadership()
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2), leadership=leadership)
        fence = manager.fence_of("configmap")
        manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(done)))
        manager.add(kv.Controller.of(SECRET).on_every_replica().reconciled_by(By(done)))
        assert not passes(manager, "secret")
        with pytest.raises(NotLeading, match="does not run"):
            fence.check()
        async with manager:
            leadership.win()
            fence.check()
            leadership.lose()
            with pytest.raises(NotLeading, match="does not hold the lease"):
                fence.check()
            assert passes(manager, "secret")
            assert not passes(manager, "unknown")
            leadership.win()
            fence.check()
        assert not passes(manager, "configmap")
        assert not passes(manager, "secret")


async def test_without_election_the_fence_is_open_while_manager_and_controller_run() -> None:
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(done)))
        async with manager:
            assert passes(manager, "configmap")
            await manager.remove("configmap")
            assert not passes(manager, "configmap")
