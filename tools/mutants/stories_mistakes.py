"""The story of an operator with every mistake that the lab has to notice; each is expected, and an unnoticed mistake fails the story."""

from __future__ import annotations

import asyncio
from typing import Any

from story_words import CONFIG, config

import konverge as kv
from konverge.errors import ForgottenAwait, NotAnOutcome
from konverge_testing.lab import Lab


class SlipSpec(kv.Model):
    how: str


@kv.resource("example.com/v1", conditions=("Issued",))
class Slip(kv.CustomResource[SlipSpec, kv.Status]):
    """Names the mistake of its reconcile."""


async def notify(_: str) -> None:
    """Sends nothing to any service."""


class Slipping:
    async def reconcile(self, slip: Slip, ctx: kv.Context[Slip]) -> Any:
        ctx.status.set_condition("Issued", True, "Made")
        match slip.spec.how:
            case "effect":
                ctx.own(config("never", slip.namespace))
            case "coroutine":
                notify(slip.name)  # type: ignore[unused-coroutine]  # the mistake
            case "nothing":
                return None
            case _:
                raise KeyError(slip.name)
        return kv.Done()


def no_place(_: Slip, __: kv.Context[Slip], ___: str) -> None:
    raise AttributeError("no such field")


def no_keys(_: kv.Object, __: kv.Caches) -> Any:
    raise IndexError("no keys")


async def fails(_: kv.AdmissionRequest[Slip]) -> kv.Allow:
    raise ZeroDivisionError("a bug")


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Slip).owns(CONFIG).reports_failure(by=no_place)
    manager.add(controller.watches(kv.kind("v1", "Secret"), to=no_keys).reconciled_by(Slipping()))
    manager.add(kv.Webhook.validating(Slip).on("CREATE").ignoring_failures().handled_by(fails))


async def slips(lab: Lab) -> None:
    lab.expects(ForgottenAwait, r"ctx\.own")
    lab.expects(ForgottenAwait, "coroutine notify")
    lab.expects(NotAnOutcome)
    lab.expects(KeyError, "raises")
    lab.expects(AttributeError, "no such field")
    lab.expects(IndexError, "no keys")
    lab.expects(ZeroDivisionError, "a bug")
    await lab.create(kv.kind("v1", "Secret").new("seen"))
    await lab.start(build)
    for how in ("effect", "coroutine", "nothing", "raises"):
        await lab.create(Slip.new(how, spec=SlipSpec(how=how)))
    await asyncio.sleep(5)
    for slip in (await lab.client.list(Slip, lab.namespace)).items:
        assert slip.find_condition("Issued") is None, f"{slip.name} was issued by a reconcile that made a mistake"
