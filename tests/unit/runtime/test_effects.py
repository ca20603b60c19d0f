from __future__ import annotations

import pytest

from konverge.errors import ForgottenAwait
from konverge.runtime.reconcile.effects import Effects


async def test_an_effect_starts_when_it_is_awaited_and_not_before() -> None:
    done: list[str] = []

    async def work() -> int:
        done.append("worked")
        return 7

    effects = Effects()
    effect = effects.make("ctx.own(CronJob web/nightly)", work)
    assert done == []
    assert await effect == 7
    assert done == ["worked"]
    effects.check("backup")


async def test_a_forgotten_await_is_an_error_that_names_the_effect() -> None:
    async def work() -> None:
        raise AssertionError("never started")

    effects = Effects()
    effects.make("ctx.own(CronJob web/nightly)", work)
    with pytest.raises(ForgottenAwait, match=r"ctx\.own\(CronJob web/nightly\)"):
        effects.check("backup")
