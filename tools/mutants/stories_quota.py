"""Stories of pools: claims wait, are edited and released while pods run; a pool takes its claims with it.

Each ends with one pool and one claim, whatever other clients did: objects that depend on the order of claims are deleted before.
"""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

from story_words import meddled_with

import konverge as kv
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge_testing import Lab

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from quota.lab import CPU, POD, HeldByTheRule, Quotas, without_uids

SERVICES: Final = "services"
_APART: Final = 2.0
"""Seconds between two claims, so that the API server's timestamps tell which is older."""


class _Tale:
    """A lab with the family in it; if other clients have orders to write, steps may fail, and nothing on the way is expected."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.here = Quotas(lab)
        self._meddled = meddled_with(lab)

    async def begin(self, *namespaces: str) -> Quotas:
        self.lab.may_differ(None, without_uids, why="uids that a status repeats differ from run to run")
        for name in namespaces:
            await self.here.namespace(name)
        if not self._meddled:
            self.lab.always.append(HeldByTheRule(self.lab))
        await self.lab.start(self.here.build, settings=self.here.settings)
        return self.here

    async def do(self, step: Awaitable[Any]) -> None:
        try:
            await step
        except kv.ApiError:
            if not self._meddled:
                raise

    async def see(self, expected: Awaitable[Any]) -> None:
        if not self._meddled:
            await expected
            return
        task = asyncio.ensure_future(expected)
        await asyncio.wait({task}, timeout=_APART)
        task.cancel()
        await asyncio.wait({task})


async def tenants(lab: Lab) -> None:
    """One tenant releases a claim whose pods go on for a while; two claims wait for it, and the younger is edited while it waits."""
    lab.skip_plans(
        "write * (apply resourcequotas lab-b/*) is answered with 422",
        why="a claim whose quota is refused fails alone, and the one behind it gets the room",
    )
    tale = _Tale(lab)
    here = await tale.begin("a", "b")
    await here.pool(hard={CPU: 4, SERVICES: 5}, defaultsZero=True)
    await tale.do(here.claim("a", "c", cpu=3))
    await tale.see(here.grants("a", {CPU: 3, SERVICES: 0}))
    await tale.do(here.pod("a", "runs", "2"))
    await tale.do(here.claim("b", "zeta", cpu=3))
    await tale.see(here.says("b", "zeta", "PoolExhausted"))
    await asyncio.sleep(_APART)
    await tale.do(here.claim("b", "alpha", cpu=3))
    await tale.see(here.says("b", "alpha", "PoolExhausted"))
    await tale.do(here.patch("b", "alpha", {"spec": {"claim": {CPU: 3, SERVICES: 1}}}))
    await tale.see(here.says("b", "alpha", "PoolExhausted", "requested: requests.cpu=3"))
    await tale.do(here.release("a", "c"))
    await tale.see(here.says("a", "c", "Released"))
    await tale.see(here.grants("a", {CPU: 0, SERVICES: 0}))
    await asyncio.sleep(_APART)
    await tale.see(here.says("b", "zeta", "PoolExhausted"))
    await tale.do(lab.client.delete(POD, "runs", here.ns("a")))
    await tale.see(here.bound("b", "zeta"))
    await tale.see(here.grants("b", {CPU: 3, SERVICES: 0}))
    await tale.see(here.says("b", "alpha", "PoolExhausted"))
    await tale.see(here.says("a", "c", "Released"))
    for where, name in (("a", "c"), ("b", "zeta"), ("b", "alpha")):
        await here.delete(where, name)
    await here.claim("a", "last", cpu=1)
    await here.bound("a", "last")
    await here.grants("b", {CPU: 0, SERVICES: 0})
    await here.spent({CPU: 1, SERVICES: 0})


async def dissolved(lab: Lab) -> None:
    """A pool that deletes its claims with it spares the waiting claim."""
    tale = _Tale(lab)
    here = await tale.begin("a")
    await here.pool(deleteBoundResources=True)
    await tale.do(here.claim("a", "bound", cpu=3))
    await tale.see(here.bound("a", "bound"))
    await tale.do(here.claim("a", "waits", cpu=3))
    await tale.see(here.says("a", "waits", "PoolExhausted"))
    await tale.do(lab.client.delete(ResourcePool, "p"))
    await tale.see(here.says("a", "waits", "Failed", "not found"))
    await tale.see(_left(here, "a", ["waits"]))
    for name in ("bound", "waits"):
        await here.delete("a", name)
    await here.claim("a", "last", cpu=1)
    await here.says("a", "last", "Failed", "not found")


async def _left(here: Quotas, where: str, names: list[str]) -> None:
    left = [claim.name for claim in (await here.lab.client.list(ResourcePoolClaim, here.ns(where))).items]
    assert left == names, f"of the pool's claims there are {left}"
