"""One controller, its events and its own writes: no request is lost, none is invented, and no state outlives its reconcile."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import structlog
from controller_harness import ControllerHarness
from widgets import CONFIG_MAP, SECRET, By, Widget, WidgetStatus, part, widget

import konverge as kv
from konverge.errors import ApplyConflict, FieldConflict, Forbidden, Invalid, ReconcileTimeout, Unreachable, UsageError
from konverge.kinds import kind
from konverge.runtime import generation_changed, labels_changed

FINALIZER = "tests.konverge.dev/widget"
NODE = kind("v1", "Node")
JOB = kind("batch/v1", "Job")


def placed(name: str = "one", **spec: Any) -> Widget:
    return Widget.decode({**widget(name, **spec).to_dict(), "metadata": {"name": name, "namespace": "web"}})


def showing(harness: ControllerHarness, *parts: str) -> Callable[[], None]:
    def show() -> None:
        for name in parts:
            harness.show(CONFIG_MAP, name, "web")

    return show


class Passes:
    """Counts reconciles, and runs the given function in each."""

    def __init__(self, then: Any = None) -> None:
        self.seen: list[Any] = []
        self.contexts: list[kv.Context[Any]] = []
        self._then = then

    async def __call__(self, object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        self.seen.append(object_)
        self.contexts.append(ctx)
        if len(self.seen) > 30:  # an endless loop would stop virtual time
            await asyncio.sleep(1e6)
        outcome = None if self._then is None else await self._then(object_, ctx)
        return kv.Done() if outcome is None else outcome


# --- lost and made-up wake-ups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("predicate", [generation_changed, labels_changed])
async def test_predicate_never_hides_the_finalizer_addition_or_deletion_request(predicate: Any) -> None:
    reconciled, finalized = Passes(), Passes()
    spec = kv.Controller.of(Widget).finalizer(FINALIZER).when(predicate).reconciled_by(By(reconciled, finalized))
    async with ControllerHarness(spec) as harness:
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(Widget, "one", "web")
        await harness.settle()
        assert len(reconciled.seen) == 1
        harness.put(placed(), deletionTimestamp="2030-01-01T00:00:00Z")
        await harness.settle()
        assert len(finalized.seen) == 1


async def test_foreign_status_write_just_before_ours_still_enqueues_the_object() -> None:
    """The event of another writer is merged with ours: a filter by our version would hide the other writer's change for ever."""

    async def counts(w: Widget, ctx: kv.Context[Widget]) -> None:
        ctx.status.draft.parts = len(passes.seen)

    passes = Passes(counts)
    spec = kv.Controller.of(Widget).writes_status_as("parts").reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:

        def meanwhile() -> None:
            harness.server.before = None
            stored = harness.server.stored(Widget.kind_of_resource(), "web", "one")
            harness.server.store(Widget.kind_of_resource(), {**stored, "status": {"note": "theirs"}})

        harness.server.before = meanwhile
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(Widget, "one", "web")
        await harness.settle()
        assert passes.seen[-1].status.note == "theirs"


async def test_status_event_before_its_response_does_not_skip_the_backoff() -> None:
    async def fails(w: Widget, ctx: kv.Context[Widget]) -> None:
        ctx.status.set_condition("Ready", False, "Failed", f"attempt {len(passes.seen)}")
        raise RuntimeError(f"attempt {len(passes.seen)}")

    passes = Passes(fails)
    spec = kv.Controller.of(Widget).with_(base_delay=100.0).reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:
        harness.server.after = lambda: harness.show(Widget, "one", "web")
        harness.put(placed(), generation=1)
        await harness.settle(50)
        assert len(passes.seen) == 1
        await harness.settle(100)
        assert len(passes.seen) == 2


