"""A recorded bug becomes a test: it fails with the bug, and passes without it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from recorded import Taped, taped
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge_testing import Lab, install_crds
from konverge_testing.lab.environments import memory_lab
from konverge_testing.replay import scenario_of
from konverge_testing.replay.restored import _definition

RELEASE = kv.kind("tests.example.com/v1", "Release")


async def built(found: Widget, ctx: kv.Context[Widget], mode: str) -> kv.Outcome:
    await ctx.own(part(0, mode=mode))
    ctx.status.set_condition("Ready", True, "Built", mode)
    return kv.Done()


def controller(reconcile: Any, finalize: Any = None) -> kv.Controller[Widget]:
    described = kv.Controller.of(Widget).owns(CONFIG_MAP).watches(SECRET, to=one, metadata_only=True).reads_live(SECRET)
    described = described.finalizer("tests.konverge.dev/held") if finalize else described
    return described.reconciled_by(By(reconcile, finalize))


def one(metadata: kv.Metadata, _caches: kv.Caches) -> Any:
    return [kv.Key("", kv.kind("tests.konverge.dev/v1", "Widget"), metadata.namespace, "one")]


# --- bugs, each with the program that has it and the program without it --------------------------------------------------------


def raising(*, bug: bool) -> kv.Controller[Widget]:
    """The mode "odd" is not handled."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        modes = {"plain": "1"} if bug else {"plain": "1", "odd": "2"}
        return await built(found, ctx, modes[found.spec.mode])

    return controller(reconcile)


async def odd_mode(lab: Lab) -> None:
    await lab.create(widget())
    await lab.settled()
    await lab.patch(Widget, "one", {"spec": {"mode": "odd"}})


def lost_secret(*, bug: bool) -> kv.Controller[Widget]:
    """A Secret that another writer deletes is taken for granted."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        secret = await ctx.live(SECRET).find(found.namespace, "target")
        if secret is None and not bug:
            return kv.Done()
        assert secret is not None, "no target"
        return await built(found, ctx, str(secret.get("data", "key", default="none")))

    return controller(reconcile)


async def deleted_secret(lab: Lab) -> None:
    await lab.create(SECRET.new("target", stringData={"key": "value of it"}))
    await lab.create(widget())
    await lab.settled()
    await lab.delete(SECRET, "target")


def wrong_value(*, bug: bool) -> kv.Controller[Widget]:
    """No error: the part has a wrong mode."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return await built(found, ctx, "wrong" if bug and found.spec.mode == "odd" else found.spec.mode)

    return controller(reconcile)


