"""A status that an equal comparison found unchanged is not compared again, and every change of a side of the comparison is found."""

from typing import Any
from unittest import mock

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.runtime.apply import applier
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")


class Reporter:
    """Reports one condition, whose message a test changes."""

    def __init__(self) -> None:
        self.message = "in place"
        self.runs = 0

    async def reconcile(self, _: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.runs += 1
        ctx.status.set_condition("Ready", True, "InPlace", self.message)
        return kv.Done()


async def start(lab: Lab, reporter: Reporter) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(reporter.reconcile))))
    await lab.settled()


async def resync(lab: Lab) -> None:
    lab.manager.runner("widget").resync_now()
    await lab.settled()


async def change(lab: Lab, reporter: Reporter, what: str) -> None:
    """Change a side of the comparison."""
    match what:
        case "nothing":
            await resync(lab)
        case "the intent":
            reporter.message = "in another place"
            await resync(lab)
        case "the spec":
            await lab.patch(Widget, "one", {"spec": {"parts": 7}})
        case "the status":
            await lab.patch(Widget, "one", {"status": {"conditions": []}}, subresource="status")
        case "the owner of the status":
            document = (await lab.get(Widget, "one")).to_dict()
            metadata = {"name": "one", "namespace": lab.namespace}
            body = {name: document[name] for name in ("apiVersion", "kind", "status")} | {"metadata": metadata}
            await lab.client.apply(Widget, body, manager="other", force=True, subresource="status")
            await resync(lab)
        case "the process":
            await lab.stop()
            await start(lab, reporter)
    await lab.settled()


@pytest.mark.parametrize(
    ("what", "compared"),
    [
        ("nothing", False),
        ("the intent", True),
        ("the spec", True),
        ("the status", True),
        ("the owner of the status", True),
        ("the process", True),
    ],
)
async def test_an_unchanged_status_is_compared_again_after_a_change_only(lab: Lab, what: str, compared: bool) -> None:
    reporter = Reporter()
    await start(lab, reporter)
    await lab.create(widget())
    await lab.settled()
    await resync(lab)
    runs = reporter.runs
    counted: Any = mock.Mock(wraps=applier.changes_nothing)
    with mock.patch.object(applier, "changes_nothing", counted):
        await change(lab, reporter, what)
    assert reporter.runs > runs
    assert bool(counted.call_count) == compared
    condition = (await lab.get(Widget, "one")).condition("Ready")
    assert condition.message == reporter.message