async def test_a_change_during_a_reconcile_causes_exactly_one_more() -> None:
    async def slow(w: Widget, ctx: kv.Context[Widget]) -> None:
        await asyncio.sleep(1)
        ctx.status.draft.parts = w.spec.parts

    passes = Passes(slow)
    async with ControllerHarness(kv.Controller.of(Widget).reconciled_by(By(passes))) as harness:
        harness.server.after = lambda: harness.show(Widget, "one", "web")
        harness.put(placed(parts=1), generation=1)
        await harness.settle(0.5)
        harness.put(placed(parts=2), generation=2)
        await harness.settle(10)
        assert [w.spec.parts for w in passes.seen] == [1, 2]
        assert harness.status(Widget, "one", "web")["parts"] == 2


@pytest.mark.parametrize("event", [None, "of the object", "of a child"])
async def test_requeue_after_is_kept_with_or_without_an_event_during_reconcile(event: str | None) -> None:
    loop = asyncio.get_running_loop()
    began: list[float] = []

    async def slow(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        began.append(loop.time())
        await asyncio.sleep(2)
        return kv.RequeueAfter(60)

    passes = Passes(slow)
    async with ControllerHarness(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(passes))) as harness:
        harness.server.after = lambda: harness.show(Widget, "one", "web")
        harness.put(placed(parts=1), generation=1)
        await harness.settle(1)
        if event == "of the object":
            harness.put(placed(parts=2), generation=2)
        if event == "of a child":
            controller = {
                "apiVersion": Widget.kind_of_resource().api_version,
                "kind": "Widget",
                "name": "one",
                "uid": "u",
                "controller": True,
            }
            harness.put(CONFIG_MAP.new("part-0", "web"), ownerReferences=[controller])
        await harness.settle(200)
        first = began[0]
        # The event causes one more reconcile when the first ends; the first reconcile's status write causes none.
        more = [] if event is None else [2.0]
        start = more[-1] if more else 0.0
        expected = [0.0, *more, *(start + 62.0 * number for number in (1, 2, 3))]
        assert [round(at - first) for at in began] == expected[: len(began)]
        assert len(began) == len([at for at in expected if at <= 201])


async def test_child_enqueues_a_cluster_scoped_owner_of_a_kind_without_scope() -> None:
    passes = Passes()
    spec = kv.Controller.of(NODE).owns(CONFIG_MAP).reconciled_by(By(passes))
    async with ControllerHarness(spec, cluster_scoped=frozenset({"Node"})) as harness:
        harness.put(NODE.new("n1"), uid="uid-n1")
        await harness.settle()
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1", "controller": True}
        harness.put(part(1, "web"), ownerReferences=[owner])
        await harness.settle()
        assert len(passes.seen) == 2


async def test_a_watched_object_that_decodes_again_wakes_those_who_refer_to_it() -> None:
    passes = Passes()

    def same_name(other: Widget, caches: kv.Caches) -> Iterable[kv.Key]:
        return (kv.Key("", CONFIG_MAP, other.namespace, other.name),)

    spec = kv.Controller.of(CONFIG_MAP).watches(Widget, to=same_name).reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:
        harness.put(CONFIG_MAP.new("one", "web"))
        broken = kv.kind("tests.konverge.dev/v1", "Widget").new("one", "web", spec={"parts": "many"})
        harness.put(broken)
        await harness.settle()
        before = len(passes.seen)
        harness.put(placed(parts=1))
        await harness.settle()
        assert len(passes.seen) == before + 1


