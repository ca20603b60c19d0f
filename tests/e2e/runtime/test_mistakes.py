"""Mistakes and their errors: one test for each row of the table that concerns the runtime."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
import structlog

import konverge as kv
from konverge.errors import KonvergeError, UsageError
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime import ManagerSettings
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap")
SECRET = kind("v1", "Secret")
NAMESPACE = kind("v1", "Namespace", namespaced=False)

Reconcile = Callable[[kv.Object, kv.Context[kv.Object]], Awaitable[Any]]


class Calls:
    """A reconciler with a single function; remembers its exception."""

    def __init__(self, function: Reconcile) -> None:
        self._function = function

    async def reconcile(self, object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if object_.name == "kube-root-ca.crt":
            return kv.Done()
        return await self._function(object_, ctx)  # type: ignore[no-any-return]  # the mistake under test


def controller(function: Reconcile) -> kv.Controller[kv.Object]:
    return kv.Controller.of(CONFIG_MAP).named("mistaken").reconciled_by(Calls(function))


async def error_of(lab: Lab, built: kv.Controller[kv.Object], *, settings: ManagerSettings | None = None) -> str:
    """Run the controller on one object and return the outcome of its reconcile."""
    await lab.start(lambda manager: manager.add(built), settings=settings)
    await lab.create(CONFIG_MAP.new("subject"))
    history = lab.manager.runner(built.name).history
    key = Key("", CONFIG_MAP, lab.namespace, "subject")
    async with asyncio.timeout(60):
        while not history.of(key):
            await asyncio.sleep(0.01)
    return history.of(key)[-1].error


async def test_cache_without_a_watch_is_an_error_that_names_the_verb(lab: Lab) -> None:
    lab.expects(UsageError)

    async def reads(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.cache(SECRET).find(object_.namespace, "target")
        return kv.Done()

    assert "add .watches(SECRET, to=...)" in await error_of(lab, controller(reads))


def nobody(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return ()


async def test_body_of_a_metadata_only_kind_is_an_error_naming_live_reads(lab: Lab) -> None:
    lab.expects(UsageError)

    async def reads(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        secret = ctx.cache(SECRET).get(object_.namespace, "target")
        assert secret.metadata.labels == {"a": "b"}
        ctx.log.info("read", length=len(secret.get("data", "password")))
        return kv.Done()

    await lab.create(SECRET.new("target", labels={"a": "b"}, data={"password": "aHVudGVyMg=="}))
    error = await error_of(lab, controller(reads).watches(SECRET, to=nobody, metadata_only=True))
    assert "ctx.live" in error
    assert "aHVudGVyMg" not in error


async def test_an_owner_in_another_namespace_is_refused_before_the_write(lab: Lab) -> None:
    lab.expects(UsageError)

    async def owns(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(SECRET.new("child", "default"))
        return kv.Done()

    error = await error_of(lab, controller(owns).owns(SECRET))
    assert "another namespace" in error
    assert "back_reference" in error


async def test_namespaced_owner_of_a_cluster_scoped_child_is_refused_before_writing(lab: Lab) -> None:
    lab.expects(UsageError)

    async def owns(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(NAMESPACE.new("never-made"))
        return kv.Done()

    assert "cluster-scoped" in await error_of(lab, controller(owns).owns(NAMESPACE))


async def test_child_of_an_undeclared_kind_is_an_error_that_names_the_verb(lab: Lab) -> None:
    lab.expects(UsageError)

    async def owns(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(SECRET.new("child"))
        return kv.Done()

    assert ".owns(SECRET)" in await error_of(lab, controller(owns))


async def test_an_existing_object_that_is_not_ours_is_refused_and_not_touched(lab: Lab) -> None:
    async def owns(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(SECRET.new("taken", data={"k": "b3Vycw=="}))
        return kv.Done()

    await lab.create(SECRET.new("taken", data={"k": "dGhlaXJz"}))
    assert "with controller: true" in await error_of(lab, controller(owns).owns(SECRET))
    assert (await lab.get(SECRET, "taken")).get("data", "k") == "dGhlaXJz"


async def test_two_controllers_that_write_one_child_are_told_apart_by_name(lab: Lab) -> None:
    async def owns(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(SECRET.new("shared", data={"k": "dg=="}))
        return kv.Done()

    first = controller(owns).owns(SECRET).named("first")
    second = controller(owns).owns(SECRET).named("second").writes_status_as("second")

    def build(manager: kv.Manager) -> None:
        manager.add(first)
        manager.add(second)

    await lab.start(build)
    await lab.create(CONFIG_MAP.new("subject"))
    await lab.until(SECRET, "shared", lambda _: True)

    def errors() -> list[str]:
        runners = [lab.manager.runner(name) for name in ("first", "second")]
        return [record.error for runner in runners for record in runner.history.recent() if record.error]

    async with asyncio.timeout(60):
        while not errors():
            await asyncio.sleep(0.01)
    assert "'first'" in errors()[0]
    assert "'second'" in errors()[0]


async def test_result_other_than_an_outcome_is_an_error_naming_the_controller(lab: Lab) -> None:
    lab.expects(UsageError)

    async def returns_nothing(object_: kv.Object, ctx: kv.Context[kv.Object]) -> Any:
        return None

    error = await error_of(lab, controller(returns_nothing))
    assert "'mistaken'" in error
    assert "return Done()" in error


async def test_a_forgotten_await_is_an_error_at_the_end_of_the_reconcile(lab: Lab) -> None:
    lab.expects(UsageError)

    async def forgets(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.own(SECRET.new("child"))
        return kv.Done()

    error = await error_of(lab, controller(forgets).owns(SECRET))
    assert "never awaited" in error
    assert "Secret child" in error
    assert await lab.find(SECRET, "child") is None


async def test_a_blocking_call_is_reported_with_controller_key_and_stack(lab: Lab) -> None:
    import time

    async def blocks(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        time.sleep(0.4)  # noqa: TID251  # the mistake under test
        return kv.Done()

    with structlog.testing.capture_logs() as logs:
        await error_of(lab, controller(blocks))
        await asyncio.sleep(0)
    value = lab.metrics.registry.get_sample_value("konverge_blocking_calls_total", {"controller": "mistaken"})
    assert value == 1
    [warning] = [entry for entry in logs if "stack" in entry]
    assert warning["controller"] == "mistaken"
    assert "subject" in str(warning["key"])
    assert "blocks" in str(warning["stack"])


async def test_a_second_apply_of_one_child_in_a_reconcile_is_an_error(lab: Lab) -> None:
    lab.expects(UsageError)

    async def twice(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(SECRET.new("child", data={"a": "YQ=="}))
        await ctx.own(SECRET.new("child", data={"b": "Yg=="}))
        return kv.Done()

    assert "applied twice" in await error_of(lab, controller(twice).owns(SECRET))


async def test_an_exception_of_a_reconciler_hits_its_own_key_and_no_other(lab: Lab) -> None:
    lab.expects(ZeroDivisionError)

    async def raises(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if object_.name == "subject":
            raise ZeroDivisionError("a bug")
        await ctx.own(SECRET.new(f"of-{object_.name}"))
        return kv.Done()

    assert await error_of(lab, controller(raises).owns(SECRET)) == "a bug"
    await lab.create(CONFIG_MAP.new("neighbour"))
    await lab.until(SECRET, "of-neighbour", lambda _: True)
    panics = lab.metrics.registry.get_sample_value(
        "controller_runtime_reconcile_panics_total", {"controller": "mistaken"}
    )
    assert panics is not None
    assert panics >= 1


async def test_a_status_word_that_was_not_declared_is_an_error_in_tests(lab: Lab) -> None:
    lab.expects(UsageError)

    async def marks(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.status.set_condition("Ready", True, "two words")
        return kv.Done()

    assert "one word in CamelCase" in await error_of(lab, controller(marks))


def test_the_root_of_all_errors_is_one() -> None:
    assert issubclass(kv.NotFound, KonvergeError)
