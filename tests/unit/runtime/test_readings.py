"""A cache that nobody fills is found before anything runs, where the code says which cache it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import konverge as kv
from konverge.client import ClientConfig
from konverge.errors import CacheNotWatched
from konverge.kinds import kind
from konverge.runtime.builder.cache_lint import undeclared_reads

CONFIG_MAP = kind("v1", "ConfigMap")
SECRET = kind("v1", "Secret")
POD = kind("v1", "Pod")


class Kinds:
    pod = POD


class ReadsGlobal:
    async def reconcile(self, thing: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.cache(SECRET).find(thing.namespace, "target")
        return kv.Done()


class ReadsInHelper:
    async def reconcile(self, thing: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return self._look(thing, ctx)

    def _look(self, thing: kv.Object, context: kv.Context[kv.Object]) -> kv.Outcome:
        context.cache(Kinds.pod).find(thing.namespace, "target")
        return kv.Done()


class ReadsInFinalize:
    async def reconcile(self, thing: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return kv.Done()

    async def finalize(self, thing: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.cache(SECRET)
        return kv.Done()


class ReadsInherited(ReadsGlobal):
    pass


class ReadsWhatCannotBeFollowed:
    """None of these is the context's cache of a kind that the text names."""

    def __init__(self, wanted: Any = None) -> None:
        self.wanted = wanted

    async def reconcile(self, thing: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        mine = SECRET
        ctx.cache(mine)
        ctx.cache(self.wanted)
        self.wanted.cache(SECRET)
        ctx.live(SECRET)
        return kv.Done()

    def elsewhere(self, shelf: Any) -> None:
        shelf.cache(SECRET)


def reads_pods(changed: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(POD).keys(namespace=changed.namespace)


def manager() -> kv.Manager:
    return kv.Manager("test", ClientConfig.direct("http://localhost:1"))


def bare(reconciler: Any) -> kv.Controller[kv.Object]:
    return kv.Controller.of(CONFIG_MAP).reconciled_by(reconciler)


CASES: list[tuple[Callable[[], kv.Controller[Any]], str]] = [
    (lambda: bare(ReadsGlobal()), r"Secret, which it does not watch: add .watches\(SECRET, to="),
    (lambda: bare(ReadsInHelper()), r"Pod, which it does not watch: add .watches\(Kinds.pod, to="),
    (
        lambda: kv.Controller.of(CONFIG_MAP).finalizer("example.com/x").reconciled_by(ReadsInFinalize()),
        r".watches\(SECRET",
    ),
    (lambda: bare(ReadsInherited()), r".watches\(SECRET"),
    (lambda: bare(ReadsGlobal()).watches(POD, to=reads_pods, metadata_only=True), r".watches\(SECRET"),
    (lambda: bare(ReadsWhatCannotBeFollowed()).watches(SECRET, to=reads_pods, metadata_only=True), r".watches\(POD"),
]


@pytest.mark.parametrize(("built", "says"), CASES)
def test_a_manager_refuses_a_controller_whose_code_reads_a_cache_that_it_does_not_declare(
    built: Callable[[], kv.Controller[Any]], says: str
) -> None:
    with pytest.raises(CacheNotWatched, match=says):
        manager().add(built())


def test_a_declared_cache_may_be_read_whichever_verb_declared_it() -> None:
    for declared in (bare(ReadsGlobal()).owns(SECRET), bare(ReadsInHelper()).owns(POD, optional=True)):
        manager().add(declared)


def test_what_the_source_does_not_tell_is_left_to_the_call() -> None:
    assert list(undeclared_reads(bare(ReadsWhatCannotBeFollowed()))) == []
    scope: dict[str, Any] = {"SECRET": SECRET}
    exec("class Made:\n    async def reconcile(self, thing, ctx):\n        ctx.cache(SECRET)\n", scope)
    assert list(undeclared_reads(bare(scope["Made"]()))) == []