async def test_map_function_with_keys_of_another_kind_is_an_error_without_enqueues() -> None:
    passes = Passes()

    def wrong(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
        return (kv.Key("", SECRET, secret.namespace, secret.name),)

    spec = kv.Controller.of(Widget).watches(SECRET, to=wrong, metadata_only=True).reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:
        harness.put(placed("one"))
        await harness.settle()
        with pytest.raises(UsageError, match=r"Secret.*Widget"):
            harness.put(SECRET.new("one", "web"))
        await harness.settle()
        assert len(passes.seen) == 1


async def test_a_map_function_may_name_the_kind_without_its_model() -> None:
    passes = Passes()
    plain = kind("tests.konverge.dev/v1", "Widget")

    def one(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
        return (kv.Key("", plain, secret.namespace, "one"),)

    spec = kv.Controller.of(Widget).watches(SECRET, to=one, metadata_only=True).reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:
        harness.put(placed())
        await harness.settle()
        harness.show(Widget, "one", "web")
        harness.put(SECRET.new("s", "web"))
        await harness.settle()
        assert [type(w) for w in passes.seen] == [Widget, Widget]


async def test_a_controller_may_watch_its_own_kind_too() -> None:
    passes = Passes()

    def leader(other: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
        return (kv.Key("", Widget.kind_of_resource(), other.namespace, "leader"),)

    spec = kv.Controller.of(Widget).watches(Widget, to=leader, metadata_only=True, labels="a=b")
    async with ControllerHarness(spec.reconciled_by(By(passes))) as harness:
        harness.put(placed("leader"))
        await harness.settle()
        harness.put(placed("other"), labels={"a": "b"})
        await harness.settle()
        assert [w.name for w in passes.seen] == ["leader", "other", "leader"] or [w.name for w in passes.seen] == [
            "leader",
            "leader",
            "other",
        ]
        assert passes.seen[0].spec.parts == 0
        informers = list(harness.informers.by_selection.values())
    assert [one.users for one in informers] == [0, 0]
    assert [one.handlers for one in informers] == [[], []]


async def test_plan_with_requeue_after_is_requeued_on_time_despite_held_child() -> None:
    conflict = ApplyConflict("conflict", conflicts=(FieldConflict("kubectl", ".data.k"),))
    held: list[str] = []

    async def plans(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        child = kv.Child(part(0), on_conflict=kv.HOLD)
        try:
            return await ctx.execute(kv.Plan(children=(child,), outcome=kv.RequeueAfter(5)))
        except kv.FieldsHeld as error:
            held.append(str(error))
            raise

    passes = Passes(plans)
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(passes))
    async with ControllerHarness(spec) as harness:

        def refuse() -> None:
            if harness.server.calls[-1] == "apply ConfigMap part-0":
                raise conflict

        harness.put(placed(), generation=1)
        harness.server.before = refuse
        await harness.settle(4)
        assert len(passes.seen) == 1
        await harness.settle(4)
        assert len(passes.seen) == len(held) == 2


# --- the state that a reconcile reads ---------------------------------------------------------------------------------------------


async def test_reconcile_sees_the_cache_as_it_is_after_the_barrier() -> None:
    """A write with unknown outcome is read from the server, which takes a while; the cache changes at the same time."""
    passes = Passes()
    async with ControllerHarness(kv.Controller.of(Widget).reconciled_by(By(passes))) as harness:
        harness.put(placed(parts=1), generation=1)
        await harness.settle()
        key = kv.Key("", Widget.kind_of_resource(), "web", "one")
        harness.server.ledger.begin(("widget", key), key.kind, "web", "one").unknown()

        async def meanwhile() -> None:
            harness.server.before = None
            harness.put(placed(parts=2), generation=2)
            await asyncio.sleep(1)

        harness.server.before = meanwhile
        harness.runner.enqueue(key)
        await harness.settle(5)
        assert passes.seen[1].spec.parts == 2


async def test_barrier_does_not_wait_for_objects_the_cache_never_holds() -> None:
    async def applies(w: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.apply(CONFIG_MAP.new("elsewhere", "other", data={"n": str(len(passes.seen))}))

    passes = Passes(applies)
    spec = kv.Controller.of(Widget).watches(CONFIG_MAP, to=lambda _o, _c: ()).reconciled_by(By(passes))
    async with ControllerHarness(spec, namespace="web") as harness:
        harness.put(part(0, "web"))
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(Widget, "one", "web")
        harness.put(placed(parts=1), generation=2)
        await harness.settle(1)
        assert len(passes.seen) == 2


# --- state that outlives a reconcile -----------------------------------------------------------------------------------------------


async def test_reconciler_with_its_own_uncaught_cancellation_fails_and_worker_continues() -> None:
    async def cancels(w: Widget, ctx: kv.Context[Widget]) -> None:
        if w.name == "bad":
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner

    passes = Passes(cancels)
    async with ControllerHarness(
        kv.Controller.of(Widget).with_(base_delay=1000.0).reconciled_by(By(passes))
    ) as harness:
        harness.put(placed("bad"))
        await harness.settle()
        harness.put(placed("good"))
        await harness.settle()
        assert [w.name for w in passes.seen] == ["bad", "good"]
        key = kv.Key("", Widget.kind_of_resource(), "web", "bad")
        assert "cancel" in harness.runner.history.of(key)[-1].error


@pytest.mark.parametrize("ending", ["returned", "raised", "cancelled"])
async def test_nothing_is_sent_for_a_reconcile_that_has_ended(ending: str) -> None:
    async def ends(w: Widget, ctx: kv.Context[Widget]) -> None:
        if ending == "raised":
            raise kv.Terminal("over")
        if ending == "cancelled":
            await asyncio.sleep(3600)

    passes = Passes(ends)
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(passes))
    async with ControllerHarness(spec, drain=0.1) as harness:
        harness.put(placed())
        await harness.settle()
    with pytest.raises(ReconcileTimeout, match="nothing more is sent"):
        await passes.contexts[0].own(part(0))
    assert "apply ConfigMap part-0" not in harness.server.calls


async def test_stopping_does_not_wait_for_a_thread_that_does_not_end() -> None:
    release = threading.Event()
    loop = asyncio.get_running_loop()

    class Hanging:
        def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            began.set()
            release.wait(20)
            return kv.Done()

    began = threading.Event()
    harness = ControllerHarness(kv.Controller.of(Widget).reconciled_by(Hanging()), drain=0.0)
    async with harness:
        harness.put(placed())
        await asyncio.sleep(0)
        await asyncio.to_thread(began.wait, 10)
        loop.call_later(30, release.set)  # the thread would then end by itself
        harness.runner.stop()
        await asyncio.wait(harness._tasks, timeout=5)
        ended = all(task.done() for task in harness._tasks)
        release.set()
    assert ended


# --- status --------------------------------------------------------------------------------------------------------------------------


async def test_status_of_a_foreign_kind_is_written_only_if_set() -> None:
    passes = Passes()
    async with ControllerHarness(kv.Controller.of(JOB).reconciled_by(By(passes))) as harness:
        harness.put(JOB.new("j", "web", status={"active": 1}), generation=1)
        await harness.settle()
        assert len(passes.seen) == 1
        assert harness.server.calls == []


async def test_apply_of_a_foreign_status_has_only_the_set_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    async def marks(job: kv.Object, ctx: kv.Context[kv.Object]) -> None:
        ctx.status.set_condition("Audited", True, "Seen")

    sent: list[dict[str, Any]] = []
    async with ControllerHarness(kv.Controller.of(JOB).reconciled_by(By(Passes(marks)))) as harness:
        apply = harness.server.apply_raw

        async def recording(kind_: Any, body: Any, **how: Any) -> Any:
            sent.append(body["status"])
            return await apply(kind_, body, **how)

        monkeypatch.setattr(harness.server, "apply_raw", recording)
        theirs = {"type": "Complete", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        harness.put(JOB.new("j", "web", status={"active": 1, "conditions": [theirs]}), generation=1)
        await harness.settle()
    [status] = sent
    assert "active" not in status
    assert [entry["type"] for entry in status["conditions"]] == ["Audited"]


async def test_a_failed_reconcile_keeps_the_validity_condition_that_the_reconciler_set() -> None:
    """The reason is the same as the runtime's own; a short network failure must not flip the condition."""

    async def judges(w: Widget, ctx: kv.Context[Widget]) -> None:
        if len(passes.seen) == 2:
            raise Unreachable("no answer")
        ctx.status.set_condition("Blocked", True, "ValidationFailed", "mode is not supported here")

    passes = Passes(judges)
    spec = kv.Controller.of(Widget).invalid_as("Blocked", "ValidationFailed").with_(base_delay=1000.0)
    async with ControllerHarness(spec.reconciled_by(By(passes))) as harness:
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(Widget, "one", "web")
        harness.runner.resync_now()
        await harness.settle()
        assert len(passes.seen) == 2
        [blocked] = [c for c in harness.status(Widget, "one", "web")["conditions"] if c["type"] == "Blocked"]
        assert blocked["status"] == "True"
        assert harness.events == [("ValidationFailed", "Blocked")]


async def test_a_finalize_that_is_repeated_many_times_writes_its_status_once() -> None:
    async def waits(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", False, "Ending")
        return kv.RequeueAfter(1)

    ending = Passes(waits)
    spec = kv.Controller.of(Widget).finalizer(FINALIZER).reconciled_by(By(Passes(), ending))
    async with ControllerHarness(spec) as harness:
        harness.server.after = lambda: harness.show(Widget, "one", "web")
        harness.put(placed(), generation=1, finalizers=[FINALIZER], deletionTimestamp="2030-01-01T00:00:00Z")
        await harness.settle(10.5)
        assert len(ending.seen) >= 10
        assert harness.server.calls.count("apply Widget one/status") == 1


async def test_an_object_that_does_not_decode_is_counted() -> None:
    spec = kv.Controller.of(Widget).invalid_as("Blocked", "ValidationFailed").reconciled_by(By(Passes()))
    async with ControllerHarness(spec) as harness:
        harness.put(kv.kind("tests.konverge.dev/v1", "Widget").new("one", "web", spec={"parts": "many"}))
        await harness.settle()
        count = harness.metrics.registry.get_sample_value("konverge_decode_errors_total", {"controller": "widget"})
        assert count == 1


async def test_a_condition_that_is_cut_in_production_is_logged() -> None:
    async def marks(w: Widget, ctx: kv.Context[Widget]) -> None:
        ctx.status.set_condition("Undeclared", True, "Fine")

    with structlog.testing.capture_logs() as logs:
        async with ControllerHarness(
            kv.Controller.of(Widget).reconciled_by(By(Passes(marks))), strict=False
        ) as harness:
            harness.put(placed(), generation=1)
            await harness.settle()
    assert [entry for entry in logs if "Undeclared" in str(entry) and entry["log_level"] == "warning"]


# --- children ------------------------------------------------------------------------------------------------------------------------


async def test_object_with_a_controller_of_its_own_can_be_a_child() -> None:
    """A pool creates instances; the instance's own controller writes their status and finalizers. That controller does not compete."""

    async def makes(pool: kv.Object, ctx: kv.Context[kv.Object]) -> None:
        await ctx.own(placed(parts=int(pool.get("data", "parts"))))

    async def marks(w: Widget, ctx: kv.Context[Widget]) -> None:
        ctx.status.set_condition("Ready", True, "Fine")

    pool = kv.Controller.of(CONFIG_MAP).named("pool").owns(Widget).reconciled_by(By(Passes(makes)))
    instance = kv.Controller.of(Widget).finalizer(FINALIZER).reconciled_by(By(Passes(marks), Passes()))
    async with ControllerHarness(pool, instance) as harness:
        harness.server.after = lambda: harness.show(Widget, "one", "web")
        harness.put(CONFIG_MAP.new("pool", "web", data={"parts": "1"}))
        await harness.settle(5)
        assert harness.status(Widget, "one", "web")["conditions"]
        harness.put(CONFIG_MAP.new("pool", "web", data={"parts": "2"}))
        await harness.settle(5)
        assert harness.server.stored(Widget.kind_of_resource(), "web", "one")["spec"]["parts"] == 2


async def test_a_request_by_patch_does_not_make_a_second_writer() -> None:
    async def makes(w: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.own(part(0, size=str(w.spec.parts)))

    async def asks(w: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.patch(CONFIG_MAP, "part-0", "web", patch={"metadata": {"annotations": {"ask": "now"}}})

    maker = kv.Controller.of(Widget).named("maker").owns(CONFIG_MAP).reconciled_by(By(Passes(makes)))
    asker = kv.Controller.of(SECRET).named("asker").watches(CONFIG_MAP, to=lambda _o, _c: ())
    async with ControllerHarness(maker, asker.reconciled_by(By(Passes(asks)))) as harness:
        harness.server.after = lambda: harness.show(CONFIG_MAP, "part-0", "web")
        harness.put(placed(parts=1), generation=1)
        await harness.settle()
        harness.put(SECRET.new("s", "web"))
        await harness.settle()
        harness.put(placed(parts=2), generation=2)
        await harness.settle(5)
        assert harness.server.stored(CONFIG_MAP, "web", "part-0")["data"]["size"] == "2"


async def test_two_controllers_that_apply_one_child_are_still_distinguished() -> None:
    async def makes(w: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.own(part(0, "web"))

    def spec(name: str) -> kv.Controller[Widget]:
        controller = kv.Controller.of(Widget).named(name).writes_status_as(name).owns(CONFIG_MAP)
        return controller.reconciled_by(By(Passes(makes)))

    async with ControllerHarness(spec("first"), spec("second")) as harness:
        harness.server.after = lambda: harness.show(CONFIG_MAP, "part-0", "web")
        harness.put(placed(), generation=1)
        await harness.settle()
        errors = [r.error for runner in harness.runners.values() for r in runner.history.recent() if r.error]
        assert "'first'" in errors[0]
        assert "'second'" in errors[0]


async def test_plans_of_two_controllers_of_a_kind_keep_each_others_children() -> None:
    def makes(number: int) -> Any:
        async def plans(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            return await ctx.execute(kv.Plan(children=(part(number, "web"),)))

        return plans

    def spec(name: str, number: int) -> kv.Controller[Widget]:
        controller = kv.Controller.of(Widget).named(name).writes_status_as(name).owns(CONFIG_MAP)
        return controller.reconciled_by(By(makes(number)))

    async with ControllerHarness(spec("first", 1), spec("second", 2)) as harness:
        harness.server.after = showing(harness, "part-1", "part-2")
        harness.put(placed(), generation=1)
        await harness.settle(5)
        for runner in harness.runners.values():
            runner.resync_now()
        await harness.settle(5)
        assert not [call for call in harness.server.calls if call.startswith("delete")]


async def test_a_plan_still_removes_children_that_this_controller_made_before() -> None:
    async def plans(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return await ctx.execute(kv.Plan(children=(part(w.spec.parts, "web"),), draft=WidgetStatus(note="x")))

    async with ControllerHarness(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(plans))) as harness:
        harness.server.after = showing(harness, "part-1", "part-2")
        harness.put(placed(parts=1), generation=1)
        await harness.settle()
        harness.put(placed(parts=2), generation=2)
        await harness.settle(5)
        assert "delete ConfigMap part-1" in harness.server.calls


# --- finalizers ------------------------------------------------------------------------------------------------------------------------


async def test_missing_right_to_remove_the_finalizer_is_an_error_for_any_name() -> None:
    ending = Passes()
    spec = kv.Controller.of(Widget).finalizer(FINALIZER).with_(base_delay=100.0).reconciled_by(By(Passes(), ending))
    async with ControllerHarness(spec) as harness:

        def refuse() -> None:
            raise Forbidden('widgets "deleted-files" is forbidden: cannot patch', status=403, reason="Forbidden")

        harness.server.before = refuse
        harness.put(placed(), finalizers=[FINALIZER], deletionTimestamp="2030-01-01T00:00:00Z")
        await harness.settle()
        key = kv.Key("", Widget.kind_of_resource(), "web", "one")
        assert "forbidden" in harness.runner.history.of(key)[-1].error


@pytest.mark.parametrize(
    ("causes", "passes"),
    [
        ((), 60),  # a test of the patch failed: the event of the change is on its way
        ((("spec.parts", "Invalid value"),), 12),  # the stored object breaks its schema: backing off, 5 ms doubling
    ],
)
async def test_refused_finalizer_patch_is_an_error_or_retry_by_its_cause(causes: Any, passes: int) -> None:
    spec = kv.Controller.of(Widget).finalizer(FINALIZER).reconciled_by(By(Passes(), Passes()))
    async with ControllerHarness(spec) as harness:

        def refuse() -> None:
            raise Invalid("refused", status=422, reason="Invalid", causes=causes)

        harness.server.before = refuse
        harness.put(placed())
        await harness.settle(60)
        assert abs(harness.server.calls.count("patch Widget one") - passes) <= 3


async def test_finalizer_is_not_added_to_a_just_deleted_object() -> None:
    message = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
    spec = kv.Controller.of(Widget).finalizer(FINALIZER).reconciled_by(By(Passes(), Passes()))
    async with ControllerHarness(spec) as harness:

        def refuse() -> None:
            raise Invalid(message, status=422, reason="Invalid", causes=(("metadata.finalizers", message),))

        harness.server.before = refuse
        harness.put(placed())
        await harness.settle(60)
        assert harness.server.calls == ["patch Widget one"]
        key = kv.Key("", Widget.kind_of_resource(), "web", "one")
        assert harness.runner.history.of(key)[-1].error == ""


# --- the last error --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [kv.Done(), kv.RequeueAfter(3600)], ids=["done", "requeued"])
async def test_the_last_error_is_shown_until_a_reconcile_of_its_object_succeeds(outcome: kv.Outcome) -> None:
    async def fails_at_first(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.name == "bad" and len(passes.seen) < 3:
            raise kv.RetryAfter(60, "not yet")
        return outcome

    passes = Passes(fails_at_first)
    async with ControllerHarness(kv.Controller.of(Widget).reconciled_by(By(passes))) as harness:
        harness.put(placed("bad"), generation=1)
        await harness.settle(1)
        harness.put(placed("good"), generation=1)
        await harness.settle(1)
        assert harness.runner.report().last_error.endswith("web/bad: not yet")
        await harness.settle(60)
        assert harness.runner.report().last_error == ""


# --- churn -----------------------------------------------------------------------------------------------------------------------------


async def test_all_bookkeeping_of_a_deleted_object_is_dropped() -> None:
    async def makes(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if int(w.name) % 10 == 0:
            raise RuntimeError("a bug")
        await ctx.own(CONFIG_MAP.new(w.name, "web", data={"a": "b"}))
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    spec = kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer(FINALIZER).with_(concurrency=8, base_delay=1000.0)
    async with ControllerHarness(spec.reconciled_by(By(makes, Passes()))) as harness:
        for number in range(300):
            name = str(number)
            harness.put(placed(name), generation=1, finalizers=[FINALIZER])
            await harness.settle(0.01)
            for one in (Widget.kind_of_resource(), CONFIG_MAP):
                harness.show(one, name, "web")
                harness.server.objects.pop((one, "web", name), None)
                harness.server.version += 1
                harness.show(one, name, "web")
            await harness.settle(0.01)
        await harness.settle(20)
        runner, ledger = harness.runner, harness.server.ledger.statistics()
        assert (ledger.writers, ledger.pending, ledger.last_writers) == (0, 0, 0)
        assert runner._services.applier.remembered == 0
        assert len(runner._services.claims) == 0
        assert (
            len(runner._services.own_versions),
            len(runner._worker._barrier_waits),
            len(runner.events.held_back),
        ) == (
            0,
            0,
            0,
        )
        assert len(runner.history._by_key) == 0
        statistics = runner.queue.statistics()
        assert (statistics.failing, statistics.delayed, statistics.working) == (0, 0, 0)
        assert runner.report().last_error == ""
