"""A read of a cache that the controller does not declare raises at the call, and the error names the verb to add."""

from collections.abc import Iterable
from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.errors import CacheNotWatched
from konverge.kinds import kind
from konverge.runtime.cache.readers import Caches

SECRET = kind("v1", "Secret")


def test_the_error_names_the_controller_the_kind_and_the_verbs_to_add() -> None:
    says = (
        r"controller 'copies' reads the cache of Secret, which it does not watch: "
        r"add \.watches\(SECRET, to=\.\.\.\) or \.owns\(SECRET\) to it, or read live with ctx\.live\(SECRET\)"
    )
    with pytest.raises(CacheNotWatched, match=says):
        Caches("copies", {})(SECRET)


async def test_a_reconcile_that_reads_an_undeclared_cache_fails_with_this_error() -> None:
    async def reads(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        ctx.cache(SECRET).find(object_.namespace, "target")
        return kv.Done()

    controller = kv.Controller.of(CONFIG_MAP).reconciled_by(By(reads))
    async with ControllerHarness(controller) as harness:
        harness.put(CONFIG_MAP.new("a", "web"))
        await harness.settle()
        assert "add .watches(SECRET, to=...)" in harness.runner.report().last_error


async def test_a_mapper_that_reads_an_undeclared_cache_raises_this_error() -> None:
    def reads(changed: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
        return caches(kind("v1", "Pod")).keys(namespace=changed.namespace)

    async def nothing(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        return kv.Done()

    controller = kv.Controller.of(CONFIG_MAP).watches(SECRET, to=reads, metadata_only=True).reconciled_by(By(nothing))
    async with ControllerHarness(controller) as harness:
        with pytest.raises(CacheNotWatched, match=r"add \.watches\(POD"):
            harness.put(SECRET.new("a", "web"))
