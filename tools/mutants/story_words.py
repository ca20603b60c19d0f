"""The helpers of the stories: wait for a state, read stored objects, count own writes."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import konverge as kv
from konverge.kinds import Resource
from konverge.objects import compare_versions
from konverge_testing.lab import Lab
from konverge_testing.lab.plans import MOST_DOWN

CONFIG: Final = kv.kind("v1", "ConfigMap")
SECRET: Final = kv.kind("v1", "Secret")
CONFIGS: Final = ("", "configmaps")
LONGEST: Final = 4000.0 + MOST_DOWN
"""Virtual seconds of a wait under a plan, which may keep the process down for hours."""
FILLERS: Final = 6
"""Commits that separate a story's earlier objects from plans with a server that lags a few versions."""


async def seen(lab: Lab, what: Any, name: str, test: Callable[[Any], bool], longest: float = 30.0) -> Any:
    """Wait for a state as `Lab.until` does, with ever longer pauses: a plan may delay a state for minutes."""
    pause, waited = 0.05, 0.0
    while waited < (longest if lab.patience == 1 else LONGEST):
        result = await lab.find(what, name)
        if result is not None and test(result):
            return result
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(pause * 1.5, 5.0)
    raise AssertionError(
        f"{name}: waited {waited:.0f} s for {getattr(test, '__qualname__', test)}, it is {await lab.find(what, name)!r}"
    )


async def gone(lab: Lab, what: Any, name: str) -> None:
    """Wait until an object is deleted."""
    pause, waited = 0.05, 0.0
    while await lab.find(what, name) is not None:
        assert waited < (30.0 if lab.patience == 1 else LONGEST), f"{name} was not gone after {waited:.0f} s"
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(pause * 1.5, 5.0)


def config(name: str, namespace: str = "", **data: str) -> kv.Object:
    return CONFIG.new(name, namespace, data=data)


def data_of(lab: Lab, name: str) -> dict[str, str] | None:
    """Return the data of a stored ConfigMap, as of this very moment."""
    entry = lab.server.store.get(CONFIGS, lab.namespace, name)
    return None if entry is None else entry.object().get("data", {})


def stored(lab: Lab, plural: str, name: str) -> dict[str, Any] | None:
    entry = lab.server.store.get(("example.com", plural), lab.namespace, name)
    return None if entry is None else entry.object()


def check_owner(child: Any, kind: str, name: str) -> None:
    """Expect exactly one owner, the controller."""
    owners = [
        (owner_reference.kind, owner_reference.name, owner_reference.controller)
        for owner_reference in child.metadata.owner_references
    ]
    assert owners == [(kind, name, True)], f"{child.name} has the owners {owners}"


def meddled_with(lab: Lab) -> bool:
    """Whether the plan of this run has foreign writes: they may remove a finalizer that a story waits for."""
    plan = getattr(lab.gate, "plan", None)
    return plan is not None and bool(plan.foreign)


async def fill(lab: Lab) -> None:
    """Write so many objects that all earlier objects are older than any lagging view of the server."""
    for number in range(FILLERS):
        await lab.create(SECRET.new(f"filler-{number}"))


class OwnWrites:
    """The own writes of a reconciler, to find a reconcile that sees less than them; see the barrier's guarantee and its caveat."""

    def __init__(self) -> None:
        self._written: dict[tuple[Any, str], tuple[str, str, float]] = {}

    def note(self, ctx: kv.Context[Resource], child: Any) -> None:
        place = (ctx.key, child.name)
        before = self._written.get(place)
        if before is None or before[:2] != (child.metadata.uid, child.metadata.resource_version):
            self._written[place] = (
                child.metadata.uid,
                child.metadata.resource_version,
                asyncio.get_running_loop().time(),
            )

    async def check(self, ctx: kv.Context[Resource], namespace: str, name: str) -> None:
        written = self._written.get((ctx.key, name))
        if written is None or asyncio.get_running_loop().time() - written[2] > 9:
            return
        uid, version, _ = written
        metadata = ctx.cache(CONFIG).metadata(namespace, name)
        if metadata is not None and (compare_versions(metadata.resource_version, version) or 0) >= 0:
            return
        live = await ctx.live(CONFIG).find(namespace, name)
        assert live is None or live.metadata.uid != uid, (
            f"a pass of {ctx.key} is shown less of {name} than it wrote itself"
        )