def idle(*, bug: bool) -> kv.Controller[Widget]:
    """No error, and no write: the change of the mode is overlooked."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        part_0 = ctx.cache(CONFIG_MAP).find(found.namespace, "part-0")
        if part_0 is not None and bug:
            ctx.status.set_condition("Ready", True, "Built", "plain")
            return kv.Done()
        return await built(found, ctx, found.spec.mode)

    return controller(reconcile)


async def child_of_another(lab: Lab) -> None:
    await lab.create(widget())
    await lab.settled()
    await lab.patch(CONFIG_MAP, "part-0", {"data": {"mode": "foreign"}})


def raising_finalizer(*, bug: bool) -> kv.Controller[Widget]:
    """The end of an object raises."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return await built(found, ctx, found.spec.mode)

    async def finalize(found: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
        if bug:
            raise LookupError(found.name)
        return kv.Done()

    return controller(reconcile, finalize)


async def deleted_widget(lab: Lab) -> None:
    await lab.create(widget())
    await lab.settled()
    await lab.delete(Widget, "one")


def foreign_status(*, bug: bool) -> kv.Controller[Widget]:
    """The status of a child, of a kind without a model, is written by another controller."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        release = await ctx.own(RELEASE.new(found.name, found.namespace, spec={"chart": "shop"}))
        phase = release.get("status", "phase", default="none")
        if bug and phase not in {"none", "Running"}:
            raise LookupError(phase)
        ctx.status.set_condition("Ready", True, "Built", str(phase))
        return kv.Done()

    return kv.Controller.of(Widget).owns(RELEASE).reconciled_by(By(reconcile))


async def failing_release(lab: Lab) -> None:
    await lab.create(widget())
    await lab.settled()
    for phase in ("Running", "Failed"):
        await lab.patch(RELEASE, "one", {"status": {"phase": phase}}, subresource="status")
        await lab.settled()


def other_namespace(*, bug: bool) -> kv.Controller[Widget]:
    """The settings of all widgets are in another namespace, with the time of their end."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        shared = ctx.cache(CONFIG_MAP).find("shared", "settings")
        end = "" if shared is None else shared.get("data", "end", default="")
        if end and ctx.now() > datetime.fromisoformat(end) and bug:
            raise TimeoutError(end)
        ctx.status.set_condition("Ready", True, "Built", "in time")
        return kv.Done()

    return kv.Controller.of(Widget).watches(CONFIG_MAP, to=of_settings).reconciled_by(By(reconcile))


def of_settings(_settings: kv.Object, caches: kv.Caches) -> Any:
    return caches(Widget).keys()


async def past_end(lab: Lab) -> None:
    await lab.namespace_also("shared")
    await lab.create(widget())
    await lab.settled()
    await lab.create(CONFIG_MAP.new("settings", "shared", data={"end": "2029-12-31T23:00:00Z"}))


class Bug(NamedTuple):
    """The program with and without the bug, what happens to the cluster, and the error of the reconcile."""

    program: Callable[..., kv.Controller[Widget]]
    happens: Callable[[Lab], Any]
    error: type[Exception] | None = None
    steps: tuple[str, ...] = ()


BUGS = [
    Bug(raising, odd_mode, KeyError, ("restored.patch",)),
    Bug(lost_secret, deleted_secret, AssertionError, ("restored.delete",)),
    Bug(wrong_value, odd_mode, None, ("WRITTEN",)),
    Bug(idle, child_of_another, None, ("restored.patch", "restored.writes")),
    Bug(raising_finalizer, deleted_widget, LookupError, ("restored.delete",)),
    Bug(foreign_status, failing_release, LookupError, ('{"status": {"phase": "Failed"}}, subresource="status"',)),
    Bug(other_namespace, past_end, TimeoutError, ("restored.create", "namespace=None")),
]


def function_of(
    text: str, build: Callable[[kv.Manager], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Lab], Any]:
    """Return the test function of a generated file; `build` is what it imports."""
    program = ModuleType("the_operator")
    program.build = build  # type: ignore[attr-defined]  # a module made for this test
    monkeypatch.setitem(sys.modules, "the_operator", program)
    names: dict[str, Any] = {}
    exec(compile(text, "test_generated.py", "exec"), names)
    function: Callable[[Lab], Any] = next(value for name, value in names.items() if name.startswith("test_"))
    return function


async def recorded(lab: Lab, file: Path, bug: Bug) -> Taped:
    if bug.error is not None:
        lab.expects(bug.error)
    await install_crds(
        lab.client, [_definition("tests.example.com", "releases", True, [(RELEASE.api_version, "Release")])]
    )
    tape = await taped(lab, file, bug.program(bug=True), settings=kv.ManagerSettings(strict=True))
    await bug.happens(lab)
    await lab.settled()
    await lab.stop()
    return tape


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.program.__name__)
async def test_the_generated_test_fails_with_the_bug_only(
    lab: Lab, tmp_path: Path, bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = (await recorded(lab, tmp_path / "tape", bug)).read()
    failed = [each for each in recording.reconciles if each.failed]
    chosen = failed[0] if bug.error is not None else recording.reconciles[-1]
    if bug.program is wrong_value:
        chosen = next(each for each in reversed(recording.reconciles) if each.exchanges)
    text = scenario_of(recording, chosen, "the_operator", "build")
    assert all(step in text for step in bug.steps), text
    with pytest.raises(AssertionError, match="recorded"):
        async with memory_lab(namespace="second") as second:
            second.dismiss()
            await function_of(text, lambda manager: manager.add(bug.program(bug=True)), monkeypatch)(second)
    async with memory_lab(namespace="third") as third:
        await function_of(text, lambda manager: manager.add(bug.program(bug=False)), monkeypatch)(third)
