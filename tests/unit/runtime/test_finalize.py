"""The finalizer is removed only after `finalize` returned Done: after any other end the object stays and finalize is called again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge.errors import Forbidden, Unreachable

FINALIZER = "tests.konverge.dev/widget"
Ending = Callable[[Any, kv.Context[Any]], Awaitable[Any]]


def raising(error: BaseException) -> Ending:
    async def ends(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise error

    return ends


async def is_cancelled_inside(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    inner = asyncio.create_task(asyncio.sleep(60))
    inner.cancel()
    await inner
    return kv.Done()


async def takes_too_long(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await asyncio.sleep(3600)
    return kv.Done()


async def asks_to_be_called_again(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    return kv.RequeueAfter(1)


async def returns_nothing(w: Widget, ctx: kv.Context[Widget]) -> None:
    return None


async def forgets_an_await(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.own(part(0, "web"))
    return kv.Done()


ENDINGS: dict[str, Ending] = {
    "an error of the reconciler": raising(RuntimeError("no")),
    "an error of the API": raising(Forbidden("no", status=403, reason="Forbidden")),
    "an unreachable server": raising(Unreachable("no")),
    "RetryAfter": raising(kv.RetryAfter(1, "not yet")),
    "a terminal error": raising(kv.Terminal("never")),
    "a timeout of its own": raising(TimeoutError()),
    "a group of errors": raising(ExceptionGroup("two", [kv.Terminal("never"), RuntimeError("no")])),
    "a cancellation that it raises": raising(asyncio.CancelledError()),
    "a cancellation inside": is_cancelled_inside,
    "the deadline": takes_too_long,
    "RequeueAfter": asks_to_be_called_again,
    "no outcome": returns_nothing,
    "a forgotten await": forgets_an_await,
}


WITH_AWAIT = {"a cancellation inside", "the deadline", "a forgotten await"}


@pytest.mark.parametrize(
    ("ending", "in_thread"),
    [*((ending, False) for ending in ENDINGS), *((ending, True) for ending in ENDINGS if ending not in WITH_AWAIT)],
)
async def test_a_finalizer_stays_unless_finalize_returned_done(ending: str, in_thread: bool) -> None:
    calls: list[str] = []

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> Any:
        calls.append(w.name)
        if len(calls) > 1:
            return kv.Done()
        return await ENDINGS[ending](w, ctx)

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    class InThread:
        async def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            return kv.Done()

        def finalize(self, w: Widget, ctx: kv.Context[Widget]) -> Any:
            with pytest.raises(StopIteration) as returned:
                finalize(w, ctx).send(None)
            return returned.value.value

    reconciler: Any = InThread() if in_thread else By(reconcile, finalize)
    spec = (
        kv.Controller.of(Widget)
        .owns(CONFIG_MAP)
        .finalizer(FINALIZER)
        .with_(timeout=5, base_delay=0.5)
        .reconciled_by(reconciler)
    )
    async with ControllerHarness(spec) as harness:

        def finalizers() -> list[str]:
            return list(harness.server.stored(Widget.kind_of_resource(), "", "one")["metadata"].get("finalizers", ()))

        harness.server.after = lambda: harness.show(Widget, "one")
        harness.put(widget(), finalizers=[FINALIZER, "other"], deletionTimestamp="2030-01-01T00:00:00Z")
        while not calls:
            await asyncio.sleep(0.1)
        await harness.settle(0.1 if ending != "the deadline" else 5.1)
        assert calls == ["one"]
        assert finalizers() == [FINALIZER, "other"]
        assert "patch Widget one" not in harness.server.calls
        harness.runner.enqueue(kv.Key("", Widget.kind_of_resource(), "", "one"))
        await harness.settle(5)
        assert finalizers() == ["other"]


async def test_a_finalizer_stays_if_the_process_stops_during_finalize() -> None:
    began = asyncio.Event()

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        began.set()
        await asyncio.sleep(3600)
        return kv.Done()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    spec = kv.Controller.of(Widget).finalizer(FINALIZER).with_(timeout=9000).reconciled_by(By(reconcile, finalize))
    async with ControllerHarness(spec, drain=0.1) as harness:
        harness.put(widget(), finalizers=[FINALIZER], deletionTimestamp="2030-01-01T00:00:00Z")
        await began.wait()
    assert harness.server.stored(Widget.kind_of_resource(), "", "one")["metadata"]["finalizers"] == [FINALIZER]
    assert "patch Widget one" not in harness.server.calls


async def test_a_finalizer_is_added_only_while_the_controller_may_hold_the_object() -> None:
    """`clusterctl move` removes the finalizers of a paused object and then deletes it: a new finalizer would keep the object."""
    seen: list[tuple[str, ...]] = []
    ended: list[str] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(tuple(w.metadata.finalizers))
        ctx.status.set_condition("Ready", False, "Paused", "it is paused")
        return kv.Done()

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ended.append(w.name)
        return kv.Done()

    def not_paused(metadata: kv.Metadata, caches: kv.Caches) -> bool:
        assert len(caches(Widget)) == 1, "the caches of the controller"
        return "paused" not in (metadata.annotations or {})

    spec = kv.Controller.of(Widget).finalizer(FINALIZER, when=not_paused).reconciled_by(By(reconcile, finalize))
    async with ControllerHarness(spec) as harness:

        def stored() -> dict[str, Any]:
            return harness.server.stored(Widget.kind_of_resource(), "", "one")

        harness.server.after = lambda: harness.show(Widget, "one")
        harness.put(widget(), annotations={"paused": ""})
        await harness.settle(5)
        assert seen
        assert set(seen) == {()}
        assert "finalizers" not in stored()["metadata"]
        assert stored()["status"]["conditions"][0]["reason"] == "Paused", "the reconciler can show why"
        seen.clear()
        harness.put(widget(), annotations={})
        await harness.settle(5)
        assert stored()["metadata"]["finalizers"] == [FINALIZER]
        assert set(seen) == {(FINALIZER,)}, "without a pause it is held before it is reconciled"
        harness.put(
            widget(),
            annotations={"paused": ""},
            finalizers=[FINALIZER],
            deletionTimestamp="2030-01-01T00:00:00Z",
        )
        await harness.settle(5)
        assert ended == ["one"], "a finalizer that is there is served all the same"
