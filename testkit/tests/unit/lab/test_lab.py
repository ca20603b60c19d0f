"""The lab on the in-memory API server: its waits, its messages, and the death of a process in it."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge.crds import crd
from konverge.errors import Unreachable, UsageError
from konverge_testing import Lab
from konverge_testing.lab import Unmet, install_crds
from konverge_testing.lab.environments import memory_lab
from konverge_testing.loop import VirtualTimeLoop


async def make_parts(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    for number in range(owner.spec.parts):
        await ctx.own(part(number, owner.namespace))
    ctx.status.draft.parts = owner.spec.parts
    ctx.status.set_condition("Ready", owner.spec.parts > 0, "Made" if owner.spec.parts else "NoParts", "as asked")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts)))


def by(reconcile: object) -> object:
    return lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile)))  # type: ignore[arg-type]  # a reconcile of this file


async def test_time_in_the_lab_is_virtual_for_the_test_too(lab: Lab) -> None:
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == before + 3600


async def test_a_timeout_of_until_shows_the_object_its_reconciles_and_writes(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_false("Ready"))
    with pytest.raises(Unmet) as story:
        await lab.until(Widget, "one", kv.is_true("Ready"), timeout=5)
    lines = str(story.value).splitlines()
    assert lines[0].startswith(f"Widget {lab.namespace}/one: waited 5 s for Ready=True")
    assert lines[1].startswith("  generation 1, version ")
    assert lines[2] == "  Ready=False NoParts: as asked (generation 1)"
    assert lines[3].startswith("  manager lab: ")
    assert lines[4:] == [
        f"  widget Widget {lab.namespace}/one: Done because of created; wrote status; next when something changes"
    ]


async def test_a_timeout_of_until_says_that_the_object_does_not_exist(lab: Lab) -> None:
    with pytest.raises(Unmet, match=r"Widget .*/one: waited 2 s for .*\n  it does not exist"):
        await lab.start(build)
        await lab.until(Widget, "one", kv.is_true("Ready"), timeout=2)


async def test_a_timeout_of_until_gone_shows_the_object(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget())
    with pytest.raises(Unmet, match=r"waited 2 s for to be gone\n  generation 1"):
        await lab.until_gone(Widget, "one", timeout=2)


async def test_deleting_an_owner_collects_its_children(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget(parts=1))
    await lab.until(CONFIG_MAP, "part-0", lambda _: True)
    await lab.delete(Widget, "one")
    await lab.until_gone(Widget, "one")
    await lab.until_gone(CONFIG_MAP, "part-0")


async def test_settled_waits_for_busy_controllers_and_times_out_on_endless_work(lab: Lab) -> None:
    async def slow(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await asyncio.sleep(3)
        return await make_parts(owner, ctx)

    await lab.start(by(slow))  # type: ignore[arg-type]  # a build
    await lab.create(widget(parts=1))
    await lab.settled()
    assert (await lab.get(Widget, "one")).status.parts == 1

    with pytest.raises(TimeoutError):
        await lab.patch(Widget, "one", {"spec": {"parts": 2}})
        await lab.settled(timeout=1)


async def test_no_request_of_a_killed_process_reaches_the_server(lab: Lab) -> None:
    """The process dies between two writes of a reconcile: from then on its requests have no effect."""
    first, reached = True, False

    async def counting(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        nonlocal first, reached
        if first:
            first = False
            await ctx.own(part(0, owner.namespace))
            lab.crash()
            await ctx.own(part(100, owner.namespace))
            reached = True
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    await lab.start(by(counting))  # type: ignore[arg-type]  # a build
    before = lab.manager
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    assert lab.manager is not before
    assert not reached
    assert await lab.find(CONFIG_MAP, "part-0") is not None
    assert await lab.find(CONFIG_MAP, "part-100") is None


async def test_the_successor_of_a_killed_process_takes_up_its_work(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    version = (await lab.get(Widget, "one")).metadata.resource_version
    lab.crash()
    await lab.settled()
    assert lab.manager.report().ready
    assert (await lab.get(Widget, "one")).metadata.resource_version == version
    await lab.patch(Widget, "one", {"spec": {"parts": 3}})
    await lab.until(CONFIG_MAP, "part-2", lambda _: True)


async def test_one_of_two_processes_is_killed_and_the_other_lives_on(lab: Lab) -> None:
    first = await lab.start(build)
    second = await lab.start(lambda manager: None, name="other")
    lab.crash(first)
    assert lab.managers[1] is second
    assert lab.managers[0] is not first


async def test_a_lab_exits_its_context_managers_in_reverse_order() -> None:
    ended: list[str] = []

    class Other:
        def __init__(self, name: str) -> None:
            self.name = name

        async def __aenter__(self) -> str:
            return self.name

        async def __aexit__(self, *_: object) -> None:
            ended.append(self.name)

    async with memory_lab() as lab:
        assert await lab.enter(Other("first")) == "first"
        await lab.enter(Other("second"))
    assert ended == ["second", "first"]


def test_a_lab_in_memory_fails_loudly_on_any_other_loop() -> None:
    async def enter() -> None:
        async with memory_lab():
            pass

    with pytest.raises(UsageError, match=r"its own event loop, whose time is virtual.*--lab-on=control-plane"):
        asyncio.run(enter())


async def test_lab_server_exists_only_in_memory() -> None:
    async with memory_lab() as lab:
        assert lab.server.idle in (True, False)
        elsewhere = Lab(lab.client, lab.config, "lab")
        with pytest.raises(LookupError, match="--lab-on=memory"):
            _ = elsewhere.server
        with pytest.raises(LookupError, match=r"begin with await lab\.start"):
            _ = elsewhere.manager
        await elsewhere.start(build)
        with pytest.raises(LookupError, match="can be killed on the in-memory API server only"):
            elsewhere.crash()
        await elsewhere.stop()


def test_a_fault_of_the_server_reaches_the_users_own_client_too() -> None:
    from konverge_testing.apiserver.faults.rules import Drop, Match, Rule

    async def main() -> None:
        async with memory_lab() as lab:
            lab.server.faults.add(Rule(Match(resources=("configmaps",)), Drop(), count=20))
            with pytest.raises(Unreachable):
                await lab.create(part(1))

    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


async def test_a_timeout_of_settled_shows_the_queues_and_their_last_reconciles(lab: Lab) -> None:
    async def restless(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.RequeueAfter(0.1)

    await lab.start(by(restless))  # type: ignore[arg-type]  # a build
    await lab.create(widget())
    with pytest.raises(Unmet) as story:
        await lab.settled(timeout=1)
    lines = str(story.value).splitlines()
    assert lines[0] == "waited 1 s for 0.3 s without work"
    assert lines[1].startswith("  manager lab: ")
    assert lines[2].startswith("  the queue of widget: ")
    assert lines[3].startswith(f"  widget Widget {lab.namespace}/one: RequeueAfter because of ")


async def test_a_timeout_shows_the_deletion_and_the_finalizers_of_the_object(lab: Lab) -> None:
    held = CONFIG_MAP.new("held")
    held.data["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    await lab.create(held)
    with pytest.raises(Unmet, match=r"\n  finalizers example\.com/one, example\.com/two"):
        await lab.until(CONFIG_MAP, "held", lambda _: False, timeout=1)
    await lab.delete(CONFIG_MAP, "held")
    words = r"\n  deletionTimestamp 2030-01-01T00:00:0\dZ, held by example\.com/one, example\.com/two"
    with pytest.raises(Unmet, match=words):
        await lab.until_gone(CONFIG_MAP, "held", timeout=1)


async def test_a_timeout_shows_the_mistakes_so_far(lab: Lab) -> None:
    async def stumble(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise KeyError("nothing")

    await lab.start(by(stumble))  # type: ignore[arg-type]  # a build
    await lab.create(widget())
    with pytest.raises(Unmet, match=r"\n  finding: unhandled KeyError in widget lab/one: 'nothing' \(test_lab\.py:"):
        await lab.until(Widget, "one", kv.is_true("Ready"), timeout=1)
    lab.dismiss()


async def test_a_halted_manager_sends_nothing_and_retries_nothing(lab: Lab) -> None:
    """The process is halted while a request is in flight, and while other keys wait for their retry."""
    called: list[str] = []

    async def failing(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        called.append(owner.name)
        await ctx.own(part(owner.spec.parts, owner.namespace))
        raise kv.RetryAfter(10)

    await lab.start(by(failing))  # type: ignore[arg-type]  # a build
    await lab.create(widget("one", parts=1))
    await lab.create(widget("two", parts=2))
    await asyncio.sleep(15)
    before, version = len(called), lab.server.store.version
    lab.halt()
    await asyncio.sleep(24 * 3600)
    assert before > 2
    assert (len(called), lab.server.store.version) == (before, version)
    assert lab.managers == ()
    await lab.settled()


async def test_a_manager_that_is_halted_while_it_is_started_again_stays_down(lab: Lab) -> None:
    await lab.start(build)
    lab.crash()
    lab.halt()
    await asyncio.sleep(60)
    await lab.create(widget(parts=1))
    await asyncio.sleep(3600)
    assert await lab.find(CONFIG_MAP, "part-0") is None


async def test_broken_predicate_is_reported_once_after_writes_of_any_client(lab: Lab) -> None:
    checks = 0

    def small() -> None:
        nonlocal checks
        checks += 1
        assert lab.server.store.count(("", "configmaps")) < 2, "there are two"

    lab.always.append(small)
    for number in range(4):
        await lab.create(part(number))
    assert checks == 2
    [problem] = lab.findings.problems
    assert problem.startswith("a predicate does not hold after added configmaps lab/part-1: there are two")
    lab.dismiss()


async def test_crd_that_is_not_established_in_time_is_reported_with_conditions(lab: Lab) -> None:
    manifest = crd(Widget)
    await install_crds(lab.client, [manifest])
    names = {**manifest["spec"]["names"], "plural": "gadgets"}  # the kind and the short name are taken
    other = {
        **manifest,
        "metadata": {"name": "gadgets.tests.konverge.dev"},
        "spec": {**manifest["spec"], "names": names},
    }
    with pytest.raises(Unmet) as story:
        await install_crds(lab.client, [manifest, other], timeout=3)
    lines = str(story.value).splitlines()
    assert lines[0] == (
        "CustomResourceDefinition gadgets.tests.konverge.dev: waited 3 s until it is established and served"
    )
    assert any(line.startswith("  NamesAccepted=False ") for line in lines)


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (kv.kind("v1", "Namespace"), "Namespace nothing: waited"),
        (kv.kind("v1", "ConfigMap"), "ConfigMap lab/nothing: waited"),
    ],
    ids=["cluster-scoped", "namespaced"],
)
async def test_an_unmet_wait_names_the_namespace_of_namespaced_kinds_only(
    lab: Lab, what: kv.Kind[Any], name: str
) -> None:
    with pytest.raises(Unmet) as caught:
        await lab.until(what, "nothing", lambda _: True, timeout=1)
    assert str(caught.value).startswith(name)
