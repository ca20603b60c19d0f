"""A small resource that the runtime's tests reconcile in many ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import konverge as kv
from konverge.kinds import kind

CONFIG_MAP = kind("v1", "ConfigMap")
SECRET = kind("v1", "Secret")


class WidgetSpec(kv.Model):
    parts: int = 0
    mode: str = "plain"


class WidgetStatus(kv.Status):
    parts: int | None = None
    note: str | None = None


@kv.resource("tests.konverge.dev/v1", short_names=("wd",), conditions=("Ready", "Blocked"))
class Widget(kv.CustomResource[WidgetSpec, WidgetStatus]):
    """A thing with parts."""


Reconcile = Callable[[Any, kv.Context[Any]], Awaitable[kv.Outcome]]


class By:
    """A reconciler made of functions."""

    def __init__(self, reconcile: Reconcile, finalize: Reconcile | None = None) -> None:
        self._reconcile = reconcile
        if finalize is not None:
            ending = finalize

            async def called(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
                return await ending(object_, ctx)

            self.finalize = called  # only then: an unused method is rejected

    async def reconcile(self, object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        return await self._reconcile(object_, ctx)


def widget(name: str = "one", **spec: Any) -> Widget:
    return Widget.new(name, spec=WidgetSpec(**spec))


def part(number: int, namespace: str = "", **data: str) -> kv.Object:
    return CONFIG_MAP.new(f"part-{number}", namespace, data={"number": str(number), **data})


async def make_parts(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Own the parts of the spec, and record their number."""
    for number in range(owner.spec.parts):
        await ctx.own(part(number, owner.namespace))
    ctx.status.draft.parts = owner.spec.parts
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


async def numbered(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Create a child under a number, and record the number afterwards: a crash in between leaves a second child."""
    number = owner.status.parts
    if number is None:
        number = len(ctx.cache(CONFIG_MAP).keys(owner.namespace))
    await ctx.own(part(number, owner.namespace))
    ctx.status.draft.parts = number
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()
