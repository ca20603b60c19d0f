"""`Controller.calls`."""

from typing import Any

import pytest
from widgets import By, Widget

import konverge as kv
from konverge.errors import UsageError


async def done(_found: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def test_an_effect_outside_kubernetes_needs_a_name() -> None:
    with pytest.raises(UsageError, match="name what the reconciler calls"):
        kv.Controller.of(Widget).calls(" ")


def test_in_plan_takes_only_a_reconciler() -> None:
    with pytest.raises(UsageError, match="is no reconciler"):
        kv.Controller.of(Widget).calls("the parts server", in_plan=By)  # type: ignore[arg-type]  # the mistake under test


def test_in_plan_leaves_the_reconciler_as_it_is() -> None:
    running, planned = By(done), By(done)
    described = kv.Controller.of(Widget).calls("the parts server", in_plan=planned).reconciled_by(running)
    assert (described.reconciler, described.stand_in, described.outside) == (running, planned, "the parts server")
